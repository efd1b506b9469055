//! Operations are started: reserved in the queue, resolved to a peer, handed to the engine.

use core::ffi::c_void;

use oxifabric_abi::{fi_addr_t, iovec};
use oxifabric_engine::{AtomicOp, RmaOp, RxOp, Target, TxOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use super::Ep;
use super::state::State;
use crate::handle::failed;
use crate::mr::lend;
use crate::operations::Operations;
use crate::provider::Provider;

/// A send or an access, apart from its memory.
pub(super) struct Call {
    pub(super) peer: fi_addr_t,
    pub(super) flags: Flags,
    pub(super) tag: u64,
    pub(super) ignore: u64,
    pub(super) data: u64,
    pub(super) context: *mut c_void,
}

impl Call {
    /// Describes an operation without tag and data.
    pub(super) const fn new(peer: fi_addr_t, flags: Flags, context: *mut c_void) -> Self {
        Self {
            peer,
            flags,
            tag: 0,
            ignore: 0,
            data: 0,
            context,
        }
    }
}

/// Describes one buffer.
///
/// # Safety
/// The memory is the operation's until it completes.
pub(super) unsafe fn buffer(buf: *const c_void, len: usize) -> Result<Iov, Errno> {
    let piece = iovec {
        iov_base: buf.cast_mut(),
        iov_len: len,
    };
    // SAFETY: a list of one piece; the rest is the caller's contract.
    unsafe { lend(&piece, 1) }
}

impl<P: Provider> Ep<P> {
    /// Starts a send; returns what the call returns.
    pub(super) fn send(&self, call: &Call, body: Result<Iov, Errno>) -> isize {
        let longest = self.longest(call.flags);
        self.begin(false, call.peer, |state, peer| {
            let body = fitting(body, longest)?;
            let op = TxOp {
                peer,
                tag: call.tag,
                data: call.data,
                body,
                flags: call.flags,
                context: call.context.addr(),
            };
            let device = state.device.as_mut().ok_or(Errno::OPBADSTATE)?;
            state.operations.send(device, &mut state.report, op)
        })
    }

    /// Posts a receive; returns what the call returns.
    pub(super) fn receive(&self, call: &Call, body: Result<Iov, Errno>) -> isize {
        self.begin(true, call.peer, |state, from| {
            let op = RxOp {
                from,
                tag: call.tag,
                ignore: call.ignore,
                body: body?,
                flags: call.flags,
                context: call.context.addr(),
            };
            let device = state.device.as_mut().ok_or(Errno::OPBADSTATE)?;
            state.operations.recv(device, &mut state.report, op)
        })
    }

    /// Starts a read or write; returns what the call returns. Both sides have equally many bytes.
    pub(super) fn access(
        &self,
        call: &Call,
        body: Result<Iov, Errno>,
        targets: &[Target],
    ) -> isize {
        let longest = self.longest(call.flags);
        self.begin(false, call.peer, |state, peer| {
            let body = fitting(body, longest)?;
            let add = |sum: u64, target: &Target| sum.checked_add(target.len);
            if targets.iter().try_fold(0, add) != Some(body.len() as u64) {
                return Err(Errno::INVAL);
            }
            let op = RmaOp {
                peer,
                targets,
                body,
                data: call.data,
                flags: call.flags,
                context: call.context.addr(),
            };
            let device = state.device.as_mut().ok_or(Errno::OPBADSTATE)?;
            state.operations.access(device, &mut state.report, op)
        })
    }

    /// Starts an atomic, whose peer is found here; returns what the call returns.
    pub(super) fn update(&self, to: fi_addr_t, op: Result<AtomicOp, Errno>) -> isize {
        self.begin(false, to, |state, peer| {
            let op = AtomicOp { peer, ..op? };
            let device = state.device.as_mut().ok_or(Errno::OPBADSTATE)?;
            state.operations.atomic(device, &mut state.report, op)
        })
    }

    /// Returns how long a message or access with these flags may be.
    const fn longest(&self, flags: Flags) -> usize {
        match flags.contains(Flags::INJECT) {
            true => self.info.tx.inject_size,
            false => self.info.ep.max_msg_size,
        }
    }

    /// Starts an operation, which has a place in its queue when it is, and none if it is not. What arrives meanwhile this thread takes, which has the
    /// lock that a worker would have to wait for.
    fn begin(
        &self,
        is_receive: bool,
        peer: fi_addr_t,
        post: impl FnOnce(&mut State<P>, PeerId) -> Result<(), Errno>,
    ) -> isize {
        let mut state = self.state.lock();
        let Some(work) = &self.work else {
            return failed(Errno::OPBADSTATE);
        };
        work.hold();
        let started = start(&mut state, is_receive, peer, post);
        if work.release() {
            state.drive(self.fid.as_ptr().cast());
        }
        match started {
            Ok(()) => 0,
            Err(errno) => failed(errno),
        }
    }
}

/// Reserves the place of an operation, and starts it.
fn start<P: Provider>(
    state: &mut State<P>,
    is_receive: bool,
    peer: fi_addr_t,
    post: impl FnOnce(&mut State<P>, PeerId) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let peer = match is_receive {
        true => state.source(peer)?,
        false => state.destination(peer)?,
    };
    state.report.reserve(is_receive)?;
    post(state, peer).inspect_err(|_| state.report.release(is_receive))
}

fn fitting(body: Result<Iov, Errno>, longest: usize) -> Result<Iov, Errno> {
    match body {
        Ok(body) if body.len() > longest => Err(Errno::MSGSIZE),
        body => body,
    }
}
