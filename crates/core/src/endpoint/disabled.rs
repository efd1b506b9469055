//! Data transfers that an endpoint refuses, and the log says why: `-FI_EOPBADSTATE` while it is not enabled (fi_endpoint(3)),
//! `-FI_ENOSYS` where it was opened without their capability.

use oxifabric_abi::{fi_ops_atomic, fi_ops_msg, fi_ops_rma, fi_ops_tagged, fid_ep};
use oxifabric_types::Errno;

use crate::atomic;
use crate::handle::failed;
use crate::misuse::{not_asked_for, not_enabled};

/// Makes an operation that refuses, by the C name of the call and its arguments after the endpoint, which nothing looks at. A
/// capability after the name is the one that is missing.
macro_rules! off {
    ($call:literal: $($arg:ident)*) => { off!(@ OPBADSTATE not_enabled($call); $($arg)*) };
    ($call:literal, $missing:literal: $($arg:ident)*) => { off!(@ NOSYS not_asked_for($call, $missing); $($arg)*) };
    (@ $errno:ident $explain:ident($call:literal $(, $missing:literal)?); $($arg:ident)*) => {{
        unsafe extern "C" fn refuse<$($arg),*>(endpoint: *mut fid_ep, $(_: $arg),*) -> isize {
            // SAFETY: the table is only in the handles of open endpoints.
            unsafe { $explain($call, endpoint.cast() $(, $missing)?) };
            failed(Errno::$errno)
        }
        Some(refuse)
    }};
}

/// Makes a table of remote memory access in which every operation refuses.
macro_rules! rma {
    ($($missing:literal)?) => { fi_ops_rma {
        read: off!("fi_read" $(, $missing)?: A B C D E F G),
        readv: off!("fi_readv" $(, $missing)?: A B C D E F G),
        readmsg: off!("fi_readmsg" $(, $missing)?: A B),
        write: off!("fi_write" $(, $missing)?: A B C D E F G),
        writev: off!("fi_writev" $(, $missing)?: A B C D E F G),
        writemsg: off!("fi_writemsg" $(, $missing)?: A B),
        inject: off!("fi_inject_write" $(, $missing)?: A B C D E),
        writedata: off!("fi_writedata" $(, $missing)?: A B C D E F G H),
        injectdata: off!("fi_inject_writedata" $(, $missing)?: A B C D E F),
        ..fi_ops_rma::NONE
    } };
}

/// Untagged messages.
pub(super) static MSG: fi_ops_msg = fi_ops_msg {
    recv: off!("fi_recv": A B C D E),
    recvv: off!("fi_recvv": A B C D E),
    recvmsg: off!("fi_recvmsg": A B),
    send: off!("fi_send": A B C D E),
    sendv: off!("fi_sendv": A B C D E),
    sendmsg: off!("fi_sendmsg": A B),
    inject: off!("fi_inject": A B C),
    senddata: off!("fi_senddata": A B C D E F),
    injectdata: off!("fi_injectdata": A B C D),
    ..fi_ops_msg::NONE
};

/// Tagged messages.
pub(super) static TAGGED: fi_ops_tagged = fi_ops_tagged {
    recv: off!("fi_trecv": A B C D E F G),
    recvv: off!("fi_trecvv": A B C D E F G),
    recvmsg: off!("fi_trecvmsg": A B),
    send: off!("fi_tsend": A B C D E F),
    sendv: off!("fi_tsendv": A B C D E F),
    sendmsg: off!("fi_tsendmsg": A B),
    inject: off!("fi_tinject": A B C D),
    senddata: off!("fi_tsenddata": A B C D E F G),
    injectdata: off!("fi_tinjectdata": A B C D E),
    ..fi_ops_tagged::NONE
};

/// Remote memory access.
pub(super) static RMA: fi_ops_rma = rma!();

/// Remote memory access on an endpoint that was opened without it.
pub(super) static NO_RMA: fi_ops_rma = rma!("FI_RMA");

/// Atomics. Which there are, may be asked before.
pub(super) static ATOMIC: fi_ops_atomic = fi_ops_atomic {
    write: off!("fi_atomic": A B C D E F G H I),
    writev: off!("fi_atomicv": A B C D E F G H I),
    writemsg: off!("fi_atomicmsg": A B),
    inject: off!("fi_inject_atomic": A B C D E F G),
    readwrite: off!("fi_fetch_atomic": A B C D E F G H I J K),
    readwritev: off!("fi_fetch_atomicv": A B C D E F G H I J K L),
    readwritemsg: off!("fi_fetch_atomicmsg": A B C D E),
    compwrite: off!("fi_compare_atomic": A B C D E F G H I J K L M),
    compwritev: off!("fi_compare_atomicv": A B C D E F G H I J K L M N O),
    compwritemsg: off!("fi_compare_atomicmsg": A B C D E F G H),
    writevalid: Some(atomic::write_valid),
    readwritevalid: Some(atomic::readwrite_valid),
    compwritevalid: Some(atomic::compwrite_valid),
    ..fi_ops_atomic::NONE
};
