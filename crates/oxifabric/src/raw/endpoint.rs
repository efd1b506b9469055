//! Endpoints. Source: fi_endpoint(3), fi_cm(3).

use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use oxifabric_abi::{
    FI_RECV, FI_TRANSMIT, fi_accept, fi_cancel, fi_connect, fi_enable, fi_endpoint, fi_ep_bind,
    fi_getname, fi_getpeer, fi_setname, fi_shutdown, fid, fid_ep,
};
use oxifabric_types::Errno;

use super::handle::{Handle, Object};
use super::peers::{NAME_LEN, Name};
use super::{
    Connection, CounterObject, DomainObject, Events, InfoHandle, Op, Peers, Queue, check, errno,
};
use crate::completion_queue::sweep;

/// An open endpoint, with all objects that are bound to it.
pub(crate) struct EndpointObject {
    /// Dropped by hand, because the rest is released only if it closed.
    handle: ManuallyDrop<Handle<fid_ep>>,
    /// Distinguishes its operations from those of any other endpoint in the process.
    number: u32,
    tx: ManuallyDrop<Arc<Queue>>,
    rx: ManuallyDrop<Arc<Queue>>,
    /// The address vector; none for a connected endpoint.
    peers: ManuallyDrop<Option<Arc<Peers>>>,
    /// The number of its address vector, which no connected endpoint has.
    vector: u32,
    /// The event queue and state of its connection, for an endpoint with connections.
    events: ManuallyDrop<Option<(Arc<Events>, Arc<Connection>)>>,
    counters: ManuallyDrop<Vec<Arc<CounterObject>>>,
    domain: ManuallyDrop<Arc<DomainObject>>,
}

/// The objects that are bound to an endpoint.
pub(crate) struct Bindings {
    pub(crate) tx: Arc<Queue>,
    pub(crate) rx: Arc<Queue>,
    pub(crate) peers: Option<Arc<Peers>>,
    pub(crate) events: Option<Arc<Events>>,
    /// Counters, each with the directions that it counts.
    pub(crate) counters: Vec<(Arc<CounterObject>, u64)>,
}

static NUMBERS: AtomicU32 = AtomicU32::new(0);

impl EndpointObject {
    /// Opens an endpoint, sets its name if there is one, binds all objects and enables it.
    ///
    /// `info` must be one of the domain's library.
    pub(crate) fn open(
        domain: &Arc<DomainObject>,
        info: &InfoHandle,
        bindings: Bindings,
        name: Option<&[u8]>,
    ) -> Result<Self, (&'static str, Errno)> {
        if !bindings.all_of(domain) || !ptr::eq(info.library(), domain.info().library()) {
            return Err(("fi_ep_bind", Errno::DOMAIN));
        }
        let (parent, attr) = (domain.as_ptr(), info.as_ptr());
        // SAFETY: the domain is open, and the offer is one of its library.
        let handle = unsafe { Handle::open(|ep| fi_endpoint(parent, attr, ep, ptr::null_mut())) }
            .map_err(|errno| ("fi_endpoint", errno))?;
        let connection = bindings.events.map(|events| {
            let connection = events.register(handle.fid());
            (events, connection)
        });
        let counters: Vec<_> = bindings.counters;
        let object = Self {
            handle: ManuallyDrop::new(handle),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            tx: ManuallyDrop::new(bindings.tx),
            rx: ManuallyDrop::new(bindings.rx),
            vector: bindings
                .peers
                .as_ref()
                .map_or(u32::MAX, |peers| peers.number()),
            peers: ManuallyDrop::new(bindings.peers),
            events: ManuallyDrop::new(connection),
            counters: ManuallyDrop::new(counters.iter().map(|(at, _)| at.clone()).collect()),
            domain: ManuallyDrop::new(domain.clone()),
        };
        if let Some(peers) = &*object.peers {
            object.tx.add_vector(peers);
            object.rx.add_vector(peers);
        }
        object
            .bind(&counters)
            .map_err(|errno| ("fi_ep_bind", errno))?;
        if let Some(name) = name {
            object
                .set_name(name)
                .map_err(|errno| ("fi_setname", errno))?;
        }
        // SAFETY: the endpoint is open.
        check(unsafe { fi_enable(object.as_ptr()) }).map_err(|errno| ("fi_enable", errno))?;
        Ok(object)
    }

    fn bind(&self, counters: &[(Arc<CounterObject>, u64)]) -> Result<(), Errno> {
        if let Some(peers) = &*self.peers {
            self.bind_one(peers.fid(), 0)?;
        }
        if let Some((events, _)) = &*self.events {
            self.bind_one(events.fid(), 0)?;
        }
        let (tx, rx) = (self.tx.fid(), self.rx.fid());
        if tx == rx {
            self.bind_one(tx, FI_TRANSMIT | FI_RECV)?;
        } else {
            self.bind_one(tx, FI_TRANSMIT)?;
            self.bind_one(rx, FI_RECV)?;
        }
        let mut counters = counters.iter();
        counters.try_for_each(|(counter, what)| self.bind_one(counter.fid(), *what))
    }

    /// Binds an object that `self` keeps open.
    fn bind_one(&self, object: *mut fid, flags: u64) -> Result<(), Errno> {
        // SAFETY: both are open, and `self` keeps the object open.
        check(unsafe { fi_ep_bind(self.as_ptr(), object, flags) })
    }

