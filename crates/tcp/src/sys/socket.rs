//! Stream sockets that never wait.

use std::fs;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::LazyLock;
use std::time::Duration;

use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_provider::inet::RawAddr;
use oxifabric_provider::syscall;
use oxifabric_types::Errno;

use super::{check, check_len, errno_of};

/// A non-blocking TCP socket; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// Result of a call of [`Socket::connect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connecting {
    Done,
    InProgress,
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        socket.0
    }
}

impl Socket {
    /// Opens a socket of the family of `like`.
    pub(crate) fn open(like: &SocketAddr) -> io::Result<Self> {
        let family = match like {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointers.
        let fd = check(unsafe { libc::socket(family, kind, 0) })?;
        // SAFETY: the descriptor is new, and no other code has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn bind(&self, address: &SocketAddr) -> io::Result<()> {
        let (raw, len) = RawAddr::of(address);
        // SAFETY: `raw` holds an address of `len` bytes.
        check(unsafe { libc::bind(self.fd(), (&raw const raw).cast(), len) }).map(drop)
    }

    pub(crate) fn listen(&self, backlog: i32) -> io::Result<()> {
        // SAFETY: the call takes no pointers.
        check(unsafe { libc::listen(self.fd(), backlog) }).map(drop)
    }

    pub(crate) fn connect(&self, to: &SocketAddr) -> io::Result<Connecting> {
        let (raw, len) = RawAddr::of(to);
        // SAFETY: `raw` holds an address of `len` bytes.
        match check(unsafe { libc::connect(self.fd(), (&raw const raw).cast(), len) }) {
            Ok(_) => Ok(Connecting::Done),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                Ok(Connecting::InProgress)
            }
            Err(error) => Err(error),
        }
    }

    /// Accepts a waiting connection, with the address of its other end.
    pub(crate) fn accept(&self) -> io::Result<(Self, SocketAddr)> {
        let mut raw = RawAddr::zeroed();
        let mut len = mem::size_of::<RawAddr>() as libc::socklen_t;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: `raw` has room for `len` bytes.
        let result =
            unsafe { libc::accept4(self.fd(), (&raw mut raw).cast(), &raw mut len, flags) };
        let fd = check(result)?;
        // SAFETY: the descriptor is new, and no other code has it.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let from = raw.address().ok_or(io::ErrorKind::InvalidData)?;
        Ok((socket, from))
    }

