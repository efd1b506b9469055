//! Sockets for datagrams that never wait.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_provider::inet::RawAddr;
use oxifabric_provider::syscall;

use super::{check, check_len};
use crate::peer::Destination;
use crate::rx_queue::{self, LONGEST, Received, STRIDE};
use crate::tx_queue;

/// A non-blocking UDP socket; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) to: Destination<'a>,
    pub(crate) body: &'a [u8],
    /// Length of each of several datagrams that it consists of; the last one may be shorter.
    pub(crate) cut: Option<u16>,
}

/// Room for one control message with a number: how long the datagrams are that are one piece.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 24]);

const NO_CONTROL: Control = Control([0; 24]);

/// The length of an address that the kernel is to fill in.
const ADDRESS: libc::socklen_t = size_of::<RawAddr>() as libc::socklen_t;

const NO_PIECE: libc::iovec = libc::iovec {
    iov_base: ptr::null_mut(),
    iov_len: 0,
};

impl Socket {
    /// Opens a socket of the family of an address.
    pub(crate) fn open(like: &SocketAddr) -> io::Result<Self> {
        let family = match like {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointers.
        let fd = check(unsafe { libc::socket(family, kind, 0) })?;
        // SAFETY: the descriptor is new, and no other code has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    #[inline]
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn bind(&self, address: &SocketAddr) -> io::Result<()> {
        let (raw, len) = RawAddr::of(address);
        // SAFETY: `raw` holds an address of `len` bytes.
        check(unsafe { libc::bind(self.fd(), (&raw const raw).cast(), len) }).map(drop)
    }

    /// Returns the address that it is bound to.
    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        let mut raw = RawAddr::zeroed();
        let mut len = ADDRESS;
        // SAFETY: `raw` has room for `len` bytes.
        check(unsafe { libc::getsockname(self.fd(), (&raw mut raw).cast(), &raw mut len) })?;
        Ok(raw.address().ok_or(io::ErrorKind::InvalidData)?)
    }

    /// Sends a part of a message as a datagram.
    #[inline]
    pub(crate) fn send(
        &self,
        to: Destination<'_>,
        body: &Iov,
        offset: usize,
        len: usize,
    ) -> io::Result<()> {
        let result = match body.segments() {
            [piece] if offset == 0 && len == piece.len() => self.send_piece(to, piece.base(), len),
            _ => self.send_pieces(to, &body.slice(offset, len)),
        };
        match result {
            Err(error) if is_of_earlier_send(&error) => {
                self.send_pieces(to, &body.slice(offset, len))
            }
            result => result,
        }
    }

    /// Sends a datagram.
    pub(crate) fn send_bytes(&self, to: Destination<'_>, body: &[u8]) -> io::Result<()> {
        self.send_piece(to, body.as_ptr().cast_mut(), body.len())
    }

    #[inline]
    fn send_piece(&self, to: Destination<'_>, base: *mut u8, len: usize) -> io::Result<()> {
        let at = (&raw const *to.raw).cast();
        // SAFETY: the caller lends this memory, which is only read, and the address has `to.len` bytes.
        let sent = unsafe { syscall::sendto(self.fd(), base, len, 0, at, to.len) };
        check_len(sent).map(drop)
    }

    fn send_pieces(&self, to: Destination<'_>, body: &Iov) -> io::Result<()> {
        let mut pieces = [NO_PIECE; MAX_SEGMENTS];
        let mut count = 0;
        for (piece, segment) in pieces.iter_mut().zip(body.segments()) {
            *piece = libc::iovec {
                iov_base: segment.base().cast(),
                iov_len: segment.len(),
            };
            count += 1;
        }
        let mut head = no_head();
        head.msg_name = (&raw const *to.raw).cast_mut().cast();
        head.msg_namelen = to.len;
        head.msg_iov = pieces.as_mut_ptr();
        head.msg_iovlen = count;
        // SAFETY: address and pieces are valid for the call; the Iov lends the memory that they describe.
        check_len(unsafe { syscall::sendmsg(self.fd(), &raw const head, 0) }).map(drop)
    }

    /// Sends datagrams, at most [`tx_queue::MANY`], with one call; returns how many were sent.
    pub(crate) fn send_many<'a>(
        &self,
        datagrams: impl Iterator<Item = Outgoing<'a>>,
    ) -> io::Result<usize> {
        let mut pieces = [NO_PIECE; tx_queue::MANY];
        let mut heads = [const { no_message() }; tx_queue::MANY];
        let mut controls = [NO_CONTROL; tx_queue::MANY];
        let mut count = 0;
        let places = pieces.iter_mut().zip(&mut heads).zip(&mut controls);
        for (datagram, ((piece, head), control)) in datagrams.zip(places) {
            piece.iov_base = datagram.body.as_ptr().cast_mut().cast();
            piece.iov_len = datagram.body.len();
            head.msg_hdr.msg_name = (&raw const *datagram.to.raw).cast_mut().cast();
            head.msg_hdr.msg_namelen = datagram.to.len;
            head.msg_hdr.msg_iov = piece;
            head.msg_hdr.msg_iovlen = 1;
            if let Some(cut) = datagram.cut {
                ask_to_cut(&mut head.msg_hdr, control, cut);
            }
            count += 1;
        }
        // SAFETY: the first `count` messages have addresses and bodies that outlive the call; bodies are only read.
        let sent = unsafe { syscall::sendmmsg(self.fd(), heads.as_mut_ptr(), count, 0) };
        check(sent).map(|sent| sent as usize)
    }

