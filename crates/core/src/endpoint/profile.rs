//! What an endpoint lets be watched: fi_profile(3). Setup path.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;
use std::sync::atomic::Ordering;

use oxifabric_abi::{
    FI_CLASS_PROFILE, FI_UINT64, FI_VAR_UNEXP_MSG_CNT, fi_ops, fi_primitive_type,
    fi_profile_callback, fi_profile_datatype, fi_profile_desc, fi_profile_ops, fid, fid_profile,
};
use oxifabric_types::Errno;

use super::RdmEndpoint;
use crate::absent;
use crate::device::Provider;
use crate::handle::{count, failed, status, table};

/// The name under which `fi_profile_open` asks for the operations.
const NAME: &CStr = c"fi_profile_ops";

/// An opened profile. The endpoint stays open while it is.
#[repr(C)]
struct Profile<P: Provider> {
    fid: fid_profile,
    endpoint: NonNull<RdmEndpoint<P>>,
}

/// The variables of an endpoint; there are no events.
const VARIABLES: [fi_profile_desc; 1] = [fi_profile_desc {
    id: FI_VAR_UNEXP_MSG_CNT,
    datatype_sel: fi_primitive_type,
    datatype: fi_profile_datatype {
        primitive: FI_UINT64,
    },
    flags: 0,
    size: size_of::<u64>(),
    name: c"FI_VAR_UNEXP_MSG_CNT".as_ptr(),
    desc: c"Messages that no receive was posted for yet".as_ptr(),
}];

impl<P: Provider> RdmEndpoint<P> {
    const PROFILE_BASE: fi_ops = fi_ops {
        close: Some(Profile::<P>::close),
        ..absent::BASE
    };

    const PROFILE: fi_profile_ops = fi_profile_ops {
        reset: Some(Profile::<P>::reset),
        query_vars: Some(Profile::<P>::query_vars),
        query_events: Some(Profile::<P>::query_events),
        read_var: Some(Profile::<P>::read_var),
        reg_callback: Some(Profile::<P>::reg_callback),
        start_reads: Some(Profile::<P>::snapshot),
        end_reads: Some(Profile::<P>::snapshot),
        ..fi_profile_ops::NONE
    };

    /// Opens operations by name: those of the provider, or of a profile. Source: fi_fabric(3) "fi_open_ops", fi_profile(3).
    pub(super) unsafe extern "C" fn ops_open(
        fid: *mut fid,
        name: *const c_char,
        flags: u64,
        ops: *mut *mut c_void,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in the handles of this type; the application passes a name and a place.
        unsafe {
            if name.is_null() {
                return -Errno::NOSYS.raw();
            }
            let own = P::ops(CStr::from_ptr(name));
            if own.is_none() && CStr::from_ptr(name) != NAME {
                return -Errno::NOSYS.raw();
            }
            if flags != 0 || ops.is_null() {
                return -Errno::INVAL.raw();
            }
            if let Some(own) = own {
                *ops = own.as_ptr();
                return 0;
            }
            let endpoint = Self::of(fid.cast());
            endpoint.aliases.fetch_add(1, Ordering::Relaxed);
            let profile = Box::into_raw(Box::new(Profile::<P> {
                fid: fid_profile {
                    fid: oxifabric_abi::fid {
                        fclass: FI_CLASS_PROFILE,
                        context,
                        ops: table(const { &Self::PROFILE_BASE }),
                    },
                    ops: table(const { &Self::PROFILE }),
                },
                endpoint: NonNull::from(endpoint),
            }));
            // The header finds the profile around the field that points to its operations.
            *ops = (&raw mut (*profile).fid.ops).cast();
        }
        0
    }
}

impl<P: Provider> Profile<P> {
    unsafe extern "C" fn close(fid: *mut fid) -> c_int {
        // SAFETY: the table is only in the handles of profiles, which `ops_open` boxed; the endpoint is still open.
        unsafe {
            let profile = Box::from_raw(fid.cast::<Self>());
            let endpoint = profile.endpoint.as_ref();
            endpoint.aliases.fetch_sub(1, Ordering::Release);
        }
        0
    }

    /// Nothing is counted here that could begin anew.
    unsafe extern "C" fn reset(_profile: *mut fid_profile, _flags: u64) {}

    /// One variable is always a snapshot of itself.
    unsafe extern "C" fn snapshot(_profile: *mut fid_profile, _flags: u64) {}

    unsafe extern "C" fn query_vars(
        _profile: *mut fid_profile,
        list: *mut fi_profile_desc,
        length: *mut usize,
    ) -> isize {
        // SAFETY: the application passes a list of that length, or none.
        unsafe {
            let Some(length) = length.as_mut() else {
                return failed(Errno::INVAL);
            };
            let mut copied = 0;
            if !list.is_null() {
                copied = VARIABLES.len().min(*length);
                list.copy_from_nonoverlapping(VARIABLES.as_ptr(), copied);
            }
            *length = VARIABLES.len();
            count(Ok(copied))
        }
    }

    unsafe extern "C" fn query_events(
        _profile: *mut fid_profile,
        _list: *mut fi_profile_desc,
        length: *mut usize,
    ) -> isize {
        // SAFETY: the application passes a place for the number.
        if let Some(length) = unsafe { length.as_mut() } {
            *length = 0;
        }
        0
    }

    /// Reads a variable; returns how many bytes it has.
    unsafe extern "C" fn read_var(
        profile: *mut fid_profile,
        id: u32,
        data: *mut c_void,
        size: *mut usize,
    ) -> isize {
        // SAFETY: the table is only in the handles of profiles; the application passes room and its size.
        unsafe {
            let Some(size) = size.as_mut().filter(|_| !data.is_null()) else {
                return failed(Errno::INVAL);
            };
            if id != FI_VAR_UNEXP_MSG_CNT {
                return failed(Errno::INVAL);
            }
            let room = core::mem::replace(size, size_of::<u64>());
            if room < size_of::<u64>() {
                return failed(Errno::TOOSMALL);
            }
            let endpoint = (*profile.cast::<Self>()).endpoint.as_ref();
            let waiting = endpoint.port.lock().engine.unexpected() as u64;
            data.cast::<u64>().write_unaligned(waiting);
            count(Ok(size_of::<u64>()))
        }
    }

    /// There are no events to call back for.
    unsafe extern "C" fn reg_callback(
        _profile: *mut fid_profile,
        _id: u32,
        _callback: Option<fi_profile_callback>,
        _context: *mut c_void,
    ) -> c_int {
        status(Err(Errno::INVAL))
    }
}
