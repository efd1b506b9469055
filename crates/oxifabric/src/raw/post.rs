//! Posting operations (hot path). Source: fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3).

use core::ffi::c_void;
use core::ptr;

use oxifabric_abi::{
    FI_ADDR_UNSPEC, fi_addr_t, fi_atomic, fi_compare_atomic, fi_datatype, fi_fetch_atomic,
    fi_inject, fi_inject_write, fi_injectdata, fi_msg, fi_msg_rma, fi_msg_tagged, fi_op, fi_read,
    fi_readmsg, fi_recv, fi_rma_iov, fi_send, fi_senddata, fi_sendmsg, fi_tinject, fi_tinjectdata,
    fi_trecv, fi_tsend, fi_tsenddata, fi_tsendmsg, fi_write, fi_writedata, fi_writemsg, fid_ep,
};
use oxifabric_types::{Caps, Errno};

use super::slots::{Filled, Scalars};
use super::{EndpointObject, InFlightOp, Memory, Op, Peer, errno};
use crate::address_vector::FOREIGN_PEER;
use crate::error::Operation;

/// An operation whose memory stays with the provider until it completes.
#[derive(Clone, Copy)]
pub(crate) enum Post<'a> {
    Send {
        tag: Option<u64>,
        data: Option<u64>,
    },
    /// A send with flags.
    SendMsg {
        tag: Option<u64>,
        data: u64,
        flags: u64,
    },
    /// A receive; `tag` is the tag and the bits of it that are ignored.
    Recv {
        tag: Option<(u64, u64)>,
    },
    Read {
        from: Place,
    },
    Write {
        to: Place,
        data: Option<u64>,
    },
    /// A read or a write with flags.
    RmaMsg {
        write: bool,
        place: Place,
        data: u64,
        flags: u64,
    },
    /// An operation on elements, whose operands and results are rows of `row` bytes in the memory of the operation: one row, or
    /// operands and results, or comparands, operands and results.
    Elements {
        kind: Operation,
        at: Place,
        count: usize,
        row: usize,
        datatype: fi_datatype,
        op: fi_op,
    },
    /// An operation on one element, whose operands the slot stores.
    Scalar {
        kind: Operation,
        at: Place,
        op: fi_op,
        scalars: &'a Scalars,
    },
}

/// A place in the memory of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) addr: u64,
    pub(crate) key: u64,
}

/// A send or write whose bytes the application may reuse when the call returns.
#[derive(Clone, Copy)]
pub(crate) enum Inject {
    Message { tag: Option<u64>, data: Option<u64> },
    Write { to: Place },
}

impl Inject {
    /// Returns the name of the call in C.
    pub(crate) fn call(&self) -> &'static str {
        match self {
            Self::Message { tag, data } => match (tag, data) {
                (None, None) => "fi_inject",
                (None, Some(_)) => "fi_injectdata",
                (Some(_), None) => "fi_tinject",
                (Some(_), Some(_)) => "fi_tinjectdata",
            },
            Self::Write { .. } => "fi_inject_write",
        }
    }

    /// Returns the capabilities without which an endpoint does not have it.
    #[inline]
    pub(crate) fn needs(&self) -> Caps {
        match self {
            Self::Message { tag: None, .. } => Caps::MSG,
            Self::Message { tag: Some(_), .. } => Caps::TAGGED,
            Self::Write { .. } => Caps::RMA,
        }
    }
}

impl Post<'_> {
    /// Returns the capabilities without which an endpoint does not have the operation; `named` is whether it names its peer.
    #[inline(always)]
    pub(crate) fn needs(&self, named: bool) -> Caps {
        match self {
            Self::Send { tag: None, .. } | Self::SendMsg { tag: None, .. } => Caps::MSG,
            Self::Send { .. } | Self::SendMsg { .. } => Caps::TAGGED,
            Self::Recv { tag } => {
                let message = if tag.is_none() {
                    Caps::MSG
                } else {
                    Caps::TAGGED
                };
                if named {
                    message.union(Caps::DIRECTED_RECV)
                } else {
                    message
                }
            }
            Self::Read { .. } | Self::Write { .. } | Self::RmaMsg { .. } => Caps::RMA,
            Self::Elements { .. } | Self::Scalar { .. } => Caps::ATOMIC,
        }
    }

    #[inline]
    fn operation(&self) -> Operation {
        match self {
            Self::Send { .. } | Self::SendMsg { .. } => Operation::Send,
            Self::Recv { .. } => Operation::Receive,
            Self::Read { .. } | Self::RmaMsg { write: false, .. } => Operation::Read,
            Self::Write { .. } | Self::RmaMsg { .. } => Operation::Write,
            Self::Elements { kind, .. } | Self::Scalar { kind, .. } => *kind,
        }
    }
}

