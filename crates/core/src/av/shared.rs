//! The memory of an address vector that several processes use: fi_av(3) "name". Path class: setup.
//!
//! A named vector is a file in /dev/shm that every process maps. A process that inserts or removes holds a lock of the
//! file and appends or clears a slot; the others check whether the version has changed before they look up. Each user
//! keeps a shared lock of the file, which the kernel drops with the process: a process that finds no other user begins a
//! new vector instead of taking over what a killed one left behind. See docs/adr/0012.
//!
//! Any user may create files in that folder, so that a file of another user may be in place of ours: it is refused, since
//! its owner could truncate it while it is mapped. What users of the same name write is checked, too.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use oxifabric_abi::fi_addr_t;
use oxifabric_types::{Address, Errno};

use crate::info::{address_from_bytes, address_to_c};

/// Where the files are.
const FOLDER: &str = "/dev/shm";

/// Distinguishes files of this layout: "OXIAV", version 1.
const MAGIC: u64 = 0x4f58_4941_5600_0001;

/// Slots that a vector has at least, whatever the application expects.
const LEAST: usize = 1 << 16;

/// Slots that a vector may have, and addresses that one call may name: more than any job has endpoints. What is larger is no count.
pub(super) const MOST: usize = 1 << 24;

/// What no other user may do with the file: anything.
const OTHERS: u32 = 0o077;

/// The longest address in bytes.
const ADDRESS: usize = 244;

/// The head of the file; a page of its own.
#[repr(C)]
struct Head {
    magic: u64,
    capacity: u64,
    /// Grows with each insertion and removal.
    version: AtomicU64,
    /// Slots in use: those behind were never used.
    slots: AtomicU64,
}

/// The address at one index.
#[repr(C)]
#[derive(Clone, Copy)]
struct Slot {
    /// Format of the address; zero when the slot is free.
    format: u32,
    len: u32,
    /// How often the address was inserted.
    inserted: u32,
    bytes: [u8; ADDRESS],
}

const PAGE: usize = 4096;

/// Memory of a vector that other processes map as well.
#[derive(Debug)]
pub(super) struct Shared {
    file: File,
    path: PathBuf,
    memory: NonNull<u8>,
    len: usize,
    capacity: usize,
    read_only: bool,
}

// SAFETY: the memory is read and written under the lock of the file, and its counters are atomic.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`.
unsafe impl Sync for Shared {}

/// The lock of a file, for the time of a change or a look.
struct Locked<'a>(&'a Shared);

impl Shared {
    /// Opens the vector of this name; makes it unless only reading is wanted.
    ///
    /// # Errors
    /// `NOENT` when there is none and it is only to be read, `INVAL` for more slots than are possible, `ACCES` when the
    /// file belongs to another user, `NOSPC`, or what the operating system says.
    pub(super) fn open(
        scope: &str,
        name: &str,
        expected: usize,
        read_only: bool,
    ) -> Result<Self, Errno> {
        if expected > MOST {
            return Err(Errno::INVAL);
        }
        let path = path(Path::new(FOLDER), scope, name);
        let capacity = expected.max(LEAST).next_power_of_two();
        loop {
            if let Some(shared) = Self::try_open(&path, capacity, read_only)? {
                return Ok(shared);
            }
        }
    }

