//! The operations of deferred work, copied: applications are known to reuse the descriptions at once, although
//! fi_trigger(3) does not let them.

use core::ffi::c_void;
use core::ptr::null_mut;

use libc::iovec;
use oxifabric_abi::{
    FI_CLASS_EP, FI_CLASS_RX_CTX, FI_CLASS_TX_CTX, FI_COMPLETION, FI_MULTI_RECV, FI_OP_ATOMIC,
    FI_OP_COMPARE_ATOMIC, FI_OP_FETCH_ATOMIC, FI_OP_READ, FI_OP_RECV, FI_OP_SEND, FI_OP_TRECV,
    FI_OP_TSEND, FI_OP_WRITE, FI_PEEK, FI_TRIGGER, fi_deferred_work, fi_ioc, fi_msg, fi_msg_atomic,
    fi_msg_compare, fi_msg_fetch, fi_msg_rma, fi_msg_tagged, fi_rma_ioc, fi_rma_iov, fid_ep,
};
use oxifabric_types::{Errno, Flags};

use super::InFlight;
use crate::cntr::Cntr;
use crate::handle::Ref;

/// More pieces than any operation has.
const MAX_PIECES: usize = 256;

/// The operation of a deferred work.
pub(crate) struct Post {
    ep: *mut fid_ep,
    flags: u64,
    context: usize,
    cntr: Option<Ref<Cntr>>,
    message: Message,
}

enum Message {
    Recv(fi_msg, Pieces<iovec>),
    Send(fi_msg, Pieces<iovec>),
    Trecv(fi_msg_tagged, Pieces<iovec>),
    Tsend(fi_msg_tagged, Pieces<iovec>),
    Read(fi_msg_rma, Pieces<iovec>, Box<[fi_rma_iov]>),
    Write(fi_msg_rma, Pieces<iovec>, Box<[fi_rma_iov]>),
    Atomic(fi_msg_atomic, Pieces<fi_ioc>, Box<[fi_rma_ioc]>),
    Fetch(
        fi_msg_atomic,
        Pieces<fi_ioc>,
        Box<[fi_rma_ioc]>,
        Pieces<fi_ioc>,
    ),
    Compare(Box<Compare>),
}

struct Compare {
    msg: fi_msg_atomic,
    operand: Pieces<fi_ioc>,
    targets: Box<[fi_rma_ioc]>,
    fetch: Pieces<fi_ioc>,
    compare: Pieces<fi_ioc>,
}

/// Buffers with their descriptors, if there are any.
struct Pieces<T> {
    list: Box<[T]>,
    desc: Box<[*mut c_void]>,
}

impl<T: Copy> Pieces<T> {
    /// Copies a list and its descriptors.
    ///
    /// # Safety
    /// Both lists are null or have `count` entries.
    unsafe fn copy(list: *const T, desc: *const *mut c_void, count: usize) -> Result<Self, Errno> {
        let descriptors = if desc.is_null() { 0 } else { count };
        // SAFETY: the caller's contract.
        unsafe {
            Ok(Self {
                list: copied(list, count)?,
                desc: copied(desc, descriptors)?,
            })
        }
    }

    fn desc(&self) -> *mut *mut c_void {
        match self.desc.is_empty() {
            true => null_mut(),
            // Nothing writes through it: the structures of the C header just do not say so.
            false => self.desc.as_ptr().cast_mut(),
        }
    }
}

