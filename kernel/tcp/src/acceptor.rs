//! Connections that others ask for: the socket accepts them, and their requests are read. Untrusted peers may make as many as they like, so
//! each step has a bound (docs/threats.md).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use core::net::{SocketAddr, SocketAddrV4};
use core::time::Duration;

use oxifabric_kernel_sync::Work;
use oxifabric_tcp_stream::Socket as _;
use oxifabric_tcp_stream::cm::{Accept, CmMessage, ConnTrouble, read_cm, send_cm};
use oxifabric_types::{Errno, Instant};
use oxifabric_wire::tcp::ByteOrder;

use crate::socket::{self, Socket};
use crate::system;

/// Connections that may wait in the kernel's backlog.
const BACKLOG: i32 = 1024;

/// Connections whose requests have not come; when one more comes, the oldest goes.
const PENDING_MAX: usize = 64;

/// Connections that are accepted before other work has its turn.
const PER_TURN: usize = 16;

/// How long a request may take.
const REQUEST_TIME: Duration = Duration::from_secs(15);

/// How long nothing is accepted when the kernel is short of memory.
const SHORT: Duration = Duration::from_millis(100);

/// What accepts connections.
#[derive(Debug)]
pub(crate) struct Acceptor {
    socket: Socket,
    pending: VecDeque<Pending>,
    is_listening: bool,
    /// When to accept again, where the kernel was short of memory.
    paused_until: Option<Instant>,
}

/// A connection whose request has not come.
#[derive(Debug)]
struct Pending {
    socket: Socket,
    from: SocketAddrV4,
    accept: Accept,
}

/// A request for a connection, without an answer. Dropped, it ends the attempt of the endpoint that asked.
#[derive(Debug)]
pub(crate) struct ConnRequest {
    pub(crate) socket: Socket,
    pub(crate) from: SocketAddrV4,
    pub(crate) order: ByteOrder,
    pub(crate) data: Box<[u8]>,
}

impl Acceptor {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            pending: VecDeque::new(),
            is_listening: false,
            paused_until: None,
        }
    }

    pub(crate) fn listen(&mut self) -> Result<(), Errno> {
        self.socket.listen(BACKLOG)?;
        self.is_listening = true;
        Ok(())
    }

    pub(crate) const fn is_listening(&self) -> bool {
        self.is_listening
    }

    /// Accepts what waits; `work` is queued where more is left than has its turn now.
    pub(crate) fn accept_waiting(&mut self, now: Instant, work: &Arc<Work>) {
        let is_paused = self.paused_until.is_some_and(|until| now < until);
        if !self.is_listening || is_paused || !self.socket.take_happened() {
            return;
        }
        self.paused_until = None;
        for _ in 0..PER_TURN {
            match self.socket.accept() {
                Ok((socket, from)) => self.add(socket, from, now),
                Err(Errno::AGAIN) => return,
                Err(Errno::NOMEM | Errno::NOBUFS) => {
                    self.paused_until = Some(now.after(SHORT));
                    self.socket.let_happen();
                    return;
                }
                // It was gone before it was accepted.
                Err(_) => {}
            }
        }
        self.socket.let_happen();
        work.queue();
    }

    fn add(&mut self, socket: Socket, from: SocketAddrV4, now: Instant) {
        if self.pending.len() >= PENDING_MAX
            && let Some(oldest) = self.pending.pop_front()
        {
            dropped(oldest.from, ConnTrouble::Late);
        }
        self.pending.push_back(Pending {
            socket,
            from,
            accept: Accept::new(now.after(REQUEST_TIME)),
        });
    }

    /// Returns the next request that has come.
    pub(crate) fn next(&mut self, now: Instant) -> Option<ConnRequest> {
        let mut at = 0;
        while let Some(pending) = self.pending.get_mut(at) {
            let event = match pending.socket.take_happened() {
                true => read_cm(&pending.socket, &mut pending.accept.reader),
                false => None,
            };
            let outcome = match event {
                Some(event) => Accept::asked(event),
                None if pending.accept.deadline <= now => Err(ConnTrouble::Late),
                None => {
                    at += 1;
                    continue;
                }
            };
            let pending = self.pending.remove(at)?;
            match outcome {
                Ok(message) => {
                    return Some(ConnRequest {
                        socket: pending.socket,
                        from: pending.from,
                        order: message.order,
                        data: message.data,
                    });
                }
                Err(ConnTrouble::Closed) => {}
                Err(trouble) => dropped(pending.from, trouble),
            }
        }
        None
    }

    /// Returns when there is something to do without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let oldest = self.pending.front().map(|pending| pending.accept.deadline);
        [oldest, self.paused_until].into_iter().flatten().min()
    }
}

impl ConnRequest {
    /// Sends a refusal.
    pub(crate) fn refuse(&self, message: &CmMessage) {
        // A peer that cannot take the answer sees the end of the connection.
        let _ = send_cm(&self.socket, message);
        self.socket.shut_writing();
    }
}

/// Writes to the log why a connection is dropped.
pub(crate) fn dropped(from: SocketAddrV4, trouble: ConnTrouble) {
    system::warn(&format!(
        "{from}: dropped a connection that is none of an endpoint's: {trouble}"
    ));
}

/// Opens a socket at an address, and returns it with the address that it got.
pub(crate) fn bound(at: SocketAddrV4, work: &Arc<Work>) -> Result<(Socket, SocketAddrV4), Errno> {
    let socket = socket::Socket::bound(at, work)?;
    let name = socket.name()?;
    Ok((socket, name))
}

/// Returns an address as the rules of crossing requests compare it.
pub(crate) const fn general(at: SocketAddrV4) -> SocketAddr {
    SocketAddr::V4(at)
}
