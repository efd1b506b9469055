//! Floating point in integers, for the formats that the language has not: the x87's 80 bits, 16 bits, 8 bits.
//!
//! A number is taken apart, the exact result is computed in 128 bits, and put together again rounded to the nearest,
//! ties to even (IEEE 754). What is not a number gives the quiet one of the format.

use core::cmp::Ordering;

use super::element::{Element, Ordered, array};

/// Bit layout of a format: sign, exponent, fraction, from the highest.
pub(super) trait Format: Copy {
    /// Number of bytes that its numbers have in memory.
    const SIZE: usize;
    const EXPONENT_BITS: u32;
    /// Bits below the exponent, without a leading one that is not stored.
    const FRACTION_BITS: u32;
    /// The leading one is stored, above the fraction.
    const EXPLICIT: bool = false;
    /// The largest exponent is for infinities and what is not a number. Otherwise only all ones are no number.
    const INFINITIES: bool = true;
}

/// A number of a format, as its bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Soft<F> {
    bits: u128,
    format: core::marker::PhantomData<F>,
}

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $marker:ident { $($body:tt)* })*) => { $(
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $marker;

        impl Format for $marker { $($body)* }

        $(#[$doc])*
        pub(super) type $name = Soft<$marker>;
    )* };
}

formats! {
    /// FI_LONG_DOUBLE of x86: 10 bytes and 6 that mean nothing.
    Extended = X87 {
        const SIZE: usize = 16;
        const EXPONENT_BITS: u32 = 15;
        const FRACTION_BITS: u32 = 63;
        const EXPLICIT: bool = true;
    }
    /// FI_FLOAT16.
    Float16 = Half {
        const SIZE: usize = 2;
        const EXPONENT_BITS: u32 = 5;
        const FRACTION_BITS: u32 = 10;
    }
    /// FI_BFLOAT16.
    BFloat16 = Brain {
        const SIZE: usize = 2;
        const EXPONENT_BITS: u32 = 8;
        const FRACTION_BITS: u32 = 7;
    }
    /// FI_FLOAT8_E4M3.
    Float8E4M3 = E4M3 {
        const SIZE: usize = 1;
        const EXPONENT_BITS: u32 = 4;
        const FRACTION_BITS: u32 = 3;
        const INFINITIES: bool = false;
    }
    /// FI_FLOAT8_E5M2.
    Float8E5M2 = E5M2 {
        const SIZE: usize = 1;
        const EXPONENT_BITS: u32 = 5;
        const FRACTION_BITS: u32 = 2;
    }
}

/// A number taken apart.
#[derive(Clone, Copy, Debug)]
enum Parts {
    Nan,
    Infinity {
        negative: bool,
    },
    Zero {
        negative: bool,
    },
    /// `significand * 2^(exponent - 127)`; the highest bit of the significand is set.
    Finite {
        negative: bool,
        exponent: i32,
        significand: u128,
    },
}

impl<F: Format> Soft<F> {
    const BIAS: i32 = (1 << (F::EXPONENT_BITS - 1)) - 1;
    const LARGEST_FIELD: u32 = (1 << F::EXPONENT_BITS) - 1;
    /// Where the exponent begins.
    const EXPONENT_SHIFT: u32 = F::FRACTION_BITS + F::EXPLICIT as u32;
    const SIGN: u128 = 1 << (Self::EXPONENT_SHIFT + F::EXPONENT_BITS);
    const FRACTION: u128 = (1 << F::FRACTION_BITS) - 1;
    const LEADING: u128 = 1 << F::FRACTION_BITS;

    const fn new(bits: u128) -> Self {
        Self {
            bits,
            format: core::marker::PhantomData,
        }
    }

