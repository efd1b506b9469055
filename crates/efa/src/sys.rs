//! All unsafe code of the provider.

pub(crate) mod named_ops;
mod receive_buffers;
mod send_buffers;
mod wait_set;

use oxifabric_mem::{Iov, IovSegment};

pub(crate) use receive_buffers::ReceiveBuffers;
pub(crate) use send_buffers::SendBuffers;
pub(crate) use wait_set::WaitSet;

/// Describes memory of the application that is being registered. Nothing is copied out of it or into it by this description: the device alone
/// uses the memory, as the application's operations say.
pub(crate) fn lend(piece: IovSegment) -> Iov {
    // SAFETY: the application registers memory that stays valid until it closes the region (fi_mr(3)); only then is the description
    // dropped. This crate neither reads nor writes by it.
    unsafe { Iov::contiguous(piece.base(), piece.len()) }
}