    /// Opens the file; `None` when another process removed it meanwhile.
    fn try_open(path: &Path, capacity: usize, read_only: bool) -> Result<Option<Self>, Errno> {
        let opened = OpenOptions::new()
            .read(true)
            .write(!read_only)
            .create(!read_only)
            .mode(0o600)
            // Something else of this name, as a pipe, must not make us wait.
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path);
        let file = opened.map_err(|error| errno(&error))?;
        let about = file.metadata().map_err(|error| errno(&error))?;
        // With a second name it may be any file of this user that another user has linked to here; to one that is open to all, others write.
        let private = about.nlink() < 2 && about.mode() & OTHERS == 0;
        if !about.is_file() || about.uid() != user() || !private {
            return Err(Errno::ACCES);
        }
        let alone = flock(&file, libc::LOCK_EX | libc::LOCK_NB).is_ok();
        if alone {
            if read_only {
                // Left behind by a process that was killed.
                let _ = std::fs::remove_file(path);
                return Err(Errno::NOENT);
            }
            if !is_at(&file, path) {
                return Ok(None);
            }
            begin(&file, capacity)?;
        }
        // Waits for a process that initialises the vector just now.
        flock(&file, libc::LOCK_SH).map_err(|error| errno(&error))?;
        if !is_at(&file, path) {
            return Ok(None);
        }
        Self::map(file, path.to_owned(), read_only)
    }

    fn map(file: File, path: PathBuf, read_only: bool) -> Result<Option<Self>, Errno> {
        let len = file.metadata().map_err(|error| errno(&error))?.len();
        let len = usize::try_from(len).map_err(|_| Errno::INVAL)?;
        if len < PAGE {
            // Its maker failed before it was complete.
            return Err(Errno::AGAIN);
        }
        let access = match read_only {
            true => libc::PROT_READ,
            false => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: maps a file that no process truncates (only a sole user begins anew); the place is the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                access,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(errno(&io::Error::last_os_error()));
        }
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let mut shared = Self {
            file,
            path,
            memory,
            len,
            capacity: 0,
            read_only,
        };
        let capacity = usize::try_from(shared.head().capacity).unwrap_or(usize::MAX);
        if shared.head().magic != MAGIC || length(capacity) != Some(len) {
            return Err(Errno::INVAL);
        }
        shared.capacity = capacity;
        Ok(Some(shared))
    }

    fn head(&self) -> &Head {
        // SAFETY: the memory begins with a head; what others change of it is atomic.
        unsafe { self.memory.cast().as_ref() }
    }

    /// Returns a number that changes with every insertion and removal of any process.
    pub(super) fn version(&self) -> u64 {
        self.head().version.load(Ordering::Acquire)
    }

    /// Returns the array of addresses (`fi_addr_t`) by index: each stands for itself.
    pub(super) fn names(&self) -> *mut fi_addr_t {
        // SAFETY: the array begins behind the head.
        unsafe { self.memory.as_ptr().add(PAGE).cast() }
    }

    /// Returns where a slot is.
    fn slot(&self, at: usize) -> *mut Slot {
        assert!(at < self.capacity, "callers look up slots that exist");
        let slots = PAGE + self.capacity * size_of::<fi_addr_t>();
        // SAFETY: the slots follow the array, and the memory is long enough for `capacity` of them.
        unsafe { self.memory.as_ptr().add(slots).cast::<Slot>().add(at) }
    }

    /// Takes the lock of the file.
    fn lock(&self) -> Result<Locked<'_>, Errno> {
        byte_lock(
            &self.file,
            if self.read_only {
                libc::F_RDLCK
            } else {
                libc::F_WRLCK
            },
        )
        .map_err(|error| errno(&error))?;
        Ok(Locked(self))
    }

    /// Runs `call` under the file's lock: shared when the vector is only read here, exclusive otherwise.
    ///
    /// # Errors
    /// What the operating system says of the lock, and what `call` says.
    pub(super) fn locked<R>(&self, call: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
        let _locked = self.lock()?;
        call()
    }

    /// Returns whether the vector may not be changed from here.
    pub(super) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Calls `each` with every address there is and how often it was inserted, by index; the lock is held.
    pub(super) fn each(&self, mut each: impl FnMut(usize, Option<(Address, usize)>)) {
        for at in 0..self.used() {
            // SAFETY: the slot is in use, and no process changes it while the lock is held.
            let slot = unsafe { self.slot(at).read() };
            each(
                at,
                slot.address()
                    .map(|address| (address, slot.inserted as usize)),
            );
        }
    }

    fn used(&self) -> usize {
        let slots = self.head().slots.load(Ordering::Acquire);
        usize::try_from(slots)
            .unwrap_or(usize::MAX)
            .min(self.capacity)
    }

    /// Writes a slot; the lock is held. Returns the new version.
    ///
    /// # Errors
    /// `NOSPC` beyond the capacity or when the file system is full, `INVAL` for an address that is too long.
    pub(super) fn write(&self, at: usize, entry: Option<(&Address, usize)>) -> Result<u64, Errno> {
        if at >= self.capacity {
            return Err(Errno::NOSPC);
        }
        let slot = Slot::new(entry)?;
        self.reserve(at)?;
        // SAFETY: slot and name are within the memory, and the lock keeps others away.
        unsafe {
            self.slot(at).write(slot);
            self.names().add(at).write(at as fi_addr_t);
        }
        let head = self.head();
        head.slots.fetch_max(at as u64 + 1, Ordering::Release);
        Ok(head.version.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Makes sure that the file system has room where a slot and its name are: without it, writing would be fatal.
    fn reserve(&self, at: usize) -> Result<(), Errno> {
        let name = PAGE + at * size_of::<fi_addr_t>();
        let slot = PAGE + self.capacity * size_of::<fi_addr_t>() + at * size_of::<Slot>();
        for (offset, len) in [(name, size_of::<fi_addr_t>()), (slot, size_of::<Slot>())] {
            // SAFETY: a system call on a descriptor that is open; the range is within the file.
            let failed = unsafe {
                libc::posix_fallocate(
                    self.file.as_raw_fd(),
                    offset as libc::off_t,
                    len as libc::off_t,
                )
            };
            if failed != 0 {
                return Err(Errno::from_raw(failed));
            }
        }
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.len) };
        // The last user removes the file; a process that opens it meanwhile notices that it is gone.
        if flock(&self.file, libc::LOCK_EX | libc::LOCK_NB).is_ok() && is_at(&self.file, &self.path)
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = byte_lock(&self.0.file, libc::F_UNLCK);
    }
}

