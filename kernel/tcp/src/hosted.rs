//! The side of user space, for tests: sockets of the standard library. In place of callbacks, a thread queues the owners of all sockets again
//! and again.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant as Clock};
use std::vec::Vec;

use oxifabric_kernel_sync::Work;
use oxifabric_types::{Errno, Instant};

/// Time between two rounds of the thread.
const ROUND: Duration = Duration::from_micros(500);

/// A piece of memory.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) base: *mut u8,
    pub(crate) len: usize,
}

/// Owners that are to be queued, once for each socket and timer of theirs.
static OWNERS: Mutex<Vec<Owner>> = Mutex::new(Vec::new());

#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner(*const Work);

// SAFETY: a work is queued from any thread, and lives as long as it is in the list.
unsafe impl Send for Owner {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn enlist(owner: *const Work) {
    static THREAD: Once = Once::new();
    lock(&OWNERS).push(Owner(owner));
    THREAD.call_once(|| {
        thread::spawn(|| {
            loop {
                for owner in lock(&OWNERS).iter() {
                    // SAFETY: it lives as long as it is in the list, whose lock is held.
                    unsafe { (*owner.0).queue() };
                }
                thread::sleep(ROUND);
            }
        });
    });
}

fn strike_off(owner: *const Work) {
    let mut owners = lock(&OWNERS);
    if let Some(at) = owners.iter().position(|known| *known == Owner(owner)) {
        owners.swap_remove(at);
    }
}

#[derive(Debug)]
enum State {
    Fresh,
    Listener(TcpListener),
    Stream(TcpStream),
    Failed(Errno),
}

#[derive(Debug)]
pub(crate) struct RawSocket {
    state: Mutex<State>,
    owner: Mutex<*const Work>,
}

// SAFETY: the owner is only handed to the list, which has a lock.
unsafe impl Send for RawSocket {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawSocket {}

fn errno_of(error: &std::io::Error) -> Errno {
    match error.kind() {
        ErrorKind::WouldBlock => Errno::AGAIN,
        _ => Errno::from_raw(error.raw_os_error().unwrap_or(0)),
    }
}

fn v4(at: std::io::Result<SocketAddr>) -> Result<SocketAddrV4, Errno> {
    match at.map_err(|error| errno_of(&error))? {
        SocketAddr::V4(at) => Ok(at),
        SocketAddr::V6(_) => Err(Errno::INVAL),
    }
}

impl RawSocket {
    fn new(state: State, owner: *const Work) -> Self {
        enlist(owner);
        Self {
            state: Mutex::new(state),
            owner: Mutex::new(owner),
        }
    }

    /// Opens a socket, whose events queue the owner.
    ///
    /// # Safety
    /// The owner lives until the socket has another one, or is dropped.
    pub(crate) unsafe fn open(owner: *const Work) -> Result<Self, Errno> {
        Ok(Self::new(State::Fresh, owner))
    }

    /// Takes the next connection of a listener.
    ///
    /// # Safety
    /// As [`RawSocket::open`], for the new socket.
    pub(crate) unsafe fn accept(&self, owner: *const Work) -> Result<Self, Errno> {
        let State::Listener(listener) = &*lock(&self.state) else {
            return Err(Errno::INVAL);
        };
        let accepted = listener.accept().map_err(|error| errno_of(&error));
        let (stream, _) = accepted?;
        let _ = stream.set_nonblocking(true);
        Ok(Self::new(State::Stream(stream), owner))
    }

    /// Gives the socket another owner, which its events queue.
    ///
    /// # Safety
    /// As [`RawSocket::open`].
    pub(crate) unsafe fn set_owner(&self, owner: *const Work) {
        enlist(owner);
        strike_off(std::mem::replace(&mut *lock(&self.owner), owner));
    }

    pub(crate) fn take_happened(&self) -> bool {
        true
    }

    pub(crate) fn let_happen(&self) {}

    /// Binds, and listens already: the standard library does not do one without the other.
    pub(crate) fn bind(&self, at: SocketAddrV4) -> Result<(), Errno> {
        let listener = TcpListener::bind(at).map_err(|error| errno_of(&error))?;
        let _ = listener.set_nonblocking(true);
        *lock(&self.state) = State::Listener(listener);
        Ok(())
    }

    pub(crate) fn listen(&self, _: i32) -> Result<(), Errno> {
        Ok(())
    }

