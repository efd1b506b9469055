//! Datatypes and operations by their numbers (enum fi_datatype, enum fi_op), and which go together.

/// What kind of numbers an operation is about. The values are those of enum fi_datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Datatype {
    /// FI_INT8.
    Int8 = 0,
    /// FI_UINT8.
    Uint8 = 1,
    /// FI_INT16.
    Int16 = 2,
    /// FI_UINT16.
    Uint16 = 3,
    /// FI_INT32.
    Int32 = 4,
    /// FI_UINT32.
    Uint32 = 5,
    /// FI_INT64.
    Int64 = 6,
    /// FI_UINT64.
    Uint64 = 7,
    /// FI_FLOAT.
    Float = 8,
    /// FI_DOUBLE.
    Double = 9,
    /// FI_FLOAT_COMPLEX.
    FloatComplex = 10,
    /// FI_DOUBLE_COMPLEX.
    DoubleComplex = 11,
    /// FI_LONG_DOUBLE: the 80 bits of the x87, in 16 bytes. Other processors' long doubles are not known here.
    LongDouble = 12,
    /// FI_LONG_DOUBLE_COMPLEX.
    LongDoubleComplex = 13,
    /// FI_INT128.
    Int128 = 14,
    /// FI_UINT128.
    Uint128 = 15,
    /// FI_FLOAT16.
    Float16 = 16,
    /// FI_BFLOAT16.
    BFloat16 = 17,
    /// FI_FLOAT8_E4M3: without infinities; what is too large is not a number.
    Float8E4M3 = 18,
    /// FI_FLOAT8_E5M2.
    Float8E5M2 = 19,
}

/// What is done with two numbers. The values are those of enum fi_op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// FI_MIN.
    Min = 0,
    /// FI_MAX.
    Max = 1,
    /// FI_SUM.
    Sum = 2,
    /// FI_PROD.
    Prod = 3,
    /// FI_LOR.
    Lor = 4,
    /// FI_LAND.
    Land = 5,
    /// FI_BOR.
    Bor = 6,
    /// FI_BAND.
    Band = 7,
    /// FI_LXOR.
    Lxor = 8,
    /// FI_BXOR.
    Bxor = 9,
    /// FI_ATOMIC_READ.
    Read = 10,
    /// FI_ATOMIC_WRITE.
    Write = 11,
    /// FI_CSWAP.
    Cswap = 12,
    /// FI_CSWAP_NE.
    CswapNe = 13,
    /// FI_CSWAP_LE.
    CswapLe = 14,
    /// FI_CSWAP_LT.
    CswapLt = 15,
    /// FI_CSWAP_GE.
    CswapGe = 16,
    /// FI_CSWAP_GT.
    CswapGt = 17,
    /// FI_MSWAP.
    Mswap = 18,
    /// FI_DIFF.
    Diff = 19,
}

/// The family of calls that an atomic belongs to: what operands it carries and what it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// It brings an operand (fi_atomic).
    Base,
    /// It also takes home what was there before (fi_fetch_atomic).
    Fetch,
    /// It brings something to compare with, too (fi_compare_atomic).
    Compare,
}

/// What the numbers of a datatype can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// They are computed with, and are equal or not.
    Number,
    /// They are also in an order.
    Real,
    /// They are also made of bits.
    Integer,
}

