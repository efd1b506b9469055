//! Connections of endpoints. Source: fi_cm(3).

use core::fmt;
use core::time::Duration;

use oxifabric_types::Errno;

use super::Endpoint;
use crate::deadline::Deadline;
use crate::raw::{ConnectionState, EventFailure};
use crate::{Address, Error, EventQueue, Msg, Operation, OperationError, Shared, Threading};

/// An endpoint whose connection is being established.
///
/// Receives may be posted already; everything else has to wait for [`Connecting::wait`]. Dropping it gives the connection up.
#[must_use = "the connection is given up when this is dropped"]
pub struct Connecting<T: Threading = Shared> {
    endpoint: Endpoint<Msg, T>,
    events: EventQueue<T>,
    to: Option<Address>,
}

/// How long one wait for the event queue lasts while another thread may read the event.
const WAIT_STEP: Duration = Duration::from_millis(100);

impl<T: Threading> Connecting<T> {
    pub(super) fn new(
        endpoint: Endpoint<Msg, T>,
        events: EventQueue<T>,
        to: Option<Address>,
    ) -> Self {
        Self {
            endpoint,
            events,
            to,
        }
    }

    /// Returns the endpoint, for posting receives.
    pub fn endpoint(&self) -> &Endpoint<Msg, T> {
        &self.endpoint
    }

    /// Returns whether the connection is established.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be established, as [`Connecting::wait`]; or what reading the event queue returned.
    pub fn poll(&self) -> Result<bool, Error> {
        self.events.read_pending(None)?;
        self.state()
    }

    /// Waits until the connection is established, at most as long as `timeout`.
    ///
    /// # Errors
    ///
    /// [`Error::Operation`] with `CONNREFUSED` and the like, with `TIMEDOUT` when the time is over; or what reading the event queue
    /// returned.
    pub fn wait(self, timeout: Option<Duration>) -> Result<Endpoint<Msg, T>, Error> {
        let deadline = Deadline::after(timeout);
        loop {
            if self.poll()? {
                return Ok(self.endpoint);
            }
            let left = deadline.left();
            if left == Some(Duration::ZERO) {
                return Err(self.failed(EventFailure::of(Errno::TIMEDOUT)));
            }
            self.events
                .read_pending(Some(left.map_or(WAIT_STEP, |left| left.min(WAIT_STEP))))?;
        }
    }

    fn state(&self) -> Result<bool, Error> {
        match self.endpoint.state() {
            ConnectionState::Pending => Ok(false),
            ConnectionState::Connected(_) => Ok(true),
            ConnectionState::Failed(failure) => Err(self.failed(failure)),
            ConnectionState::Ended => Err(self.failed(EventFailure::of(Errno::SHUTDOWN))),
        }
    }

    fn failed(&self, failure: EventFailure) -> Error {
        Error::Operation(Box::new(OperationError {
            operation: Operation::Connect,
            peer: self.to.clone(),
            errno: failure.errno,
            provider_errno: failure.prov_errno,
            detail: if failure.data.is_empty() {
                failure.detail
            } else {
                format!("the peer says {:?}", String::from_utf8_lossy(&failure.data))
            },
            overflow: 0,
        }))
    }
}

impl<T: Threading> Endpoint<Msg, T> {
    /// Returns whether it is connected, as far as its event queue was read.
    pub fn is_connected(&self) -> bool {
        matches!(self.state(), ConnectionState::Connected(_))
    }

    /// Returns the data that the peer sent with its request or its acceptance, if the events brought any.
    pub fn connection_data(&self) -> Vec<u8> {
        match self.state() {
            ConnectionState::Connected(data) => data,
            _ => Vec::new(),
        }
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    ///
    /// What `fi_getpeer` returned.
    pub fn peer_address(&self) -> Result<Address, Error> {
        let bytes = self.object().peer_name();
        let bytes = bytes.map_err(Error::call("fi_getpeer"))?;
        Ok(Address::new(self.info().address_format(), &bytes))
    }

    /// Ends the connection.
    ///
    /// # Errors
    ///
    /// What `fi_shutdown` returned.
    pub fn shutdown(&self) -> Result<(), Error> {
        self.object().shutdown().map_err(Error::call("fi_shutdown"))
    }

    fn state(&self) -> ConnectionState {
        let connection = self.object().connection();
        connection.map_or(ConnectionState::Pending, |(_, connection)| {
            connection.state()
        })
    }
}

impl<T: Threading> fmt::Debug for Connecting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting")
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}