    /// Connects, or not, before it returns: within a host it does not wait.
    pub(crate) fn connect(&self, to: SocketAddrV4) -> Result<(), Errno> {
        *lock(&self.state) = match TcpStream::connect(to) {
            Ok(stream) => {
                let _ = stream.set_nonblocking(true);
                State::Stream(stream)
            }
            Err(error) => State::Failed(errno_of(&error)),
        };
        Ok(())
    }

    pub(crate) fn name(&self) -> Result<SocketAddrV4, Errno> {
        match &*lock(&self.state) {
            State::Listener(listener) => v4(listener.local_addr()),
            State::Stream(stream) => v4(stream.local_addr()),
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn peer(&self) -> Result<SocketAddrV4, Errno> {
        self.with_stream(|stream| v4(stream.peer_addr()))
    }

    pub(crate) fn prepare(&self, _: i32) {}

    pub(crate) fn is_connected(&self) -> Result<bool, Errno> {
        self.with_stream(|_| Ok(true))
    }

    fn with_stream<R>(
        &self,
        call: impl FnOnce(&mut TcpStream) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        match &mut *lock(&self.state) {
            State::Stream(stream) => call(stream),
            State::Failed(errno) => Err(*errno),
            _ => Err(Errno::NOTCONN),
        }
    }

    /// Sends what the socket takes; returns how many bytes that is.
    ///
    /// # Safety
    /// The pieces are valid for reads.
    pub(crate) unsafe fn send(&self, pieces: &mut [Piece], _: usize) -> Result<usize, Errno> {
        // SAFETY: the caller's contract.
        let slice = |piece: &Piece| unsafe { std::slice::from_raw_parts(piece.base, piece.len) };
        let slices: Vec<_> = pieces
            .iter()
            .map(|piece| IoSlice::new(slice(piece)))
            .collect();
        self.with_stream(|stream| {
            let sent = stream.write_vectored(&slices);
            sent.map_err(|error| errno_of(&error))
        })
    }

    /// Receives what is there; returns how many bytes that is.
    ///
    /// # Safety
    /// The pieces are valid for writes.
    pub(crate) unsafe fn recv(&self, pieces: &mut [Piece], _: usize) -> Result<usize, Errno> {
        let slice = |piece: &mut Piece| {
            // SAFETY: the caller's contract.
            unsafe { std::slice::from_raw_parts_mut(piece.base, piece.len) }
        };
        let slices = pieces.iter_mut().map(|piece| IoSliceMut::new(slice(piece)));
        let mut slices: Vec<_> = slices.collect();
        self.with_stream(|stream| {
            let received = stream.read_vectored(&mut slices);
            received.map_err(|error| errno_of(&error))
        })
    }

    pub(crate) fn shut_writing(&self) {
        let _ = self.with_stream(|stream| {
            let _ = stream.shutdown(Shutdown::Write);
            Ok(())
        });
    }

    pub(crate) fn is_closed_by_peer(&self) -> bool {
        let peeked = self.with_stream(|stream| {
            let peeked = stream.peek(&mut [0]);
            peeked.map_err(|error| errno_of(&error))
        });
        !matches!(peeked, Ok(1..) | Err(Errno::AGAIN))
    }

    pub(crate) fn unread(&self) -> usize {
        let peeked = self.with_stream(|stream| {
            let peeked = stream.peek(&mut std::vec![0; 1 << 20]);
            peeked.map_err(|error| errno_of(&error))
        });
        peeked.unwrap_or(0)
    }
}

impl Drop for RawSocket {
    fn drop(&mut self) {
        strike_off(*lock(&self.owner));
    }
}

#[derive(Debug)]
pub(crate) struct RawTimer;

impl RawTimer {
    /// Makes a timer, which queues the owner.
    ///
    /// # Safety
    /// The owner lives until the timer is dropped.
    pub(crate) unsafe fn new(_: *const Work) -> Option<Self> {
        Some(Self)
    }

    /// Does nothing: owners are queued anyway.
    pub(crate) fn set(&self, _: u32) {}
}

pub(crate) fn now() -> Instant {
    static START: Mutex<Option<Clock>> = Mutex::new(None);
    let start = *lock(&START).get_or_insert_with(Clock::now);
    Instant::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

pub(crate) fn random() -> u32 {
    let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed();
    nanos.map_or(1, |elapsed| elapsed.subsec_nanos())
}

pub(crate) fn host() -> Option<Ipv4Addr> {
    Some(Ipv4Addr::LOCALHOST)
}

pub(crate) fn warn(text: &str) {
    std::eprintln!("kofi_tcp: {text}");
}