impl EndpointObject {
    /// Posts an operation. If the post is refused, the memory comes back.
    #[inline(always)]
    pub(crate) fn post(
        &self,
        memory: Memory,
        peer: Option<Peer>,
        post: Post<'_>,
    ) -> Result<Op, (Errno, Memory)> {
        let operation = post.operation();
        let (addr, descriptor) = match (self.resolve(peer), memory.descriptor(self.domain())) {
            (Some(addr), Ok(descriptor)) => (addr, descriptor),
            (None, _) | (_, Err(_)) => return Err((Errno::INVAL, memory)),
        };
        let slots = match operation {
            Operation::Receive => self.rx().slots(),
            _ => self.tx().slots(),
        };
        let Some(slot) = slots.take() else {
            return Err((Errno::AGAIN, memory));
        };
        let in_flight = InFlightOp {
            memory,
            addr,
            vector: self.vector(),
            operation,
        };
        let filled = slot.fill(self.number(), in_flight);
        // SAFETY: the endpoint is open; the slot keeps the memory where it is, until a completion gives it back or the
        // endpoint is closed, and is a context that stays valid as long as the queue.
        let ret = unsafe { call(self.as_ptr(), &filled, descriptor, addr, post) };
        if ret == 0 {
            return Ok(filled.op());
        }
        let memory = slots.recall(&filled).map(|in_flight| in_flight.memory);
        Err((errno(ret), memory.unwrap_or(Memory::EMPTY)))
    }

    /// Returns why a post on this memory to this peer cannot be made, whatever the provider.
    #[cold]
    pub(crate) fn obstacle(&self, peer: Option<Peer>, memory: &Memory) -> Option<&'static str> {
        match self.resolve(peer) {
            Some(_) => memory.obstacle(self.domain()),
            None => Some(FOREIGN_PEER),
        }
    }

    /// Sends or writes bytes that the provider copies before the call returns.
    #[inline]
    pub(crate) fn inject(
        &self,
        bytes: &[u8],
        peer: Option<Peer>,
        inject: Inject,
    ) -> Result<(), Errno> {
        let (ep, to) = (self.as_ptr(), self.resolve(peer));
        let to = to.ok_or(Errno::INVAL)?;
        let (start, len) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: the endpoint is open, and the bytes outlive the call, which is as long as they are needed.
        let ret = unsafe {
            match inject {
                Inject::Message { tag, data } => match (tag, data) {
                    (None, None) => fi_inject(ep, start, len, to),
                    (None, Some(data)) => fi_injectdata(ep, start, len, data, to),
                    (Some(tag), None) => fi_tinject(ep, start, len, to, tag),
                    (Some(tag), Some(data)) => fi_tinjectdata(ep, start, len, data, to, tag),
                },
                Inject::Write { to: place } => {
                    fi_inject_write(ep, start, len, to, place.addr, place.key)
                }
            }
        };
        if ret == 0 { Ok(()) } else { Err(errno(ret)) }
    }

    /// Returns the peer's `fi_addr_t`; unspecified without a peer, `None` for a peer of another vector.
    #[inline]
    fn resolve(&self, peer: Option<Peer>) -> Option<fi_addr_t> {
        match peer {
            None => Some(FI_ADDR_UNSPEC),
            Some(peer) => peer.of_vector(self.vector()),
        }
    }
}

/// Posts an operation; returns what the call returns.
///
/// # Safety
///
/// The endpoint must be open, the slot filled for this operation, the descriptor that of its memory, and `addr` one of its
/// peers or unspecified.
#[inline(always)]
unsafe fn call(
    ep: *mut fid_ep,
    slot: &Filled<'_>,
    desc: *mut c_void,
    addr: fi_addr_t,
    post: Post<'_>,
) -> isize {
    let (context, start, len) = slot.parts();
    let start = start.cast::<c_void>();
    // SAFETY: the caller vouches for endpoint, slot and peer.
    unsafe {
        match post {
            Post::Send { tag, data } => match (tag, data) {
                (None, None) => fi_send(ep, start, len, desc, addr, context),
                (None, Some(data)) => fi_senddata(ep, start, len, desc, data, addr, context),
                (Some(tag), None) => fi_tsend(ep, start, len, desc, addr, tag, context),
                (Some(tag), Some(data)) => {
                    fi_tsenddata(ep, start, len, desc, data, addr, tag, context)
                }
            },
            Post::Recv { tag: None } => fi_recv(ep, start, len, desc, addr, context),
            Post::Recv {
                tag: Some((tag, ignore)),
            } => fi_trecv(ep, start, len, desc, addr, tag, ignore, context),
            Post::Read { from } => {
                fi_read(ep, start, len, desc, addr, from.addr, from.key, context)
            }
            Post::Write { to, data: None } => {
                fi_write(ep, start, len, desc, addr, to.addr, to.key, context)
            }
            Post::Write {
                to,
                data: Some(data),
            } => fi_writedata(ep, start, len, desc, data, addr, to.addr, to.key, context),
            Post::Elements { .. } => call_elements(ep, slot, desc, addr, post),
            Post::SendMsg { .. } | Post::RmaMsg { .. } => call_msg(ep, slot, desc, addr, post),
            Post::Scalar { .. } => call_scalar(ep, slot, addr, post),
        }
    }
}

