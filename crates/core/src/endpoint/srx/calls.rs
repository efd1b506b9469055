//! The calls of a shared receive context: receives only. Source: fi_endpoint(3), fi_msg(3), fi_tagged(3).

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use std::sync::atomic::Ordering;

use oxifabric_abi::{
    FI_CLASS_CQ, FI_ENABLE, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, fi_ops, fi_ops_cm, fi_ops_ep,
    fi_ops_msg, fi_ops_tagged, fid, fid_ep, fid_t,
};
use oxifabric_engine::RxOp;
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use super::super::call::RecvCall;
use super::super::defaults::DirectionFlags;
use super::super::memory::{Descriptors, Lend};
use super::super::option_value;
use super::super::receives::ReceiveCalls;
use super::Srx;
use crate::absent::{self, no1, no2, no3, no4, no5, no6, no7, no8};
use crate::domain::Domain;
use crate::handle::{self, checked, count, failed, object, status};

pub(super) static BASE: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    ..absent::BASE
};

pub(super) static EP: fi_ops_ep = fi_ops_ep {
    cancel: Some(cancel),
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Some(no5),
    rx_ctx: Some(no5),
    rx_size_left: Some(no1),
    tx_size_left: Some(no1),
    export_xpu: Some(no3),
    ..fi_ops_ep::NONE
};

pub(super) static CM: fi_ops_cm = fi_ops_cm {
    setname: Some(no3),
    getname: Some(no3),
    getpeer: Some(no3),
    connect: Some(no4),
    listen: Some(no1),
    accept: Some(no3),
    reject: Some(no4),
    shutdown: Some(no2),
    join: Some(no5),
    ..fi_ops_cm::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of contexts, and the application gives this one up.
    status(unsafe { handle::close::<Srx>(fid) })
}

unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, _flags: u64) -> c_int {
    // SAFETY: the table is only in the handles of contexts; the application binds an open object, which begins with a
    // `fid`.
    status(unsafe {
        let srx: &Srx = object(fid.cast());
        match bfid.as_ref().map(|fid| fid.fclass) {
            Some(FI_CLASS_CQ) => checked(bfid).and_then(|cq| srx.bind_cq(cq)),
            _ => Err(Errno::INVAL),
        }
    })
}

/// Enables a context, which changes nothing: it is ready from the start.
unsafe extern "C" fn control(_fid: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    status(match command {
        FI_ENABLE => Ok(()),
        _ => Err(Errno::NOSYS),
    })
}

unsafe extern "C" fn getopt(
    fid: fid_t,
    level: c_int,
    name: c_int,
    val: *mut c_void,
    len: *mut usize,
) -> c_int {
    if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -Errno::NOPROTOOPT.raw();
    }
    // SAFETY: the table is only in the handles of contexts; the application passes a buffer and its length.
    status(unsafe { option_value::write(object::<Srx>(fid.cast()).min_multi_recv(), val, len) })
}

unsafe extern "C" fn setopt(
    fid: fid_t,
    level: c_int,
    name: c_int,
    val: *const c_void,
    len: usize,
) -> c_int {
    if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -Errno::NOPROTOOPT.raw();
    }
    if val.is_null() || len != size_of::<usize>() {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in the handles of contexts; the application passes a size.
    unsafe {
        let min = val.cast::<usize>().read_unaligned();
        object::<Srx>(fid.cast())
            .min_multi_recv
            .store(min, Ordering::Relaxed);
    }
    0
}

unsafe extern "C" fn cancel(fid: fid_t, context: *mut c_void) -> isize {
    // SAFETY: the table is only in the handles of contexts.
    let cancelled = unsafe { object::<Srx>(fid.cast()) }.cancel(context.addr());
    count(cancelled.map(|()| 0))
}

/// The calls that post receives, which read descriptors or do not.
pub(super) struct Calls<D>(PhantomData<D>);

impl<D: Descriptors> Calls<D> {
    pub(super) const MSG: fi_ops_msg = fi_ops_msg {
        recv: Some(<Self as ReceiveCalls>::recv),
        recvv: Some(<Self as ReceiveCalls>::recvv),
        recvmsg: Some(<Self as ReceiveCalls>::recvmsg),
        send: Some(no6),
        sendv: Some(no6),
        sendmsg: Some(no3),
        inject: Some(no4),
        senddata: Some(no7),
        injectdata: Some(no5),
        ..fi_ops_msg::NONE
    };

    pub(super) const TAGGED: fi_ops_tagged = fi_ops_tagged {
        recv: Some(<Self as ReceiveCalls>::trecv),
        recvv: Some(<Self as ReceiveCalls>::trecvv),
        recvmsg: Some(<Self as ReceiveCalls>::trecvmsg),
        send: Some(no7),
        sendv: Some(no7),
        sendmsg: Some(no3),
        inject: Some(no5),
        senddata: Some(no8),
        injectdata: Some(no6),
        ..fi_ops_tagged::NONE
    };
}

impl<D: Descriptors> ReceiveCalls for Calls<D> {
    type Object = Srx;
    type Memory = D;

    unsafe fn object<'a>(handle: *mut fid_ep) -> &'a Srx {
        // SAFETY: the caller's contract.
        unsafe { object(handle) }
    }

    fn domain(srx: &Srx) -> &Domain {
        srx.domain()
    }

    fn defaults(srx: &Srx) -> &DirectionFlags {
        &srx.defaults.rx
    }

    fn receive(srx: &Srx, recv: RecvCall, body: Option<impl Lend>) -> isize {
        Self::receive_scattered(srx, recv, body.map(Lend::lend))
    }

    fn receive_scattered(srx: &Srx, recv: RecvCall, body: Option<Iov>) -> isize {
        let Some(body) = body else {
            return failed(Errno::INVAL);
        };
        if recv
            .flags
            .intersects(Flags::PEEK | Flags::CLAIM | Flags::DISCARD)
        {
            return count(srx.look(&recv, &body).map(|()| 0));
        }
        let op = RxOp {
            // Each endpoint has its own name of the source.
            from: PeerId::ANY,
            tag: recv.tag,
            ignore: recv.ignore,
            body,
            flags: recv.flags,
            context: recv.context.addr(),
        };
        let posted = srx.post(op, recv.from);
        count(posted.map(|()| 0))
    }
}