/// Copies a list that the application passes.
///
/// # Safety
/// `list` is null or has `count` entries.
unsafe fn copied<T: Copy>(list: *const T, count: usize) -> Result<Box<[T]>, Errno> {
    if count == 0 {
        return Ok(Box::default());
    }
    if list.is_null() || count > MAX_PIECES {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's contract.
    Ok(unsafe { core::slice::from_raw_parts(list, count) }.into())
}

impl Post {
    /// Copies the operation that deferred work describes.
    ///
    /// # Errors
    /// `INVAL`, `NOSYS` for operations that are none of an endpoint, and for receives that have more than one result.
    ///
    /// # Safety
    /// The work is described as fi_trigger(3) says.
    pub(super) unsafe fn copy(work: &fi_deferred_work) -> Result<Self, Errno> {
        // SAFETY: the caller's contract: the type says which description it is; all begin with the endpoint.
        let description = unsafe { work.op.msg };
        if description.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: as above.
        let (ep, flags, context, message) = unsafe {
            match work.op_type {
                FI_OP_RECV | FI_OP_SEND => plain(work),
                FI_OP_TRECV | FI_OP_TSEND => tagged(work),
                FI_OP_READ | FI_OP_WRITE => access(work),
                FI_OP_ATOMIC => atomic(work),
                FI_OP_FETCH_ATOMIC => fetch(work),
                FI_OP_COMPARE_ATOMIC => compare(work),
                _ => Err(Errno::NOSYS),
            }
        }?;
        // SAFETY: an endpoint that is not null is open.
        if ep.is_null() || !unsafe { is_endpoint(ep) } {
            return Err(Errno::INVAL);
        }
        if flags & (FI_MULTI_RECV | FI_PEEK) != 0 {
            return Err(Errno::NOSYS);
        }
        Ok(Self {
            ep,
            flags,
            context: context.addr(),
            cntr: None,
            message,
        })
    }

    /// Sets the counter that counts its completion.
    pub(super) fn report_to(&mut self, cntr: &Cntr) {
        self.cntr = Some(Ref::to(cntr));
    }

    pub(super) fn ep(&self) -> usize {
        self.ep.addr()
    }

    pub(super) fn in_flight(&self) -> InFlight {
        InFlight {
            cntr: self.cntr.clone(),
            context: self.context,
            reported: self.flags & FI_COMPLETION != 0,
            ep: self.ep.addr(),
        }
    }

    /// Starts the operation, with `key` as its context.
    ///
    /// # Errors
    /// What the endpoint's call returns.
    pub(super) fn call(&self, key: usize) -> Result<(), Errno> {
        let flags = self.flags & !FI_TRIGGER | Flags::DEFERRED.bits();
        let context = core::ptr::without_provenance_mut(key);
        // SAFETY: the endpoint is open while work for it waits, and its tables are complete; lists and counts are those
        // that were copied, and the application leaves the buffers to the operation.
        let result = unsafe { self.message.post(self.ep, context, flags) };
        match i32::try_from(result) {
            Ok(0..) => Ok(()),
            Ok(code) => Err(Errno::from_raw(-code)),
            Err(_) => Err(Errno::OTHER),
        }
    }
}

impl Message {
    /// Posts the operation at an endpoint; returns what the call returns.
    ///
    /// # Safety
    /// The endpoint is open, and what the message points to is valid.
    unsafe fn post(&self, ep: *mut fid_ep, context: *mut c_void, flags: u64) -> isize {
        // SAFETY: the caller's contract, for all calls.
        unsafe {
            match self {
                Self::Recv(msg, pieces) => {
                    oxifabric_abi::fi_recvmsg(ep, &with_pieces(msg, pieces, context), flags)
                }
                Self::Send(msg, pieces) => {
                    oxifabric_abi::fi_sendmsg(ep, &with_pieces(msg, pieces, context), flags)
                }
                Self::Trecv(msg, pieces) => {
                    oxifabric_abi::fi_trecvmsg(ep, &with_tagged(msg, pieces, context), flags)
                }
                Self::Tsend(msg, pieces) => {
                    oxifabric_abi::fi_tsendmsg(ep, &with_tagged(msg, pieces, context), flags)
                }
                Self::Read(msg, pieces, targets) => {
                    let msg = with_targets(msg, pieces, targets, context);
                    oxifabric_abi::fi_readmsg(ep, &msg, flags)
                }
                Self::Write(msg, pieces, targets) => {
                    let msg = with_targets(msg, pieces, targets, context);
                    oxifabric_abi::fi_writemsg(ep, &msg, flags)
                }
                Self::Atomic(msg, operand, targets) => {
                    let msg = with_operand(msg, operand, targets, context);
                    oxifabric_abi::fi_atomicmsg(ep, &msg, flags)
                }
                Self::Fetch(msg, operand, targets, fetch) => {
                    let msg = with_operand(msg, operand, targets, context);
                    post_fetch(ep, &msg, fetch, flags)
                }
                Self::Compare(all) => {
                    let msg = with_operand(&all.msg, &all.operand, &all.targets, context);
                    post_compare(ep, &msg, all, flags)
                }
            }
        }
    }
}

/// Posts an atomic that fetches.
///
/// # Safety
/// As for [`Message::post`].
unsafe fn post_fetch(
    ep: *mut fid_ep,
    msg: &fi_msg_atomic,
    fetch: &Pieces<fi_ioc>,
    flags: u64,
) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        oxifabric_abi::fi_fetch_atomicmsg(
            ep,
            msg,
            fetch.list.as_ptr().cast_mut(),
            fetch.desc(),
            fetch.list.len(),
            flags,
        )
    }
}

