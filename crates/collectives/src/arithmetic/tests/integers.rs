//! Integers, bit by bit: sums by carries, products by shifted sums, comparisons from the highest bit down.

use std::vec::Vec;

use super::*;

const INTEGERS: [(Datatype, bool); 10] = [
    (Datatype::Int8, true),
    (Datatype::Uint8, false),
    (Datatype::Int16, true),
    (Datatype::Uint16, false),
    (Datatype::Int32, true),
    (Datatype::Uint32, false),
    (Datatype::Int64, true),
    (Datatype::Uint64, false),
    (Datatype::Int128, true),
    (Datatype::Uint128, false),
];

/// An integer as its bits, lowest first.
type Bits = Vec<bool>;

fn bits(bytes: &[u8]) -> Bits {
    let mut bytes = bytes.to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    let bit = |at: usize| bytes[at / 8] >> (at % 8) & 1 == 1;
    (0..8 * bytes.len()).map(bit).collect()
}

fn bytes(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| (0..8).map(|at| u8::from(bits[at]) << at).sum();
    let mut bytes: Vec<u8> = bits.chunks(8).map(byte).collect();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    bytes
}

fn plus(a: &[bool], b: &[bool]) -> Bits {
    let mut carry = false;
    let mut digit = |(&a, &b): (&bool, &bool)| {
        let sum = a ^ b ^ carry;
        carry = (a && b) || (carry && (a || b));
        sum
    };
    a.iter().zip(b).map(&mut digit).collect()
}

fn minus(a: &[bool], b: &[bool]) -> Bits {
    let complement: Bits = b.iter().map(|bit| !bit).collect();
    let one: Bits = (0..a.len()).map(|at| at == 0).collect();
    plus(&plus(a, &complement), &one)
}

fn times(a: &[bool], b: &[bool]) -> Bits {
    let mut product = std::vec![false; a.len()];
    for (by, _) in b.iter().enumerate().filter(|(_, bit)| **bit) {
        let shifted: Bits = (0..a.len()).map(|at| at >= by && a[at - by]).collect();
        product = plus(&product, &shifted);
    }
    product
}

fn less(a: &[bool], b: &[bool], signed: bool) -> bool {
    let top = a.len() - 1;
    for at in (0..a.len()).rev() {
        if a[at] != b[at] {
            // A set sign makes it less, any other set bit makes it greater.
            return if signed && at == top { a[at] } else { b[at] };
        }
    }
    false
}

fn reference(operation: Operation, signed: bool, t: &[bool], o: &[bool], c: &[bool]) -> Bits {
    let any = |bits: &[bool]| bits.contains(&true);
    let truth = |value: bool| (0..t.len()).map(|at| value && at == 0).collect();
    let by_bit = |f: fn(bool, bool) -> bool| t.iter().zip(o).map(|(&t, &o)| f(t, o)).collect();
    let choose = |swaps: bool| if swaps { o.to_vec() } else { t.to_vec() };
    match operation {
        Operation::Min => choose(less(o, t, signed)),
        Operation::Max => choose(less(t, o, signed)),
        Operation::Sum => plus(t, o),
        Operation::Diff => minus(t, o),
        Operation::Prod => times(t, o),
        Operation::Lor => truth(any(t) || any(o)),
        Operation::Land => truth(any(t) && any(o)),
        Operation::Lxor => truth(any(t) ^ any(o)),
        Operation::Bor => by_bit(|t, o| t | o),
        Operation::Band => by_bit(|t, o| t & o),
        Operation::Bxor => by_bit(|t, o| t ^ o),
        Operation::Read => t.to_vec(),
        Operation::Write => o.to_vec(),
        Operation::Cswap => choose(t == c),
        Operation::CswapNe => choose(t != c),
        Operation::CswapLe => choose(!less(t, c, signed)),
        Operation::CswapLt => choose(less(c, t, signed)),
        Operation::CswapGe => choose(!less(c, t, signed)),
        Operation::CswapGt => choose(less(t, c, signed)),
        Operation::Mswap => {
            let picked = t.iter().zip(o).zip(c);
            picked.map(|((&t, &o), &c)| if c { o } else { t }).collect()
        }
    }
}

/// Values at the edges, and others.
fn samples(size: usize, dice: &mut Dice) -> Vec<Vec<u8>> {
    let ones = std::vec![0xff; size];
    let zeros = std::vec![0; size];
    let with = |low: bool, base: &[u8], byte: u8| {
        let mut bytes = base.to_vec();
        let at = if low == cfg!(target_endian = "little") {
            0
        } else {
            size - 1
        };
        bytes[at] = byte;
        bytes
    };
    let mut samples = std::vec![
        with(true, &zeros, 1),
        with(true, &zeros, 2),
        with(false, &ones, 0x7f),
        with(false, &zeros, 0x80),
        with(true, &ones, 0xfe),
        zeros,
        ones,
    ];
    for _ in 0..6 {
        samples.push((0..size).map(|_| dice.roll() as u8).collect());
    }
    samples
}

#[test]
fn integers_of_every_size_agree_with_arithmetic_by_hand() {
    let mut dice = Dice(1);
    for (datatype, signed) in INTEGERS {
        let samples = samples(datatype.size(), &mut dice);
        for operation in operations(datatype) {
            for (t, o) in samples
                .iter()
                .flat_map(|t| samples.iter().map(move |o| (t, o)))
            {
                // Swaps depend on what is compared more than on what is stored.
                let c = &samples[(dice.roll() % samples.len() as u64) as usize];
                for c in [c, t] {
                    let expected = reference(operation, signed, &bits(t), &bits(o), &bits(c));
                    assert_eq!(
                        run(datatype, operation, t, o, c),
                        bytes(&expected),
                        "{operation:?} of {datatype:?}: {t:?}, {o:?}, {c:?}"
                    );
                }
            }
        }
    }
}
