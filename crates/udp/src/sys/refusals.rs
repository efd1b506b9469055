//! ICMP answers of hosts to packets for ports where no socket listens (ip(7), IP_RECVERR).

use std::io;
use std::mem;
use std::net::SocketAddr;

use oxifabric_provider::inet::RawAddr;

use super::Socket;

impl Socket {
    /// Bounds what it holds in each direction (socket(7)).
    pub(crate) fn hold(&self, bytes: libc::c_int) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)?;
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes)
    }

    /// Asks the kernel to keep the answers of hosts, for [`Socket::take_refusal`].
    pub(crate) fn hear_refusals(&self, like: &SocketAddr) -> io::Result<()> {
        let on: libc::c_int = 1;
        match like {
            SocketAddr::V4(_) => self.set(libc::IPPROTO_IP, libc::IP_RECVERR, &on),
            SocketAddr::V6(_) => self.set(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &on),
        }
    }

    /// Returns an address where no socket listens, as its host has answered; each answer is returned once.
    pub(crate) fn take_refusal(&self) -> Option<SocketAddr> {
        loop {
            let mut to = RawAddr::zeroed();
            let mut control = [0u64; 32];
            // SAFETY: the structure consists of integers and pointers, for which zero is valid.
            let mut head: libc::msghdr = unsafe { mem::zeroed() };
            head.msg_name = (&raw mut to).cast();
            head.msg_namelen = size_of::<RawAddr>() as libc::socklen_t;
            head.msg_control = control.as_mut_ptr().cast();
            head.msg_controllen = size_of_val(&control);
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            // SAFETY: the address and the control data have the sizes given; no bytes are asked for.
            if unsafe { libc::recvmsg(self.fd(), &raw mut head, flags) } < 0 {
                return None;
            }
            if refused(&head) {
                return to.address();
            }
        }
    }
}

/// Returns whether the control data of an error is that of a closed port.
fn refused(head: &libc::msghdr) -> bool {
    // SAFETY: the kernel has filled in the control data, of the length that it has set.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(head) };
    // SAFETY: as above; the macros stay within the control data.
    while let Some(part) = unsafe { next.as_ref() } {
        let is_error = matches!(
            (part.cmsg_level, part.cmsg_type),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        );
        if is_error {
            // SAFETY: such a part holds this structure, perhaps not aligned for it.
            let error: libc::sock_extended_err = unsafe {
                libc::CMSG_DATA(part)
                    .cast::<libc::sock_extended_err>()
                    .read_unaligned()
            };
            return error.ee_errno == libc::ECONNREFUSED as u32;
        }
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(head, part) };
    }
    false
}
