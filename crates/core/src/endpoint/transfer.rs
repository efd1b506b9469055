//! What all calls of data transfer have in common: fi_msg(3), fi_tagged(3). Path class: hot.

use core::ffi::c_void;
use core::ptr;
use std::sync::atomic::Ordering;

use libc::iovec;
use oxifabric_abi::fi_addr_t;
use oxifabric_engine::{RmaOp, Target};
use oxifabric_mem::{Iov, IovSegment, MAX_SEGMENTS};
use oxifabric_provider::device::{Device, Provider};
use oxifabric_types::{Errno, Flags, PeerId};

use super::{Endpoint, datagram};
use crate::handle::failed;

/// A send as a call describes it.
pub(super) struct SendCall {
    pub(super) to: fi_addr_t,
    /// `MSG` or `TAGGED`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) tag: u64,
    pub(super) data: u64,
    pub(super) context: *mut c_void,
}

/// A receive as a call describes it.
pub(super) struct RecvCall {
    pub(super) from: fi_addr_t,
    /// `MSG` or `TAGGED`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) tag: u64,
    pub(super) ignore: u64,
    pub(super) context: *mut c_void,
}

/// A read or write of memory of a peer as a call describes it.
pub(super) struct Access {
    pub(super) peer: fi_addr_t,
    /// `RMA` with `READ` or `WRITE`, and what the engine wants to know.
    pub(super) flags: Flags,
    pub(super) data: u64,
    pub(super) context: *mut c_void,
}

/// Memory that a call lends to its operation.
pub(super) trait Lend {
    /// Returns how many bytes there are.
    fn len(&self) -> usize;

    /// Describes it for the engine.
    fn lend(self) -> Iov;
}

/// One buffer that was checked. It is described only where the description will stay.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    base: *mut u8,
    len: usize,
}

impl Lend for Buffer {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn lend(self) -> Iov {
        // SAFETY: promised when it was made, as for `buffer`.
        unsafe { Iov::contiguous(self.base, self.len) }
    }
}

impl Lend for Iov {
    fn len(&self) -> usize {
        self.len()
    }

    fn lend(self) -> Iov {
        self
    }
}

impl<P: Provider> Endpoint<P> {
    /// Starts a send; returns what the call returns. Compiled into the calls for one buffer: what they describe stays in
    /// registers until it is written where it will lie.
    #[inline(always)]
    pub(super) fn send(&self, send: SendCall, body: Option<impl Lend>) -> isize {
        let Some(body) = body else {
            return failed(Errno::INVAL);
        };
        if body.len() > self.longest(send.flags) {
            return failed(Errno::MSGSIZE);
        }
        if P::Device::DATAGRAM && datagram::asks_too_much(send.flags) {
            return failed(Errno::OPNOTSUPP);
        }
        if send.flags.contains(Flags::TRIGGER) {
            return self.defer_send(send, body.lend());
        }
        match self.state.lock().send(&send, body) {
            Ok(()) => 0,
            Err(errno) => failed(errno),
        }
    }

    /// Posts a send of several buffers; returns what the call returns.
    #[inline(never)]
    pub(super) fn send_gathered(&self, send: SendCall, body: Option<Iov>) -> isize {
        self.send(send, body)
    }

    /// Posts a receive; returns what the call returns. Compiled into the calls for one buffer, as [`Self::send`] is.
    #[inline(always)]
    pub(super) fn receive(&self, recv: RecvCall, body: Option<impl Lend>) -> isize {
        let Some(body) = body else {
            return failed(Errno::INVAL);
        };
        if recv.flags.contains(Flags::TRIGGER) {
            return self.defer_recv(recv, body.lend());
        }
        match self.state.lock().recv(&recv, body) {
            Ok(()) => 0,
            Err(errno) => failed(errno),
        }
    }

    /// Posts a receive into several buffers; returns what the call returns.
    #[inline(never)]
    pub(super) fn receive_scattered(&self, recv: RecvCall, body: Option<Iov>) -> isize {
        self.receive(recv, body)
    }

    /// Starts a read or write of one piece of the peer's memory, at `addr` under `key`; returns what the call returns.
    #[inline]
    pub(super) fn access_one(
        &self,
        access: &Access,
        body: Option<impl Lend>,
        addr: u64,
        key: u64,
    ) -> isize {
        let Some(body) = body else {
            return failed(Errno::INVAL);
        };
        let len = body.len() as u64;
        self.start_access(access, body.lend(), &[Target { addr, len, key }])
    }