impl Slot {
    fn new(entry: Option<(&Address, usize)>) -> Result<Self, Errno> {
        let mut slot = Self {
            format: 0,
            len: 0,
            inserted: 0,
            bytes: [0; ADDRESS],
        };
        if let Some((address, inserted)) = entry {
            let (bytes, format) = address_to_c(address);
            let room = slot.bytes.get_mut(..bytes.len()).ok_or(Errno::INVAL)?;
            room.copy_from_slice(&bytes);
            slot.format = format;
            slot.len = bytes.len() as u32;
            slot.inserted = u32::try_from(inserted).map_err(|_| Errno::INVAL)?;
        }
        Ok(slot)
    }

    /// Reads the address; other processes wrote it, so it is checked.
    fn address(&self) -> Option<Address> {
        let bytes = self.bytes.get(..self.len as usize)?;
        (self.inserted != 0)
            .then(|| address_from_bytes(bytes, self.format))
            .flatten()
    }
}

/// Returns how long the file of a vector is.
fn length(capacity: usize) -> Option<usize> {
    let each = size_of::<fi_addr_t>() + size_of::<Slot>();
    (capacity <= MOST && capacity.is_power_of_two()).then(|| PAGE + capacity * each)
}

/// Initialises a new vector in a file that no other process uses.
fn begin(file: &File, capacity: usize) -> Result<(), Errno> {
    let len = length(capacity).ok_or(Errno::INVAL)?;
    let failed = |error: io::Error| errno(&error);
    file.set_len(0).map_err(failed)?;
    let mut head = [0; 16];
    head[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    head[8..].copy_from_slice(&(capacity as u64).to_ne_bytes());
    std::os::unix::fs::FileExt::write_all_at(file, &head, 0).map_err(failed)?;
    file.set_len(len as u64).map_err(failed)
}

/// Returns whether a file is still the one of this name.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(ours), Ok(theirs)) => (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()),
        _ => false,
    }
}

/// Returns the file of a name: of this user, and for this scope only.
fn path(folder: &Path, scope: &str, name: &str) -> PathBuf {
    let user = user();
    let spelled: String = [scope, name]
        .join("/")
        .bytes()
        .map(|byte| match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' => char::from(byte).to_string(),
            byte => format!("_{byte:02x}"),
        })
        .collect();
    folder.join(format!("oxifabric-av-{user}-{spelled}"))
}

/// Returns the user that new files belong to.
fn user() -> libc::uid_t {
    // SAFETY: a system call without arguments that cannot fail.
    unsafe { libc::geteuid() }
}

fn flock(file: &File, operation: libc::c_int) -> io::Result<()> {
    loop {
        // SAFETY: a system call on a descriptor that is open.
        if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Takes or drops the lock under which the contents change; the kernel drops it with the process.
fn byte_lock(file: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: zeros are a valid value of this plain structure.
    let mut range: libc::flock = unsafe { core::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_len = 1;
    loop {
        // SAFETY: a system call on a descriptor that is open, with what the command takes.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &raw mut range) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw)
}
