//! What is computed on memory: the datatypes and operations of fi_atomic(3), over plain bytes.
//!
//! Nothing here knows where the bytes come from, or needs them aligned. A caller that updates memory which other threads
//! update too keeps them away meanwhile. Path class: hot for one element, large for lists.
//!
//! - `kinds`: datatypes and operations by their numbers, and which go together.
//! - `element`: numbers as bytes, and what can be done with them.
//! - `complex`: complex numbers.
//! - `soft`: floating point that the processor or the language lacks: 80 bits, 16 bits, 8 bits.

mod complex;
mod element;
mod kinds;
mod soft;

pub use kinds::{Datatype, Form, Operation};

use complex::Complex;
use element::{Bitwise, Element, Ordered};
use soft::{BFloat16, Extended, Float8E4M3, Float8E5M2, Float16};

/// Calls `$call` with the type that stands for a datatype: one of three, by what its numbers can do.
macro_rules! dispatch {
    ($datatype:expr, $bitwise:ident, $ordered:ident, $plain:ident ($($arg:expr),*)) => {
        match $datatype {
            Datatype::Int8 => $bitwise::<i8>($($arg),*),
            Datatype::Uint8 => $bitwise::<u8>($($arg),*),
            Datatype::Int16 => $bitwise::<i16>($($arg),*),
            Datatype::Uint16 => $bitwise::<u16>($($arg),*),
            Datatype::Int32 => $bitwise::<i32>($($arg),*),
            Datatype::Uint32 => $bitwise::<u32>($($arg),*),
            Datatype::Int64 => $bitwise::<i64>($($arg),*),
            Datatype::Uint64 => $bitwise::<u64>($($arg),*),
            Datatype::Int128 => $bitwise::<i128>($($arg),*),
            Datatype::Uint128 => $bitwise::<u128>($($arg),*),
            Datatype::Float => $ordered::<f32>($($arg),*),
            Datatype::Double => $ordered::<f64>($($arg),*),
            Datatype::LongDouble => $ordered::<Extended>($($arg),*),
            Datatype::Float16 => $ordered::<Float16>($($arg),*),
            Datatype::BFloat16 => $ordered::<BFloat16>($($arg),*),
            Datatype::Float8E4M3 => $ordered::<Float8E4M3>($($arg),*),
            Datatype::Float8E5M2 => $ordered::<Float8E5M2>($($arg),*),
            Datatype::FloatComplex => $plain::<Complex<f32>>($($arg),*),
            Datatype::DoubleComplex => $plain::<Complex<f64>>($($arg),*),
            Datatype::LongDoubleComplex => $plain::<Complex<Extended>>($($arg),*),
        }
    };
}

/// Combines each element of `target` with that of `operand`: the operations of base and fetching atomics.
///
/// Integers wrap around. Comparisons are those of C: nothing is less than, or equal to, a NaN. Returns
/// false, and changes nothing, when the datatype has no such operation. Elements that only one of the two has are
/// left alone.
#[must_use]
pub fn combine(
    datatype: Datatype,
    operation: Operation,
    target: &mut [u8],
    operand: &[u8],
) -> bool {
    if !operation.is_valid(Form::Fetch, datatype) {
        return false;
    }
    dispatch!(
        datatype,
        combine_bits,
        combine_reals,
        combine_numbers(operation, target, operand)
    );
    true
}

/// Exchanges each element of `target` for that of `operand` as the comparison with that of `compare` says: the
/// operations of comparing atomics. Returns false as [`combine`] does.
#[must_use]
pub fn compare_swap(
    datatype: Datatype,
    operation: Operation,
    target: &mut [u8],
    operand: &[u8],
    compare: &[u8],
) -> bool {
    if !operation.is_valid(Form::Compare, datatype) {
        return false;
    }
    dispatch!(
        datatype,
        swap_bits,
        swap_reals,
        swap_numbers(operation, target, operand, compare)
    );
    true
}

fn combine_numbers<T: Element>(operation: Operation, target: &mut [u8], operand: &[u8]) {
    each(target, operand, |t: T, o: T| numbers(operation, t, o));
}

fn combine_reals<T: Ordered>(operation: Operation, target: &mut [u8], operand: &[u8]) {
    each(target, operand, |t: T, o: T| reals(operation, t, o));
}

fn combine_bits<T: Bitwise>(operation: Operation, target: &mut [u8], operand: &[u8]) {
    each(target, operand, |t: T, o: T| match operation {
        Operation::Bor => t.or(o),
        Operation::Band => t.and(o),
        Operation::Bxor => t.xor(o),
        other => reals(other, t, o),
    });
}

fn reals<T: Ordered>(operation: Operation, t: T, o: T) -> T {
    match operation {
        Operation::Min if o < t => o,
        Operation::Max if o > t => o,
        Operation::Min | Operation::Max => t,
        other => numbers(other, t, o),
    }
}

fn numbers<T: Element>(operation: Operation, t: T, o: T) -> T {
    match operation {
        Operation::Sum => t.add(o),
        Operation::Diff => t.sub(o),
        Operation::Prod => t.mul(o),
        Operation::Lor => T::truth(t.is_true() || o.is_true()),
        Operation::Land => T::truth(t.is_true() && o.is_true()),
        Operation::Lxor => T::truth(t.is_true() != o.is_true()),
        Operation::Write => o,
        _ => t,
    }
}

fn swap_numbers<T: Element>(
    operation: Operation,
    target: &mut [u8],
    operand: &[u8],
    compare: &[u8],
) {
    each_if(target, operand, compare, |t: T, c: T| {
        equality(operation, t, c)
    });
}

fn swap_reals<T: Ordered>(operation: Operation, target: &mut [u8], operand: &[u8], compare: &[u8]) {
    each_if(target, operand, compare, |t: T, c: T| match operation {
        Operation::CswapLe => c <= t,
        Operation::CswapLt => c < t,
        Operation::CswapGe => c >= t,
        Operation::CswapGt => c > t,
        other => equality(other, t, c),
    });
}

fn swap_bits<T: Bitwise>(operation: Operation, target: &mut [u8], operand: &[u8], compare: &[u8]) {
    if operation != Operation::Mswap {
        return swap_reals::<T>(operation, target, operand, compare);
    }
    // Bits of the mask come from the operand, the others stay.
    for ((t, o), c) in target.iter_mut().zip(operand).zip(compare) {
        *t = (o & c) | (*t & !c);
    }
}

fn equality<T: Element>(operation: Operation, t: T, c: T) -> bool {
    match operation {
        Operation::Cswap => c == t,
        Operation::CswapNe => c != t,
        _ => false,
    }
}

/// Replaces each element of `target` by what `new` makes of it and that of `operand`.
fn each<T: Element>(target: &mut [u8], operand: &[u8], new: impl Fn(T, T) -> T) {
    let pairs = target
        .chunks_exact_mut(T::SIZE)
        .zip(operand.chunks_exact(T::SIZE));
    for (to, from) in pairs {
        new(T::load(to), T::load(from)).store(to);
    }
}

/// Replaces those elements of `target` by those of `operand` for which `swaps` says so.
fn each_if<T: Element>(
    target: &mut [u8],
    operand: &[u8],
    compare: &[u8],
    swaps: impl Fn(T, T) -> bool,
) {
    let pairs = target
        .chunks_exact_mut(T::SIZE)
        .zip(operand.chunks_exact(T::SIZE));
    for ((to, from), with) in pairs.zip(compare.chunks_exact(T::SIZE)) {
        if swaps(T::load(to), T::load(with)) {
            to.copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests;
