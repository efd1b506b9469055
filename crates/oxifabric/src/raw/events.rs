//! Event queues and the connections that they report on. Source: fi_eq(3), fi_cm(3).

use core::ffi::c_int;
use core::ptr;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use oxifabric_abi::{
    FI_CONNECTED, FI_CONNREQ, FI_EAGAIN, FI_EAVAIL, FI_EINTR, FI_ETIMEDOUT, FI_SHUTDOWN,
    FI_WAIT_UNSPEC, fi_eq_attr, fi_eq_cm_entry, fi_eq_err_entry, fi_eq_open, fi_eq_read,
    fi_eq_readerr, fi_eq_sread, fi_eq_strerror, fid, fid_eq,
};
use oxifabric_types::Errno;

use super::handle::Handle;
use super::{FabricObject, InfoHandle, Listener, errno, error_text};
use crate::lock::lock;

/// Size of the buffer for the data that come with an event of a connection.
const DATA_LEN: usize = 1024;

/// An open event queue.
pub(crate) struct Events {
    handle: Handle<fid_eq>,
    /// The endpoints whose events it reports, by their handles.
    connections: Mutex<HashMap<usize, Arc<Connection>>>,
    /// The passive endpoints whose events it reports, by their handles.
    listeners: Mutex<HashMap<usize, Weak<Listener>>>,
    fabric: Arc<FabricObject>,
}

/// The connection of one endpoint, as its events report it.
#[derive(Default)]
pub(crate) struct Connection(Mutex<ConnectionState>);

/// The state of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) enum ConnectionState {
    /// No event has arrived yet.
    #[default]
    Pending,
    /// It is established; the peer sent these data along.
    Connected(Vec<u8>),
    /// It could not be established.
    Failed(EventFailure),
    /// It has ended.
    Ended,
}

/// An event in error.
#[derive(Clone, Debug)]
pub(crate) struct EventFailure {
    pub(crate) errno: Errno,
    pub(crate) prov_errno: i32,
    pub(crate) detail: String,
    /// The data that the peer sent with its refusal.
    pub(crate) data: Vec<u8>,
}

/// The result of one read of the queue.
pub(crate) enum Read {
    Nothing,
    /// A request for a connection, the data that came along, and the listener that received it.
    Request(InfoHandle, Vec<u8>, Weak<Listener>),
    /// An event of an endpoint's connection, whose state was updated.
    Known,
    /// An error that belongs to no endpoint.
    Failed(EventFailure),
}

#[repr(C)]
struct Entry {
    head: fi_eq_cm_entry,
    data: [u8; DATA_LEN],
}

impl EventFailure {
    /// Makes a failure that no event has reported.
    pub(crate) const fn of(errno: Errno) -> Self {
        Self {
            errno,
            prov_errno: 0,
            detail: String::new(),
            data: Vec::new(),
        }
    }
}

impl Events {
    pub(crate) fn open(fabric: Arc<FabricObject>) -> Result<Self, Errno> {
        let mut attr = fi_eq_attr {
            wait_obj: FI_WAIT_UNSPEC,
            ..fi_eq_attr::ZERO
        };
        let parent = fabric.as_ptr();
        // SAFETY: the fabric is open, and the attributes outlive the call.
        let handle =
            unsafe { Handle::open(|eq| fi_eq_open(parent, &mut attr, eq, ptr::null_mut())) }?;
        Ok(Self {
            handle,
            connections: Mutex::default(),
            listeners: Mutex::default(),
            fabric,
        })
    }

    pub(crate) fn fabric(&self) -> &Arc<FabricObject> {
        &self.fabric
    }

    pub(super) fn fid(&self) -> *mut fid {
        self.handle.fid()
    }

    /// Registers an endpoint; its events update the connection that is returned.
    pub(super) fn register(&self, endpoint: *mut fid) -> Arc<Connection> {
        let connection = Arc::<Connection>::default();
        self.connections()
            .insert(endpoint as usize, connection.clone());
        connection
    }

    /// Unregisters an endpoint, which is about to be closed.
    pub(super) fn unregister(&self, endpoint: *mut fid) {
        self.connections().remove(&(endpoint as usize));
    }

    /// Registers a listener, to which its requests are attributed from now on.
    pub(super) fn register_listener(&self, listener: &Arc<Listener>) {
        self.listeners()
            .insert(listener.fid() as usize, Arc::downgrade(listener));
    }

