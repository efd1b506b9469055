//! Operations that an object does not have: they give `-FI_ENOSYS`, as fi_errno(3) asks.
//!
//! The inline functions of the C headers call through the tables without looking, so every slot is filled. One
//! generic function for each number of arguments serves all of them.

use oxifabric_abi::{Absent, fi_ops, fi_ops_atomic, fi_ops_collective, fi_ops_rma, fi_ops_tagged};

macro_rules! absent {
    ($($(#[$doc:meta])* $name:ident($($arg:ident)*);)*) => { $(
        $(#[$doc])*
        pub(crate) extern "C" fn $name<$($arg,)* R: Absent>($(_: $arg),*) -> R {
            R::ABSENT
        }
    )* };
}

absent! {
    /// An absent operation of one argument.
    no1(A);
    /// An absent operation of two arguments.
    no2(A B);
    /// An absent operation of three arguments.
    no3(A B C);
    /// An absent operation of four arguments.
    no4(A B C D);
    /// An absent operation of five arguments.
    no5(A B C D E);
    /// An absent operation of six arguments.
    no6(A B C D E F);
    /// An absent operation of seven arguments.
    no7(A B C D E F G);
    /// An absent operation of eight arguments.
    no8(A B C D E F G H);
    /// An absent operation of nine arguments.
    no9(A B C D E F G H I);
    /// An absent operation of ten arguments.
    no10(A B C D E F G H I J);
    /// An absent operation of eleven arguments.
    no11(A B C D E F G H I J K);
    /// An absent operation of twelve arguments.
    no12(A B C D E F G H I J K L);
    /// An absent operation of thirteen arguments.
    no13(A B C D E F G H I J K L M);
    /// An absent operation of fourteen arguments.
    no14(A B C D E F G H I J K L M N);
    /// An absent operation of sixteen arguments.
    no16(A B C D E F G H I J K L M N O P);
}

/// Base operations of an object that can only be closed; its table fills in the rest.
pub(crate) const BASE: fi_ops = fi_ops {
    close: None,
    bind: Some(no3),
    control: Some(no3),
    ops_open: Some(no5),
    tostr: Some(no3),
    ops_set: Some(no5),
    ..fi_ops::NONE
};

/// Remote memory access on an endpoint without it.
pub(crate) static RMA: fi_ops_rma = fi_ops_rma {
    read: Some(no8),
    readv: Some(no8),
    readmsg: Some(no3),
    write: Some(no8),
    writev: Some(no8),
    writemsg: Some(no3),
    inject: Some(no6),
    writedata: Some(no9),
    injectdata: Some(no7),
    ..fi_ops_rma::NONE
};

/// Atomics on an endpoint without them.
pub(crate) static ATOMIC: fi_ops_atomic = fi_ops_atomic {
    write: Some(no10),
    writev: Some(no10),
    writemsg: Some(no3),
    inject: Some(no8),
    readwrite: Some(no12),
    readwritev: Some(no13),
    readwritemsg: Some(no6),
    compwrite: Some(no14),
    compwritev: Some(no16),
    compwritemsg: Some(no9),
    writevalid: Some(no4),
    readwritevalid: Some(no4),
    compwritevalid: Some(no4),
    ..fi_ops_atomic::NONE
};

/// Tagged messages on an endpoint without them.
pub(crate) static TAGGED: fi_ops_tagged = fi_ops_tagged {
    recv: Some(no8),
    recvv: Some(no8),
    recvmsg: Some(no3),
    send: Some(no7),
    sendv: Some(no7),
    sendmsg: Some(no3),
    inject: Some(no5),
    senddata: Some(no8),
    injectdata: Some(no6),
    ..fi_ops_tagged::NONE
};

/// Collectives on an endpoint without them.
pub(crate) static COLLECTIVE: fi_ops_collective = fi_ops_collective {
    barrier: Some(no3),
    broadcast: Some(no9),
    alltoall: Some(no10),
    allreduce: Some(no11),
    allgather: Some(no10),
    reduce_scatter: Some(no11),
    reduce: Some(no12),
    scatter: Some(no11),
    gather: Some(no11),
    msg: Some(no6),
    barrier2: Some(no4),
    ..fi_ops_collective::NONE
};
