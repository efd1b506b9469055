//! Which atomics there are, as C programs ask (fi_atomic(3)), and what keeps them apart.

use core::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use oxifabric_abi::{
    FI_COMPARE_ATOMIC, FI_FETCH_ATOMIC, FI_TAGGED, fi_atomic_attr, fi_datatype, fi_op, fid_domain,
    fid_ep,
};
use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_engine::Update;
use oxifabric_types::Errno;

use crate::handle::status;

/// Runs an update of memory while no other one runs in this process.
///
/// The correctness of atomics is promised to all that go through one domain by its name, however often it was opened
/// and whatever its threads promised (fi_atomic(3) "Completions"): two endpoints may be asked to update the same bytes.
pub(crate) fn exclusively(update: impl FnOnce()) {
    static ACTOR: Mutex<()> = Mutex::new(());
    // Updates leave whole elements behind, even if one panicked.
    let _alone = ACTOR.lock().unwrap_or_else(PoisonError::into_inner);
    update();
}

/// Returns the update that a call asks for; `None` when there is no such datatype or operation.
pub(crate) fn update(form: Form, datatype: fi_datatype, op: fi_op) -> Option<Update> {
    Some(Update {
        form,
        datatype: Datatype::from_raw(u64::from(datatype))?,
        operation: Operation::from_raw(u64::from(op))?,
    })
}

/// Describes what there is; `None` where there is nothing.
fn attributes(form: Form, datatype: fi_datatype, op: fi_op) -> Option<fi_atomic_attr> {
    let update = update(form, datatype, op).filter(Update::is_valid)?;
    Some(fi_atomic_attr {
        count: update.max_count(),
        size: update.datatype.size(),
    })
}

/// Calls that ask an endpoint, for its table; they need no endpoint that is enabled.
macro_rules! valid {
    ($($name:ident: $form:expr;)*) => { $(
        pub(crate) unsafe extern "C" fn $name(
            _ep: *mut fid_ep,
            datatype: fi_datatype,
            op: fi_op,
            count: *mut usize,
        ) -> c_int {
            // SAFETY: the application passes a place for the count, or null.
            unsafe { tell_count($form, datatype, op, count) }
        }
    )* };
}

valid! {
    write_valid: Form::Base;
    readwrite_valid: Form::Fetch;
    compwrite_valid: Form::Compare;
}

/// Stores how many elements one call can have.
///
/// # Safety
/// `count` is null or may be written.
unsafe fn tell_count(form: Form, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    let Some(attr) = attributes(form, datatype, op) else {
        return -Errno::OPNOTSUPP.raw();
    };
    if !count.is_null() {
        // SAFETY: the caller's contract.
        unsafe { count.write(attr.count) };
    }
    0
}

/// fi_query_atomic. Atomics on tagged buffers (FI_TAGGED) there are none.
pub(crate) unsafe extern "C" fn query(
    _domain: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let found = form(flags).and_then(|form| {
        let found = attributes(form, datatype, op).ok_or(Errno::OPNOTSUPP)?;
        if !attr.is_null() {
            // SAFETY: the application passes a place for the attributes, or null.
            unsafe { attr.write(found) };
        }
        Ok(())
    });
    status(found)
}

fn form(flags: u64) -> Result<Form, Errno> {
    match flags {
        0 => Ok(Form::Base),
        FI_FETCH_ATOMIC => Ok(Form::Fetch),
        FI_COMPARE_ATOMIC => Ok(Form::Compare),
        _ if flags & !(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED) != 0 => {
            Err(Errno::BADFLAGS)
        }
        _ if flags & FI_TAGGED != 0 => Err(Errno::OPNOTSUPP),
        _ => Err(Errno::BADFLAGS),
    }
}
