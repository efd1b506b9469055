//! Atomic operations, typed by their operands. Source: fi_atomic(3).

use oxifabric_abi::{
    FI_ATOMIC_READ, FI_ATOMIC_WRITE, FI_BAND, FI_BOR, FI_BXOR, FI_CSWAP, FI_CSWAP_GE, FI_CSWAP_GT,
    FI_CSWAP_LE, FI_CSWAP_LT, FI_CSWAP_NE, FI_DOUBLE, FI_FLOAT, FI_INT8, FI_INT16, FI_INT32,
    FI_INT64, FI_INT128, FI_LAND, FI_LOR, FI_LXOR, FI_MAX, FI_MIN, FI_MSWAP, FI_PROD, FI_SUM,
    FI_UINT8, FI_UINT16, FI_UINT32, FI_UINT64, FI_UINT128, FI_VOID, fi_datatype, fi_op,
};

use crate::raw::{Plain, Scalars, from_word, to_word};
use crate::{Completion, Operation, Transfer};

/// A number type on which peers can operate atomically.
pub trait Atomic: Plain + PartialEq + sealed::Sealed {
    #[doc(hidden)]
    const DATATYPE: fi_datatype;
}

/// An integer type, on whose bits peers can operate atomically.
pub trait AtomicInteger: Atomic {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! atomic {
    ($($type:ty: $datatype:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Atomic for $type {
                const DATATYPE: fi_datatype = $datatype;
            }
        )*
    };
}

atomic! {
    i8: FI_INT8; u8: FI_UINT8; i16: FI_INT16; u16: FI_UINT16; i32: FI_INT32; u32: FI_UINT32;
    i64: FI_INT64; u64: FI_UINT64; i128: FI_INT128; u128: FI_UINT128; f32: FI_FLOAT; f64: FI_DOUBLE;
}

macro_rules! integers {
    ($($type:ty)*) => { $(impl AtomicInteger for $type {})* };
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128);

/// The update of an element of a peer's memory by an atomic operation.
///
/// The operand has the type of the element; bitwise updates are for integers only.
///
/// The provider carries it out: no other atomic operation of the same domain comes between its read and its write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update<T: Atomic> {
    pub(crate) op: fi_op,
    pub(crate) operand: T,
}

impl<T: Atomic> Update<T> {
    /// Adds the operand.
    pub const fn sum(operand: T) -> Self {
        Self::new(FI_SUM, operand)
    }

    /// Multiplies by the operand.
    pub const fn product(operand: T) -> Self {
        Self::new(FI_PROD, operand)
    }

    /// Keeps the lesser of element and operand.
    pub const fn min(operand: T) -> Self {
        Self::new(FI_MIN, operand)
    }

    /// Keeps the greater of element and operand.
    pub const fn max(operand: T) -> Self {
        Self::new(FI_MAX, operand)
    }

    /// Replaces the element by the operand.
    pub const fn write(operand: T) -> Self {
        Self::new(FI_ATOMIC_WRITE, operand)
    }

    /// Writes one if element and operand are both other than zero, else zero.
    pub const fn logical_and(operand: T) -> Self {
        Self::new(FI_LAND, operand)
    }

    /// Writes one if element or operand is other than zero, else zero.
    pub const fn logical_or(operand: T) -> Self {
        Self::new(FI_LOR, operand)
    }

    /// Writes one if exactly one of element and operand is other than zero, else zero.
    pub const fn logical_xor(operand: T) -> Self {
        Self::new(FI_LXOR, operand)
    }

    const fn new(op: fi_op, operand: T) -> Self {
        Self { op, operand }
    }
}

impl<T: AtomicInteger> Update<T> {
    /// Keeps the bits that are set in both element and operand.
    pub const fn and(operand: T) -> Self {
        Self::new(FI_BAND, operand)
    }

    /// Sets the bits of the operand.
    pub const fn or(operand: T) -> Self {
        Self::new(FI_BOR, operand)
    }

    /// Flips the bits of the operand.
    pub const fn xor(operand: T) -> Self {
        Self::new(FI_BXOR, operand)
    }
}

/// A comparison with an element of a peer's memory, and the value that replaces the element if it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange<T: Atomic> {
    pub(crate) op: fi_op,
    pub(crate) compare: T,
    pub(crate) new: T,
}

impl<T: Atomic> Exchange<T> {
    /// Writes `new` if the element equals `compare`.
    pub const fn if_equal(compare: T, new: T) -> Self {
        Self::new(FI_CSWAP, compare, new)
    }

    /// Writes `new` if the element does not equal `compare`.
    pub const fn if_unequal(compare: T, new: T) -> Self {
        Self::new(FI_CSWAP_NE, compare, new)
    }

    /// Writes `new` if `compare` is at most the element.
    pub const fn if_at_most(compare: T, new: T) -> Self {
        Self::new(FI_CSWAP_LE, compare, new)
    }

    /// Writes `new` if `compare` is less than the element.
    pub const fn if_less(compare: T, new: T) -> Self {
        Self::new(FI_CSWAP_LT, compare, new)
    }

    /// Writes `new` if `compare` is at least the element.
    pub const fn if_at_least(compare: T, new: T) -> Self {
        Self::new(FI_CSWAP_GE, compare, new)
    }

    /// Writes `new` if `compare` is greater than the element.
    pub const fn if_greater(compare: T, new: T) -> Self {
        Self::new(FI_CSWAP_GT, compare, new)
    }

    const fn new(op: fi_op, compare: T, new: T) -> Self {
        Self { op, compare, new }
    }
}

impl<T: AtomicInteger> Exchange<T> {
    /// Writes those bits of `new` that are set in `mask`.
    pub const fn masked(mask: T, new: T) -> Self {
        Self::new(FI_MSWAP, mask, new)
    }
}

/// The C operation that reads an element.
pub(crate) const READ: fi_op = FI_ATOMIC_READ;

/// Returns the operands as the slot of the operation stores them.
pub(crate) fn scalars<T: Atomic>(operand: Option<T>, compare: Option<T>) -> Scalars {
    Scalars {
        operand: operand.map_or(0, to_word),
        compare: compare.map_or(0, to_word),
        result: 0,
        datatype: T::DATATYPE,
    }
}

/// The value of an element before the operation, and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) datatype: fi_datatype,
    pub(crate) word: u128,
}

impl Fetched {
    pub(crate) const NOTHING: Self = Self {
        datatype: FI_VOID,
        word: 0,
    };
}

impl Transfer {
    /// Returns the element's value before a fetch or a compare; `None` for other operations and other types.
    pub fn fetched<T: Atomic>(&self) -> Option<T> {
        let fits = matches!(self.operation, Operation::Fetch | Operation::Compare)
            && self.fetched.datatype == T::DATATYPE;
        fits.then(|| from_word(self.fetched.word))
    }
}

impl Completion {
    /// Returns the element's value before a fetch or a compare; `None` for other operations, other types, and after an error.
    pub fn fetched<T: Atomic>(&self) -> Option<T> {
        self.outcome.as_ref().ok()?.fetched()
    }
}
