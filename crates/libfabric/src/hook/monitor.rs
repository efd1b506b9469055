//! The hook monitor: what profile counts, in a file that a sampler reads while the program runs. Source: fi_hook(7).
//!
//! The file holds for each row of `counts` nine counts and nine sums of bytes, and a byte of flags behind them. The sampler
//! sets a flag; after some calls the program copies what it counted since the last sample and clears it.

mod folder;

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use oxifabric_provider::environment;
use oxifabric_provider::log;
use oxifabric_provider::params::{Parameter, ParameterKind};

use super::counts::{Counts, ROWS, Row};
use super::{Call, Completion, Hook};
use folder::Folder;

/// Its part of the environment, `FI_OFI_HOOK_MONITOR_*`.
const NAME: &str = "ofi_hook_monitor";

/// Parameters of the hook.
pub(crate) static PARAMETERS: [Parameter; 5] = [
    Parameter {
        name: "basepath",
        kind: ParameterKind::Text,
        help: "Folder of the files that a sampler reads",
        default: "/dev/shm/ofi",
    },
    Parameter {
        name: "dir_mode",
        kind: ParameterKind::Int,
        help: "Permissions of the folders there",
        default: "01700",
    },
    Parameter {
        name: "file_mode",
        kind: ParameterKind::Int,
        help: "Permissions of the files",
        default: "0600",
    },
    Parameter {
        name: "tick_max",
        kind: ParameterKind::Int,
        help: "Calls after which the program checks whether a sample is asked for",
        default: "1024",
    },
    Parameter {
        name: "linger",
        kind: ParameterKind::Bool,
        help: "Leave the file with the last counts behind",
        default: "0",
    },
];

/// Flags of the file: a sample is asked for; the program has ended.
const WANTED: u8 = 1;
const ENDED: u8 = 2;

/// What is in the file.
#[repr(C)]
struct Shared {
    rows: [Row; ROWS],
    flags: AtomicU8,
}

pub(super) struct Monitor {
    provider: String,
    counts: Counts,
    ticks: AtomicU64,
    ticks_at_most: u64,
    linger: bool,
    folder: Folder,
    file: String,
    shared: &'static Shared,
}

impl core::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Monitor")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Monitor {
    pub(super) fn start(provider: &str) -> Option<Box<dyn Hook>> {
        let (folder, file, shared) = match open(provider) {
            Ok(opened) => opened,
            Err(error) => {
                log::warn!(
                    provider,
                    Fabric,
                    "the hook monitor cannot make its file: {error}"
                );
                return None;
            }
        };
        log::info!(
            provider,
            Fabric,
            "the hook monitor shares {}/{file}",
            folder.path().display()
        );
        Some(Box::new(Self {
            provider: provider.to_owned(),
            counts: Counts::new(),
            ticks: AtomicU64::new(0),
            ticks_at_most: PARAMETERS[3].int(NAME).max(1) as u64,
            linger: PARAMETERS[4].bool(NAME),
            folder,
            file,
            shared,
        }))
    }

    fn tick(&self) {
        if self.ticks.fetch_add(1, Ordering::Relaxed) + 1 < self.ticks_at_most {
            return;
        }
        self.ticks.store(0, Ordering::Relaxed);
        if self.shared.flags.load(Ordering::Acquire) & WANTED != 0 {
            self.copy(false);
            self.shared.flags.fetch_and(!WANTED, Ordering::Release);
        }
    }

    /// Moves what was counted into the file, in the place of the last sample or on top of it.
    fn copy(&self, add: bool) {
        for (from, to) in self.counts.rows().iter().zip(&self.shared.rows) {
            let cells = from.count.iter().chain(&from.bytes);
            for (from, to) in cells.zip(to.count.iter().chain(&to.bytes)) {
                let counted = from.swap(0, Ordering::Relaxed);
                let before = if add { to.load(Ordering::Relaxed) } else { 0 };
                to.store(before.wrapping_add(counted), Ordering::Relaxed);
            }
        }
    }
}

impl Hook for Monitor {
    fn after(&self, call: &Call<'_>, _token: u64, result: i64) {
        if self.counts.add(call, result) {
            self.tick();
        }
    }

    fn completed(&self, completion: Completion) {
        if self.counts.add_completion(completion) {
            self.tick();
        }
    }

    fn finish(&self, _open: usize) {
        if self.linger {
            // Held off while it is written; a sample that was not asked for since is kept.
            let was = self.shared.flags.fetch_or(WANTED, Ordering::AcqRel);
            self.copy(was & WANTED == 0);
            self.shared.flags.store(ENDED, Ordering::Release);
        } else if let Err(error) = self.folder.remove(&self.file) {
            log::warn!(&self.provider, Fabric, "{}: {error}", self.file);
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let at = core::ptr::from_ref(self.shared).cast_mut();
        // SAFETY: `open` mapped it, and only this hook has used it.
        unsafe { libc::munmap(at.cast(), size_of::<Shared>()) };
    }
}

/// Makes the file and maps it.
fn open(provider: &str) -> io::Result<(Folder, String, &'static Shared)> {
    static SEQUENCE: AtomicU64 = AtomicU64::new(0);
    // SAFETY: it only reads the identity of the process.
    let user = unsafe { libc::getuid() };
    let base = PARAMETERS[0]
        .text(NAME)
        .unwrap_or_else(|| PARAMETERS[0].default.to_owned());
    let mode = |at: usize| PARAMETERS[at].int(NAME) as u32;
    let names = [user.to_string(), host_name()];
    let folder = Folder::open(Path::new(&base), &names, mode(1))?;
    let job = environment::variable("SLURM_JOB_ID");
    let job = job.and_then(|job| job.to_str()?.parse::<u64>().ok());
    let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let name = format!(
        "{}_{}_{sequence}_{}_{provider}",
        parent_id(),
        process::id(),
        job.unwrap_or(0)
    );
    let file = folder.create(&name, mode(2))?;
    file.set_len(size_of::<Shared>() as u64)?;
    let shared = map(&file)?;
    Ok((folder, name, shared))
}

fn map(file: &File) -> io::Result<&'static Shared> {
    // SAFETY: the file is as long as the mapping, which nothing else uses; zeroes are a value.
    unsafe {
        let at = libc::mmap(
            core::ptr::null_mut(),
            size_of::<Shared>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(&*at.cast::<Shared>())
    }
}

fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the last byte stays zero.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

// A sampler of the C library reads the same layout.
const _: () = assert!(core::mem::offset_of!(Shared, flags) == ROWS * 2 * 9 * 8);
