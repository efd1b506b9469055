//! Incoming connections of an endpoint of either kind: the listener accepts them, and their requests are read
//! (docs/protocol/tcp.md sections 1.5 and 7.4). Set-up path.
//!
//! Untrusted peers may make as many connections as they like, so each step has a bound (docs/threats.md).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use oxifabric_provider::{descriptors, log};
use oxifabric_types::{Errno, Instant};
use oxifabric_wire::tcp::ByteOrder;

use crate::cm::{Accept, CmMessage, ConnTrouble, read_cm, send_cm};
use crate::listen::Listener;
use crate::reactor::{Key, Reactor};
use crate::sys::{Interest, Socket};

/// Maximum number of connections that one poll accepts.
pub(crate) const PER_POLL: usize = 32;

/// How long the listener pauses when the system has no descriptors left (EMFILE back-off).
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Number of connections that were dropped without a request, or displaced others, after which one poll accepts no more.
const WASTED_PER_POLL: usize = 16;

/// Back-off of the listener after such connections, as exactly as the coarse clock goes (some milliseconds): a flood of them costs a part of
/// this thread's time only.
const AFTER_WASTED: Duration = Duration::from_millis(1);

/// Maximum number of pending connections; when one more comes, the oldest goes.
const PENDING_MAX: usize = 256;

/// The share of the process's descriptors that pending connections may have: those that send nothing must not take the
/// last ones.
const SHARE: usize = 8;

/// A listener, with the connections whose requests have not come.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) listener: Listener,
    pending: PendingConns,
    /// Whether the listener takes connections; from then on the poller knows it.
    pub(crate) listening: bool,
    /// Whether the poller watches the listener.
    watched: bool,
    /// When the listener is polled again, if it is paused because the system has no descriptors left, or connections come to no purpose.
    pub(crate) paused_until: Option<Instant>,
    /// Number of connections since the last pause that were dropped without a request, or displaced others.
    pub(crate) wasted: usize,
}

/// A request for a connection, which has no answer yet. Dropping it ends the initiator's attempt.
#[derive(Debug)]
pub struct ConnRequest {
    pub(crate) socket: Socket,
    pub(crate) from: SocketAddr,
    /// The byte order of frame headers.
    pub(crate) order: ByteOrder,
    pub(crate) data: Box<[u8]>,
    /// Whether the poller watches the socket.
    pub(crate) watched: bool,
}

/// Result of [`Acceptor::accept`].
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A connection whose request is here already.
    Request(ConnRequest),
    /// The system has no descriptors left.
    NoDescriptor,
    /// No more connections are accepted in this poll.
    Enough,
}

impl Acceptor {
    pub(crate) fn new(listener: Listener) -> Self {
        Self {
            listener,
            pending: PendingConns::new(),
            listening: false,
            watched: false,
            paused_until: None,
            wasted: 0,
        }
    }

    /// Starts to take connections.
    pub(crate) fn listen(&mut self, reactor: &Reactor) -> io::Result<()> {
        self.listener.listen()?;
        let fd = self.listener.socket().fd();
        let key = Key::Listener.pack();
        reactor.poller.add(fd, key, Interest::READ)?;
        (self.listening, self.watched) = (true, true);
        Ok(())
    }

