//! Other processes' memory, and what a fork leaves of ours.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use oxifabric_mem::{Iov, MAX_SEGMENTS};

use super::check_size;
use super::memory::Mapping;

/// A piece of another process's memory: address and length.
pub(crate) type Piece = (u64, u64);

/// Copies from another process, as far as the shorter side goes; returns how many bytes.
#[inline]
pub(crate) fn read_memory(pid: i32, from: &[Piece], into: &Iov) -> io::Result<usize> {
    let (local, count) = local_pieces(into);
    let (remote, remote_count) = raw_pieces(from);
    // SAFETY: an Iov may be written until its operation completes; the remote side is checked by the kernel.
    check_size(unsafe {
        libc::process_vm_readv(
            pid,
            local.as_ptr(),
            count as libc::c_ulong,
            remote.as_ptr(),
            remote_count as libc::c_ulong,
            0,
        )
    })
}

/// Copies into a piece of another process's memory, as far as the shorter side goes; returns how many bytes.
pub(crate) fn write_memory(pid: i32, to: Piece, from: &Iov) -> io::Result<usize> {
    let (local, count) = local_pieces(from);
    let (remote, _) = raw_pieces(&[to]);
    // SAFETY: an Iov may be read until its operation completes; the remote side is checked by the kernel.
    check_size(unsafe {
        libc::process_vm_writev(
            pid,
            local.as_ptr(),
            count as libc::c_ulong,
            remote.as_ptr(),
            1,
            0,
        )
    })
}

/// Copies a piece of this process's memory into another process; returns how many bytes.
///
/// Neither piece needs to be valid: the kernel checks both, and only reads here.
pub(crate) fn send_memory(pid: i32, to: Piece, from: Piece) -> io::Result<usize> {
    let (local, count) = raw_pieces(&[from]);
    let (remote, remote_count) = raw_pieces(&[to]);
    // SAFETY: the kernel reads this process's memory through checked accesses, which fail where there is none; nothing
    // of this process is written.
    check_size(unsafe {
        libc::process_vm_writev(
            pid,
            local.as_ptr(),
            count as libc::c_ulong,
            remote.as_ptr(),
            remote_count as libc::c_ulong,
            0,
        )
    })
}

/// Copies `len` bytes by calls of `copy`, which is told how many are done and returns how many it adds.
///
/// # Errors
/// What a call returns, and `EFAULT` when one adds none.
#[inline]
pub(crate) fn copy_whole(
    len: usize,
    mut copy: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        match copy(done)? {
            0 => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            some => done += some,
        }
    }
    Ok(())
}

/// Reads one word of another process.
pub(crate) fn read_word(pid: i32, address: u64) -> io::Result<u64> {
    let mut word = [0u8; 8];
    // SAFETY: the array outlives the Iov.
    let into = unsafe { Iov::contiguous(word.as_mut_ptr(), word.len()) };
    let len = read_memory(pid, &[(address, 8)], &into)?;
    if len != word.len() {
        return Err(io::Error::from_raw_os_error(libc::EFAULT));
    }
    Ok(u64::from_ne_bytes(word))
}

type Pieces = [libc::iovec; MAX_SEGMENTS];

const NO_PIECE: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

fn local_pieces(memory: &Iov) -> (Pieces, usize) {
    let mut pieces = [NO_PIECE; MAX_SEGMENTS];
    let segments = memory.segments();
    for (piece, segment) in pieces.iter_mut().zip(segments) {
        piece.iov_base = segment.base().cast();
        piece.iov_len = segment.len();
    }
    (pieces, segments.len().min(MAX_SEGMENTS))
}

fn raw_pieces(memory: &[Piece]) -> (Pieces, usize) {
    let mut pieces = [NO_PIECE; MAX_SEGMENTS];
    for (piece, &(address, len)) in pieces.iter_mut().zip(memory) {
        piece.iov_base = std::ptr::without_provenance_mut(address as usize);
        piece.iov_len = len as usize;
    }
    (pieces, memory.len().min(MAX_SEGMENTS))
}

/// Returns this process's effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: always succeeds.
    unsafe { libc::geteuid() }
}

/// Returns a random number, or a merely unlikely one when the kernel has none yet.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the kernel writes at most the array.
    let len =
        unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if len == bytes.len() as isize {
        return u64::from_ne_bytes(bytes);
    }
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    now ^ u64::from(std::process::id()) << 40
}

/// A word that reads as zero in forked children: they see it without a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkMark {
    word: Option<&'static Mapping>,
    owner: u64,
}

impl ForkMark {
    /// Returns the mark of this process. Where the kernel cannot make one (before 4.14), no process looks like a child.
    pub(crate) fn here() -> Self {
        static WORD: OnceLock<Option<Mapping>> = OnceLock::new();
        let word = WORD.get_or_init(|| {
            let mapping = Mapping::private(4096).ok()?;
            mapping.wipe_on_fork().ok()?;
            Some(mapping)
        });
        let owner = u64::from(std::process::id());
        if let Some(mapping) = word {
            mapping.word(0).store(owner, Ordering::Relaxed);
        }
        Self {
            word: word.as_ref(),
            owner,
        }
    }

    /// Returns whether this process is a child of the one that took the mark.
    #[inline]
    pub(crate) fn is_foreign(self) -> bool {
        self.word
            .is_some_and(|word| word.word(0).load(Ordering::Relaxed) != self.owner)
    }
}