/// Posts an atomic that compares.
///
/// # Safety
/// As for [`Message::post`].
unsafe fn post_compare(ep: *mut fid_ep, msg: &fi_msg_atomic, all: &Compare, flags: u64) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        oxifabric_abi::fi_compare_atomicmsg(
            ep,
            msg,
            all.compare.list.as_ptr(),
            all.compare.desc(),
            all.compare.list.len(),
            all.fetch.list.as_ptr().cast_mut(),
            all.fetch.desc(),
            all.fetch.list.len(),
            flags,
        )
    }
}

fn with_pieces(msg: &fi_msg, pieces: &Pieces<iovec>, context: *mut c_void) -> fi_msg {
    fi_msg {
        msg_iov: pieces.list.as_ptr(),
        desc: pieces.desc(),
        context,
        ..*msg
    }
}

fn with_tagged(msg: &fi_msg_tagged, pieces: &Pieces<iovec>, context: *mut c_void) -> fi_msg_tagged {
    fi_msg_tagged {
        msg_iov: pieces.list.as_ptr(),
        desc: pieces.desc(),
        context,
        ..*msg
    }
}

fn with_targets(
    msg: &fi_msg_rma,
    pieces: &Pieces<iovec>,
    targets: &[fi_rma_iov],
    context: *mut c_void,
) -> fi_msg_rma {
    fi_msg_rma {
        msg_iov: pieces.list.as_ptr(),
        desc: pieces.desc(),
        rma_iov: targets.as_ptr(),
        context,
        ..*msg
    }
}

fn with_operand(
    msg: &fi_msg_atomic,
    operand: &Pieces<fi_ioc>,
    targets: &[fi_rma_ioc],
    context: *mut c_void,
) -> fi_msg_atomic {
    fi_msg_atomic {
        msg_iov: operand.list.as_ptr(),
        desc: operand.desc(),
        rma_iov: targets.as_ptr(),
        context,
        ..*msg
    }
}

type Copied = Result<(*mut fid_ep, u64, *mut c_void, Message), Errno>;

/// Copies the description of a message without a tag.
///
/// # Safety
/// The description is a `fi_op_msg`.
unsafe fn plain(work: &fi_deferred_work) -> Copied {
    // SAFETY: the caller's contract.
    let (op, pieces) = unsafe {
        let op = *work.op.msg;
        (
            op,
            Pieces::copy(op.msg.msg_iov, op.msg.desc, op.msg.iov_count)?,
        )
    };
    let message = match work.op_type {
        FI_OP_RECV => Message::Recv(op.msg, pieces),
        _ => Message::Send(op.msg, pieces),
    };
    Ok((op.ep, op.flags, op.msg.context, message))
}

/// Copies the description of a tagged message.
///
/// # Safety
/// The description is a `fi_op_tagged`.
unsafe fn tagged(work: &fi_deferred_work) -> Copied {
    // SAFETY: the caller's contract.
    let (op, pieces) = unsafe {
        let op = *work.op.tagged;
        (
            op,
            Pieces::copy(op.msg.msg_iov, op.msg.desc, op.msg.iov_count)?,
        )
    };
    let message = match work.op_type {
        FI_OP_TRECV => Message::Trecv(op.msg, pieces),
        _ => Message::Tsend(op.msg, pieces),
    };
    Ok((op.ep, op.flags, op.msg.context, message))
}

