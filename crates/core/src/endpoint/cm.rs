//! Names of an endpoint: fi_cm(3). The endpoint needs no connections, so their calls are absent.

use core::ffi::{c_int, c_void};

use oxifabric_abi::{fi_ops_cm, fid_t};
use oxifabric_types::Errno;

use super::RdmEndpoint;
use crate::absent::{no1, no2, no3, no4};
use crate::device::{Device, Provider};
use crate::handle::status;
use crate::info::{address_from_c, address_to_c};

impl<P: Provider> RdmEndpoint<P> {
    pub(super) const CM: fi_ops_cm = fi_ops_cm {
        setname: Some(Self::setname),
        getname: Some(Self::getname),
        getpeer: Some(no3),
        connect: Some(no4),
        listen: Some(no1),
        accept: Some(no3),
        reject: Some(no4),
        shutdown: Some(no2),
        join: Some(Self::join_group),
        ..fi_ops_cm::NONE
    };

    unsafe extern "C" fn setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(fid.cast()) };
        // SAFETY: the application passes `addrlen` bytes, or null.
        let name = unsafe { address_from_c(addr, addrlen, endpoint.info.addr_format) };
        status(match name {
            Ok(Some(name)) => endpoint.port.lock().device.rename(name),
            Ok(None) => Err(Errno::INVAL),
            Err(errno) => Err(errno),
        })
    }

    /// Copies the name, as much of it as fits, and tells its length.
    unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
        // SAFETY: the table is only in the handles of this type; the application passes a length, or null.
        let (endpoint, room) = unsafe { (Self::of(fid.cast()), addrlen.as_mut()) };
        let Some(room) = room else {
            return -Errno::INVAL.raw();
        };
        let (name, _) = address_to_c(&endpoint.port.lock().device.name());
        let fits = name.len().min(*room);
        let whole = *room >= name.len();
        *room = name.len();
        if !addr.is_null() {
            // SAFETY: the application's buffer has the room that it told.
            unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), addr.cast(), fits) };
        } else if whole {
            return -Errno::INVAL.raw();
        }
        if whole { 0 } else { -Errno::TOOSMALL.raw() }
    }
}
