//! The inline calls against tables that lack operations: errors instead of crashes, and no read beyond a short table.

use oxifabric_abi::*;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;

unsafe extern "C" fn closed(_: *mut fid) -> c_int {
    7
}

unsafe extern "C" fn domain2(
    _: *mut fid_fabric,
    _: *mut fi_info,
    _: *mut *mut fid_domain,
    flags: u64,
    _: *mut c_void,
) -> c_int {
    flags as c_int
}

unsafe extern "C" fn readerr(_: *mut fid_cq, buf: *mut fi_cq_err_entry, _: u64) -> isize {
    // SAFETY: the test below passes a whole entry.
    isize::from(unsafe { (*buf).src_addr } == FI_ADDR_NOTAVAIL)
}

fn fabric_with(ops: &mut fi_ops_fabric) -> fid_fabric {
    fid_fabric {
        fid: fid::ZERO,
        ops,
        api_version: FI_VERSION(2, 6),
    }
}

fn open_with_flags(fabric: &mut fid_fabric, flags: u64) -> c_int {
    // SAFETY: the operations of these tests look at nothing but the flags.
    unsafe {
        fi_domain2(
            fabric,
            ptr::null_mut(),
            ptr::null_mut(),
            flags,
            ptr::null_mut(),
        )
    }
}

#[test]
fn a_call_reaches_the_operation_of_the_table() {
    let mut ops = fi_ops {
        close: Some(closed),
        ..fi_ops::NONE
    };
    let mut object = fid {
        ops: &mut ops,
        ..fid::ZERO
    };
    // SAFETY: the object lives, and `closed` does not look at it.
    assert_eq!(unsafe { fi_close(&mut object) }, 7);
}

#[test]
fn a_missing_operation_is_enosys() {
    let mut ops = fi_ops::NONE;
    let mut object = fid {
        ops: &mut ops,
        ..fid::ZERO
    };
    // SAFETY: the object lives, and has no operation that could look at it.
    assert_eq!(unsafe { fi_close(&mut object) }, -FI_ENOSYS);
}

#[test]
fn a_missing_table_is_enosys() {
    let mut object = fid::ZERO;
    // SAFETY: the object lives, and has no operation that could look at it.
    assert_eq!(unsafe { fi_close(&mut object) }, -FI_ENOSYS);
}

#[test]
fn an_operation_beyond_the_end_of_the_table_is_not_looked_up() {
    let mut ops = fi_ops_fabric {
        domain2: Some(domain2),
        ..fi_ops_fabric::NONE
    };
    assert_eq!(open_with_flags(&mut fabric_with(&mut ops), 3), 3);
    ops.size = offset_of!(fi_ops_fabric, domain2);
    assert_eq!(open_with_flags(&mut fabric_with(&mut ops), 3), -FI_ENOSYS);
}

#[test]
fn an_opening_without_flags_takes_the_older_operation() {
    let mut ops = fi_ops_fabric {
        domain2: Some(domain2),
        ..fi_ops_fabric::NONE
    };
    assert_eq!(open_with_flags(&mut fabric_with(&mut ops), 0), -FI_ENOSYS);
}

#[test]
fn an_error_entry_has_no_source_until_the_provider_writes_one() {
    let mut ops = fi_ops_cq {
        readerr: Some(readerr),
        ..fi_ops_cq::NONE
    };
    let mut cq = fid_cq {
        fid: fid::ZERO,
        ops: &mut ops,
    };
    let mut entry = fi_cq_err_entry::ZERO;
    // SAFETY: queue and entry live.
    assert_eq!(unsafe { fi_cq_readerr(&mut cq, &mut entry, 0) }, 1);
}
