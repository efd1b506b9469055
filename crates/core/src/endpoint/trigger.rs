//! Operations with FI_TRIGGER: fi_trigger(3). They wait for a counter and are posted then as any other.

use core::ffi::c_void;
use core::ptr::NonNull;

use oxifabric_abi::{FI_TRIGGER_THRESHOLD, fi_triggered_context};
use oxifabric_engine::{AtomicOp, Completion, Completions, Failure, RmaOp, Target};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Provider;
use oxifabric_types::{Caps, Errno, Flags, PeerId};

use super::Endpoint;
use super::call::{RecvCall, SendCall};
use crate::cntr::Cntr;
use crate::handle::{checked, failed};
use crate::work::{Action, DeferredWorkQueue, Disposition, Owner, Work};

/// What of an operation's flags a completion has.
const KIND: Flags = Flags::MSG
    .union(Flags::TAGGED)
    .union(Flags::RMA)
    .union(Flags::ATOMIC)
    .union(Flags::READ)
    .union(Flags::WRITE);

impl<P: Provider> Endpoint<P> {
    /// Defers a send until its counter says so; returns what the call returns.
    #[cold]
    pub(super) fn defer_send(&self, mut send: SendCall, body: Iov) -> isize {
        send.flags.remove(Flags::TRIGGER);
        let (flags, context) = (send.flags | Flags::SEND, send.context);
        let me = NonNull::from(self);
        self.defer(flags, context, move || {
            // SAFETY: an endpoint forgets its deferred work before it goes.
            let me = unsafe { me.as_ref() };
            me.state.lock().send(&send, body.clone())
        })
    }

    /// Defers a receive.
    #[cold]
    pub(super) fn defer_recv(&self, mut recv: RecvCall, body: Iov) -> isize {
        recv.flags.remove(Flags::TRIGGER);
        let (flags, context) = (recv.flags | Flags::RECV, recv.context);
        let me = NonNull::from(self);
        self.defer(flags, context, move || {
            // SAFETY: an endpoint forgets its deferred work before it goes.
            let me = unsafe { me.as_ref() };
            me.state.lock().recv(&recv, body.clone())
        })
    }

    /// Defers a read or write.
    #[cold]
    pub(super) fn defer_access(&self, peer: u64, op: &RmaOp<'_>, context: *mut c_void) -> isize {
        let flags = op.flags.difference(Flags::TRIGGER);
        let (targets, body, data) = (Box::<[Target]>::from(op.targets), op.body.clone(), op.data);
        let me = NonNull::from(self);
        self.defer(flags, context, move || {
            let op = RmaOp {
                peer: PeerId::ANY,
                targets: &targets,
                body: body.clone(),
                data,
                flags,
                context: context.addr(),
            };
            // SAFETY: an endpoint forgets its deferred work before it goes.
            let me = unsafe { me.as_ref() };
            me.state.lock().access(peer, op)
        })
    }

    /// Defers an atomic.
    #[cold]
    pub(super) fn defer_atomic(&self, peer: u64, op: &AtomicOp, context: *mut c_void) -> isize {
        let flags = op.flags.difference(Flags::TRIGGER);
        let (targets, update, data) = (op.targets.clone(), op.update, op.data);
        let (operand, compare, result) =
            (op.operand.clone(), op.compare.clone(), op.result.clone());
        let me = NonNull::from(self);
        self.defer(flags, context, move || {
            let op = AtomicOp {
                peer: PeerId::ANY,
                update,
                targets: targets.clone(),
                operand: operand.clone(),
                compare: compare.clone(),
                result: result.clone(),
                data,
                flags,
                context: context.addr(),
            };
            // SAFETY: an endpoint forgets its deferred work before it goes.
            let me = unsafe { me.as_ref() };
            me.state.lock().atomic(peer, op)
        })
    }

    /// Lets `start` wait for the counter that the context names. Once it is called, it succeeds, asks to be called
    /// `AGAIN`, or the operation fails.
    pub(super) fn defer(
        &self,
        flags: Flags,
        context: *mut c_void,
        mut start: impl FnMut() -> Result<(), Errno> + 'static,
    ) -> isize {
        if !self.has(Caps::TRIGGER) {
            return failed(Errno::OPNOTSUPP);
        }
        if flags.contains(Flags::INJECT) {
            // The buffer is the application's again when the call returns.
            return failed(Errno::OPNOTSUPP);
        }
        // SAFETY: an operation with FI_TRIGGER has such a context (fi_trigger(3)).
        let (cntr, threshold) = match unsafe { condition(context) } {
            Ok(condition) => condition,
            Err(errno) => return failed(errno),
        };
        if !core::ptr::eq(cntr.domain(), &*self.domain) {
            return failed(Errno::DOMAIN);
        }
        let me = NonNull::from(self);
        let context = context.addr();
        let call = move |go| {
            let begun = match go {
                Disposition::Start => start(),
                Disposition::Cancel => Err(Errno::CANCELED),
            };
            match begun {
                Err(errno) if errno != Errno::AGAIN => {
                    // SAFETY: an endpoint forgets its deferred work before it goes.
                    unsafe { me.as_ref() }.fail_deferred(flags, context, errno);
                    Ok(())
                }
                begun => begun,
            }
        };
        let owner = Owner::Endpoint {
            ep: self.fid.as_ptr().addr(),
            context,
        };
        let progress = self.domain.progress();
        let queued = DeferredWorkQueue::queue(
            progress,
            cntr,
            threshold,
            owner,
            Action::Call(Box::new(call)),
        );
        queued.map_or_else(failed, |()| 0)
    }

    /// Cancels an operation that still waits for its counter; returns whether there is one.
    pub(super) fn cancel_deferred(&self, context: *mut c_void) -> bool {
        let asked = Owner::Endpoint {
            ep: self.fid.as_ptr().addr(),
            context: context.addr(),
        };
        let cancelled = self
            .domain
            .progress()
            .deferred_work()
            .take(|owner, _| owner == asked);
        let any = !cancelled.is_empty();
        cancelled.into_iter().for_each(Work::cancel);
        any
    }

    /// Reports that an operation failed before the engine had it.
    pub(super) fn fail_deferred(&self, flags: Flags, context: usize, errno: Errno) {
        let mut state = self.state.lock();
        state.out.fail(Failure {
            op: Completion {
                context,
                flags: flags & (KIND | Flags::SEND | Flags::RECV),
                len: 0,
                buf: 0,
                data: 0,
                tag: 0,
                from: PeerId::ANY,
                wanted: flags.contains(Flags::COMPLETION),
            },
            errno,
            overflow: 0,
            code: 0,
        });
        state.note_posted();
    }
}

/// Reads what an operation waits for.
///
/// # Errors
/// `INVAL`, `NOSYS` for what only devices do.
///
/// # Safety
/// The context is null or a `fi_triggered_context`, whose counter is open.
unsafe fn condition<'a>(context: *mut c_void) -> Result<(&'a Cntr, u64), Errno> {
    // SAFETY: the caller's contract. Both forms of the context begin alike.
    let context = unsafe { context.cast::<fi_triggered_context>().as_ref() }.ok_or(Errno::INVAL)?;
    if context.event_type != FI_TRIGGER_THRESHOLD {
        return Err(Errno::NOSYS);
    }
    // SAFETY: the event type says that it is a threshold.
    let threshold = unsafe { context.trigger.threshold };
    // SAFETY: the caller's contract.
    let cntr = unsafe { checked::<Cntr>(threshold.cntr.cast()) }?;
    Ok((cntr, threshold.threshold as u64))
}
