//! The tables of wrappers, one function for every operation of the ABI.
//!
//! A function takes the provider's handle out of the first argument, passes the others on as [`Pass`] says, and lets
//! the hooks see the call. An operation that the provider lacks gives what it gives without hooks.

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;

use libc::iovec;
use oxifabric_abi::*;

use super::Call;
use super::counts::place_of;
use super::pass::{self, Pass};
use super::wrapper::{Class, Has, Wrapper, table};

/// Defines a module with a function for each operation of a table, and the table of them for a class.
macro_rules! shims {
    ($table:ident { $( $op:ident($first:ident: $object:ty $(, $arg:ident: $ty:ty)*) -> $ret:ty; )* }) => {
        pub(super) mod $table {
            #![allow(clippy::too_many_arguments, reason = "they are those of the C headers")]
            use super::*;

            $(
                /// Calls the hooks, and then the provider's operation of the same name.
                ///
                /// # Safety
                /// The first argument is a wrapper of this class; the others are those of the operation.
                pub(in super::super) unsafe extern "C" fn $op<T: Has<oxifabric_abi::$table>>(
                    $first: $object $(, $arg: $ty)*
                ) -> $ret {
                    // SAFETY: only wrappers have this function in their table, and the application passes what the
                    // operation asks for.
                    unsafe {
                        let wrapper = Wrapper::<T>::of($first as *mut T);
                        let hooks = wrapper.hooks();
                        let call = Call {
                            table: stringify!($table),
                            op: stringify!($op),
                            counted: const { place_of(stringify!($table), stringify!($op)) },
                            size: size!($op; $($arg),*),
                            arguments: format_args!(
                                concat!("{:?}" $(, ", ", stringify!($arg), " {:?}")*), $first $(, $arg)*
                            ),
                        };
                        pass_trigger!($op; $($arg),*);
                        let triggered = wrapper.triggered();
                        if triggered != 0
                            && pass::is_triggered(stringify!($table), stringify!($op), triggered)
                        {
                            lower_last!($($arg),*);
                        }
                        let ops = table::<oxifabric_abi::$table, T>(wrapper.inner());
                        let reaches = offset_of!(oxifabric_abi::$table, $op);
                        let found = if ops.is_null() || (*ops).size <= reaches { None } else { (*ops).$op };
                        let Some(op) = found else {
                            return <$ret as Absent>::ABSENT;
                        };
                        let result = hooks.around(&call, || {
                            op(wrapper.inner() as $object $(, Pass::down($arg))*)
                        });
                        $( Pass::up($arg, hooks, pass::succeeded(result)); )*
                        result
                    }
                }
            )*

            /// Returns the table of these functions.
            pub(in super::super) const fn table_of<T: Has<oxifabric_abi::$table>>() -> oxifabric_abi::$table {
                oxifabric_abi::$table {
                    size: size_of::<oxifabric_abi::$table>(),
                    $( $op: Some($op::<T>), )*
                }
            }
        }
    };
}

/// How many bytes an operation moves, by its name: all tables of transfers follow one pattern.
macro_rules! size {
    (send; $buf:ident, $len:ident $(, $rest:ident)*) => {
        $len
    };
    (inject; $buf:ident, $len:ident $(, $rest:ident)*) => {
        $len
    };
    (senddata; $buf:ident, $len:ident $(, $rest:ident)*) => {
        $len
    };
    (injectdata; $buf:ident, $len:ident $(, $rest:ident)*) => {
        $len
    };
    (writedata; $buf:ident, $len:ident $(, $rest:ident)*) => {
        $len
    };
    (reg; $buf:ident, $len:ident $(, $rest:ident)*) => {
        $len
    };
    // `read` and `write` are also operations of queues and counters, which have fewer arguments.
    (read; $buf:ident, $len:ident, $desc:ident, $peer:ident, $addr:ident, $key:ident, $ctx:ident) => {
        $len
    };
    (write; $buf:ident, $len:ident, $desc:ident, $peer:ident, $addr:ident, $key:ident, $ctx:ident) => {
        $len
    };
    (sendv; $iov:ident, $desc:ident, $count:ident $(, $rest:ident)*) => {
        pass::length($iov, $count)
    };
    (readv; $iov:ident, $desc:ident, $count:ident $(, $rest:ident)*) => {
        pass::length($iov, $count)
    };
    (writev; $iov:ident, $desc:ident, $count:ident $(, $rest:ident)*) => {
        pass::length($iov, $count)
    };
    (regv; $iov:ident, $count:ident $(, $rest:ident)*) => {
        pass::length($iov, $count)
    };
    (sendmsg; $msg:ident, $flags:ident) => {
        pass::Described::length($msg)
    };
    (readmsg; $msg:ident, $flags:ident) => {
        pass::Described::length($msg)
    };
    (writemsg; $msg:ident, $flags:ident) => {
        pass::Described::length($msg)
    };
    (regattr; $attr:ident, $flags:ident, $mr:ident) => {
        pass::Described::length($attr)
    };
    ($other:ident; $($arg:ident),*) => {
        0
    };
}