impl Datatype {
    /// All of them, by their numbers.
    pub const ALL: [Self; 20] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Float,
        Self::Double,
        Self::FloatComplex,
        Self::DoubleComplex,
        Self::LongDouble,
        Self::LongDoubleComplex,
        Self::Int128,
        Self::Uint128,
        Self::Float16,
        Self::BFloat16,
        Self::Float8E4M3,
        Self::Float8E5M2,
    ];

    /// The size of the largest one in bytes; all sizes divide it.
    pub const LARGEST: usize = 32;

    /// Finds one by its number.
    pub fn from_raw(raw: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(raw).ok()?).copied()
    }

    /// Returns how many bytes an element has.
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 | Self::Float8E4M3 | Self::Float8E5M2 => 1,
            Self::Int16 | Self::Uint16 | Self::Float16 | Self::BFloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double | Self::FloatComplex => 8,
            Self::Int128 | Self::Uint128 | Self::DoubleComplex | Self::LongDouble => 16,
            Self::LongDoubleComplex => 32,
        }
    }

    /// Returns whether this machine's C has numbers of this kind and layout.
    const fn is_known(self) -> bool {
        !matches!(self, Self::LongDouble | Self::LongDoubleComplex) || cfg!(target_arch = "x86_64")
    }

    const fn class(self) -> Class {
        match self {
            Self::Int8 | Self::Uint8 | Self::Int16 | Self::Uint16 | Self::Int32 | Self::Uint32 => {
                Class::Integer
            }
            Self::Int64 | Self::Uint64 | Self::Int128 | Self::Uint128 => Class::Integer,
            Self::FloatComplex | Self::DoubleComplex | Self::LongDoubleComplex => Class::Number,
            _ => Class::Real,
        }
    }
}

impl Operation {
    /// All of them, by their numbers.
    pub const ALL: [Self; 20] = [
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Prod,
        Self::Lor,
        Self::Land,
        Self::Bor,
        Self::Band,
        Self::Lxor,
        Self::Bxor,
        Self::Read,
        Self::Write,
        Self::Cswap,
        Self::CswapNe,
        Self::CswapLe,
        Self::CswapLt,
        Self::CswapGe,
        Self::CswapGt,
        Self::Mswap,
        Self::Diff,
    ];

    /// Finds one by its number.
    pub fn from_raw(raw: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(raw).ok()?).copied()
    }

    /// Returns whether calls of this form know it for that datatype. Source: fi_atomic(3): the lists of each form; bits
    /// are those of integers, and complex numbers are in no order.
    pub const fn is_valid(self, form: Form, datatype: Datatype) -> bool {
        let needs = match self {
            Self::Bor | Self::Band | Self::Bxor | Self::Mswap => Class::Integer,
            Self::Min | Self::Max => Class::Real,
            Self::CswapLe | Self::CswapLt | Self::CswapGe | Self::CswapGt => Class::Real,
            _ => Class::Number,
        };
        let has = datatype.class() as u8 >= needs as u8;
        let fits = match form {
            Form::Base => !self.is_swap() && !matches!(self, Self::Read),
            Form::Fetch => !self.is_swap(),
            Form::Compare => self.is_swap(),
        };
        has && fits && datatype.is_known()
    }

    const fn is_swap(self) -> bool {
        matches!(
            self,
            Self::Cswap
                | Self::CswapNe
                | Self::CswapLe
                | Self::CswapLt
                | Self::CswapGe
                | Self::CswapGt
                | Self::Mswap
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_lists() {
        for (raw, datatype) in Datatype::ALL.into_iter().enumerate() {
            assert_eq!(datatype as usize, raw);
            assert_eq!(Datatype::from_raw(raw as u64), Some(datatype));
            assert_eq!(Datatype::LARGEST % datatype.size(), 0);
        }
        for (raw, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, raw);
            assert_eq!(Operation::from_raw(raw as u64), Some(operation));
        }
        assert_eq!(Datatype::from_raw(20), None);
        assert_eq!(Operation::from_raw(u64::MAX), None);
    }

    #[test]
    fn each_form_has_the_operations_of_the_man_page() {
        let count = |form, datatype| {
            let valid = |op: &&Operation| op.is_valid(form, datatype);
            Operation::ALL.iter().filter(valid).count()
        };
        let counts =
            |datatype| [Form::Base, Form::Fetch, Form::Compare].map(|f| count(f, datatype));
        assert_eq!(counts(Datatype::Uint128), [12, 13, 7]);
        assert_eq!(counts(Datatype::Float), [9, 10, 6]);
        assert_eq!(counts(Datatype::Float8E5M2), [9, 10, 6]);
        assert_eq!(counts(Datatype::DoubleComplex), [7, 8, 2]);
    }
}
