//! Complex numbers: the real part first, then the imaginary one, fi_atomic(3) "Atomic Data Types".

use super::element::Element;

/// A pair of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Complex<T> {
    re: T,
    im: T,
}

impl<T: Element> Element for Complex<T> {
    const SIZE: usize = 2 * T::SIZE;

    fn load(bytes: &[u8]) -> Self {
        let (re, im) = bytes.split_at(bytes.len() / 2);
        Self {
            re: T::load(re),
            im: T::load(im),
        }
    }

    fn store(self, bytes: &mut [u8]) {
        let (re, im) = bytes.split_at_mut(T::SIZE);
        self.re.store(re);
        self.im.store(im);
    }

    fn truth(value: bool) -> Self {
        Self {
            re: T::truth(value),
            im: T::truth(false),
        }
    }

    fn is_true(self) -> bool {
        self.re.is_true() || self.im.is_true()
    }

    fn add(self, other: Self) -> Self {
        Self {
            re: self.re.add(other.re),
            im: self.im.add(other.im),
        }
    }

    fn sub(self, other: Self) -> Self {
        Self {
            re: self.re.sub(other.re),
            im: self.im.sub(other.im),
        }
    }

    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re.mul(other.re).sub(self.im.mul(other.im)),
            im: self.re.mul(other.im).add(self.im.mul(other.re)),
        }
    }
}