    /// Accepts connections until one has sent its request, and as long as the `budget` of the poll lasts.
    pub(crate) fn accept(&mut self, budget: &mut usize, reactor: &mut Reactor) -> Accepted {
        while *budget > 0 && self.wasted < WASTED_PER_POLL {
            *budget -= 1;
            match self.listener.socket().accept() {
                Ok((socket, from)) => {
                    if let Some(request) = self.accept_one(socket, from, reactor) {
                        return Accepted::Request(request);
                    }
                }
                Err(error) if gone_already(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Accepted::NoDescriptor,
            }
        }
        Accepted::Enough
    }

    fn accept_one(
        &mut self,
        socket: Socket,
        from: SocketAddr,
        reactor: &mut Reactor,
    ) -> Option<ConnRequest> {
        let is_v4 = self.listener.name().is_ipv4();
        reactor.prepare(&socket, is_v4).ok()?;
        let deadline = reactor.now.after(reactor.params.connect_timeout);
        let fd = socket.fd();
        let (serial, displaced) = self.pending.add(socket, from, deadline);
        self.wasted += usize::from(displaced);
        let key = Key::PendingConn(serial).pack();
        if reactor.poller.add(fd, key, Interest::READ).is_err() {
            self.pending.remove(serial);
            return None;
        }
        reactor.expect(Some(deadline));
        // The request usually arrived together with the connection.
        self.read(serial)
    }

    /// Reads what has arrived on a pending connection; returns its request when that is complete.
    pub(crate) fn read(&mut self, serial: u32) -> Option<ConnRequest> {
        let pending = self.pending.get(serial)?;
        let event = read_cm(&pending.socket, &mut pending.accept.reader)?;
        let pending = self.pending.remove(serial)?;
        match Accept::asked(event) {
            Ok(request) => Some(ConnRequest {
                socket: pending.socket,
                from: pending.from,
                order: request.order,
                data: request.data,
                watched: true,
            }),
            Err(ConnTrouble::Closed) => None,
            Err(trouble) => {
                self.waste(pending.from, trouble);
                None
            }
        }
    }

    /// Notes that a connection is dropped because of this.
    pub(crate) fn waste(&mut self, from: SocketAddr, trouble: ConnTrouble) {
        self.wasted += 1;
        log_dropped(from, trouble);
    }

    /// Refuses waiting connections when there are no descriptors left (EMFILE), and pauses if it cannot; returns how many.
    pub(crate) fn refuse_waiting(&mut self, reactor: &mut Reactor) -> usize {
        let (refused, goes_on) = self.listener.refuse_waiting();
        self.wasted += refused;
        if !goes_on {
            self.pause(ACCEPT_BACKOFF, reactor);
        }
        refused
    }

    /// Pauses after connections that were dropped without a request or displaced others, when the poller's events are handled.
    pub(crate) fn pause_after_waste(&mut self, reactor: &mut Reactor) {
        // A pause that is under way stays as it is, however many such connections follow.
        if std::mem::take(&mut self.wasted) > 0 && self.paused_until.is_none() {
            self.pause(AFTER_WASTED, reactor);
        }
    }

    fn pause(&mut self, pause: Duration, reactor: &mut Reactor) {
        let until = reactor.now.after(pause);
        self.paused_until = Some(until);
        self.watch(false, reactor);
        reactor.expect(Some(until));
    }

    /// Has the poller watch the listener if that is `wanted` and it does not pause. One whose connections are not accepted would stay readable
    /// and keep a sleeping thread awake.
    pub(crate) fn watch(&mut self, wanted: bool, reactor: &Reactor) {
        let open = wanted && self.paused_until.is_none();
        if !self.listening || self.watched == open {
            return;
        }
        let interest = match open {
            true => Interest::READ,
            false => Interest::default(),
        };
        let (fd, key) = (self.listener.socket().fd(), Key::Listener.pack());
        // The call fails only when the kernel is out of memory; the next change tries again.
        if reactor.poller.change(fd, key, interest).is_ok() {
            self.watched = open;
        }
    }

    /// Drops the pending connections whose deadlines have passed, and resumes a paused listener.
    pub(crate) fn expire(&mut self, reactor: &Reactor) {
        while let Some(pending) = self.pending.expired(reactor.now) {
            log_dropped(pending.from, ConnTrouble::Late);
        }
        if self.paused_until.is_some_and(|until| until <= reactor.now) {
            self.paused_until = None;
        }
    }

    /// Returns the next deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.pending.deadline(), self.paused_until];
        deadlines.into_iter().flatten().min()
    }

    /// Returns the number of connections whose requests have not come.
    pub(crate) fn pending(&self) -> usize {
        self.pending.list.len()
    }
}

impl ConnRequest {
    /// Sends the answer.
    pub(crate) fn answer(&self, message: &CmMessage) -> Result<(), Errno> {
        send_cm(&self.socket, message)
    }

    /// Sends a refusal.
    pub(crate) fn refuse(&self, message: &CmMessage) {
        // A peer that cannot take the answer sees the end of the connection.
        let _ = self.answer(message);
        self.socket.shut_writing();
    }

    /// Ends the poller's watch over the socket.
    pub(crate) fn unwatch(&mut self, reactor: &Reactor) -> io::Result<()> {
        reactor.poller.remove(self.socket.fd())?;
        self.watched = false;
        Ok(())
    }
}

fn log_dropped(from: SocketAddr, trouble: ConnTrouble) {
    log::warn!(
        "tcp",
        EpCtrl,
        "{from}: dropped a connection that is none of an endpoint's: {trouble}"
    );
}

/// Returns whether the connection broke before it was accepted; the next one may be good (accept(2)).
fn gone_already(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNABORTED | libc::EINTR | libc::EPROTO)
    )
}

/// A connection whose request has not come.
#[derive(Debug)]
struct PendingConn {
    socket: Socket,
    from: SocketAddr,
    accept: Accept,
    serial: u32,
}

/// All pending connections, oldest first, by a key that is never used twice.
#[derive(Debug)]
struct PendingConns {
    list: Vec<PendingConn>,
    most: usize,
    serial: u32,
}

impl PendingConns {
    /// Returns an empty list with space for as many as this process has descriptors for.
    fn new() -> Self {
        Self {
            list: Vec::new(),
            most: (descriptors::limit() / SHARE).clamp(1, PENDING_MAX),
            serial: 0,
        }
    }

    /// Adds a connection; returns its key, and whether the oldest had to go for it.
    fn add(&mut self, socket: Socket, from: SocketAddr, deadline: Instant) -> (u32, bool) {
        let is_full = self.list.len() >= self.most;
        if is_full {
            self.list.remove(0);
        }
        self.serial = self.serial.wrapping_add(1);
        self.list.push(PendingConn {
            socket,
            from,
            serial: self.serial,
            accept: Accept::new(deadline),
        });
        (self.serial, is_full)
    }

    fn get(&mut self, key: u32) -> Option<&mut PendingConn> {
        self.list.iter_mut().find(|pending| pending.serial == key)
    }

    fn remove(&mut self, key: u32) -> Option<PendingConn> {
        let at = self.list.iter().position(|pending| pending.serial == key)?;
        Some(self.list.remove(at))
    }

    /// Returns when the request of the next connection must have come.
    fn deadline(&self) -> Option<Instant> {
        self.list.first().map(|pending| pending.accept.deadline)
    }

    /// Removes one connection whose time is over.
    fn expired(&mut self, now: Instant) -> Option<PendingConn> {
        let first = self.list.first()?;
        (first.accept.deadline <= now).then(|| self.list.remove(0))
    }
}