    fn parts(self) -> Parts {
        let negative = self.bits & Self::SIGN != 0;
        let field = (self.bits >> Self::EXPONENT_SHIFT) as u32 & Self::LARGEST_FIELD;
        let fraction = self.bits & Self::FRACTION;
        let stored = self.bits & Self::LEADING != 0;
        if field == Self::LARGEST_FIELD {
            match (F::INFINITIES, fraction) {
                // Without its leading one the x87 does not know it.
                (true, 0) if !F::EXPLICIT || stored => return Parts::Infinity { negative },
                (true, _) => return Parts::Nan,
                (false, all) if all == Self::FRACTION => return Parts::Nan,
                (false, _) => {}
            }
        }
        let leads = if F::EXPLICIT { stored } else { field != 0 };
        if F::EXPLICIT && field != 0 && !stored {
            return Parts::Nan;
        }
        let significand = if leads {
            fraction | Self::LEADING
        } else {
            fraction
        };
        if significand == 0 {
            return Parts::Zero { negative };
        }
        let shift = significand.leading_zeros();
        let scale = field.max(1) as i32 - Self::BIAS;
        Parts::Finite {
            negative,
            exponent: scale - (shift as i32 - (127 - F::FRACTION_BITS as i32)),
            significand: significand << shift,
        }
    }

    fn nan() -> Self {
        let quiet = match F::INFINITIES {
            true => Self::LEADING >> 1,
            false => Self::FRACTION,
        };
        Self::assemble(false, Self::LARGEST_FIELD, Self::LEADING | quiet)
    }

    fn infinity(negative: bool) -> Self {
        match F::INFINITIES {
            true => Self::assemble(negative, Self::LARGEST_FIELD, Self::LEADING),
            false => Self::nan(),
        }
    }

    fn zero(negative: bool) -> Self {
        Self::assemble(negative, 0, 0)
    }

    /// Puts a number together; the significand has its leading one if there is one.
    fn assemble(negative: bool, field: u32, significand: u128) -> Self {
        let sign = if negative { Self::SIGN } else { 0 };
        let mask = match F::EXPLICIT {
            true => Self::FRACTION | Self::LEADING,
            false => Self::FRACTION,
        };
        Self::new(sign | u128::from(field) << Self::EXPONENT_SHIFT | significand & mask)
    }

    /// Rounds `significand * 2^(exponent - 127)`, whose highest bit is set and whose lowest stands for all below.
    fn round(negative: bool, exponent: i32, significand: u128) -> Self {
        let smallest = 1 - Self::BIAS;
        // What is too small has fewer bits.
        let below = (smallest - exponent).max(0) as u32;
        let drop = 127 - F::FRACTION_BITS + below;
        let (mut kept, rest, half) = match drop {
            ..=127 => (
                significand >> drop,
                significand & ((1 << drop) - 1),
                1 << (drop - 1),
            ),
            // Only half of the smallest number there is, or less.
            128 => (0, significand, 1 << 127),
            _ => return Self::zero(negative),
        };
        if rest > half || (rest == half && kept & 1 == 1) {
            kept += 1;
        }
        let mut exponent = exponent.max(smallest);
        if kept == Self::LEADING << 1 {
            kept >>= 1;
            exponent += 1;
        }
        if kept & Self::LEADING == 0 {
            return Self::assemble(negative, 0, kept);
        }
        let field = (exponent + Self::BIAS) as u32;
        let is_over = match F::INFINITIES {
            true => field >= Self::LARGEST_FIELD,
            false => {
                let all = kept & Self::FRACTION == Self::FRACTION;
                field > Self::LARGEST_FIELD || (field == Self::LARGEST_FIELD && all)
            }
        };
        match is_over {
            true => Self::infinity(negative),
            false => Self::assemble(negative, field, kept),
        }
    }

    fn negated(self) -> Self {
        Self::new(self.bits ^ Self::SIGN)
    }

    /// Adds two finite numbers that are not zero, the first of which has the larger exponent.
    fn add_finite(
        (a_negative, a_exponent, a): (bool, i32, u128),
        (b_negative, b_exponent, b): (bool, i32, u128),
    ) -> Self {
        // Two bits of room: one for the carry, so that no format's lowest bit is lost.
        let (a, b) = (a >> 2, shift_down(b, 2 + (a_exponent - b_exponent) as u32));
        let (sum, negative) = match a_negative == b_negative {
            true => (a + b, a_negative),
            false if a >= b => (a - b, a_negative),
            false => (b - a, b_negative),
        };
        if sum == 0 {
            return Self::zero(false);
        }
        let shift = sum.leading_zeros();
        Self::round(negative, a_exponent + 2 - shift as i32, sum << shift)
    }
}

/// Shifts to the right; the lowest bit keeps whether anything was lost.
fn shift_down(value: u128, by: u32) -> u128 {
    match value.checked_shr(by) {
        Some(shifted) => shifted | u128::from(shifted << by != value),
        None => u128::from(value != 0),
    }
}