/// Replaces the handle in the last argument, if that is a context.
macro_rules! lower_last {
    () => {};
    ($arg:ident) => { Pass::lower_context($arg) };
    ($first:ident, $($rest:ident),+) => { lower_last!($($rest),+) };
}

/// Replaces the handle in the context of a triggered operation, which the provider owns while it waits.
macro_rules! pass_trigger {
    (recvmsg; $msg:ident, $flags:ident) => { pass::trigger($msg, $flags) };
    (sendmsg; $msg:ident, $flags:ident) => { pass::trigger($msg, $flags) };
    (readmsg; $msg:ident, $flags:ident) => { pass::trigger($msg, $flags) };
    (writemsg; $msg:ident, $flags:ident) => { pass::trigger($msg, $flags) };
    (readwritemsg; $msg:ident $(, $arg:ident)*) => { pass::trigger_last!($msg $(, $arg)*) };
    (compwritemsg; $msg:ident $(, $arg:ident)*) => { pass::trigger_last!($msg $(, $arg)*) };
    ($other:ident; $($arg:ident),*) => {};
}

fi_ops!(shims);
fi_ops_fabric!(shims);
fi_ops_domain!(shims);
fi_ops_mr!(shims);
fi_ops_av!(shims);
fi_ops_av_set!(shims);
fi_ops_ep!(shims);
fi_ops_cm!(shims);
fi_ops_msg!(shims);
fi_ops_tagged!(shims);
fi_ops_rma!(shims);
fi_ops_atomic!(shims);
fi_ops_collective!(shims);
fi_ops_eq!(shims);
fi_ops_cq!(shims);
fi_ops_cntr!(shims);
fi_ops_wait!(shims);
fi_ops_poll!(shims);
fi_ops_xpu_ctx!(shims);

/// Declares the tables of a class, each with the operations that are written by hand.
macro_rules! classes {
    ($(
        $class:ident { $( $field:ident: $table:ident $( { $($op:ident: $by:path),* } )?; )* }
        $( => |$handle:ident, $inner:ident| { $($refresh:tt)* } )?
    )*) => { $(
        // SAFETY: the structures of the C headers begin with a `fid`.
        unsafe impl Class for oxifabric_abi::$class {
            fn dress(&mut self) {
                const BASE: &oxifabric_abi::fi_ops = &oxifabric_abi::fi_ops {
                    close: Some(special::close::<$class>),
                    bind: Some(special::bind::<$class>),
                    control: Some(special::control::<$class>),
                    ..fi_ops::table_of::<$class>()
                };
                dress(&mut self.fid.ops, BASE);
                $(
                    {
                        const TABLE: &oxifabric_abi::$table = &oxifabric_abi::$table {
                            $( $( $op: Some($by), )* )?
                            ..$table::table_of::<$class>()
                        };
                        dress(&mut self.$field, TABLE);
                    }
                )*
            }

            $(
                unsafe fn refresh($handle: *mut Self, $inner: *const Self) {
                    // SAFETY: both are open.
                    unsafe { $($refresh)* }
                }
            )?
        }

        $(
            // SAFETY: the field is a pointer to that table.
            unsafe impl Has<oxifabric_abi::$table> for oxifabric_abi::$class {
                const AT: usize = offset_of!(oxifabric_abi::$class, $field);
            }
        )*
    )* };
}

fn dress<O>(place: &mut *mut O, ours: &'static O) {
    if !place.is_null() {
        *place = core::ptr::from_ref(ours).cast_mut();
    }
}

use super::special;

classes! {
    fid_fabric { ops: fi_ops_fabric { trywait: special::trywait }; }
    fid_domain {
        ops: fi_ops_domain {
            cq_open: special::cq_open,
            endpoint: special::endpoint,
            endpoint2: special::endpoint2
        };
        mr: fi_ops_mr;
    }
    fid_av { ops: fi_ops_av; }
    fid_av_set { ops: fi_ops_av_set; }
    fid_ep {
        ops: fi_ops_ep;
        cm: fi_ops_cm { join: special::join };
        msg: fi_ops_msg;
        rma: fi_ops_rma;
        tagged: fi_ops_tagged;
        atomic: fi_ops_atomic;
        collective: fi_ops_collective;
    }
    fid_pep { ops: fi_ops_ep; cm: fi_ops_cm; }
    fid_stx { ops: fi_ops_ep; }
    fid_eq {
        ops: fi_ops_eq {
            read: special::eq_read,
            sread: special::eq_sread,
            readerr: special::eq_readerr
        };
    }
    fid_cq {
        ops: fi_ops_cq {
            read: special::cq_read,
            readfrom: special::cq_readfrom,
            sread: special::cq_sread,
            sreadfrom: special::cq_sreadfrom
        };
    }
    fid_cntr { ops: fi_ops_cntr; }
    fid_wait { ops: fi_ops_wait; }
    fid_poll { ops: fi_ops_poll; }
    fid_xpu_ctx { ops: fi_ops_xpu_ctx; }
    fid_mr {} => |handle, inner| {
        (*handle).mem_desc = (*inner).mem_desc;
        (*handle).key = (*inner).key;
    }
    fid_mc {} => |handle, inner| { (*handle).fi_addr = (*inner).fi_addr; }
}
