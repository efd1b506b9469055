//! Names and connections of an endpoint: fi_cm(3). An endpoint that needs no connections lacks their calls.

use core::ffi::{CStr, c_int, c_void};
use core::slice;

use oxifabric_abi::{FI_ADDR_STR, fi_ops_cm, fid_ep, fid_t};
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Device, Provider};
use oxifabric_types::{Address, Errno};

use super::Endpoint;
use crate::absent::{no1, no4};
use crate::handle::status;
use crate::info::{address_from_c, address_to_c};
use crate::lock::lock;

impl<P: Provider> Endpoint<P> {
    pub(super) const CM: fi_ops_cm = fi_ops_cm {
        setname: Some(Self::setname),
        getname: Some(Self::getname),
        getpeer: Some(Self::getpeer),
        connect: Some(Self::connect),
        listen: Some(no1),
        accept: Some(Self::accept),
        reject: Some(no4),
        shutdown: Some(Self::shutdown),
        join: Some(Self::join_group),
        ..fi_ops_cm::NONE
    };

    unsafe extern "C" fn setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(fid.cast()) };
        // SAFETY: the application passes `addrlen` bytes, or null.
        let name = unsafe { address_from_c(addr, addrlen, endpoint.info.addr_format) };
        status(match name {
            Ok(Some(name)) => endpoint.state.lock().device.rename(name),
            Ok(None) => Err(Errno::INVAL),
            Err(errno) => Err(errno),
        })
    }

    unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let name = unsafe { Self::of(fid.cast()) }.state.lock().device.name();
        // SAFETY: the application passes a buffer and its length, or null.
        status(unsafe { hand_out_name(&name, addr, addrlen) })
    }

    unsafe extern "C" fn getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let name = unsafe { Self::of(ep) }.state.lock().device.peer_name();
        // SAFETY: the application passes a buffer and its length, or null.
        status(name.and_then(|name| unsafe { hand_out_name(&name, addr, addrlen) }))
    }

    /// Enables the endpoint, if the application has not, and starts to connect.
    unsafe extern "C" fn connect(
        ep: *mut fid_ep,
        addr: *const c_void,
        param: *const c_void,
        paramlen: usize,
    ) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(ep) };
        // SAFETY: the application passes an address of its format, and `paramlen` bytes or none.
        let (to, data) = unsafe {
            (
                peer_address(addr, endpoint.info.addr_format),
                cm_data(param, paramlen, P::Device::CM_DATA_SIZE),
            )
        };
        status(endpoint.ready_to_connect().and_then(|()| {
            let (to, data) = (to?, data?);
            let mut state = endpoint.state.lock();
            state.device.connect(&to, data)?;
            // Its deadline counts from now on.
            state.progress();
            Ok(())
        }))
    }

    /// Enables the endpoint, if the application has not, and accepts the request that it was opened from.
    unsafe extern "C" fn accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(ep) };
        // SAFETY: the application passes `paramlen` bytes or none.
        let data = unsafe { cm_data(param, paramlen, P::Device::CM_DATA_SIZE) };
        status(endpoint.ready_to_connect().and_then(|()| {
            let data = data?;
            {
                let mut state = endpoint.state.lock();
                state.device.accept(data)?;
                state.progress();
            }
            if let Some(taken) = lock(&endpoint.bindings).request.take() {
                taken.free();
            }
            Ok(())
        }))
    }

    unsafe extern "C" fn shutdown(ep: *mut fid_ep, _flags: u64) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let mut state = unsafe { Self::of(ep) }.state.lock();
        status(state.device.shutdown().map(|()| {
            state.progress();
        }))
    }

    /// Checks that there is an event queue: without one, the application could not learn of connections.
    fn ready_to_connect(&self) -> Result<(), Errno> {
        if !P::Device::CONNECTED {
            return Err(Errno::NOSYS);
        }
        if lock(&self.bindings).eq.is_none() {
            return Err(Errno::NOEQ);
        }
        self.enable()
    }
}

/// Copies a name, as much of it as fits, and reports its length.
///
/// # Errors
/// `TOOSMALL` when it does not fit, `INVAL` without a buffer or a length.
///
/// # Safety
/// `addr` is null or has as many bytes as `addrlen` says; `addrlen` is null or may be changed.
pub(crate) unsafe fn hand_out_name(
    name: &Address,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> Result<(), Errno> {
    // SAFETY: the caller's contract.
    let room = unsafe { addrlen.as_mut() }.ok_or(Errno::INVAL)?;
    let (name, _) = address_to_c(name);
    let fits = name.len().min(*room);
    let whole = *room >= name.len();
    *room = name.len();
    if !addr.is_null() {
        // SAFETY: the application's buffer has the room that it told.
        unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), addr.cast(), fits) };
    } else if whole {
        return Err(Errno::INVAL);
    }
    if whole { Ok(()) } else { Err(Errno::TOOSMALL) }
}

/// Describes what an application sends along with a request or its answer.
///
/// # Errors
/// `INVAL` when it is too long, or null and not empty.
///
/// # Safety
/// `param` is null or has `paramlen` bytes that stay as they are during the call.
pub(crate) unsafe fn cm_data<'a>(
    param: *const c_void,
    paramlen: usize,
    at_most: usize,
) -> Result<&'a [u8], Errno> {
    if paramlen > at_most || (param.is_null() && paramlen != 0) {
        return Err(Errno::INVAL);
    }
    if paramlen == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's contract.
    Ok(unsafe { slice::from_raw_parts(param.cast(), paramlen) })
}

/// Reads the address that fi_connect or fi_join names, which says itself how long it is.
///
/// # Errors
/// `INVAL` for a null address, or one of another format.
///
/// # Safety
/// `addr` is null or an address of that format.
pub(super) unsafe fn peer_address(addr: *const c_void, format: u32) -> Result<Address, Errno> {
    if addr.is_null() {
        return Err(Errno::INVAL);
    }
    let length = if format == FI_ADDR_STR {
        // SAFETY: the caller's contract: it is a string.
        unsafe { CStr::from_ptr(addr.cast()) }
            .to_bytes_with_nul()
            .len()
    } else {
        // SAFETY: the caller's contract: it is a socket address, which begins with its family.
        match libc::c_int::from(unsafe { addr.cast::<libc::sa_family_t>().read_unaligned() }) {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => return Err(Errno::INVAL),
        }
    };
    // SAFETY: an address of that format is as long.
    unsafe { address_from_c(addr, length, format) }?.ok_or(Errno::INVAL)
}
