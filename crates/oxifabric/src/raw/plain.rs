//! Values that are nothing but their bytes.

/// A type whose values are nothing but their bytes: any bytes are a value, and none are padding.
///
/// It is sealed: integers, floating point numbers, and arrays of them.
pub trait Plain: Copy + Send + Sync + 'static + sealed::Sealed {}

pub(super) mod sealed {
    /// Types whose values are plain bytes.
    ///
    /// # Safety
    ///
    /// Any bytes must be a value of the type, and it must have no padding.
    pub unsafe trait Sealed {}
}

macro_rules! plain {
    ($($type:ty)*) => {
        $(
            // SAFETY: a number without padding.
            unsafe impl sealed::Sealed for $type {}
            impl Plain for $type {}
        )*
    };
}

plain!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64);

// SAFETY: an array has no padding but that of its elements.
unsafe impl<T: Plain, const N: usize> sealed::Sealed for [T; N] {}
impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Returns the whole values at the start of the bytes.
pub(super) fn view<T: Plain>(bytes: &[u8]) -> &[T] {
    let count = bytes.len().checked_div(size_of::<T>()).unwrap_or(0);
    if count == 0 {
        return &[];
    }
    let start = bytes.as_ptr().cast::<T>();
    assert!(start.is_aligned(), "the bytes are not aligned for the type");
    // SAFETY: the values lie within the bytes and are aligned; any bytes are values of a plain type.
    unsafe { core::slice::from_raw_parts(start, count) }
}

/// Returns the whole values at the start of the bytes, for writing.
pub(super) fn view_mut<T: Plain>(bytes: &mut [u8]) -> &mut [T] {
    let count = bytes.len().checked_div(size_of::<T>()).unwrap_or(0);
    if count == 0 {
        return &mut [];
    }
    let start = bytes.as_mut_ptr().cast::<T>();
    assert!(start.is_aligned(), "the bytes are not aligned for the type");
    // SAFETY: as for `view`; all bytes of a plain value are initialized, so the bytes stay so.
    unsafe { core::slice::from_raw_parts_mut(start, count) }
}

/// Returns the bytes of a value, at the start of a word that holds any scalar.
pub(crate) fn to_word<T: Plain>(value: T) -> u128 {
    const { assert!(size_of::<T>() <= size_of::<u128>()) };
    let mut word = 0_u128;
    // SAFETY: the value fits into the word, and has no padding.
    unsafe { (&raw mut word).cast::<T>().write_unaligned(value) };
    word
}

/// Returns the value at the start of a word.
pub(crate) fn from_word<T: Plain>(word: u128) -> T {
    const { assert!(size_of::<T>() <= size_of::<u128>()) };
    // SAFETY: the value lies within the word, and any bytes are one.
    unsafe { (&raw const word).cast::<T>().read_unaligned() }
}
