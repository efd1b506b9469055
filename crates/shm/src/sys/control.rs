//! Descriptors beside a packet, unix(7) "SCM_RIGHTS".
//!
//! Whatever descriptors the kernel has put into this process are owned as soon as they are found, so that none stays open that
//! was not asked for.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

const FD_SIZE: usize = mem::size_of::<libc::c_int>();

// SAFETY: CMSG_SPACE only computes.
const SPACE: usize = unsafe { libc::CMSG_SPACE(FD_SIZE as u32) } as usize;

/// Without the padding behind it, in which the kernel would find room for a second descriptor.
// SAFETY: CMSG_LEN only computes.
const ONE: usize = unsafe { libc::CMSG_LEN(FD_SIZE as u32) } as usize;

/// Room for one descriptor beside a packet.
#[repr(C)]
pub(super) union Control {
    bytes: [u8; SPACE],
    _align: libc::cmsghdr,
}

impl Control {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; SPACE] }
    }

    /// Makes a message send this descriptor.
    pub(super) fn put(&mut self, file: BorrowedFd<'_>, message: &mut libc::msghdr) {
        let header: *mut libc::cmsghdr = ptr::from_mut(self).cast();
        // SAFETY: the union is aligned as the header and has room for it and one descriptor behind it.
        unsafe {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = ONE as _;
            libc::CMSG_DATA(header)
                .cast::<libc::c_int>()
                .write_unaligned(file.as_raw_fd());
        }
        message.msg_control = ptr::from_mut(self).cast();
        message.msg_controllen = SPACE as _;
    }

    /// Makes a message receive one descriptor.
    pub(super) fn make_room(&mut self, message: &mut libc::msghdr) {
        message.msg_control = ptr::from_mut(self).cast();
        message.msg_controllen = ONE as _;
    }

    /// Takes the descriptor that came, if one did.
    ///
    /// # Errors
    /// `InvalidData` when there were more; all of them are closed.
    pub(super) fn take(&self, message: &libc::msghdr) -> io::Result<Option<OwnedFd>> {
        let mut files = self.files(message);
        // All are owned before any is refused.
        let surplus = files.split_off(files.len().min(1));
        if !surplus.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        refuse_more(message)?;
        Ok(files.pop())
    }

    /// Owns every descriptor in the control memory.
    fn files(&self, message: &libc::msghdr) -> Vec<OwnedFd> {
        let mut files = Vec::new();
        // SAFETY: the kernel filled `self` as the message's control memory, so CMSG_FIRSTHDR and CMSG_NXTHDR are null or point to
        // complete headers in it, with as many bytes of data behind them as their length fields give. A descriptor in
        // it was made for this process, and no other code has it.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(message);
            while !header.is_null() {
                if (*header).cmsg_level == libc::SOL_SOCKET
                    && (*header).cmsg_type == libc::SCM_RIGHTS
                {
                    let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
                    let len = ((*header).cmsg_len as usize).saturating_sub(ONE - FD_SIZE);
                    for at in 0..len / FD_SIZE {
                        files.push(OwnedFd::from_raw_fd(data.add(at).read_unaligned()));
                    }
                }
                header = libc::CMSG_NXTHDR(message, header);
            }
        }
        files
    }
}

/// Refuses a packet with more beside it than was asked for; the kernel has kept that back.
///
/// # Errors
/// `InvalidData`.
pub(super) fn refuse_more(message: &libc::msghdr) -> io::Result<()> {
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(())
}
