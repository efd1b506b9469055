//! The shapes that every header repeats: operation tables, zeroed structures, calls through a table.

/// Declares a table of operations: `size` first, then one nullable C function per operation.
///
/// `NONE` is the table of full size without any operation; providers fill in what they have:
/// `fi_ops_cm { getname: Some(getname), ..fi_ops_cm::NONE }`.
///
/// A macro of the same name hands the signatures to another macro, for code that does the same with every operation:
/// `fi_ops_cm!(wrap)` is `wrap! { fi_ops_cm { setname(fid: fid_t, ...) -> c_int; ... } }`.
macro_rules! ops_table {
    (
        $(#[$meta:meta])*
        $name:ident { $( $op:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?; )* }
    ) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            /// Bytes of this table that its provider knows of; an operation beyond them is absent.
            pub size: usize,
            $( pub $op: Option<unsafe extern "C" fn($($arg: $ty),*) $(-> $ret)?>, )*
        }

        impl $name {
            /// A table of full size without any operation.
            pub const NONE: Self = Self { size: size_of::<Self>(), $( $op: None, )* };
        }

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $name {
            ($cb:ident) => { $cb! { $name { $( $op($($arg: $ty),*) $(-> $ret)?; )* } } };
        }
    };
}

/// Gives structures of integers and raw pointers the value that C programs get from `memset` to zero.
macro_rules! zeroed {
    ($($name:ident),* $(,)?) => {
        $(
            impl $name {
                /// All integers zero, all pointers null.
                // SAFETY: integers, raw pointers and nullable functions, all of which may be zero.
                pub const ZERO: Self = unsafe { core::mem::zeroed() };
            }

            impl Default for $name {
                fn default() -> Self {
                    Self::ZERO
                }
            }
        )*
    };
}

/// Declares calls through an operation table: `pub name: table.operation(object, arguments...) -> result;`.
///
/// The first argument is the object; its field `table` points to the operations. `in Table` after the result marks an
/// operation that was added to its table later: it is looked up only if the provider's table reaches that far.
macro_rules! calls {
    ($(
        $(#[$meta:meta])*
        $vis:vis $name:ident: $table:ident.$op:ident(
            $obj:ident: *mut $class:ty $(, $arg:ident: $ty:ty)* $(,)?
        ) -> $ret:ty $(, in $ops:ty)?;
    )*) => { $(
        $(#[$meta])*
        ///
        /// An operation that the object lacks gives what [`Absent`](crate::calls::Absent) says for the result.
        ///
        /// # Safety
        ///
        /// The object must be open, and every other argument valid in the way, and for as long as, the man page says.
        #[inline]
        $vis unsafe fn $name($obj: *mut $class $(, $arg: $ty)*) -> $ret {
            // SAFETY: an open object points to its operations until it is closed.
            let op = unsafe { calls!(@look (*$obj).$table, $op $(, $ops)?) };
            match op {
                // SAFETY: the caller vouches for the arguments of this very operation.
                Some(op) => unsafe { op($obj $(, $arg)*) },
                None => <$ret as crate::calls::Absent>::ABSENT,
            }
        }
    )* };
    (@look $table:expr, $op:ident) => {{
        let table = $table;
        if table.is_null() { None } else { (*table).$op }
    }};
    (@look $table:expr, $op:ident, $ops:ty) => {{
        let table = $table;
        if table.is_null() || (*table).size <= core::mem::offset_of!($ops, $op) {
            None
        } else {
            (*table).$op
        }
    }};
}
