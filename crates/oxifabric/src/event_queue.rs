//! Event queues and connection requests. Source: fi_eq(3), fi_cm(3).

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::sync::{Arc, Mutex, Weak};

use crate::deadline::{Deadline, milliseconds};
use crate::lock::lock;
use crate::raw::{Events, Listener, Read};
use crate::threading::Marker;
use crate::{Address, Error, Fabric, Info, Local, Operation, OperationError, Shared, Threading};

/// A queue of events of connections: requests, and connections that are established or end.
///
/// Clones are the same queue; it is closed when the last clone and all endpoints that use it are dropped.
pub struct EventQueue<T: Threading = Shared> {
    inner: Arc<Inner<T>>,
}

struct Inner<T: Threading> {
    object: Arc<Events>,
    /// Requests that were read while a thread waited for another event.
    requests: Mutex<Vec<ConnectionRequest<T>>>,
}

impl EventQueue<Shared> {
    /// Opens a queue for all threads.
    ///
    /// # Errors
    ///
    /// What `fi_eq_open` returned.
    pub fn open(fabric: &Fabric) -> Result<Self, Error> {
        Self::of_fabric(fabric)
    }
}

impl EventQueue<Local> {
    /// Opens a queue for this thread and the endpoints of its domains.
    ///
    /// # Errors
    ///
    /// What `fi_eq_open` returned.
    pub fn open_local(fabric: &Fabric) -> Result<Self, Error> {
        Self::of_fabric(fabric)
    }
}

impl<T: Threading> EventQueue<T> {
    fn of_fabric(fabric: &Fabric) -> Result<Self, Error> {
        let object = Events::open(fabric.object().clone()).map_err(Error::call("fi_eq_open"))?;
        Ok(Self {
            inner: Arc::new(Inner {
                object: Arc::new(object),
                requests: Mutex::default(),
            }),
        })
    }

    /// Takes one connection request, waiting for it at most as long as `timeout`; without a timeout, as long as it takes.
    ///
    /// # Errors
    ///
    /// An event in error that belongs to no endpoint; or what `fi_eq_read` returned.
    pub fn request(
        &self,
        timeout: Option<Duration>,
    ) -> Result<Option<ConnectionRequest<T>>, Error> {
        let deadline = Deadline::after(timeout);
        loop {
            self.read_pending(None)?;
            if let Some(request) = self.early() {
                return Ok(Some(request));
            }
            let left = deadline.left();
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            self.read_pending(Some(left.unwrap_or(Duration::MAX)))?;
        }
    }

    /// Reads all pending events, which update their endpoints' connections; with a timeout it waits for one.
    ///
    /// # Errors
    ///
    /// As [`EventQueue::request`].
    pub(crate) fn read_pending(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let mut timeout = timeout.map(|timeout| milliseconds(Some(timeout)));
        loop {
            let read = self.inner.object.read(timeout.take());
            match read.map_err(Error::call("fi_eq_read"))? {
                Read::Nothing => return Ok(()),
                Read::Known => {}
                Read::Request(info, data, listener) => {
                    let request = ConnectionRequest {
                        info: Info::new(info),
                        data,
                        threading: PhantomData,
                        listener,
                    };
                    self.requests().push(request);
                }
                Read::Failed(failure) => {
                    return Err(Error::Operation(Box::new(OperationError {
                        operation: Operation::Connect,
                        peer: None,
                        errno: failure.errno,
                        provider_errno: failure.prov_errno,
                        detail: failure.detail,
                        overflow: 0,
                    })));
                }
            }
        }
    }

    fn early(&self) -> Option<ConnectionRequest<T>> {
        let mut requests = self.requests();
        (!requests.is_empty()).then(|| requests.remove(0))
    }

    fn requests(&self) -> std::sync::MutexGuard<'_, Vec<ConnectionRequest<T>>> {
        lock(&self.inner.requests)
    }

    pub(crate) fn object(&self) -> &Arc<Events> {
        &self.inner.object
    }
}

impl<T: Threading> Clone for EventQueue<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<T: Threading> fmt::Debug for EventQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue").finish_non_exhaustive()
    }
}

/// A listener: peers connect to it, and their requests appear in its event queue.
pub struct PassiveEndpoint<T: Threading = Shared> {
    listener: Arc<Listener>,
    info: Info,
    threading: Marker<T>,
}

impl<T: Threading> PassiveEndpoint<T> {
    /// Listens at the address of an offer of connected endpoints ([`Hints::local`](crate::Hints::local)).
    ///
    /// # Errors
    ///
    /// What the calls to open and bind it and to listen returned: `ADDRINUSE`, `INVAL` for an offer of another fabric.
    pub fn listen(info: &Info, events: &EventQueue<T>) -> Result<Self, Error> {
        let listener = Listener::open(info.handle(), events.object().clone())
            .map_err(|(call, errno)| Error::Call { call, errno })?;
        Ok(Self {
            listener,
            info: info.clone(),
            threading: PhantomData,
        })
    }

    /// Returns the address to which peers connect.
    ///
    /// # Errors
    ///
    /// What `fi_getname` returned.
    pub fn address(&self) -> Result<Address, Error> {
        let bytes = self.listener.name().map_err(Error::call("fi_getname"))?;
        Ok(Address::new(self.info.address_format(), &bytes))
    }
}

impl<T: Threading> fmt::Debug for PassiveEndpoint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassiveEndpoint")
            .field("address", &self.address().ok())
            .finish_non_exhaustive()
    }
}

/// A connection request. [`EndpointBuilder::accept`](crate::EndpointBuilder::accept) takes it; dropping it refuses.
#[must_use = "the peer is refused when this is dropped"]
pub struct ConnectionRequest<T: Threading = Shared> {
    info: Info,
    data: Vec<u8>,
    threading: Marker<T>,
    /// The listener that received it; dangling once the request is taken.
    listener: Weak<Listener>,
}

impl<T: Threading> ConnectionRequest<T> {
    /// Returns the offer of the connection.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the address of the peer, if the provider reports it.
    pub fn peer(&self) -> Option<Address> {
        self.info.destination()
    }

    /// Returns the data that the peer sent along.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Refuses the request and sends the peer a reason.
    ///
    /// # Errors
    ///
    /// What `fi_reject` returned.
    pub fn reject(mut self, why: &[u8]) -> Result<(), Error> {
        self.refuse(why)
    }

    /// Marks that an endpoint was opened with it.
    pub(crate) fn taken(mut self) {
        self.listener = Weak::new();
    }

    fn refuse(&mut self, why: &[u8]) -> Result<(), Error> {
        let listener = core::mem::take(&mut self.listener).upgrade();
        let refused = listener.map_or(Ok(()), |listener| listener.reject(self.info.handle(), why));
        refused.map_err(Error::call("fi_reject"))
    }
}

impl<T: Threading> Drop for ConnectionRequest<T> {
    fn drop(&mut self) {
        // The peer notices from the connection, or by its timeout.
        let _ = self.refuse(&[]);
    }
}

impl<T: Threading> fmt::Debug for ConnectionRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionRequest")
            .field("peer", &self.peer())
            .finish_non_exhaustive()
    }
}
