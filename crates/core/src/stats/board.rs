//! The file of a process: which slots are taken, and the memory that they are in.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use oxifabric_types::stats::{
    FILE_BYTES, FILE_NAME, HEAD_MISSED, HEAD_PID, HEAD_USED, MAGIC, MAX_SLOTS, SLOT_WORDS,
};

use crate::lock::lock;

/// A file in memory, mapped.
#[derive(Debug)]
pub(super) struct Board {
    /// Open as long as the board is, so that the kernel shows it.
    _file: OwnedFd,
    memory: NonNull<AtomicU64>,
    pid: u32,
    ledger: Mutex<Ledger>,
}

/// Which slots are taken.
#[derive(Debug, Default)]
struct Ledger {
    free: Vec<usize>,
    used: usize,
    ids: u64,
    missed: u64,
}

// SAFETY: the memory is reached as atomic words only, and stays until the board is dropped.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// The board of this process, while an endpoint has a slot in it.
static BOARD: Mutex<Weak<Board>> = Mutex::new(Weak::new());

impl Board {
    /// Returns the board of this process, making it if there is none. A forked child has one of its own.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn of_process() -> io::Result<Arc<Self>> {
        let mut kept = lock(&BOARD);
        if let Some(board) = kept.upgrade().filter(|board| board.is_own()) {
            return Ok(board);
        }
        let board = Arc::new(Self::new()?);
        *kept = Arc::downgrade(&board);
        Ok(board)
    }

    /// Makes a board.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn new() -> io::Result<Self> {
        let file = sealed_file()?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing one.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                FILE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let board = Self {
            _file: file,
            memory: NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            pid: process::id(),
            ledger: Mutex::default(),
        };
        board.head()[HEAD_PID].store(board.pid.into(), Ordering::Relaxed);
        board.head()[0].store(MAGIC, Ordering::Release);
        Ok(board)
    }

    /// Returns the file.
    #[cfg(test)]
    pub(super) fn file(&self) -> std::fs::File {
        self._file.try_clone().expect("a descriptor").into()
    }

    /// Returns whether this process made it, and not the one that it was forked from.
    pub(super) fn is_own(&self) -> bool {
        self.pid == process::id()
    }

    /// Takes a free slot; returns where it is and the number of the endpoint. `None` if there is none, which is counted.
    pub(super) fn take(&self) -> Option<(usize, u64)> {
        let mut ledger = lock(&self.ledger);
        let at = match ledger.free.pop() {
            Some(at) => at,
            None if ledger.used < MAX_SLOTS => {
                ledger.used += 1;
                self.head()[HEAD_USED].store(ledger.used as u64, Ordering::Release);
                ledger.used - 1
            }
            None => {
                ledger.missed += 1;
                self.head()[HEAD_MISSED].store(ledger.missed, Ordering::Relaxed);
                return None;
            }
        };
        ledger.ids += 1;
        Some((at, ledger.ids))
    }

    /// Gives a slot back.
    pub(super) fn give_back(&self, at: usize) {
        lock(&self.ledger).free.push(at);
    }

    /// Returns the words of a slot.
    pub(super) fn slot(&self, at: usize) -> &[AtomicU64; SLOT_WORDS] {
        self.words(1 + at.min(MAX_SLOTS - 1))
    }

    fn head(&self) -> &[AtomicU64; SLOT_WORDS] {
        self.words(0)
    }

    fn words(&self, at: usize) -> &[AtomicU64; SLOT_WORDS] {
        // SAFETY: the mapping has one more than `MAX_SLOTS` of them, is aligned to pages, and lives as long as the board.
        unsafe { self.memory.add(at * SLOT_WORDS).cast().as_ref() }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size; the references into it were borrowed from the board.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), FILE_BYTES) };
    }
}

/// Makes a file without a name whose size is fixed.
fn sealed_file() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string; a new descriptor is returned, which nothing else knows.
    let file = unsafe {
        let fd = libc::memfd_create(FILE_NAME.as_ptr(), flags);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain system calls on an open descriptor.
    let done = unsafe {
        libc::ftruncate(file.as_raw_fd(), FILE_BYTES as libc::off_t) == 0
            && libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) == 0
    };
    match done {
        true => Ok(file),
        false => Err(io::Error::last_os_error()),
    }
}
