//! The hook perf: what the processor counts during each call that moves data. Source: fi_hook(7).
//!
//! The counters are those of perf_event_open(2), one a thread. Where there are none (a virtual machine, a restricted user) the
//! time of the call in nanoseconds is measured instead, and the report says so.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use oxifabric_provider::log;

use super::{Call, Hook, PARAMETERS};

/// Tables whose calls are measured.
const MEASURED: [&str; 5] = [
    "fi_ops_msg",
    "fi_ops_tagged",
    "fi_ops_rma",
    "fi_ops_cq",
    "fi_ops_cntr",
];

#[derive(Debug)]
pub(super) struct Perf {
    provider: String,
    calls: Vec<OnceLock<Sum>>,
}

/// What one operation cost so far.
#[derive(Debug)]
struct Sum {
    table: &'static str,
    op: &'static str,
    count: AtomicU64,
    events: AtomicU64,
}

impl Perf {
    pub(super) fn start(provider: &str) -> Option<Box<dyn Hook>> {
        Some(Box::new(Self {
            provider: provider.to_owned(),
            calls: (0..64).map(|_| OnceLock::new()).collect(),
        }))
    }

    /// Returns the sum of an operation: the first free one becomes its own.
    fn sum(&self, call: &Call<'_>) -> Option<&Sum> {
        let of_call = || Sum {
            table: call.table,
            op: call.op,
            count: AtomicU64::new(0),
            events: AtomicU64::new(0),
        };
        let mut sums = self.calls.iter().map(|slot| slot.get_or_init(of_call));
        sums.find(|sum| sum.op == call.op && sum.table == call.table)
    }
}

impl Hook for Perf {
    fn before(&self, call: &Call<'_>) -> u64 {
        if MEASURED.contains(&call.table) {
            counter::read()
        } else {
            0
        }
    }

    fn after(&self, call: &Call<'_>, token: u64, _result: i64) {
        if !MEASURED.contains(&call.table) {
            return;
        }
        let events = counter::read().wrapping_sub(token);
        if let Some(sum) = self.sum(call) {
            sum.count.fetch_add(1, Ordering::Relaxed);
            sum.events.fetch_add(events, Ordering::Relaxed);
        }
    }

    fn finish(&self, _open: usize) {
        let unit = counter::unit();
        log::trace!(
            &self.provider,
            Core,
            "perf: table.operation calls average {unit}"
        );
        for sum in self.calls.iter().map_while(OnceLock::get) {
            let count = sum.count.load(Ordering::Relaxed);
            let average = sum.events.load(Ordering::Relaxed) / count.max(1);
            log::trace!(
                &self.provider,
                Core,
                "perf: {}.{} {count} {average}",
                sum.table,
                sum.op
            );
        }
    }
}

/// A counter of the processor, or a clock.
mod counter {
    use core::mem;
    use std::sync::OnceLock;
    use std::time::Instant;

    use super::PARAMETERS;

    /// PERF_TYPE_HARDWARE, and the counters of that type.
    const HARDWARE: u32 = 0;
    const CPU_CYCLES: u64 = 0;
    const INSTRUCTIONS: u64 = 1;
    /// Do not count in the kernel and in the hypervisor: that needs no privilege.
    const USER_ONLY: u64 = 1 << 5 | 1 << 6;

    /// The first version of `struct perf_event_attr`, which all kernels know.
    #[repr(C)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup: u32,
        breakpoint_kind: u32,
        breakpoint: u64,
    }

    /// A counter of one thread; closed with it.
    struct Descriptor(i32);

    impl Drop for Descriptor {
        fn drop(&mut self) {
            if self.0 >= 0 {
                // SAFETY: the descriptor is ours.
                unsafe { libc::close(self.0) };
            }
        }
    }

    thread_local! {
        static COUNTER: Descriptor = open();
    }

    fn wants_cycles() -> bool {
        static CYCLES: OnceLock<bool> = OnceLock::new();
        *CYCLES.get_or_init(|| {
            let name = PARAMETERS[1].words("");
            name.is_some_and(|name| name.trim().eq_ignore_ascii_case("cpu_cycles"))
        })
    }

    fn open() -> Descriptor {
        // SAFETY: all zeroes is a value.
        let mut attributes: Attributes = unsafe { mem::zeroed() };
        attributes.kind = HARDWARE;
        attributes.size = size_of::<Attributes>() as u32;
        attributes.config = if wants_cycles() {
            CPU_CYCLES
        } else {
            INSTRUCTIONS
        };
        attributes.flags = USER_ONLY;
        // SAFETY: the structure has the size that it says; this thread, any processor, no group.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                0,
                -1,
                -1,
                8,
            )
        };
        Descriptor(i32::try_from(descriptor).unwrap_or(-1))
    }

    /// Returns what is counted.
    pub(super) fn unit() -> &'static str {
        match COUNTER.with(|counter| counter.0 >= 0) {
            true if wants_cycles() => "cpu_cycles",
            true => "cpu_instr",
            false => "nanoseconds (there is no counter of the processor)",
        }
    }

    /// Reads the counter of this thread.
    pub(super) fn read() -> u64 {
        let descriptor = COUNTER.try_with(|counter| counter.0).unwrap_or(-1);
        let mut value = 0_u64;
        // SAFETY: the value has eight bytes; reading from -1 fails.
        let read = unsafe { libc::read(descriptor, (&raw mut value).cast(), 8) };
        if read == 8 { value } else { nanoseconds() }
    }

    fn nanoseconds() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}
