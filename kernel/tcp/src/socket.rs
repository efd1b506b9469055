//! Sockets that never wait, and queue the task of their owner when something has happened.

use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddrV4;

use oxifabric_kernel_sync::Work;
use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_tcp_stream as stream;
use oxifabric_tcp_stream::stream::SendingHalf;
use oxifabric_tcp_stream::tx::Tx;
use oxifabric_types::{Errno, Instant};

use crate::system::{self, Piece, RawSocket, RawTimer};

/// Seconds after which a host that answers nothing counts as gone, while the connection is idle.
const SILENT_S: i32 = 15;

/// Bytes of two pages, the most that an allocation surely gets.
const SURE: usize = 8192;

/// A socket of the kernel; dropping it closes it.
pub(crate) struct Socket {
    /// Before its owner, which it names until it is closed.
    raw: RawSocket,
    owner: Arc<Work>,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Socket").field(&self.raw.name()).finish()
    }
}

impl Socket {
    /// Opens a socket at an address; with port zero, at any port.
    pub(crate) fn bound(at: SocketAddrV4, owner: &Arc<Work>) -> Result<Self, Errno> {
        let owner = Arc::clone(owner);
        // SAFETY: the socket keeps its owner.
        let raw = unsafe { RawSocket::open(Arc::as_ptr(&owner)) }?;
        raw.bind(at)?;
        Ok(Self { raw, owner })
    }

    /// Accepts a connection that waits, with the address of its other end.
    pub(crate) fn accept(&self) -> Result<(Self, SocketAddrV4), Errno> {
        let owner = Arc::clone(&self.owner);
        // SAFETY: the socket keeps its owner.
        let raw = unsafe { self.raw.accept(Arc::as_ptr(&owner)) }?;
        let socket = Self { raw, owner };
        socket.prepare();
        let from = socket.raw.peer()?;
        Ok((socket, from))
    }

    /// Gives it another owner, whose task is queued.
    pub(crate) fn set_owner(&mut self, owner: &Arc<Work>) {
        let owner = Arc::clone(owner);
        // SAFETY: the socket keeps its owner; the former one goes when the socket does not name it any more.
        unsafe { self.raw.set_owner(Arc::as_ptr(&owner)) };
        self.owner = owner;
    }

    /// Sets the options that every connection has.
    pub(crate) fn prepare(&self) {
        self.raw.prepare(SILENT_S);
    }

    /// Returns whether something has happened since the last call.
    pub(crate) fn take_happened(&self) -> bool {
        self.raw.take_happened()
    }

    /// Has the next [`Socket::take_happened`] return true: there is more to do than was done.
    pub(crate) fn let_happen(&self) {
        self.raw.let_happen();
    }

    pub(crate) fn listen(&self, backlog: i32) -> Result<(), Errno> {
        self.raw.listen(backlog)
    }

    /// Begins to connect; [`Socket::is_connected`] tells what came of it.
    pub(crate) fn connect(&self, to: SocketAddrV4) -> Result<(), Errno> {
        self.prepare();
        match self.raw.connect(to) {
            Err(Errno::INPROGRESS) => Ok(()),
            result => result,
        }
    }

    /// Returns whether the connection stands.
    ///
    /// # Errors
    /// It could not be made, or was lost.
    pub(crate) fn is_connected(&self) -> Result<bool, Errno> {
        self.raw.is_connected()
    }

    /// Returns its address.
    pub(crate) fn name(&self) -> Result<SocketAddrV4, Errno> {
        self.raw.name()
    }
}

