//! The listener of connected endpoints, which takes requests for connections. Set-up path.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use oxifabric_provider::connection::{self, Incoming};
use oxifabric_provider::inet::local_address;
use oxifabric_types::{Address, Errno, Info, Instant};
use oxifabric_wire::tcp::cm::CmKind;

use crate::acceptor::{Accepted, Acceptor, ConnRequest, PER_POLL};
use crate::cm::CmMessage;
use crate::listen::Listener;
use crate::params::Params;
use crate::reactor::{Key, Reactor};
use crate::sys::{self, Socket};

/// A listener of connected endpoints.
#[derive(Debug)]
pub struct TcpListener {
    reactor: Reactor,
    /// Connections whose request has not come yet take no room of requests.
    acceptor: Acceptor,
    /// Requests that came when there was no room.
    queue: VecDeque<Incoming<ConnRequest>>,
}

impl TcpListener {
    /// Gives up the address.
    pub(crate) fn into_socket(self) -> Result<Socket, Errno> {
        match self.acceptor.listening {
            true => Err(Errno::INVAL),
            false => Ok(self.acceptor.listener.into_socket()),
        }
    }

    /// Returns the number of pending connections.
    #[cfg(test)]
    pub(super) fn pending(&self) -> usize {
        self.acceptor.pending()
    }

    fn happened(&mut self, key: Key, room: usize) {
        match key {
            Key::Listener => self.accept_waiting(room),
            Key::PendingConn(serial) => {
                if let Some(request) = self.acceptor.read(serial) {
                    self.enqueue(request);
                }
            }
            Key::Timer => self.reactor.clear_timer(),
            Key::Peer(..) => {}
        }
    }

    /// Accepts the connections that wait, until there are more requests than room.
    fn accept_waiting(&mut self, room: usize) {
        let mut budget = PER_POLL;
        while self.queue.len() < room {
            match self.acceptor.accept(&mut budget, &mut self.reactor) {
                Accepted::Request(request) => self.enqueue(request),
                Accepted::NoDescriptor => {
                    self.acceptor.refuse_waiting(&mut self.reactor);
                    return;
                }
                Accepted::Enough => return,
            }
        }
    }

    fn enqueue(&mut self, mut request: ConnRequest) {
        // From here on the endpoint that accepts it watches it.
        if let Ok(local) = request.socket.local()
            && request.unwatch(&self.reactor).is_ok()
        {
            self.queue.push_back(Incoming {
                local: Address::Inet(local),
                from: Address::Inet(request.from),
                data: request.data.clone(),
                request,
            });
        }
    }
}

impl connection::Listener for TcpListener {
    type Request = ConnRequest;

    fn open(info: &Info) -> Result<Self, Errno> {
        let params = Params::read();
        let at = local_address(info, params.iface.as_deref())?;
        let listener = Listener::bind(&at, params.ports).map_err(|error| sys::errno_of(&error))?;
        Ok(Self {
            reactor: Reactor::open()?,
            acceptor: Acceptor::new(listener),
            queue: VecDeque::new(),
        })
    }

    fn name(&self) -> Address {
        Address::Inet(*self.acceptor.listener.name())
    }

    fn rename(&mut self, name: Address) -> Result<(), Errno> {
        let Address::Inet(at) = name else {
            return Err(Errno::INVAL);
        };
        if self.acceptor.listening {
            return Err(Errno::OPBADSTATE);
        }
        let listener = Listener::bind(&at, self.reactor.params.ports);
        self.acceptor.listener = listener.map_err(|error| sys::errno_of(&error))?;
        Ok(())
    }

    fn listen(&mut self) -> Result<(), Errno> {
        if self.acceptor.listening {
            return Err(Errno::OPBADSTATE);
        }
        let listening = self.acceptor.listen(&self.reactor);
        listening.map_err(|error| sys::errno_of(&error))
    }

    fn poll(
        &mut self,
        now: Instant,
        room: usize,
        requests: &mut Vec<Incoming<ConnRequest>>,
    ) -> usize {
        self.reactor.now = now;
        self.acceptor.expire(&self.reactor);
        // Connections that are not accepted wait in the kernel's backlog.
        self.acceptor.watch(room > self.queue.len(), &self.reactor);
        self.reactor.visit();
        let events = self.reactor.events.len();
        for at in 0..events {
            if let Some(event) = self.reactor.events.get(at) {
                self.happened(Key::unpack(event.key), room);
            }
        }
        self.acceptor.pause_after_waste(&mut self.reactor);
        let passed = room.min(self.queue.len());
        requests.extend(self.queue.drain(..passed));
        self.acceptor.watch(passed < room, &self.reactor);
        // It may be that no thread polls before the next deadline has passed.
        self.reactor.deadline = self.acceptor.deadline();
        self.reactor.set_timer();
        events
    }

    fn fd(&self) -> RawFd {
        self.reactor.fd()
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn reject(request: ConnRequest, data: &[u8]) {
        request.refuse(&CmMessage::new(CmKind::Refusal, data));
    }
}
