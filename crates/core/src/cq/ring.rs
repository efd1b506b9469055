//! The entries of a completion queue, in order, errors included. Path class: hot; the queue grows with what waits in it
//! instead of losing an entry (FI_RM_ENABLED), and allocates nothing once it has had as many before.

use core::mem::MaybeUninit;
use std::collections::VecDeque;
use std::ffi::CString;

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_MSG,
    FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_UNSPEC, fi_cq_data_entry, fi_cq_entry, fi_cq_format,
    fi_cq_msg_entry, fi_cq_tagged_entry,
};
use oxifabric_engine::{Completion, Failure};
use oxifabric_types::Errno;

use super::entries::Entries;

/// Which structure the application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Context,
    Msg,
    Data,
    Tagged,
}

impl Format {
    /// Reads the attribute; no preference gives the smallest.
    pub(super) const fn from_raw(format: fi_cq_format) -> Option<Self> {
        match format {
            FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_CONTEXT => Some(Self::Context),
            FI_CQ_FORMAT_MSG => Some(Self::Msg),
            FI_CQ_FORMAT_DATA => Some(Self::Data),
            FI_CQ_FORMAT_TAGGED => Some(Self::Tagged),
            _ => None,
        }
    }
}

/// An entry: the tagged structure, its source, and whether it is an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) wide: fi_cq_tagged_entry,
    pub(super) source: u64,
    /// What more is known of a failure is at the front of [`Ring::failures`].
    failed: bool,
}

// SAFETY: the pointers are the application's values, which are handed back and never followed.
unsafe impl Send for Entry {}

impl Entry {
    /// What lies where no entry is.
    pub(super) const EMPTY: Self = Self {
        wide: fi_cq_tagged_entry {
            op_context: core::ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: core::ptr::null_mut(),
            data: 0,
            tag: 0,
        },
        source: NO_SOURCE,
        failed: false,
    };

    /// Makes the entry of an operation that ended, from `source`.
    #[inline(always)]
    fn new(completion: &Completion, source: u64, failed: bool) -> Self {
        Self {
            wide: fi_cq_tagged_entry {
                op_context: core::ptr::without_provenance_mut(completion.context),
                flags: completion.flags.bits(),
                len: completion.len as usize,
                buf: core::ptr::without_provenance_mut(completion.buf),
                data: completion.data,
                tag: completion.tag,
            },
            source,
            failed,
        }
    }
}

/// What more is known of an operation that failed.
#[derive(Debug)]
pub(super) struct Detail {
    pub(super) errno: Errno,
    pub(super) overflow: u64,
    /// The device's own number of the cause, or zero.
    pub(super) code: u32,
    /// A sentence of the provider.
    pub(super) reason: Option<CString>,
    /// The address of a source that is not in the vector.
    pub(super) address: Option<Vec<u8>>,
}

/// The entries of a queue.
#[derive(Debug)]
pub(super) struct Ring {
    format: Format,
    entries: Entries,
    failures: VecDeque<Detail>,
}

impl Ring {
    /// Returns an empty ring of `size` entries.
    pub(super) fn new(format: Format, size: usize) -> Self {
        Self {
            format,
            entries: Entries::new(size),
            failures: VecDeque::new(),
        }
    }

    /// Queues an operation that ended well.
    #[inline(always)]
    pub(super) fn push(&mut self, completion: &Completion, source: u64) {
        self.entries.push(Entry::new(completion, source, false));
    }

    /// Queues an operation that failed.
    pub(super) fn push_failure(&mut self, failure: &Failure, source: u64, reason: Option<CString>) {
        self.entries.push(Entry::new(&failure.op, source, true));
        self.failures.push_back(Detail {
            errno: failure.errno,
            overflow: failure.overflow,
            code: failure.code,
            reason,
            address: None,
        });
    }

    /// Queues a message from an address that is not in the vector.
    pub(super) fn push_unknown(&mut self, completion: &Completion, address: Vec<u8>) {
        self.entries.push(Entry::new(completion, NO_SOURCE, true));
        self.failures.push_back(Detail {
            errno: Errno::ADDRNOTAVAIL,
            overflow: 0,
            code: 0,
            reason: None,
            address: Some(address),
        });
    }

    /// Returns how many entries wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether `wanted` entries wait, or an error is next.
    pub(super) fn satisfies(&self, wanted: usize) -> bool {
        self.entries.len() >= wanted || self.entries.front().is_some_and(|entry| entry.failed)
    }

    /// Takes up to `count` entries that ended well.
    ///
    /// # Errors
    /// `AGAIN` when there is none, `AVAIL` when the next one is an error.
    ///
    /// # Safety
    /// `buf` has room for `count` entries of the format, and `sources` for as many addresses unless it is null.
    #[inline(always)]
    pub(super) unsafe fn take(
        &mut self,
        buf: *mut u8,
        count: usize,
        sources: *mut u64,
    ) -> Result<usize, Errno> {
        let mut taken = 0;
        while taken < count {
            let Some(entry) = self.entries.front() else {
                break;
            };
            if entry.failed {
                break;
            }
            // SAFETY: taken < count, and the caller promises space for `count` entries.
            unsafe {
                write(self.format, buf, taken, entry);
                if !sources.is_null() {
                    *sources.add(taken) = entry.source;
                }
            }
            self.entries.drop_front();
            taken += 1;
        }
        match (taken, self.entries.len()) {
            (0, 0) => Err(Errno::AGAIN),
            (0, _) => Err(Errno::AVAIL),
            _ => Ok(taken),
        }
    }

    /// Takes the error at the front.
    pub(super) fn take_failure(&mut self) -> Option<(Entry, Detail)> {
        if !self.entries.front()?.failed {
            return None;
        }
        let detail = self.failures.pop_front()?;
        let entry = *self.entries.front()?;
        self.entries.drop_front();
        Some((entry, detail))
    }
}

/// Writes one entry in the format of the queue.
///
/// # Safety
/// There is room for `at + 1` entries of the format at `buf`.
#[inline]
unsafe fn write(format: Format, buf: *mut u8, at: usize, entry: &Entry) {
    let wide = &entry.wide;
    // SAFETY: each arm writes one entry of the format; the smaller structures are prefixes of the largest. The
    // application's buffer may be aligned as it likes.
    unsafe {
        match format {
            Format::Context => store::<fi_cq_entry>(buf, at, wide),
            Format::Msg => store::<fi_cq_msg_entry>(buf, at, wide),
            Format::Data => store::<fi_cq_data_entry>(buf, at, wide),
            Format::Tagged => store::<fi_cq_tagged_entry>(buf, at, wide),
        }
    }
}

/// Copies the prefix `T` of an entry.
///
/// # Safety
/// `T` is a prefix of the tagged entry, and there is room for `at + 1` of it at `buf`.
#[inline]
unsafe fn store<T>(buf: *mut u8, at: usize, wide: &fi_cq_tagged_entry) {
    const { assert!(size_of::<T>() <= size_of::<fi_cq_tagged_entry>()) };
    let from = core::ptr::from_ref(wide).cast::<MaybeUninit<T>>();
    // SAFETY: the caller's contract; the source is at least as long as `T`.
    unsafe {
        buf.cast::<MaybeUninit<T>>()
            .add(at)
            .write_unaligned(from.read());
    }
}

/// The source of an entry that has none, or an unknown one.
pub(crate) const NO_SOURCE: u64 = FI_ADDR_NOTAVAIL;