/// Copies the description of a read or write.
///
/// # Safety
/// The description is a `fi_op_rma`.
unsafe fn access(work: &fi_deferred_work) -> Copied {
    // SAFETY: the caller's contract.
    let (op, pieces, targets) = unsafe {
        let op = *work.op.rma;
        let pieces = Pieces::copy(op.msg.msg_iov, op.msg.desc, op.msg.iov_count)?;
        (op, pieces, copied(op.msg.rma_iov, op.msg.rma_iov_count)?)
    };
    let message = match work.op_type {
        FI_OP_READ => Message::Read(op.msg, pieces, targets),
        _ => Message::Write(op.msg, pieces, targets),
    };
    Ok((op.ep, op.flags, op.msg.context, message))
}

/// Copies the description of an atomic.
///
/// # Safety
/// The description is a `fi_op_atomic`.
unsafe fn atomic(work: &fi_deferred_work) -> Copied {
    // SAFETY: the caller's contract.
    unsafe {
        let op = *work.op.atomic;
        let (operand, targets) = operand(&op.msg)?;
        let message = Message::Atomic(op.msg, operand, targets);
        Ok((op.ep, op.flags, op.msg.context, message))
    }
}

/// Copies the description of an atomic that fetches.
///
/// # Safety
/// The description is a `fi_op_fetch_atomic`.
unsafe fn fetch(work: &fi_deferred_work) -> Copied {
    // SAFETY: the caller's contract.
    unsafe {
        let op = *work.op.fetch_atomic;
        let (operand, targets) = operand(&op.msg)?;
        let fetch = fetched(&op.fetch)?;
        let message = Message::Fetch(op.msg, operand, targets, fetch);
        Ok((op.ep, op.flags, op.msg.context, message))
    }
}

/// Copies the description of an atomic that compares.
///
/// # Safety
/// The description is a `fi_op_compare_atomic`.
unsafe fn compare(work: &fi_deferred_work) -> Copied {
    // SAFETY: the caller's contract.
    unsafe {
        let op = *work.op.compare_atomic;
        let (operand, targets) = operand(&op.msg)?;
        let message = Message::Compare(Box::new(Compare {
            msg: op.msg,
            operand,
            targets,
            fetch: fetched(&op.fetch)?,
            compare: compared(&op.compare)?,
        }));
        Ok((op.ep, op.flags, op.msg.context, message))
    }
}

/// Copies the operands of an atomic, and the places in the peer's memory.
///
/// # Safety
/// The message is described as fi_atomic(3) says.
unsafe fn operand(msg: &fi_msg_atomic) -> Result<(Pieces<fi_ioc>, Box<[fi_rma_ioc]>), Errno> {
    // SAFETY: the caller's contract.
    unsafe {
        let operand = Pieces::copy(msg.msg_iov, msg.desc, msg.iov_count)?;
        Ok((operand, copied(msg.rma_iov, msg.rma_iov_count)?))
    }
}

/// Copies the list of where fetched values go.
///
/// # Safety
/// The lists have as many entries as it says.
unsafe fn fetched(fetch: &fi_msg_fetch) -> Result<Pieces<fi_ioc>, Errno> {
    // SAFETY: the caller's contract.
    unsafe { Pieces::copy(fetch.msg_iov, fetch.desc, fetch.iov_count) }
}

/// Copies the list of the values to compare with.
///
/// # Safety
/// The lists have as many entries as it says.
unsafe fn compared(compare: &fi_msg_compare) -> Result<Pieces<fi_ioc>, Errno> {
    // SAFETY: the caller's contract.
    unsafe { Pieces::copy(compare.msg_iov, compare.desc, compare.iov_count) }
}

/// Returns whether operations can be posted at an object.
///
/// # Safety
/// `ep` is an open object.
unsafe fn is_endpoint(ep: *mut fid_ep) -> bool {
    // SAFETY: every open object begins with a `fid`.
    let class = unsafe { (*ep).fid.fclass };
    matches!(class, FI_CLASS_EP | FI_CLASS_TX_CTX | FI_CLASS_RX_CTX)
}