    /// Returns the address of this end.
    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        let mut raw = RawAddr::zeroed();
        let mut len = mem::size_of::<RawAddr>() as libc::socklen_t;
        // SAFETY: `raw` has room for `len` bytes.
        check(unsafe { libc::getsockname(self.fd(), (&raw mut raw).cast(), &raw mut len) })?;
        Ok(raw.address().ok_or(io::ErrorKind::InvalidData)?)
    }

    /// Returns whether the peer is a process of this host.
    pub(crate) fn is_within_host(&self) -> bool {
        let mut raw = RawAddr::zeroed();
        let mut len = mem::size_of::<RawAddr>() as libc::socklen_t;
        // SAFETY: `raw` has room for `len` bytes.
        let named = unsafe { libc::getpeername(self.fd(), (&raw mut raw).cast(), &raw mut len) };
        match (check(named), self.local(), raw.address()) {
            (Ok(_), Ok(local), Some(remote)) => {
                remote.ip() == local.ip() || remote.ip().is_loopback()
            }
            _ => false,
        }
    }

    /// Bounds what may arrive before it is read (socket(7), SO_RCVBUF, which counts the kernel's own needs too). Where the
    /// system allows less, it is left to the kernel, which may choose more by itself (tcp(7), tcp_rmem).
    pub(crate) fn set_receive_buffer_size(&self, bytes: libc::c_int) -> io::Result<()> {
        static ALLOWED: LazyLock<i64> = LazyLock::new(|| {
            let limit = fs::read_to_string("/proc/sys/net/core/rmem_max");
            limit
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0)
        });
        if *ALLOWED < i64::from(bytes) {
            return Ok(());
        }
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)
    }

    /// Bounds what may be sent before the peer has confirmed it (socket(7), SO_SNDBUF).
    pub(crate) fn set_send_buffer_size(&self, bytes: libc::c_int) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)
    }

    /// Bounds what may be accepted before it can leave (tcp(7), TCP_NOTSENT_LOWAT).
    pub(crate) fn set_notsent_lowat(&self, bytes: libc::c_int) -> io::Result<()> {
        self.set(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
    }

    /// Sends bytes as fast as the peer takes them: other algorithms than this one, which every process may choose, pace
    /// them by a clock (tcp(7), TCP_CONGESTION).
    pub(crate) fn set_congestion_reno(&self) -> io::Result<()> {
        const RENO: &[u8] = b"reno";
        // SAFETY: the name is valid for reads of its length.
        check(unsafe {
            libc::setsockopt(
                self.fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                RENO.as_ptr().cast(),
                RENO.len() as libc::socklen_t,
            )
        })
        .map(drop)
    }

    /// Returns how many bytes fit a segment of the interface that leads to the peer. What the kernel itself goes by
    /// (TCP_MAXSEG) is less until the peer has opened its window.
    pub(crate) fn segment(&self) -> io::Result<usize> {
        Ok(usize::try_from(self.info()?.tcpi_advmss).unwrap_or(0))
    }

    /// Returns and clears the error of an earlier operation (SO_ERROR).
    pub(crate) fn take_error(&self) -> io::Result<()> {
        let mut value: libc::c_int = 0;
        let mut len = mem::size_of_val(&value) as libc::socklen_t;
        let into = (&raw mut value).cast();
        // SAFETY: `value` has room for `len` bytes.
        check(unsafe {
            libc::getsockopt(
                self.fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                into,
                &raw mut len,
            )
        })?;
        if value == 0 {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(value))
        }
    }

    pub(crate) fn set_reuse_address(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)
    }

    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        self.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
    }

    /// Allows a later connect() to choose the port that [`Socket::bind`] left open, so that many outgoing connections
    /// do not use up the ports.
    pub(crate) fn set_bind_address_no_port(&self) -> io::Result<()> {
        self.set(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
    }

    /// Probes a silent peer (keepalive), so that its loss is noticed within that time.
    pub(crate) fn set_keepalive(&self, within: Duration) -> io::Result<()> {
        let idle_s = (within.as_secs() / 2).clamp(1, 32_767) as i32;
        self.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, idle_s)?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (idle_s / 4).max(1))?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4)
    }

    /// Asks the host of an idle peer at once, and then each second, whether the connection is there (keepalive); this
    /// many questions without an answer end it.
    pub(crate) fn set_keepalive_at_once(&self, questions: i32) -> io::Result<()> {
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 1)?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, questions)?;
        self.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        // Only now: this begins anew with counting how long it was idle.
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 1)
    }

    /// Ends what [`Socket::set_keepalive_at_once`] began: a silent peer is left alone.
    pub(crate) fn clear_keepalive(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 0)
    }

    /// Returns whether the peer's host has sent anything within this time, if only an acknowledgement. The kernel
    /// counts in ticks of up to 10 ms.
    pub(crate) fn was_heard_within(&self, time: Duration) -> bool {
        const TICK: Duration = Duration::from_millis(10);
        let Ok(info) = self.info() else {
            return false;
        };
        let silent_ms = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
        Duration::from_millis(silent_ms.into()) + TICK < time
    }

    /// Ends the connection when the peer's host leaves what was sent unanswered for this long; zero leaves that to the
    /// kernel (tcp(7), TCP_USER_TIMEOUT).
    pub(crate) fn set_user_timeout(&self, limit: Duration) -> io::Result<()> {
        let millis = libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX);
        self.set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, millis)
    }

    /// Marks what is sent with a DSCP value (RFC 2474).
    pub(crate) fn set_dscp(&self, dscp: u8, v4: bool) -> io::Result<()> {
        let field = libc::c_int::from(dscp) << 2;
        match v4 {
            true => self.set(libc::IPPROTO_IP, libc::IP_TOS, field),
            false => self.set(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, field),
        }
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let len = mem::size_of_val(&value) as libc::socklen_t;
        // SAFETY: `value` has `len` bytes.
        check(unsafe { libc::setsockopt(self.fd(), level, option, (&raw const value).cast(), len) })
            .map(drop)
    }

    fn info(&self) -> io::Result<libc::tcp_info> {
        // SAFETY: the structure consists of integers, for which zero is valid.
        let mut info: libc::tcp_info = unsafe { mem::zeroed() };
        let mut len = mem::size_of_val(&info) as libc::socklen_t;
        let into = (&raw mut info).cast();
        // SAFETY: `info` has room for `len` bytes.
        check(unsafe {
            libc::getsockopt(
                self.fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                into,
                &raw mut len,
            )
        })?;
        Ok(info)
    }

    #[inline]
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the slice is valid for reads of its length.
        check_len(unsafe { syscall::send(self.fd(), bytes.as_ptr(), bytes.len(), flags) })
    }

    /// Sends `head` and then `body[offset..offset + len]`.
    pub(crate) fn send_gather(
        &self,
        head: &[u8],
        body: &Iov,
        offset: usize,
        len: usize,
    ) -> io::Result<usize> {
        let mut pieces = Pieces::new();
        pieces.push(head.as_ptr().cast_mut(), head.len());
        pieces.push_part(body, offset, len);
        let message = pieces.message();
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the pieces describe the slice and memory that an Iov's maker promised to keep valid; the
        // kernel only reads them.
        check_len(unsafe { syscall::sendmsg(self.fd(), &raw const message, flags) })
    }

    #[inline]
    pub(crate) fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the slice is valid for writes of its length.
        check_len(unsafe {
            syscall::recv(self.fd(), into.as_mut_ptr(), into.len(), libc::MSG_DONTWAIT)
        })
    }

    /// Receives into `body[offset..offset + len]` and what follows into `tail`.
    pub(crate) fn recv_scatter(
        &self,
        body: &Iov,
        offset: usize,
        len: usize,
        tail: &mut [u8],
    ) -> io::Result<usize> {
        let mut pieces = Pieces::new();
        pieces.push_part(body, offset, len);
        pieces.push(tail.as_mut_ptr(), tail.len());
        let mut message = pieces.message();
        // SAFETY: the pieces describe memory that an Iov's maker promised to keep valid and to leave to this
        // operation, and a slice that is borrowed for writing.
        check_len(unsafe { syscall::recvmsg(self.fd(), &raw mut message, libc::MSG_DONTWAIT) })
    }

    /// Closes the sending direction: the peer sees that nothing more will come.
    pub(crate) fn shut_writing(&self) {
        // SAFETY: the call takes no pointers. That the peer is gone already is no error.
        unsafe { libc::shutdown(self.fd(), libc::SHUT_WR) };
    }

    /// Returns whether the peer has closed its end, whatever is still to be read.
    pub(crate) fn is_closed_by_peer(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.fd(),
            events: libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: one valid entry is passed, and the call does not wait.
        let count = unsafe { libc::poll(&raw mut poll, 1, 0) };
        count == 1 && poll.revents != 0
    }

    /// Returns how long nothing was sent or received.
    pub(crate) fn idle(&self) -> Duration {
        let silent_ms = self.info().map_or(0, |info| {
            info.tcpi_last_data_recv.min(info.tcpi_last_data_sent)
        });
        Duration::from_millis(silent_ms.into())
    }

    /// Returns how many bytes have arrived and were not read (tcp(7), SIOCINQ).
    pub(crate) fn unread(&self) -> io::Result<usize> {
        let mut count: libc::c_int = 0;
        // SAFETY: the request writes one `int`.
        check(unsafe { libc::ioctl(self.fd(), libc::FIONREAD, &raw mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Returns what the peer has acknowledged.
    pub(crate) fn delivery(&self) -> Delivery {
        let Ok(info) = self.info() else {
            return Delivery::Done;
        };
        match (info.tcpi_unacked, info.tcpi_retransmits, info.tcpi_probes) {
            (0, _, 0) => Delivery::Done,
            (_, 0, 0) => Delivery::Underway,
            _ => Delivery::Unanswered,
        }
    }
}

impl oxifabric_tcp_stream::Socket for Socket {
    const READ_AHEAD: usize = 24 * 1024;
    const LONG_LEN: usize = 12 * 1024;
    const NARROW_LEN: usize = 256;
    const HELD_BACK: usize = 64 * 1024;
    const HELD_BODY: usize = 32 * 1024;

    #[inline]
    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.send(bytes).map_err(|error| errno_of(&error))
    }

    fn send_gather(
        &self,
        head: &[u8],
        body: &Iov,
        offset: usize,
        len: usize,
    ) -> Result<usize, Errno> {
        let sent = self.send_gather(head, body, offset, len);
        sent.map_err(|error| errno_of(&error))
    }

    #[inline]
    fn recv(&self, into: &mut [u8]) -> Result<usize, Errno> {
        self.recv(into).map_err(|error| errno_of(&error))
    }

    fn recv_scatter(
        &self,
        body: &Iov,
        offset: usize,
        len: usize,
        tail: &mut [u8],
    ) -> Result<usize, Errno> {
        let received = self.recv_scatter(body, offset, len, tail);
        received.map_err(|error| errno_of(&error))
    }

    fn shut_writing(&self) {
        self.shut_writing();
    }

    fn is_closed_by_peer(&self) -> bool {
        self.is_closed_by_peer()
    }

    fn unread(&self) -> usize {
        self.unread().unwrap_or(0)
    }
}

/// What has become of the bytes given to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The peer has them, or its window is closed and it acknowledges probes.
    Done,
    /// They are on their way.
    Underway,
    /// They, or probes of a closed window, were retransmitted without an answer.
    Unanswered,
}

/// The pieces of one call: those of an Iov and one more.
struct Pieces {
    list: [libc::iovec; MAX_SEGMENTS + 1],
    count: usize,
}

impl Pieces {
    fn new() -> Self {
        const NONE: libc::iovec = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            list: [NONE; MAX_SEGMENTS + 1],
            count: 0,
        }
    }

    fn push(&mut self, base: *mut u8, len: usize) {
        if len > 0
            && let Some(slot) = self.list.get_mut(self.count)
        {
            slot.iov_base = base.cast();
            slot.iov_len = len;
            self.count += 1;
        }
    }

    fn push_part(&mut self, iov: &Iov, mut offset: usize, mut len: usize) {
        for segment in iov.segments() {
            if offset >= segment.len() {
                offset -= segment.len();
                continue;
            }
            let part = len.min(segment.len() - offset);
            self.push(segment.base().wrapping_add(offset), part);
            offset = 0;
            len -= part;
        }
    }

    fn message(&mut self) -> libc::msghdr {
        // SAFETY: the structure consists of integers and pointers, for which zero is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = self.list.as_mut_ptr();
        message.msg_iovlen = self.count as _;
        message
    }
}
