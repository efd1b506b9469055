//! What a passive endpoint is asked: its name, its options, and to answer requests. Source: fi_cm(3), fi_endpoint(3).

use core::ffi::{c_int, c_void};

use oxifabric_abi::{
    FI_CLASS_CONNREQ, FI_OPT_CM_DATA_SIZE, FI_OPT_ENDPOINT, fi_ops_cm, fi_ops_ep, fid_pep, fid_t,
};
use oxifabric_provider::connection::{Connection, Listener, MsgProvider};
use oxifabric_types::Errno;

use super::{PassiveEndpoint, Request, State};
use crate::absent::{no1, no2, no3, no4, no5};
use crate::endpoint::cm::{cm_data, hand_out_name};
use crate::endpoint::option_value;
use crate::handle::status;
use crate::info::address_from_c;
use crate::lock::lock;

impl<P: MsgProvider> PassiveEndpoint<P> {
    pub(super) const CM: fi_ops_cm = fi_ops_cm {
        setname: Some(Self::setname),
        getname: Some(Self::getname),
        getpeer: Some(no3),
        connect: Some(no4),
        listen: Some(Self::listen_on),
        accept: Some(no3),
        reject: Some(Self::reject),
        shutdown: Some(no2),
        join: Some(no5),
        ..fi_ops_cm::NONE
    };

    pub(super) const EP: fi_ops_ep = fi_ops_ep {
        cancel: Some(no2),
        getopt: Some(Self::getopt),
        setopt: Some(no5),
        tx_ctx: Some(no5),
        rx_ctx: Some(no5),
        rx_size_left: Some(no1),
        tx_size_left: Some(no1),
        export_xpu: Some(no3),
        ..fi_ops_ep::NONE
    };

    unsafe extern "C" fn setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(fid.cast()) };
        // SAFETY: the application passes `addrlen` bytes, or null.
        let name = unsafe { address_from_c(addr, addrlen, endpoint.info.addr_format) };
        let rename = |name: Option<_>| match &mut *lock(&endpoint.state) {
            State::Bound(listener) => listener.rename(name.ok_or(Errno::INVAL)?),
            _ => Err(Errno::OPBADSTATE),
        };
        status(name.and_then(rename))
    }

    unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(fid.cast()) };
        let name = match &*lock(&endpoint.state) {
            State::Bound(listener) | State::Listening(listener) => Ok(listener.name()),
            State::Gone => Err(Errno::OPBADSTATE),
        };
        // SAFETY: the application passes a buffer and its length, or null.
        status(name.and_then(|name| unsafe { hand_out_name(&name, addr, addrlen) }))
    }

    unsafe extern "C" fn listen_on(pep: *mut fid_pep) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        status(unsafe { Self::of(pep) }.listen())
    }

    unsafe extern "C" fn reject(
        _pep: *mut fid_pep,
        handle: fid_t,
        param: *const c_void,
        paramlen: usize,
    ) -> c_int {
        // SAFETY: the application passes `paramlen` bytes or none.
        let data = unsafe { cm_data(param, paramlen, P::Connected::CM_DATA_SIZE) };
        // SAFETY: a handle is null or an open object.
        let class = unsafe { handle.as_ref() }.map(|fid| fid.fclass);
        status(match (data, class) {
            (Ok(data), Some(FI_CLASS_CONNREQ)) => {
                // SAFETY: the application rejects a request of this endpoint, once, and leaves its handle alone then.
                unsafe { Request::<P>::reject(handle, data) };
                Ok(())
            }
            (Ok(_), _) => Err(Errno::INVAL),
            (Err(errno), _) => Err(errno),
        })
    }

    unsafe extern "C" fn getopt(
        _fid: fid_t,
        level: c_int,
        optname: c_int,
        optval: *mut c_void,
        optlen: *mut usize,
    ) -> c_int {
        if (level, optname) != (FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE) {
            return -Errno::NOPROTOOPT.raw();
        }
        // SAFETY: the application passes a buffer and its length.
        status(unsafe { option_value::write(P::Connected::CM_DATA_SIZE, optval, optlen) })
    }
}
