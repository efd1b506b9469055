//! What listens for a passive endpoint, and the requests that come.

use alloc::format;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddrV4;

use oxifabric_kernel_objects::{Arrival, Listener};
use oxifabric_kernel_sync::Work;
use oxifabric_tcp_stream::cm::CmMessage;
use oxifabric_types::{Address, Errno, Info};
use oxifabric_wire::tcp::cm::CmKind;

use crate::acceptor::{Acceptor, ConnRequest, bound};
use crate::device::TcpDevice;
use crate::socket::{Timer, now};
use crate::{address, place, source};

/// What listens for a passive endpoint.
pub struct TcpListener {
    name: SocketAddrV4,
    work: Arc<Work>,
    timer: Timer,
    acceptor: Acceptor,
}

/// A request for a connection.
pub struct TcpArrival(ConnRequest);

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("TcpListener({})", self.name))
    }
}

impl fmt::Debug for TcpArrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("TcpArrival({})", self.0.from))
    }
}

impl TcpListener {
    pub(crate) fn new(info: &Info, work: &Arc<Work>) -> Result<Self, Errno> {
        let (socket, name) = bound(source(info)?, work)?;
        Ok(Self {
            name,
            work: Arc::clone(work),
            timer: Timer::new(work)?,
            acceptor: Acceptor::new(socket),
        })
    }
}

impl Listener for TcpListener {
    type Arrival = TcpArrival;

    fn address(&self) -> Address {
        address(self.name)
    }

    fn set_address(&mut self, address: &Address) -> Result<(), Errno> {
        if self.acceptor.is_listening() {
            return Err(Errno::OPBADSTATE);
        }
        let (socket, name) = bound(place(address)?, &self.work)?;
        (self.acceptor, self.name) = (Acceptor::new(socket), name);
        Ok(())
    }

    fn listen(&mut self) -> Result<(), Errno> {
        self.acceptor.listen()
    }

    fn next(&mut self) -> Option<TcpArrival> {
        let now = now();
        self.acceptor.accept_waiting(now, &self.work);
        let request = self.acceptor.next(now);
        if request.is_none() {
            self.timer.set(self.acceptor.deadline(), now);
        }
        request.map(TcpArrival)
    }
}

impl Arrival for TcpArrival {
    type Device = TcpDevice;
    type Domain = ();

    fn from(&self) -> Address {
        address(self.0.from)
    }

    fn data(&self) -> &[u8] {
        &self.0.data
    }

    fn reject(self, data: &[u8]) {
        self.0.refuse(&CmMessage::new(CmKind::Refusal, data));
    }

    fn into_device(self, _: &Arc<()>, work: &Arc<Work>) -> Result<TcpDevice, Errno> {
        TcpDevice::invited(self.0, work)
    }
}