    /// Starts to connect to an address, which must be complete in the domain's format.
    pub(crate) fn connect(&self, address: &[u8], data: &[u8]) -> Result<(), Errno> {
        let address = Name::holding(address).ok_or(Errno::INVAL)?;
        let (to, param) = (address.0.as_ptr().cast(), data.as_ptr().cast());
        // SAFETY: the endpoint is open; address and data outlive the call.
        check(unsafe { fi_connect(self.as_ptr(), to, param, data.len()) })
    }

    /// Accepts the request that the endpoint was opened with.
    pub(crate) fn accept(&self, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: the endpoint is open, and the data outlive the call.
        check(unsafe { fi_accept(self.as_ptr(), data.as_ptr().cast(), data.len()) })
    }

    /// Ends the connection.
    pub(crate) fn shutdown(&self) -> Result<(), Errno> {
        // SAFETY: the endpoint is open.
        check(unsafe { fi_shutdown(self.as_ptr(), 0) })
    }

    /// Returns the state of its connection, and the event queue that reports it.
    pub(crate) fn connection(&self) -> Option<&(Arc<Events>, Arc<Connection>)> {
        self.events.as_ref()
    }

    /// Returns the address of the connected peer.
    pub(crate) fn peer_name(&self) -> Result<Vec<u8>, Errno> {
        let (mut name, mut len) = (Name::EMPTY, NAME_LEN);
        // SAFETY: the endpoint is open, and there is room for `len` bytes.
        check(unsafe { fi_getpeer(self.as_ptr(), name.0.as_mut_ptr().cast(), &mut len) })?;
        Ok(name.0[..len.min(NAME_LEN)].to_vec())
    }

    fn set_name(&self, address: &[u8]) -> Result<(), Errno> {
        let mut address = address.to_vec();
        // SAFETY: the endpoint is open, and the address outlives the call.
        check(unsafe {
            fi_setname(
                self.handle.fid(),
                address.as_mut_ptr().cast(),
                address.len(),
            )
        })
    }

    /// Returns the address that peers use.
    pub(crate) fn name(&self) -> Result<Vec<u8>, Errno> {
        name_of(&self.handle)
    }

    /// Requests the cancellation of an operation; `NOENT` if it has completed.
    pub(crate) fn cancel(&self, op: Op) -> Result<(), Errno> {
        let slots = [&self.tx, &self.rx].map(|queue| queue.slots());
        let context = slots
            .into_iter()
            .find_map(|slots| slots.context(op))
            .ok_or(Errno::NOENT)?;
        // SAFETY: the endpoint is open; the context is compared, and slots live as long as their table.
        let ret = unsafe { fi_cancel(self.handle.fid(), context) };
        if ret == 0 { Ok(()) } else { Err(errno(ret)) }
    }

    /// Returns the number of its address vector, which no connected endpoint has.
    #[inline]
    pub(super) fn vector(&self) -> u32 {
        self.vector
    }

    #[inline]
    pub(super) fn domain(&self) -> &Arc<DomainObject> {
        &self.domain
    }

    #[inline]
    /// Returns the endpoint as a `fid`.
    pub(super) fn fid(&self) -> *mut fid {
        self.handle.fid()
    }

    pub(super) fn as_ptr(&self) -> *mut fid_ep {
        self.handle.as_ptr()
    }

    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the queues of both directions.
    pub(crate) fn queues(&self) -> (&Queue, &Queue) {
        (&self.tx, &self.rx)
    }

    #[inline]
    pub(super) fn tx(&self) -> &Queue {
        &self.tx
    }

    #[inline]
    pub(super) fn rx(&self) -> &Queue {
        &self.rx
    }
}

impl Bindings {
    fn all_of(&self, domain: &Arc<DomainObject>) -> bool {
        let peers = self.peers.as_ref().map(|peers| peers.domain());
        let counters = self.counters.iter().map(|(counter, _)| counter.domain());
        let mut parents = [self.tx.domain(), self.rx.domain()]
            .into_iter()
            .chain(peers)
            .chain(counters);
        let fabric = self.events.as_ref().map(|events| events.fabric());
        parents.all(|parent| Arc::ptr_eq(parent, domain))
            && fabric.is_none_or(|fabric| Arc::ptr_eq(fabric, domain.fabric()))
    }
}

impl Drop for EndpointObject {
    fn drop(&mut self) {
        // SAFETY: the handle is not used after this.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        if let Some((events, _)) = &*self.events {
            events.unregister(handle.fid());
        }
        if handle.close().is_err() {
            // The endpoint lives on, and may use its buffers, queues and addresses for ever: leak them.
            return;
        }
        for queue in [&self.tx, &self.rx] {
            // SAFETY: the endpoint is closed.
            unsafe { queue.abandon(self.number) };
            sweep(queue);
        }
        // SAFETY: the endpoint, the only user, is closed; the fields are not used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.tx);
            ManuallyDrop::drop(&mut self.rx);
            ManuallyDrop::drop(&mut self.peers);
            ManuallyDrop::drop(&mut self.events);
            ManuallyDrop::drop(&mut self.counters);
            ManuallyDrop::drop(&mut self.domain);
        }
    }
}

/// Returns the address of an endpoint of any type.
pub(super) fn name_of<T: Object>(handle: &Handle<T>) -> Result<Vec<u8>, Errno> {
    let (mut name, mut len) = (Name::EMPTY, NAME_LEN);
    // SAFETY: the endpoint is open, and there is room for `len` bytes.
    check(unsafe { fi_getname(handle.fid(), name.0.as_mut_ptr().cast(), &mut len) })?;
    Ok(name.0[..len.min(NAME_LEN)].to_vec())
}
