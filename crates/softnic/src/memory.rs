//! Memory that is shared with the application: the rings of its queues, and what it registered.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::sys::succeed;

/// The size of a page on the machines where EFA is.
pub(crate) const PAGE: usize = 4096;

/// A piece of a device file, as the device sees it.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// Where it is in the file, which is the key by which the application maps it.
    pub(crate) offset: u64,
}

// SAFETY: the pages belong to the mapping alone on this side; what the application writes at the same time is read by volatile accesses only.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Returns the length, whole pages.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reads a number that the application may be writing. Out of bounds there is 0.
    pub(crate) fn load(&self, at: usize) -> u32 {
        if !at.is_multiple_of(4) || at + 4 > self.len {
            return 0;
        }
        // SAFETY: within the mapping and aligned, as just checked; pages begin at multiples of their size.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }.load(Ordering::Acquire)
    }

    /// Copies bytes out that the application wrote before it rang. Out of bounds there are zeroes.
    pub(crate) fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        if at.checked_add(N).is_some_and(|end| end <= self.len) {
            for (index, byte) in bytes.iter_mut().enumerate() {
                // SAFETY: within the mapping, as just checked.
                *byte = unsafe { self.base.as_ptr().add(at + index).read_volatile() };
            }
        }
        bytes
    }

    /// Writes an entry of a queue so that the application, once it sees the byte at `last`, sees all of it.
    pub(crate) fn publish(&self, at: usize, entry: &[u8], last: usize) {
        if at.checked_add(entry.len()).is_none_or(|end| end > self.len) {
            return;
        }
        for (index, byte) in entry.iter().enumerate() {
            if index != last {
                // SAFETY: within the mapping, as just checked.
                unsafe { self.base.as_ptr().add(at + index).write_volatile(*byte) };
            }
        }
        if let Some(byte) = entry.get(last) {
            // SAFETY: as above; a byte has no alignment.
            unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(at + last)) }
                .store(*byte, Ordering::Release);
        }
    }

    /// Makes all bytes zero.
    pub(crate) fn clear(&self) {
        // SAFETY: the mapping has this length.
        unsafe { self.base.as_ptr().write_bytes(0, self.len) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `DeviceFile::allocate` and is not used any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The file behind an open device: the application maps the rings of its queues from it.
#[derive(Debug)]
pub(crate) struct DeviceFile {
    file: OwnedFd,
    end: u64,
    /// Pieces that are free again: length and offset.
    free: Vec<(usize, u64)>,
}

impl DeviceFile {
    /// Makes a file, and a descriptor of it for the application.
    ///
    /// # Errors
    /// Those of memfd_create(2) and fcntl(2).
    pub(crate) fn create() -> io::Result<(Self, libc::c_int)> {
        // SAFETY: the name is a C string.
        let fd = succeed(unsafe { libc::memfd_create(c"uverbs".as_ptr(), libc::MFD_CLOEXEC) })?;
        // SAFETY: the kernel has just made this descriptor.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: no memory is involved.
        let theirs = succeed(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) })?;
        let new = Self {
            file,
            end: 0,
            free: Vec::new(),
        };
        Ok((new, theirs))
    }

    /// Returns a piece of zeroes of at least this length.
    ///
    /// # Errors
    /// Those of ftruncate(2) and mmap(2).
    pub(crate) fn allocate(&mut self, len: usize) -> io::Result<Mapping> {
        let len = len.max(1).next_multiple_of(PAGE);
        let place = self.free.iter().position(|(free, _)| *free == len);
        let offset = match place {
            Some(place) => self.free.swap_remove(place).1,
            None => self.grow(len)?,
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                access,
                libc::MAP_SHARED,
                self.file.as_raw_fd(),
                offset.cast_signed(),
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { base, len, offset };
        mapping.clear();
        Ok(mapping)
    }

    fn grow(&mut self, len: usize) -> io::Result<u64> {
        let offset = self.end;
        let end = offset + len as u64;
        // SAFETY: no memory is involved.
        succeed(unsafe { libc::ftruncate(self.file.as_raw_fd(), end.cast_signed()) })?;
        self.end = end;
        Ok(offset)
    }

    /// Takes a piece back.
    pub(crate) fn release(&mut self, mapping: Mapping) {
        self.free.push((mapping.len, mapping.offset));
    }
}

/// Copies out of memory of the application.
///
/// The caller has checked that a region covers these bytes. The application promises with the registration that the memory stays mapped until the
/// region ends; real hardware pins it, here a broken promise is a SIGSEGV.
pub(crate) fn fetch(addr: u64, into: &mut [u8]) {
    let from = addr as *const u8;
    // SAFETY: see above.
    unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
}

/// Copies into memory of the application, on the same conditions as [`fetch`].
pub(crate) fn store(addr: u64, bytes: &[u8]) {
    let to = addr as *mut u8;
    // SAFETY: see above.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

/// Returns how many bytes can be read from a pipe at once.
pub(crate) fn readable(pipe: &impl AsRawFd) -> usize {
    let mut waiting: libc::c_int = 0;
    // SAFETY: the kernel writes one int. The system call itself is used, for ioctl of this library is about devices.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ioctl,
            pipe.as_raw_fd(),
            libc::FIONREAD,
            &raw mut waiting,
        )
    };
    if result == 0 {
        usize::try_from(waiting).unwrap_or(0)
    } else {
        0
    }
}

/// Whether all pages of a range are mapped, as the kernel finds out when it pins them.
pub(crate) fn is_mapped(addr: u64, len: u64) -> bool {
    const STEP: usize = 16384;
    let mut residency = [0_u8; STEP];
    let page = PAGE as u64;
    let Some(end) = addr.checked_add(len) else {
        return false;
    };
    let mut at = addr / page * page;
    while at < end {
        let step = (end - at).min(STEP as u64 * page);
        // SAFETY: the kernel writes a byte a page, and the array has room for `STEP` pages.
        let result = unsafe {
            libc::mincore(
                at as *mut libc::c_void,
                step as usize,
                residency.as_mut_ptr(),
            )
        };
        if result != 0 {
            return false;
        }
        at += step;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_and_used_again() {
        let (mut file, theirs) = DeviceFile::create().expect("a file");
        // SAFETY: the test owns this descriptor.
        drop(unsafe { OwnedFd::from_raw_fd(theirs) });
        let piece = file.allocate(100).expect("memory");
        assert_eq!((piece.len(), piece.offset), (PAGE, 0));
        piece.publish(96, &[1, 2, 3, 4], 2);
        assert_eq!(piece.read::<4>(96), [1, 2, 3, 4]);
        assert_eq!(piece.load(96), 0x0403_0201);
        assert_eq!(piece.read::<8>(PAGE - 4), [0; 8]);
        file.release(piece);
        let again = file.allocate(1).expect("memory");
        assert_eq!((again.offset, again.load(96)), (0, 0));
        assert_eq!(file.allocate(PAGE + 1).expect("memory").offset, PAGE as u64);
    }

    #[test]
    fn memory_that_is_not_there_is_noticed() {
        let there = [0_u8; 3 * PAGE];
        assert!(is_mapped(there.as_ptr() as u64, there.len() as u64));
        assert!(!is_mapped(PAGE as u64, 1));
        assert!(!is_mapped(u64::MAX - 5, 10));
    }
}