impl<F: Format> PartialEq for Soft<F> {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl<F: Format> PartialOrd for Soft<F> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(rank(self.parts())?.cmp(&rank(other.parts())?))
    }
}

/// Returns what numbers are ordered by; `None` for what is not a number.
fn rank(parts: Parts) -> Option<(i8, i32, i128)> {
    Some(match parts {
        Parts::Nan => return None,
        Parts::Zero { .. } => (0, 0, 0),
        Parts::Infinity { negative: false } => (2, 0, 0),
        Parts::Infinity { negative: true } => (-2, 0, 0),
        Parts::Finite {
            negative,
            exponent,
            significand,
        } => {
            let magnitude = (significand >> 1) as i128;
            match negative {
                false => (1, exponent, magnitude),
                true => (-1, -exponent, -magnitude),
            }
        }
    })
}

impl<F: Format> Element for Soft<F> {
    const SIZE: usize = F::SIZE;

    fn load(bytes: &[u8]) -> Self {
        let mut word = match F::SIZE {
            1 => u128::from(u8::from_ne_bytes(array(bytes))),
            2 => u128::from(u16::from_ne_bytes(array(bytes))),
            _ => u128::from_ne_bytes(array(bytes)),
        };
        // What is above the sign means nothing.
        word &= Self::SIGN | (Self::SIGN - 1);
        Self::new(word)
    }

    fn store(self, bytes: &mut [u8]) {
        match F::SIZE {
            1 => bytes.copy_from_slice(&(self.bits as u8).to_ne_bytes()),
            2 => bytes.copy_from_slice(&(self.bits as u16).to_ne_bytes()),
            _ => bytes[..10].copy_from_slice(&self.bits.to_le_bytes()[..10]),
        }
    }

    fn truth(value: bool) -> Self {
        match value {
            true => Self::assemble(false, Self::BIAS as u32, Self::LEADING),
            false => Self::zero(false),
        }
    }

    fn is_true(self) -> bool {
        !matches!(self.parts(), Parts::Zero { .. })
    }

    fn add(self, other: Self) -> Self {
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) | (_, Parts::Nan) => Self::nan(),
            (Parts::Infinity { negative: a }, Parts::Infinity { negative: b }) if a != b => {
                Self::nan()
            }
            (Parts::Infinity { negative }, _) | (_, Parts::Infinity { negative }) => {
                Self::infinity(negative)
            }
            (Parts::Zero { negative: a }, Parts::Zero { negative: b }) => Self::zero(a && b),
            (Parts::Zero { .. }, _) => other,
            (_, Parts::Zero { .. }) => self,
            (
                Parts::Finite {
                    negative: a_negative,
                    exponent: a_exponent,
                    significand: a,
                },
                Parts::Finite {
                    negative: b_negative,
                    exponent: b_exponent,
                    significand: b,
                },
            ) => {
                let (a, b) = ((a_negative, a_exponent, a), (b_negative, b_exponent, b));
                match a_exponent >= b_exponent {
                    true => Self::add_finite(a, b),
                    false => Self::add_finite(b, a),
                }
            }
        }
    }

    fn sub(self, other: Self) -> Self {
        self.add(other.negated())
    }

    fn mul(self, other: Self) -> Self {
        let negative = (self.bits ^ other.bits) & Self::SIGN != 0;
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) | (_, Parts::Nan) => Self::nan(),
            (Parts::Infinity { .. }, Parts::Zero { .. })
            | (Parts::Zero { .. }, Parts::Infinity { .. }) => Self::nan(),
            (Parts::Infinity { .. }, _) | (_, Parts::Infinity { .. }) => Self::infinity(negative),
            (Parts::Zero { .. }, _) | (_, Parts::Zero { .. }) => Self::zero(negative),
            (
                Parts::Finite {
                    exponent: a_exponent,
                    significand: a,
                    ..
                },
                Parts::Finite {
                    exponent: b_exponent,
                    significand: b,
                    ..
                },
            ) => {
                // No format has more than 64 bits, so that the product is exact.
                let product = (a >> 64) * (b >> 64);
                let shift = product.leading_zeros();
                let exponent = a_exponent + b_exponent + 1 - shift as i32;
                Self::round(negative, exponent, product << shift)
            }
        }
    }
}

impl<F: Format> Ordered for Soft<F> {}
