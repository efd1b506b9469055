//! Posting operations (short path). Source: fi_msg(3), fi_tagged(3).

use core::ffi::c_void;
use core::ptr;

use oxifabric_abi::{
    FI_ADDR_UNSPEC, fi_addr_t, fi_inject, fi_injectdata, fi_msg, fi_msg_tagged, fi_recv, fi_send,
    fi_senddata, fi_sendmsg, fi_tinject, fi_tinjectdata, fi_trecv, fi_tsend, fi_tsenddata,
    fi_tsendmsg, fid_ep,
};
use oxifabric_types::Errno;

use super::slots::{Slot, Slots};
use super::{Buffer, Load, Op, Peer, Port, errno};
use crate::error::Operation;

/// An operation whose buffer stays with the provider until it completes.
#[derive(Clone, Copy)]
pub(crate) enum Post {
    Send {
        to: Peer,
        tag: Option<u64>,
        data: Option<u64>,
    },
    /// A send with flags.
    SendMsg {
        to: Peer,
        tag: Option<u64>,
        data: u64,
        flags: u64,
    },
    /// A receive; `tag` is the tag and the bits of it that do not matter.
    Recv {
        from: Option<Peer>,
        tag: Option<(u64, u64)>,
    },
}

/// A send whose buffer is free when the call returns.
#[derive(Clone, Copy)]
pub(crate) struct Inject {
    pub(crate) to: Peer,
    pub(crate) tag: Option<u64>,
    pub(crate) data: Option<u64>,
}

impl Post {
    fn operation(&self) -> Operation {
        match self {
            Self::Send { .. } | Self::SendMsg { .. } => Operation::Send,
            Self::Recv { .. } => Operation::Receive,
        }
    }

    fn peer(&self) -> Option<Peer> {
        match self {
            Self::Send { to, .. } | Self::SendMsg { to, .. } => Some(*to),
            Self::Recv { from, .. } => *from,
        }
    }
}

impl Port {
    /// Posts an operation. If it is refused, its buffer comes back.
    #[inline]
    pub(crate) fn post(&self, buffer: Buffer, post: Post) -> Result<Op, (Errno, Buffer)> {
        let (operation, peer) = (post.operation(), post.peer());
        let addr = match peer.map(|peer| self.peers().resolve(peer)) {
            Some(None) => return Err((Errno::INVAL, buffer)),
            Some(Some(addr)) => addr,
            None => FI_ADDR_UNSPEC,
        };
        let slots = match operation {
            Operation::Send => self.tx().slots(),
            Operation::Receive => self.rx().slots(),
        };
        let load = Load {
            buffer,
            owner: self.number(),
            operation,
            peer,
            vector: self.peers().number(),
        };
        let slot = slots
            .fill(load)
            .map_err(|load| (Errno::AGAIN, load.buffer))?;
        let op = Slots::op(slot);
        // SAFETY: the endpoint is open; the slot keeps the buffer where it is, until a completion gives it back or the
        // endpoint is closed, and is a context that stays valid as long as the queue.
        let ret = unsafe { call(self.as_ptr(), slot, addr, post) };
        if ret == 0 {
            return Ok(op);
        }
        let buffer = slots.recall(slot).map(|load| load.buffer);
        Err((errno(ret), buffer.unwrap_or_default()))
    }

    /// Sends bytes that the provider copies.
    #[inline]
    pub(crate) fn inject(&self, bytes: &[u8], inject: Inject) -> Result<(), Errno> {
        let (ep, to) = (self.as_ptr(), self.peers().resolve(inject.to));
        let to = to.ok_or(Errno::INVAL)?;
        let (start, len) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: the endpoint is open, and the bytes outlive the call, which is as long as they are needed.
        let ret = unsafe {
            match (inject.tag, inject.data) {
                (None, None) => fi_inject(ep, start, len, to),
                (None, Some(data)) => fi_injectdata(ep, start, len, data, to),
                (Some(tag), None) => fi_tinject(ep, start, len, to, tag),
                (Some(tag), Some(data)) => fi_tinjectdata(ep, start, len, data, to, tag),
            }
        };
        if ret == 0 { Ok(()) } else { Err(errno(ret)) }
    }
}

/// # Safety
///
/// The endpoint must be open, the slot filled for this operation, and `addr` one of its peers or unspecified.
#[inline]
unsafe fn call(ep: *mut fid_ep, slot: &Slot, addr: fi_addr_t, post: Post) -> isize {
    let (context, start, len) = Slots::parts(slot);
    let (start, desc) = (start.cast::<c_void>(), ptr::null_mut());
    // SAFETY: the caller vouches for endpoint, slot and peer; no descriptor is needed, since offers of mode FI_MR_LOCAL are
    // not opened.
    unsafe {
        match post {
            Post::Send { tag, data, .. } => match (tag, data) {
                (None, None) => fi_send(ep, start, len, desc, addr, context),
                (None, Some(data)) => fi_senddata(ep, start, len, desc, data, addr, context),
                (Some(tag), None) => fi_tsend(ep, start, len, desc, addr, tag, context),
                (Some(tag), Some(data)) => {
                    fi_tsenddata(ep, start, len, desc, data, addr, tag, context)
                }
            },
            Post::SendMsg {
                tag, data, flags, ..
            } => send_msg(ep, (context, start, len), addr, tag, data, flags),
            Post::Recv { tag: None, .. } => fi_recv(ep, start, len, desc, addr, context),
            Post::Recv {
                tag: Some((tag, ignore)),
                ..
            } => fi_trecv(ep, start, len, desc, addr, tag, ignore, context),
        }
    }
}

/// # Safety
///
/// As for [`call`].
unsafe fn send_msg(
    ep: *mut fid_ep,
    (context, start, len): (*mut c_void, *mut c_void, usize),
    addr: fi_addr_t,
    tag: Option<u64>,
    data: u64,
    flags: u64,
) -> isize {
    let iov = libc::iovec {
        iov_base: start,
        iov_len: len,
    };
    if let Some(tag) = tag {
        let msg = fi_msg_tagged {
            msg_iov: &iov,
            iov_count: 1,
            addr,
            tag,
            context,
            data,
            ..fi_msg_tagged::ZERO
        };
        // SAFETY: the caller's contract; the message outlives the call.
        return unsafe { fi_tsendmsg(ep, &msg, flags) };
    }
    let msg = fi_msg {
        msg_iov: &iov,
        iov_count: 1,
        addr,
        context,
        data,
        ..fi_msg::ZERO
    };
    // SAFETY: the caller's contract; the message outlives the call.
    unsafe { fi_sendmsg(ep, &msg, flags) }
}
