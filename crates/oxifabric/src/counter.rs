//! Counters of completions. Source: fi_cntr(3).

use core::fmt;
use core::marker::PhantomData;
use core::ops::BitOr;
use core::time::Duration;
use std::sync::Arc;

use oxifabric_abi::{FI_READ, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE};
use oxifabric_types::Errno;

use crate::deadline::{Deadline, milliseconds};
use crate::raw::CounterObject;
use crate::threading::Marker;
use crate::{Domain, Error, Shared, Threading};

/// A counter of completed operations, and of failed ones.
///
/// An endpoint's builder sets what it counts. Clones are the same counter; it is closed when the last clone and all endpoints that
/// use it are dropped.
pub struct Counter<T: Threading = Shared> {
    object: Arc<CounterObject>,
    waits: bool,
    threading: Marker<T>,
}

/// The operations of an endpoint that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counted(pub(crate) u64);

impl Counted {
    /// Sends of messages.
    pub const SEND: Self = Self(FI_SEND);
    /// Receives of messages.
    pub const RECEIVE: Self = Self(FI_RECV);
    /// Reads of peers' memory, and atomic operations that fetch.
    pub const READ: Self = Self(FI_READ);
    /// Writes to peers' memory, and atomic operations.
    pub const WRITE: Self = Self(FI_WRITE);
    /// Reads by peers.
    pub const REMOTE_READ: Self = Self(FI_REMOTE_READ);
    /// Writes by peers.
    pub const REMOTE_WRITE: Self = Self(FI_REMOTE_WRITE);
}

impl BitOr for Counted {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl<T: Threading> Counter<T> {
    /// Opens a counter that is zero.
    ///
    /// # Errors
    ///
    /// What `fi_cntr_open` returned; `NOSYS` where a provider has no counters.
    pub fn open(domain: &Domain<T>) -> Result<Self, Error> {
        let mut last = Errno::NOSYS;
        for waits in [true, false] {
            match CounterObject::open(domain.object().clone(), waits) {
                Ok(object) => {
                    return Ok(Self {
                        object: Arc::new(object),
                        waits,
                        threading: PhantomData,
                    });
                }
                Err(errno) => last = errno,
            }
        }
        Err(Error::call("fi_cntr_open")(last))
    }

    /// Returns how many operations have completed. The call drives progress, with providers of manual progress.
    pub fn read(&self) -> u64 {
        self.object.read()
    }

    /// Returns how many operations have failed.
    pub fn errors(&self) -> u64 {
        self.object.errors()
    }

    /// Adds to the value.
    ///
    /// # Errors
    ///
    /// What `fi_cntr_add` returned.
    pub fn add(&self, value: u64) -> Result<(), Error> {
        self.object.add(value).map_err(Error::call("fi_cntr_add"))
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// What `fi_cntr_set` returned.
    pub fn set(&self, value: u64) -> Result<(), Error> {
        self.object.set(value).map_err(Error::call("fi_cntr_set"))
    }

    /// Waits until the value is at least `threshold`, at most as long as `timeout`; returns whether it is.
    ///
    /// # Errors
    ///
    /// `AVAIL` when an operation failed meanwhile; or what `fi_cntr_wait` returned.
    pub fn wait(&self, threshold: u64, timeout: Option<Duration>) -> Result<bool, Error> {
        let deadline = Deadline::after(timeout);
        let errors = self.errors();
        loop {
            if self.read() >= threshold {
                return Ok(true);
            }
            if self.errors() != errors {
                return Err(Error::call("fi_cntr_wait")(Errno::AVAIL));
            }
            let left = deadline.left();
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            if !self.waits {
                std::thread::yield_now();
                continue;
            }
            match self.object.wait(threshold, milliseconds(left)) {
                Ok(()) | Err(Errno::TIMEDOUT | Errno::AGAIN | Errno::INTR | Errno::AVAIL) => {}
                Err(errno) => return Err(Error::call("fi_cntr_wait")(errno)),
            }
        }
    }

    pub(crate) fn object(&self) -> &Arc<CounterObject> {
        &self.object
    }
}

impl<T: Threading> Clone for Counter<T> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            waits: self.waits,
            threading: PhantomData,
        }
    }
}

impl<T: Threading> fmt::Debug for Counter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").finish_non_exhaustive()
    }
}