    /// Unregisters a listener, which is about to be closed.
    pub(super) fn unregister_listener(&self, listener: *mut fid) {
        self.listeners().remove(&(listener as usize));
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<usize, Weak<Listener>>> {
        lock(&self.listeners)
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<usize, Arc<Connection>>> {
        lock(&self.connections)
    }

    /// Reads one event. Without a timeout it does not wait; with a negative one it waits for ever.
    pub(crate) fn read(&self, timeout_ms: Option<c_int>) -> Result<Read, Errno> {
        let mut event = 0;
        let mut entry = Entry {
            head: fi_eq_cm_entry::ZERO,
            data: [0; DATA_LEN],
        };
        let (eq, to, room) = (
            self.handle.as_ptr(),
            (&raw mut entry).cast(),
            size_of::<Entry>(),
        );
        // SAFETY: the queue is open, and there is room for an entry of that size.
        let ret = unsafe {
            match timeout_ms {
                None => fi_eq_read(eq, &mut event, to, room, 0),
                Some(timeout) => fi_eq_sread(eq, &mut event, to, room, timeout, 0),
            }
        };
        const AGAIN: isize = -(FI_EAGAIN as isize);
        const INTR: isize = -(FI_EINTR as isize);
        const TIMEDOUT: isize = -(FI_ETIMEDOUT as isize);
        const AVAIL: isize = -(FI_EAVAIL as isize);
        match ret {
            0 | AGAIN | INTR | TIMEDOUT => Ok(Read::Nothing),
            AVAIL => self.read_error(),
            ret if ret < 0 => Err(errno(ret)),
            ret => {
                let data = (ret as usize).saturating_sub(size_of::<fi_eq_cm_entry>());
                Ok(self.event(event, &entry.head, &entry.data[..data.min(DATA_LEN)]))
            }
        }
    }

    fn event(&self, event: u32, entry: &fi_eq_cm_entry, data: &[u8]) -> Read {
        match event {
            FI_CONNREQ => {
                // SAFETY: the event makes the offer ours.
                let info = unsafe { InfoHandle::adopt(self.fabric.library(), entry.info) };
                let listener = self.listeners().get(&(entry.fid as usize)).cloned();
                let listener = listener.unwrap_or_default();
                info.map_or(Read::Nothing, |info| {
                    Read::Request(info, data.to_vec(), listener)
                })
            }
            FI_CONNECTED => self.update(entry.fid, ConnectionState::Connected(data.to_vec())),
            FI_SHUTDOWN => self.update(entry.fid, ConnectionState::Ended),
            _ => Read::Nothing,
        }
    }

    fn update(&self, endpoint: *mut fid, state: ConnectionState) -> Read {
        if let Some(connection) = self.connections().get(&(endpoint as usize)) {
            connection.set(state);
        }
        Read::Known
    }

    fn read_error(&self) -> Result<Read, Errno> {
        let mut data = [0_u8; DATA_LEN];
        let mut entry = fi_eq_err_entry {
            err_data: data.as_mut_ptr().cast(),
            err_data_size: DATA_LEN,
            ..fi_eq_err_entry::ZERO
        };
        // SAFETY: the queue is open; entry and data outlive the call.
        let ret = unsafe { fi_eq_readerr(self.handle.as_ptr(), &mut entry, 0) };
        if ret < 0 {
            let again = ret == -(FI_EAGAIN as isize);
            return if again {
                Ok(Read::Nothing)
            } else {
                Err(errno(ret))
            };
        }
        let failure = EventFailure {
            errno: Errno::from_raw(entry.err),
            prov_errno: entry.prov_errno,
            detail: self.strerror(&entry),
            data: data[..entry.err_data_size.min(DATA_LEN)].to_vec(),
        };
        let known = self.connections().get(&(entry.fid as usize)).cloned();
        Ok(match known {
            Some(connection) => {
                connection.set(ConnectionState::Failed(failure));
                Read::Known
            }
            None => Read::Failed(failure),
        })
    }

    /// Returns the provider's text for an error.
    fn strerror(&self, entry: &fi_eq_err_entry) -> String {
        let eq = self.handle.as_ptr();
        // SAFETY: the queue is open, and the entry is one that it returned.
        unsafe {
            error_text(|text, len| fi_eq_strerror(eq, entry.prov_errno, entry.err_data, text, len))
        }
    }
}

impl Connection {
    pub(crate) fn state(&self) -> ConnectionState {
        let state = lock(&self.0);
        state.clone()
    }

    fn set(&self, state: ConnectionState) {
        *lock(&self.0) = state;
    }
}
