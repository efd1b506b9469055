//! Data transfers of an endpoint that is not enabled: every call gives `-FI_EOPBADSTATE` (fi_endpoint(3)).

use oxifabric_abi::{fi_ops_atomic, fi_ops_msg, fi_ops_rma, fi_ops_tagged};
use oxifabric_types::Errno;

use crate::atomic;
use crate::handle::failed;

macro_rules! disabled {
    ($($name:ident($($arg:ident)*);)*) => { $(
        extern "C" fn $name<$($arg),*>($(_: $arg),*) -> isize {
            failed(Errno::OPBADSTATE)
        }
    )* };
}

disabled! {
    off3(A B C);
    off4(A B C D);
    off5(A B C D E);
    off6(A B C D E F);
    off7(A B C D E F G);
    off8(A B C D E F G H);
    off9(A B C D E F G H I);
    off10(A B C D E F G H I J);
    off12(A B C D E F G H I J K L);
    off13(A B C D E F G H I J K L M);
    off14(A B C D E F G H I J K L M N);
    off16(A B C D E F G H I J K L M N O P);
}

/// Untagged messages.
pub(super) static MSG: fi_ops_msg = fi_ops_msg {
    recv: Some(off6),
    recvv: Some(off6),
    recvmsg: Some(off3),
    send: Some(off6),
    sendv: Some(off6),
    sendmsg: Some(off3),
    inject: Some(off4),
    senddata: Some(off7),
    injectdata: Some(off5),
    ..fi_ops_msg::NONE
};

/// Tagged messages.
pub(super) static TAGGED: fi_ops_tagged = fi_ops_tagged {
    recv: Some(off8),
    recvv: Some(off8),
    recvmsg: Some(off3),
    send: Some(off7),
    sendv: Some(off7),
    sendmsg: Some(off3),
    inject: Some(off5),
    senddata: Some(off8),
    injectdata: Some(off6),
    ..fi_ops_tagged::NONE
};

/// Remote memory access.
pub(super) static RMA: fi_ops_rma = fi_ops_rma {
    read: Some(off8),
    readv: Some(off8),
    readmsg: Some(off3),
    write: Some(off8),
    writev: Some(off8),
    writemsg: Some(off3),
    inject: Some(off6),
    writedata: Some(off9),
    injectdata: Some(off7),
    ..fi_ops_rma::NONE
};

/// Atomics. Which there are, may be asked before.
pub(super) static ATOMIC: fi_ops_atomic = fi_ops_atomic {
    write: Some(off10),
    writev: Some(off10),
    writemsg: Some(off3),
    inject: Some(off8),
    readwrite: Some(off12),
    readwritev: Some(off13),
    readwritemsg: Some(off6),
    compwrite: Some(off14),
    compwritev: Some(off16),
    compwritemsg: Some(off9),
    writevalid: Some(atomic::write_valid),
    readwritevalid: Some(atomic::readwrite_valid),
    compwritevalid: Some(atomic::compwrite_valid),
    ..fi_ops_atomic::NONE
};
