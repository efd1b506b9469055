//! Files in memory, mappings, and the lanes and words in them.

use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use oxifabric_sync::spsc::{Consumer, Layout, Producer, RawMemory};

use super::check;

/// The sending side of a lane in a mapping.
pub(crate) type Tx = Producer<RawMemory<Arc<Mapping>>>;
/// The receiving side of a lane in a mapping.
pub(crate) type Rx = Consumer<RawMemory<Arc<Mapping>>>;

/// Creates a file without a name that lives as long as a process has it open or mapped.
pub(crate) fn memfd() -> io::Result<OwnedFd> {
    memfd_with(0)
}

/// Creates such a file of huge pages, of which none needs to be there.
#[cfg(test)]
pub(crate) fn memfd_of_huge_pages() -> io::Result<OwnedFd> {
    memfd_with(libc::MFD_HUGETLB)
}

fn memfd_with(kind: libc::c_uint) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | kind;
    // SAFETY: the name is a C string; a new descriptor is returned.
    let fd = check(unsafe { libc::memfd_create(c"oxifabric-shm".as_ptr(), flags) })?;
    // SAFETY: no other code has the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Creates a file without a name in a folder, which lives as long as a process has it open or mapped.
pub(crate) fn tmpfile(folder: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC | libc::O_EXCL;
    // SAFETY: the path is a C string; a new descriptor is returned.
    let fd = check(unsafe { libc::open(path.as_ptr(), flags, 0o600) })?;
    // SAFETY: no other code has the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lends memory that a test keeps as long as it is written.
#[cfg(test)]
pub(crate) fn lend(target: &mut [u8]) -> oxifabric_mem::Iov {
    // SAFETY: as the tests see to.
    unsafe { oxifabric_mem::Iov::contiguous(target.as_mut_ptr(), target.len()) }
}

/// Gives a new file its size, with the memory behind it, so that touching it cannot fail later.
pub(crate) fn reserve(file: BorrowedFd<'_>, size: usize) -> io::Result<()> {
    let size = libc::off_t::try_from(size).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: plain system call on an open descriptor.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, size) }).map(drop)
}

/// Forbids every process to change the size of a memfd.
pub(crate) fn seal(file: BorrowedFd<'_>) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain system call on an open descriptor.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }).map(drop)
}

/// Returns whether a file is plain memory or a plain file: no device, and none of huge pages, which can be missing when
/// they are touched although they were allocated (another descriptor may punch holes), so that a signal kills this
/// process.
pub(crate) fn is_plain(file: BorrowedFd<'_>) -> bool {
    const HUGETLBFS: i64 = 0x9584_58f6;
    let mut system = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: fstatfs fills the structure when it succeeds.
    let kind = unsafe {
        if libc::fstatfs(file.as_raw_fd(), system.as_mut_ptr()) < 0 {
            return false;
        }
        system.assume_init().f_type
    };
    let is_file = stat_of(file).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG);
    is_file && kind as i64 & 0xffff_ffff != HUGETLBFS
}

/// Returns whether a file can be read and written by its descriptor.
pub(crate) fn is_writable(file: BorrowedFd<'_>) -> bool {
    // SAFETY: plain system call on an open descriptor.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE == libc::O_RDWR && flags & libc::O_PATH == 0
}

/// Returns whether a file can never become shorter.
pub(crate) fn is_sealed(file: BorrowedFd<'_>) -> bool {
    // SAFETY: plain system call on an open descriptor.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

/// Returns the size of a file and how much of it has memory behind it, in bytes.
pub(crate) fn sizes(file: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let stat = stat_of(file)?;
    Ok((stat.st_size as u64, stat.st_blocks as u64 * 512))
}

fn stat_of(file: BorrowedFd<'_>) -> io::Result<libc::stat> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat fills the structure when it succeeds.
    unsafe {
        check(libc::fstat(file.as_raw_fd(), stat.as_mut_ptr()))?;
        Ok(stat.assume_init())
    }
}

/// The usual page. Where pages are larger the kernel may refuse to populate from the middle of one.
const PAGE: usize = 4096;

/// A shared mapping, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping is memory of the whole process; what may touch it is decided by those that hand out parts.
unsafe impl Send for Mapping {}
// SAFETY: as above; through a shared reference only atomic words are reached.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `size` bytes of a file whose size was checked.
    pub(crate) fn of_file(file: BorrowedFd<'_>, size: usize) -> io::Result<Self> {
        Self::map(file.as_raw_fd(), size, libc::MAP_SHARED)
    }

    /// Makes a part accessible without page faults, as far as it is inside. A hint: where the kernel cannot do that, older than
    /// 5.14, the faults come with the first accesses.
    pub(crate) fn populate(&self, part: Range<usize>) {
        let start = part.start.min(self.size) & !(PAGE - 1);
        let len = part.end.min(self.size).saturating_sub(start);
        // SAFETY: the range is inside this mapping; no byte changes.
        unsafe {
            let at = self.base.as_ptr().add(start);
            libc::madvise(at.cast(), len, libc::MADV_POPULATE_WRITE);
        }
    }

    /// Maps fresh memory of this process alone.
    pub(crate) fn private(size: usize) -> io::Result<Self> {
        Self::map(-1, size, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
    }

    fn map(fd: libc::c_int, size: usize, flags: libc::c_int) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing one.
        let at = unsafe { libc::mmap(ptr::null_mut(), size, access, flags, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, size })
    }

    /// Makes the memory read as zero in forked children.
    pub(super) fn wipe_on_fork(&self) -> io::Result<()> {
        // SAFETY: the range is this mapping, whose words are only read as atomics.
        check(unsafe { libc::madvise(self.base.as_ptr().cast(), self.size, libc::MADV_WIPEONFORK) })
            .map(drop)
    }

    /// Returns a word of the mapping, by its index from the start; the last one when it is out of bounds.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        let index = index.min(self.size / 8 - 1);
        // SAFETY: the word lies inside the mapping, which is page-aligned; atomics may be shared.
        unsafe { self.base.cast::<AtomicU64>().add(index).as_ref() }
    }

    /// Splits off the sending side of the lane at `tx` and the receiving side of the lane at `rx`, which may be the
    /// same; `None` unless both are inside the mapping. The mapping behind them is returned for its other words.
    pub(crate) fn into_lanes(
        self,
        tx: usize,
        rx: usize,
        layout: Layout,
    ) -> Option<(Tx, Rx, Arc<Self>)> {
        let inside = |offset: usize| {
            let end = offset.checked_add(layout.size());
            offset.is_multiple_of(64) && end.is_some_and(|end| end <= self.size)
        };
        if !inside(tx) || !inside(rx) {
            return None;
        }
        let mapping = Arc::new(self);
        // SAFETY: the lane is aligned and inside the mapping, which the Arc keeps. The mapping is consumed, so that no
        // lane gets a second producer or consumer; words outside the lanes are atomic.
        let lane = |offset: usize| unsafe {
            RawMemory::new(mapping.base.add(offset), layout, Arc::clone(&mapping))
        };
        Some((Producer::new(lane(tx)), Consumer::new(lane(rx)), mapping))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size; no other object holds a part of it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size) };
    }
}