impl stream::Socket for Socket {
    const READ_AHEAD: usize = SURE;
    // A second call takes longer than to copy what fits the staging buffer.
    const LONG_LEN: usize = SURE;
    const NARROW_LEN: usize = 32;
    // With a header and a short body behind it, it is still below SURE.
    const HELD_BACK: usize = SURE / 2;
    const HELD_BODY: usize = SURE / 4;

    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut piece = [Piece {
            base: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
        }];
        // SAFETY: the slice is valid for reads.
        unsafe { self.raw.send(&mut piece, bytes.len()) }
    }

    fn send_gather(
        &self,
        head: &[u8],
        body: &Iov,
        offset: usize,
        len: usize,
    ) -> Result<usize, Errno> {
        let mut pieces = Pieces::new();
        pieces.push(head.as_ptr().cast_mut(), head.len());
        pieces.push_part(body, offset, len);
        let len = pieces.len;
        // SAFETY: the pieces are the slice, and memory that an Iov's maker promised to keep valid.
        unsafe { self.raw.send(pieces.list(), len) }
    }

    fn recv(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let mut piece = [Piece {
            base: into.as_mut_ptr(),
            len: into.len(),
        }];
        // SAFETY: the slice is valid for writes.
        unsafe { self.raw.recv(&mut piece, into.len()) }
    }

    fn recv_scatter(
        &self,
        body: &Iov,
        offset: usize,
        len: usize,
        tail: &mut [u8],
    ) -> Result<usize, Errno> {
        let mut pieces = Pieces::new();
        pieces.push_part(body, offset, len);
        pieces.push(tail.as_mut_ptr(), tail.len());
        let len = pieces.len;
        // SAFETY: the pieces are memory that an Iov's maker promised to keep valid and to leave to this operation, and a slice
        // that is borrowed for writing.
        unsafe { self.raw.recv(pieces.list(), len) }
    }

    fn shut_writing(&self) {
        self.raw.shut_writing();
    }

    fn is_closed_by_peer(&self) -> bool {
        self.raw.is_closed_by_peer()
    }

    fn unread(&self) -> usize {
        self.raw.unread()
    }
}

/// A socket with its sending half, which the lock of the endpoint protects.
#[derive(Debug)]
pub(crate) struct Half {
    socket: Socket,
    tx: Tx,
}

impl Half {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            tx: Tx::new(None, SURE),
        }
    }
}

impl SendingHalf for Half {
    type Socket = Socket;

    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn with_tx<R>(&mut self, call: impl FnOnce(&mut Tx, &Socket) -> R) -> R {
        call(&mut self.tx, &self.socket)
    }
}

/// The pieces of one call: those of an Iov and one more.
struct Pieces {
    list: [Piece; MAX_SEGMENTS + 1],
    count: usize,
    /// Bytes in all of them.
    len: usize,
}

impl Pieces {
    const fn new() -> Self {
        const NONE: Piece = Piece {
            base: core::ptr::null_mut(),
            len: 0,
        };
        Self {
            list: [NONE; MAX_SEGMENTS + 1],
            count: 0,
            len: 0,
        }
    }

    fn push(&mut self, base: *mut u8, len: usize) {
        if len > 0
            && let Some(slot) = self.list.get_mut(self.count)
        {
            *slot = Piece { base, len };
            self.count += 1;
            self.len += len;
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

    fn list(&mut self) -> &mut [Piece] {
        &mut self.list[..self.count]
    }
}

/// Queues the task of its owner at a time.
#[derive(Debug)]
pub(crate) struct Timer {
    /// Before its owner, as in [`Socket`].
    raw: RawTimer,
    _owner: Arc<Work>,
}

impl Timer {
    pub(crate) fn new(owner: &Arc<Work>) -> Result<Self, Errno> {
        let owner = Arc::clone(owner);
        // SAFETY: the timer keeps its owner.
        let raw = unsafe { RawTimer::new(Arc::as_ptr(&owner)) };
        Ok(Self {
            raw: raw.ok_or(Errno::NOMEM)?,
            _owner: owner,
        })
    }

    /// Sets the time, if there is one.
    pub(crate) fn set(&self, at: Option<Instant>, now: Instant) {
        if let Some(at) = at.filter(|at| *at != Instant::END) {
            let ms = at.since(now).as_millis();
            self.raw.set(u32::try_from(ms).unwrap_or(u32::MAX));
        }
    }
}

/// Returns the time.
pub(crate) fn now() -> Instant {
    system::now()
}
