//! The deferred work queue of a domain: fi_trigger(3) "DEFERRED WORK QUEUES".

use core::ffi::{c_int, c_void};

use oxifabric_abi::{
    FI_CANCEL_WORK, FI_FLUSH_WORK, FI_OP_CNTR_ADD, FI_OP_CNTR_SET, FI_QUEUE_WORK, fi_deferred_work,
};
use oxifabric_types::{Caps, Errno};

use super::{Action, DeferredWorkQueue, Owner};
use crate::cntr::Cntr;
use crate::domain::Domain;
use crate::handle::{Ref, checked};
use crate::work::message::Post;

/// Answers fi_control(3) on a domain.
///
/// # Errors
/// `NOSYS` for other commands, for work that is not offered and for domains that were opened without FI_TRIGGER,
/// `INVAL`, `NOENT` when there is nothing to cancel, `AGAIN` when too much work waits.
///
/// # Safety
/// `arg` is null or what the command takes.
pub(crate) unsafe fn control(
    domain: &Domain,
    command: c_int,
    arg: *mut c_void,
) -> Result<(), Errno> {
    if !domain.info().caps.contains(Caps::TRIGGER) {
        return Err(Errno::NOSYS);
    }
    // SAFETY: the caller's contract.
    unsafe {
        match command {
            FI_QUEUE_WORK => queue(domain, arg.cast::<fi_deferred_work>().as_ref()),
            FI_CANCEL_WORK => cancel(domain, arg.addr()),
            FI_FLUSH_WORK => flush(domain, arg),
            _ => Err(Errno::NOSYS),
        }
    }
}

/// Queues a work.
///
/// # Safety
/// It is described as fi_trigger(3) says.
unsafe fn queue(domain: &Domain, work: Option<&fi_deferred_work>) -> Result<(), Errno> {
    let work = work.ok_or(Errno::INVAL)?;
    // SAFETY: the caller's contract: counters are open, or null where there may be none.
    let trigger = unsafe { counter(domain, work.triggering_cntr) }?.ok_or(Errno::INVAL)?;
    // SAFETY: as above.
    let told = unsafe { counter(domain, work.completion_cntr) }?;
    // SAFETY: as above.
    let (action, ep) = unsafe { action(domain, work, told) }?;
    for cntr in [Some(trigger), told].into_iter().flatten() {
        cntr.widen()?;
    }
    let owner = Owner::Domain {
        work: core::ptr::from_ref(work).addr(),
        ep,
    };
    DeferredWorkQueue::queue(domain.progress(), trigger, work.threshold, owner, action)
}

/// Copies what is to be done; returns which endpoint does it.
///
/// # Safety
/// As for [`queue`].
unsafe fn action(
    domain: &Domain,
    work: &fi_deferred_work,
    told: Option<&Cntr>,
) -> Result<(Action, usize), Errno> {
    if !matches!(work.op_type, FI_OP_CNTR_SET | FI_OP_CNTR_ADD) {
        // SAFETY: the caller's contract.
        let mut post = unsafe { Post::copy(work) }?;
        if let Some(cntr) = told {
            post.report_to(cntr);
        }
        let ep = post.ep();
        return Ok((Action::Post(Box::new(post)), ep));
    }
    if told.is_some() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's contract.
    let op = unsafe { work.op.cntr.as_ref() }.ok_or(Errno::INVAL)?;
    // SAFETY: as above.
    let cntr = unsafe { counter(domain, op.cntr) }?.ok_or(Errno::INVAL)?;
    cntr.widen()?;
    let cntr = Ref::to(cntr);
    let action = match work.op_type {
        FI_OP_CNTR_SET => Action::Set(cntr, op.value),
        _ => Action::Add(cntr, op.value),
    };
    Ok((action, 0))
}

fn cancel(domain: &Domain, asked: usize) -> Result<(), Errno> {
    let is_meant = |owner, _: &Cntr| matches!(owner, Owner::Domain { work, .. } if work == asked);
    match domain.progress().deferred_work().take(is_meant).is_empty() {
        true => Err(Errno::NOENT),
        false => Ok(()),
    }
}

/// Cancels all work, or all that waits for a counter: `arg` is null, the counter, or a `fi_deferred_work` that names it.
///
/// # Safety
/// `arg` is null or one of these.
unsafe fn flush(domain: &Domain, arg: *mut c_void) -> Result<(), Errno> {
    // SAFETY: the caller's contract; a `fi_deferred_work` and a handle are both longer than what is read.
    let only = match unsafe { checked::<Cntr>(arg.cast()) } {
        Ok(cntr) => Some(cntr),
        Err(_) if arg.is_null() => None,
        Err(_) => {
            // SAFETY: the caller's contract: it is a `fi_deferred_work`.
            let work = unsafe { &*arg.cast::<fi_deferred_work>() };
            // SAFETY: as above.
            unsafe { counter(domain, work.triggering_cntr) }?
        }
    };
    let cancelled = domain.progress().deferred_work().take(|owner, cntr| {
        let deferred = matches!(owner, Owner::Domain { .. });
        deferred && only.is_none_or(|only| core::ptr::eq(only, cntr))
    });
    drop(cancelled);
    Ok(())
}

/// Returns the counter of a handle, unless that is null.
///
/// # Safety
/// It is null or an open object.
unsafe fn counter<'a>(
    domain: &Domain,
    cntr: *mut oxifabric_abi::fid_cntr,
) -> Result<Option<&'a Cntr>, Errno> {
    if cntr.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    let cntr: &Cntr = unsafe { checked(cntr.cast()) }?;
    match core::ptr::eq(cntr.domain(), domain) {
        true => Ok(Some(cntr)),
        false => Err(Errno::DOMAIN),
    }
}
