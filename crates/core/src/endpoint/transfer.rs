//! What all calls of data transfer have in common: fi_msg(3), fi_tagged(3). Path class: hot.

use core::ffi::c_void;
use std::sync::atomic::Ordering;

use libc::iovec;
use oxifabric_abi::fid_ep;
use oxifabric_engine::{RmaOp, Target};
use oxifabric_mem::Iov;
use oxifabric_provider::device::{Device, Provider};
use oxifabric_types::{Errno, Flags, PeerId};

use super::call::{Access, RecvCall, SendCall};
use super::defaults::DirectionFlags;
use super::memory::{Buffer, CallsOf, Lend};
use super::receives::ReceiveCalls;
use super::{Endpoint, datagram, memory};
use crate::domain::Domain;
use crate::handle::failed;
use crate::misuse::{self, Call};

impl<P: Provider> Endpoint<P> {
    /// Starts a send; returns what the call returns. Compiled into the calls for one buffer: what they describe stays in
    /// registers until it is written where it will lie.
    #[inline(always)]
    pub(super) fn send(&self, send: SendCall, body: Option<impl Lend>) -> isize {
        let Some(body) = body else {
            return failed(Errno::INVAL);
        };
        let longest = self.longest(send.flags);
        if body.len() > longest {
            misuse::too_long(P::NAME, Call::Send(send.flags), body.len(), longest);
            return failed(Errno::MSGSIZE);
        }
        if !self.may_use(&body, send.flags) {
            return failed(Errno::INVAL);
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

    /// Starts a read or write of one piece of the peer's memory, at `addr` under `key`; returns what the call returns.
    #[inline(always)]
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
        let longest = longest.load(Ordering::Relaxed);
        if body.len() > longest {
            misuse::too_long(P::NAME, Call::Access(access.flags), body.len(), longest);
            return failed(Errno::MSGSIZE);
        }
        if !self.may_use(&body, access.flags) {
            return failed(Errno::INVAL);
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
        let size = size.load(Ordering::Relaxed);
        match Self::MATCHES {
            true => size,
            // Only devices of one's own write something in front of messages.
            false => size.saturating_add(sizes.prefix),
        }
    }

    /// Describes a buffer as [`memory::buffer`] does.
    ///
    /// # Safety
    /// As for [`memory::buffer`].
    #[inline(always)]
    pub(super) unsafe fn buffer(
        &self,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
    ) -> Option<Buffer<CallsOf<P>>> {
        // SAFETY: the caller's contract.
        unsafe { memory::buffer(&self.domain, buf, len, desc) }
    }

    /// Describes a list of buffers as [`memory::buffers`] does.
    ///
    /// # Safety
    /// As for [`memory::buffers`].
    #[inline(always)]
    pub(super) unsafe fn buffers(
        &self,
        iov: *const iovec,
        desc: *const *mut c_void,
        count: usize,
    ) -> Option<Iov> {
        // SAFETY: the caller's contract.
        unsafe { memory::buffers::<CallsOf<P>>(&self.domain, iov, desc, count) }
    }

    /// Returns whether an operation may use memory: where local memory must be registered (FI_MR_LOCAL), what is not injected
    /// has to be.
    #[inline(always)]
    pub(super) fn may_use(&self, body: &impl Lend, flags: Flags) -> bool {
        !P::Device::READS_DESCRIPTORS
            || flags.contains(Flags::INJECT)
            || body.is_registered()
            || !self.domain.asks_for_local_registration()
    }
}

impl<P: Provider> ReceiveCalls for Endpoint<P> {
    type Object = Self;
    type Memory = CallsOf<P>;

    #[inline(always)]
    unsafe fn object<'a>(handle: *mut fid_ep) -> &'a Self {
        // SAFETY: the caller's contract.
        unsafe { Self::of(handle) }
    }

    #[inline(always)]
    fn domain(endpoint: &Self) -> &Domain {
        &endpoint.domain
    }

    #[inline(always)]
    fn defaults(endpoint: &Self) -> &DirectionFlags {
        &endpoint.defaults.rx
    }

    #[inline(always)]
    fn receive(endpoint: &Self, recv: RecvCall, body: Option<impl Lend>) -> isize {
        let Some(body) = body else {
            return failed(Errno::INVAL);
        };
        if !endpoint.may_use(&body, Flags::empty()) {
            return failed(Errno::INVAL);
        }
        if recv.flags.contains(Flags::TRIGGER) {
            return endpoint.defer_recv(recv, body.lend());
        }
        match endpoint.state.lock().recv(&recv, body) {
            Ok(()) => 0,
            Err(errno) => failed(errno),
        }
    }

    #[inline(never)]
    fn receive_scattered(endpoint: &Self, recv: RecvCall, body: Option<Iov>) -> isize {
        Self::receive(endpoint, recv, body)
    }
}