    /// Receives a datagram; returns its length. Its source is filled in if it is asked for.
    #[inline]
    pub(crate) fn receive(&self, into: &mut [u8], from: Option<&mut RawAddr>) -> io::Result<usize> {
        let mut len = ADDRESS;
        let (from, len) = match from {
            Some(from) => ((&raw mut *from).cast(), &raw mut len),
            None => (ptr::null_mut(), ptr::null_mut()),
        };
        let room = into.len();
        // SAFETY: there is room for as many bytes, and for any address if one is asked for.
        let received =
            unsafe { syscall::recvfrom(self.fd(), into.as_mut_ptr(), room, 0, from, len) };
        check_len(received)
    }

    /// Asks the kernel to deliver datagrams that come together as one piece: then only [`Socket::receive_merged`] and
    /// [`Socket::receive_many`] tell them apart.
    pub(crate) fn merge(&self) -> io::Result<()> {
        self.set(libc::SOL_UDP, libc::UDP_GRO, &(1 as libc::c_int))
    }

    /// Receives a datagram, or several of one sender that came together.
    #[inline]
    pub(crate) fn receive_merged(
        &self,
        into: &mut [u8],
        datagram: &mut Received,
    ) -> io::Result<()> {
        let mut piece = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let mut control = NO_CONTROL;
        let mut head = no_head();
        head.msg_name = (&raw mut datagram.from).cast();
        head.msg_namelen = ADDRESS;
        head.msg_iov = &raw mut piece;
        head.msg_iovlen = 1;
        head.msg_control = (&raw mut control).cast();
        head.msg_controllen = size_of::<Control>();
        // SAFETY: there is room for as many bytes, for any address and for the control data.
        datagram.len = check_len(unsafe { syscall::recvmsg(self.fd(), &raw mut head, 0) })?;
        datagram.each = merged_from(&head).unwrap_or(datagram.len);
        Ok(())
    }

    /// Receives datagrams into places that are [`STRIDE`] apart; returns how many there were.
    pub(crate) fn receive_many(
        &self,
        into: &mut [u8],
        datagrams: &mut [Received],
        sources: bool,
    ) -> io::Result<usize> {
        let mut pieces = [NO_PIECE; rx_queue::MANY];
        let mut heads = [const { no_message() }; rx_queue::MANY];
        let mut controls = [NO_CONTROL; rx_queue::MANY];
        let mut count = 0;
        let places = into.chunks_exact_mut(STRIDE).zip(datagrams.iter_mut());
        let heads_of = pieces.iter_mut().zip(&mut heads).zip(&mut controls);
        for ((place, datagram), ((piece, head), control)) in places.zip(heads_of) {
            piece.iov_base = place.as_mut_ptr().cast();
            piece.iov_len = LONGEST;
            if sources {
                head.msg_hdr.msg_name = (&raw mut datagram.from).cast();
                head.msg_hdr.msg_namelen = ADDRESS;
                head.msg_hdr.msg_control = (&raw mut *control).cast();
                head.msg_hdr.msg_controllen = size_of::<Control>();
            }
            head.msg_hdr.msg_iov = piece;
            head.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` messages have room for a datagram, and for an address if one is asked for.
        let received = unsafe { syscall::recvmmsg(self.fd(), heads.as_mut_ptr(), count, 0) };
        let received = check(received)? as usize;
        for (datagram, head) in datagrams.iter_mut().zip(&heads[..received]) {
            datagram.len = (head.msg_len as usize).min(LONGEST);
            datagram.each = merged_from(&head.msg_hdr).unwrap_or(datagram.len);
        }
        Ok(received)
    }

    /// Returns whether it takes a datagram.
    pub(crate) fn is_writable(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one valid entry is passed.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }
}

/// Asks the kernel to cut a message into datagrams.
fn ask_to_cut(head: &mut libc::msghdr, control: &mut Control, cut: u16) {
    head.msg_control = (&raw mut *control).cast();
    // SAFETY: the call computes.
    head.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as usize;
    // SAFETY: the head names control data with room for one message.
    if let Some(part) = unsafe { libc::CMSG_FIRSTHDR(head).as_mut() } {
        part.cmsg_level = libc::SOL_UDP;
        part.cmsg_type = libc::UDP_SEGMENT;
        // SAFETY: the call computes.
        part.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u16>() as u32) } as usize;
        // SAFETY: there is room for the number behind the part's head.
        unsafe { libc::CMSG_DATA(part).cast::<u16>().write_unaligned(cut) };
    }
}

/// Reads off the control data how long the datagrams are that were received as one piece.
#[inline]
fn merged_from(head: &libc::msghdr) -> Option<usize> {
    if head.msg_controllen == 0 {
        return None;
    }
    // SAFETY: the kernel has filled in the control data, of the length that it has set.
    let part = unsafe { libc::CMSG_FIRSTHDR(head).as_ref() }?;
    if (part.cmsg_level, part.cmsg_type) != (libc::SOL_UDP, libc::UDP_GRO) {
        return None;
    }
    // SAFETY: such a part holds a number, perhaps not aligned for it.
    let each = unsafe { libc::CMSG_DATA(part).cast::<libc::c_int>().read_unaligned() };
    usize::try_from(each).ok().filter(|each| *each > 0)
}

/// Returns whether an error is about an earlier send, which the network reported afterwards.
fn is_of_earlier_send(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(libc::ECONNREFUSED) || errno == Some(libc::EINTR)
}

const fn no_head() -> libc::msghdr {
    // SAFETY: the structure consists of integers and pointers, for which zero is valid.
    unsafe { mem::zeroed() }
}

const fn no_message() -> libc::mmsghdr {
    // SAFETY: as above.
    unsafe { mem::zeroed() }
}
