//! Numbers as bytes of the host's order, and what can be done with them.

/// A number that can be computed with.
pub(super) trait Element: Copy + PartialEq {
    /// Number of bytes that it has.
    const SIZE: usize;

    /// Reads it from [`Element::SIZE`] bytes.
    fn load(bytes: &[u8]) -> Self;

    /// Writes it to as many bytes.
    fn store(self, bytes: &mut [u8]);

    /// Returns one or zero, as C does.
    fn truth(value: bool) -> Self;

    /// Returns whether C takes it for true.
    fn is_true(self) -> bool;

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

/// A number that is less or greater than others.
pub(super) trait Ordered: Element + PartialOrd {}

/// A number made of bits that mean something each.
pub(super) trait Bitwise: Ordered {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

/// Copies bytes into an array; what is missing is zero.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    let len = bytes.len().min(N);
    array[..len].copy_from_slice(&bytes[..len]);
    array
}

macro_rules! integer {
    ($($type:ident)*) => { $(
        impl Element for $type {
            const SIZE: usize = size_of::<Self>();

            fn load(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(array(bytes))
            }
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
            fn truth(value: bool) -> Self {
                value as Self
            }
            fn is_true(self) -> bool {
                self != 0
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Ordered for $type {}

        impl Bitwise for $type {
            fn and(self, other: Self) -> Self {
                self & other
            }
            fn or(self, other: Self) -> Self {
                self | other
            }
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )* };
}

macro_rules! float {
    ($($type:ident)*) => { $(
        impl Element for $type {
            const SIZE: usize = size_of::<Self>();

            fn load(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(array(bytes))
            }
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
            fn truth(value: bool) -> Self {
                u8::from(value).into()
            }
            fn is_true(self) -> bool {
                self != 0.0
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
        }

        impl Ordered for $type {}
    )* };
}

integer! { i8 u8 i16 u16 i32 u32 i64 u64 i128 u128 }
float! { f32 f64 }
