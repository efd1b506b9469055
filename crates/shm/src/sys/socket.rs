//! Abstract sockets that carry packets and descriptors, unix(7).
//!
//! An abstract name belongs to the kernel: it is free again once its socket is closed, however the process ended.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use oxifabric_provider::syscall;

use super::control::{self, Control};
use super::{check, check_size};

/// Longest abstract name, in bytes without the leading zero.
pub(crate) const MAX_NAME: usize = 107;

/// A socket for packets; nothing on it blocks.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// Result of a receive.
#[derive(Debug)]
pub(crate) enum Received {
    /// A packet of this many bytes.
    Packet(usize),
    /// Nothing yet.
    Nothing,
    /// The other end is closed.
    Closed,
}

/// The process and the user at the other end, from the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials {
    /// Process, as seen from here; zero when it cannot be seen.
    pub(crate) pid: i32,
    /// Effective user.
    pub(crate) uid: u32,
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Socket {
    fn new() -> io::Result<Self> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: a new descriptor is returned.
        let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
        // SAFETY: no other code has the descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes a socket with this name; no peer can connect before [`Socket::listen`].
    pub(crate) fn bind(name: &[u8]) -> io::Result<Self> {
        let socket = Self::new()?;
        let (address, len) = address(name)?;
        // SAFETY: the address is initialised up to len.
        check(unsafe { libc::bind(socket.raw(), ptr::from_ref(&address).cast(), len) })?;
        Ok(socket)
    }

    /// Starts to take connections.
    pub(crate) fn listen(&self) -> io::Result<()> {
        self.listen_with(4096)
    }

    /// Starts to take connections, with a backlog of this length; the kernel has a limit of its own.
    pub(crate) fn listen_with(&self, backlog: libc::c_int) -> io::Result<()> {
        // SAFETY: plain system call on an open descriptor.
        check(unsafe { libc::listen(self.raw(), backlog) }).map(drop)
    }

    /// Takes the next connection.
    pub(crate) fn accept(&self) -> io::Result<Option<Self>> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no address is asked for; a new descriptor is returned.
        let fd = unsafe { libc::accept4(self.raw(), ptr::null_mut(), ptr::null_mut(), flags) };
        match check(fd) {
            // SAFETY: no other code has the descriptor.
            Ok(fd) => Ok(Some(Self(unsafe { OwnedFd::from_raw_fd(fd) }))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Connects to the socket with this name; `WouldBlock` when its backlog is full.
    pub(crate) fn connect(name: &[u8]) -> io::Result<Self> {
        let socket = Self::new()?;
        let (address, len) = address(name)?;
        // SAFETY: the address is initialised up to len.
        check(unsafe { libc::connect(socket.raw(), ptr::from_ref(&address).cast(), len) })?;
        Ok(socket)
    }

    /// Sends a packet, maybe with a descriptor.
    pub(crate) fn send(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut piece = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control::new();
        let mut message = header(&mut piece);
        if let Some(file) = file {
            control.put(file, &mut message);
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the header points to live memory; sendmsg only reads it.
        check_size(unsafe { syscall::sendmsg(self.raw(), &raw const message, flags) }).map(drop)
    }

    /// Ends the connection in both directions, as the end of either process does.
    pub(crate) fn shut(&self) {
        // SAFETY: plain system call on an open descriptor. That the peer is gone already is no error.
        unsafe { libc::shutdown(self.raw(), libc::SHUT_RDWR) };
    }

    /// Takes the next packet, which brings no descriptor; what does not fit into `bytes` is lost.
    ///
    /// # Errors
    /// `InvalidData` when it brings one, or more: they are closed. Else what the system returns.
    pub(crate) fn receive(&self, bytes: &mut [u8]) -> io::Result<Received> {
        let mut piece = piece_of(bytes);
        let mut message = header(&mut piece);
        let received = self.receive_message(&mut message)?;
        control::refuse_more(&message)?;
        Ok(received)
    }

    /// Takes the next packet, which may bring one descriptor.
    ///
    /// # Errors
    /// As [`Socket::receive`] for more descriptors than one.
    pub(crate) fn receive_with_file(
        &self,
        bytes: &mut [u8],
    ) -> io::Result<(Received, Option<OwnedFd>)> {
        let mut piece = piece_of(bytes);
        let mut control = Control::new();
        let mut message = header(&mut piece);
        control.make_room(&mut message);
        let received = self.receive_message(&mut message)?;
        // An empty packet, which looks like the end of the connection, brings descriptors too.
        let file = control.take(&message)?;
        Ok((received, file))
    }

    fn receive_message(&self, message: &mut libc::msghdr) -> io::Result<Received> {
        let control_len = message.msg_controllen;
        // The first error may come before data that the other end sent before it closed: the kernel reports it once.
        for _ in 0..2 {
            message.msg_controllen = control_len;
            let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
            // SAFETY: the header points to live memory of the stated sizes, as its makers here see to.
            let result = unsafe { syscall::recvmsg(self.raw(), &raw mut *message, flags) };
            match check_size(result) {
                Ok(0) => return Ok(Received::Closed),
                Ok(len) => return Ok(Received::Packet(len)),
                Err(error) => {
                    // The kernel leaves a header alone when it fails.
                    message.msg_controllen = 0 as _;
                    message.msg_flags = 0;
                    match error.kind() {
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
                            return Ok(Received::Nothing);
                        }
                        io::ErrorKind::ConnectionReset => {}
                        io::ErrorKind::BrokenPipe => return Ok(Received::Closed),
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(Received::Closed)
    }

    /// Returns the process and user at the other end. Of a connected socket that is the one that called listen(2).
    pub(crate) fn credentials(&self) -> io::Result<Credentials> {
        let mut cred = MaybeUninit::<libc::ucred>::zeroed();
        let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: getsockopt fills at most len bytes of the structure, for which zeroes are valid.
        let cred = unsafe {
            check(libc::getsockopt(
                self.raw(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                cred.as_mut_ptr().cast(),
                &mut len,
            ))?;
            cred.assume_init()
        };
        Ok(Credentials {
            pid: cred.pid,
            uid: cred.uid,
        })
    }

    /// Returns the descriptor's number.
    pub(crate) fn number(&self) -> u64 {
        self.raw().unsigned_abs().into()
    }

    fn raw(&self) -> libc::c_int {
        self.0.as_raw_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn address(name: &[u8]) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let len = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, len as libc::socklen_t))
}

fn piece_of(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

fn header(piece: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all fields of the structure are integers or pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message
}