    /// Starts a read or write of several pieces; returns what the call returns. Both sides name equally many bytes.
    pub(super) fn access_many(
        &self,
        access: &Access,
        body: Option<Iov>,
        targets: Option<&[Target]>,
    ) -> isize {
        let (Some(body), Some(targets)) = (body, targets) else {
            return failed(Errno::INVAL);
        };
        let add = |sum: u64, target: &Target| sum.checked_add(target.len);
        if targets.iter().try_fold(0, add) != Some(body.len() as u64) {
            return failed(Errno::INVAL);
        }
        self.start_access(access, body, targets)
    }

    #[inline(always)]
    fn start_access(&self, access: &Access, body: Iov, targets: &[Target]) -> isize {
        let longest = match access.flags.contains(Flags::INJECT) {
            false => &self.sizes.max_rma,
            true => &self.sizes.inject_rma,
        };
        if body.len() > longest.load(Ordering::Relaxed) {
            return failed(Errno::MSGSIZE);
        }
        let op = RmaOp {
            peer: PeerId::ANY,
            targets,
            body,
            data: access.data,
            flags: access.flags,
            context: access.context.addr(),
        };
        if op.flags.contains(Flags::TRIGGER) {
            return self.defer_access(access.peer, &op, access.context);
        }
        match self.state.lock().access(access.peer, op) {
            Ok(()) => 0,
            Err(errno) => failed(errno),
        }
    }

    /// Returns how long a message with these flags may be.
    #[inline]
    fn longest(&self, flags: Flags) -> usize {
        let sizes = &self.sizes;
        let size = match (flags.contains(Flags::TAGGED), flags.contains(Flags::INJECT)) {
            (false, false) => &sizes.max_msg,
            (true, false) => &sizes.max_tagged,
            (false, true) => &sizes.inject_msg,
            (true, true) => &sizes.inject_tagged,
        };
        size.load(Ordering::Relaxed)
    }
}

/// Describes a buffer of the application; `None` when it cannot be one.
///
/// # Safety
/// The buffer has `len` bytes, which are the operation's until it completes.
#[inline]
pub(super) unsafe fn buffer(buf: *const c_void, len: usize) -> Option<Buffer> {
    if len > isize::MAX as usize || (buf.is_null() && len != 0) {
        return None;
    }
    Some(Buffer {
        // What is sent is only read.
        base: buf.cast_mut().cast(),
        len,
    })
}

/// Describes the buffer of a receive. A null one takes messages without data, whatever length it is said to have: there
/// are programs that only wait for those.
///
/// # Safety
/// As for [`buffer`].
#[inline]
pub(super) unsafe fn place(buf: *mut c_void, len: usize) -> Option<Buffer> {
    // SAFETY: the caller's contract.
    unsafe { buffer(buf, if buf.is_null() { 0 } else { len }) }
}

/// Describes a list of buffers; `None` when there are too many, or they cannot be ones.
///
/// # Safety
/// The list has `count` buffers, each as for [`buffer`].
#[inline]
pub(super) unsafe fn buffers(iov: *const iovec, count: usize) -> Option<Iov> {
    if count == 1 && !iov.is_null() {
        // SAFETY: the caller's contract.
        return unsafe { buffer((*iov).iov_base, (*iov).iov_len) }.map(Lend::lend);
    }
    // SAFETY: the caller's contract.
    unsafe { scattered(iov, count) }
}

/// Describes a list of buffers in the less common case of [`buffers`].
///
/// # Safety
/// As for [`buffers`].
unsafe fn scattered(iov: *const iovec, count: usize) -> Option<Iov> {
    if count > MAX_SEGMENTS || (iov.is_null() && count != 0) {
        return None;
    }
    let mut segments = [IovSegment::new(ptr::null_mut(), 0); MAX_SEGMENTS];
    for (at, segment) in segments.iter_mut().enumerate().take(count) {
        // SAFETY: the caller says that the list has `count` entries.
        let piece = unsafe { *iov.add(at) };
        if piece.iov_len > isize::MAX as usize || (piece.iov_base.is_null() && piece.iov_len != 0) {
            return None;
        }
        *segment = IovSegment::new(piece.iov_base.cast(), piece.iov_len);
    }
    // SAFETY: the caller's contract.
    unsafe { Iov::scattered(&segments[..count]) }
}