/// Posts an operation by a call that takes a message structure.
///
/// # Safety
///
/// As for [`call`].
unsafe fn call_msg(
    ep: *mut fid_ep,
    slot: &Filled<'_>,
    mut desc: *mut c_void,
    addr: fi_addr_t,
    post: Post<'_>,
) -> isize {
    let (context, start, len) = slot.parts();
    let iov = libc::iovec {
        iov_base: start.cast(),
        iov_len: len,
    };
    let (msg_iov, desc, iov_count) = (&raw const iov, &raw mut desc, 1);
    match post {
        Post::SendMsg {
            tag: Some(tag),
            data,
            flags,
        } => {
            let msg = fi_msg_tagged {
                msg_iov,
                desc,
                iov_count,
                addr,
                tag,
                context,
                data,
                ..fi_msg_tagged::ZERO
            };
            // SAFETY: the caller's contract; the message outlives the call.
            unsafe { fi_tsendmsg(ep, &msg, flags) }
        }
        Post::SendMsg { data, flags, .. } => {
            let msg = fi_msg {
                msg_iov,
                desc,
                iov_count,
                addr,
                context,
                data,
            };
            // SAFETY: the caller's contract; the message outlives the call.
            unsafe { fi_sendmsg(ep, &msg, flags) }
        }
        Post::RmaMsg {
            write,
            place,
            data,
            flags,
        } => {
            let remote = fi_rma_iov {
                addr: place.addr,
                len,
                key: place.key,
            };
            let msg = fi_msg_rma {
                msg_iov,
                desc,
                iov_count,
                addr,
                rma_iov: &remote,
                rma_iov_count: 1,
                context,
                data,
            };
            // SAFETY: the caller's contract; the message outlives the call.
            unsafe {
                if write {
                    fi_writemsg(ep, &msg, flags)
                } else {
                    fi_readmsg(ep, &msg, flags)
                }
            }
        }
        _ => -(Errno::NOSYS.raw() as isize),
    }
}

/// Posts an atomic on several elements.
///
/// # Safety
///
/// As for [`call`]; the rows must be within the memory of the operation.
unsafe fn call_elements(
    ep: *mut fid_ep,
    slot: &Filled<'_>,
    desc: *mut c_void,
    addr: fi_addr_t,
    post: Post<'_>,
) -> isize {
    let Post::Elements {
        kind,
        at,
        count,
        row,
        datatype,
        op,
    } = post
    else {
        return -(Errno::NOSYS.raw() as isize);
    };
    let (context, start, len) = slot.parts();
    let [first, second] = [start, start.wrapping_add(row)].map(|row| row.cast::<c_void>());
    let last = start.wrapping_add(len - row).cast::<c_void>();
    // SAFETY: the caller's contract: no other thread uses the slot yet. Fetched values go to the memory, not to the slot.
    unsafe {
        *slot.scalars() = Scalars::NONE;
        match kind {
            Operation::Fetch => fi_fetch_atomic(
                ep, first, count, desc, last, desc, addr, at.addr, at.key, datatype, op, context,
            ),
            Operation::Compare => fi_compare_atomic(
                ep, second, count, desc, first, desc, last, desc, addr, at.addr, at.key, datatype,
                op, context,
            ),
            _ => fi_atomic(
                ep, first, count, desc, addr, at.addr, at.key, datatype, op, context,
            ),
        }
    }
}

/// Posts an atomic on one element.
///
/// # Safety
///
/// As for [`call`].
unsafe fn call_scalar(
    ep: *mut fid_ep,
    slot: &Filled<'_>,
    addr: fi_addr_t,
    post: Post<'_>,
) -> isize {
    let Post::Scalar {
        kind,
        at,
        op,
        scalars,
    } = post
    else {
        return -(Errno::NOSYS.raw() as isize);
    };
    let (context, none) = (slot.parts().0, ptr::null_mut());
    let datatype = scalars.datatype;
    let kept = slot.scalars();
    // SAFETY: the caller's contract: no other thread uses the slot yet, and it stays until the completion.
    unsafe {
        kept.write(*scalars);
        let operand = (&raw mut (*kept).operand).cast::<c_void>();
        let compare = (&raw mut (*kept).compare).cast::<c_void>();
        let result = (&raw mut (*kept).result).cast::<c_void>();
        match kind {
            Operation::Fetch => fi_fetch_atomic(
                ep, operand, 1, none, result, none, addr, at.addr, at.key, datatype, op, context,
            ),
            Operation::Compare => fi_compare_atomic(
                ep, operand, 1, none, compare, none, result, none, addr, at.addr, at.key, datatype,
                op, context,
            ),
            _ => fi_atomic(
                ep, operand, 1, none, addr, at.addr, at.key, datatype, op, context,
            ),
        }
    }
}
