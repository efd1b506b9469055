//! The memory of a registration, to be read and written by simulated adapters.

use oxifabric_mem::Iov;
use oxifabric_provider::domain::RegistrationRequest;

/// Lends the memory that is registered; `None` when it has too many pieces.
pub(crate) fn lend(request: &RegistrationRequest<'_>) -> Option<Iov> {
    // SAFETY: the pieces may be used until the registration ends, and the domain, which has the only description, drops it then.
    unsafe { Iov::scattered(request.pieces) }
}
