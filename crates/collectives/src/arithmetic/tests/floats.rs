//! Floating point. The formats of 8 and 16 bits are checked against doubles, whose results are exact or precise enough
//! to be rounded once more, by a search among all numbers of the format. The x87 itself checks its format elsewhere
//! (it needs assembly); here it is held against doubles where these are exact.

use std::vec::Vec;

use super::*;

/// A small format: how its bits are read, without a look at how they are computed with.
struct Small {
    datatype: Datatype,
    exponent_bits: u32,
    fraction_bits: u32,
    infinities: bool,
}

const SMALL: [Small; 4] = [
    Small {
        datatype: Datatype::Float16,
        exponent_bits: 5,
        fraction_bits: 10,
        infinities: true,
    },
    Small {
        datatype: Datatype::BFloat16,
        exponent_bits: 8,
        fraction_bits: 7,
        infinities: true,
    },
    Small {
        datatype: Datatype::Float8E4M3,
        exponent_bits: 4,
        fraction_bits: 3,
        infinities: false,
    },
    Small {
        datatype: Datatype::Float8E5M2,
        exponent_bits: 5,
        fraction_bits: 2,
        infinities: true,
    },
];

impl Small {
    fn sign(&self) -> u16 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    /// Returns the value of some bits.
    fn value(&self, bits: u16) -> f64 {
        let field = i32::from(bits >> self.fraction_bits) & ((1 << self.exponent_bits) - 1);
        let fraction = f64::from(bits & ((1 << self.fraction_bits) - 1));
        let unit = 2f64.powi(-(self.fraction_bits as i32));
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        let top = field == (1 << self.exponent_bits) - 1;
        let magnitude = if top && self.infinities {
            if fraction == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        } else if top && fraction + 1.0 == f64::from(1u32 << self.fraction_bits) {
            f64::NAN
        } else if field == 0 {
            fraction * unit * 2f64.powi(1 - bias)
        } else {
            (1.0 + fraction * unit) * 2f64.powi(field - bias)
        };
        if bits & self.sign() == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    /// Returns the nearest number of the format, by its bits without the sign; of two, the even one.
    fn nearest(&self, magnitudes: &[f64], value: f64) -> u16 {
        let value = value.abs();
        let above = magnitudes.partition_point(|&known| known < value);
        let Some(&high) = magnitudes.get(above) else {
            // One step beyond the largest number begins at the middle.
            let last = magnitudes.len() - 1;
            let step = magnitudes[last] - magnitudes[last - 1];
            let is_over = value > magnitudes[last] + step / 2.0
                || (value == magnitudes[last] + step / 2.0 && last % 2 == 1);
            return if is_over {
                last as u16 + 1
            } else {
                last as u16
            };
        };
        if high == value || above == 0 {
            return above as u16;
        }
        let low = magnitudes[above - 1];
        let (down, up) = (value - low, high - value);
        match down.partial_cmp(&up) {
            Some(std::cmp::Ordering::Less) => above as u16 - 1,
            Some(std::cmp::Ordering::Greater) => above as u16,
            _ => above as u16 & !1,
        }
    }

    fn bytes(&self, bits: u16) -> Vec<u8> {
        match self.datatype.size() {
            1 => std::vec![bits as u8],
            _ => bits.to_ne_bytes().to_vec(),
        }
    }

    /// Returns all 8-bit numbers; of 16 bits those at the edges, and some.
    fn samples(&self) -> Vec<u16> {
        if self.datatype.size() == 1 {
            return (0..256).collect();
        }
        let mut dice = Dice(3);
        let top = ((1 << self.exponent_bits) - 1) << self.fraction_bits;
        let one = ((1 << (self.exponent_bits - 1)) - 1) << self.fraction_bits;
        let smallest_normal = 1 << self.fraction_bits;
        let edges = [
            0,
            1,
            2,
            smallest_normal - 1,
            smallest_normal,
            one,
            one + 1,
            top - 1,
            top,
            top + 1,
        ];
        let signed = edges.iter().flat_map(|&bits| [bits, bits | self.sign()]);
        let mut samples: Vec<u16> = signed.collect();
        samples.extend((0..180).map(|_| dice.roll() as u16));
        // Neighbours of one, whose sums and products have to be rounded.
        samples.extend((0..40).map(|_| one + dice.roll() as u16 % (4 * smallest_normal)));
        samples
    }
}

/// Combines two doubles; `None` for what is not computed.
fn computed(operation: Operation, t: f64, o: f64) -> Option<f64> {
    let truth = |value: bool| if value { 1.0 } else { 0.0 };
    Some(match operation {
        Operation::Sum => t + o,
        Operation::Diff => t - o,
        Operation::Prod => t * o,
        Operation::Lor => truth(t != 0.0 || o != 0.0),
        Operation::Land => truth(t != 0.0 && o != 0.0),
        Operation::Lxor => truth((t != 0.0) != (o != 0.0)),
        _ => return None,
    })
}

/// Returns whether the operand takes the target's place, for operations that choose.
fn chosen(operation: Operation, t: f64, o: f64, c: f64) -> bool {
    match operation {
        Operation::Min => o < t,
        Operation::Max => o > t,
        Operation::Write => true,
        Operation::Cswap => c == t,
        Operation::CswapNe => c != t,
        Operation::CswapLe => c <= t,
        Operation::CswapLt => c < t,
        Operation::CswapGe => c >= t,
        Operation::CswapGt => c > t,
        _ => false,
    }
}

#[test]
fn small_formats_round_exact_results_to_the_nearest() {
    for format in SMALL {
        let finite = |bits: &u16| format.value(*bits).is_finite();
        let magnitudes: Vec<f64> = (0..format.sign())
            .take_while(finite)
            .map(|bits| format.value(bits))
            .collect();
        let samples = format.samples();
        let mut dice = Dice(2);
        for operation in operations(format.datatype) {
            for (&t, &o) in samples
                .iter()
                .flat_map(|t| samples.iter().map(move |o| (t, o)))
            {
                let c = match dice.roll() % 2 {
                    0 => t,
                    other => samples[(dice.roll() ^ other) as usize % samples.len()],
                };
                check_small(&format, &magnitudes, operation, [t, o, c]);
            }
        }
    }
}

fn check_small(format: &Small, magnitudes: &[f64], operation: Operation, all: [u16; 3]) {
    let [target, operand, compare] = all.map(|bits| format.bytes(bits));
    let [t, o, c] = all.map(|bits| format.value(bits));
    let found = run(format.datatype, operation, &target, &operand, &compare);
    let expected = match computed(operation, t, o) {
        Some(value) if value.is_nan() => None,
        Some(value) => {
            let magnitude = format.nearest(magnitudes, value);
            let sign = if value.is_sign_negative() {
                format.sign()
            } else {
                0
            };
            // What is too large for a format without infinities is no number.
            let is_number = format.infinities || usize::from(magnitude) < magnitudes.len();
            is_number.then_some(magnitude | sign)
        }
        None if chosen(operation, t, o, c) => Some(all[1]),
        None => Some(all[0]),
    };
    let shown = || {
        std::format!(
            "{operation:?} of {:?}: {t} {o} {c} ({all:x?})",
            format.datatype
        )
    };
    match expected {
        Some(bits) => assert_eq!(found, format.bytes(bits), "{}", shown()),
        None => {
            let bits = match found[..] {
                [one] => u16::from(one),
                _ => u16::from_ne_bytes([found[0], found[1]]),
            };
            assert!(format.value(bits).is_nan(), "{}: {bits:#x}", shown());
        }
    }
}

#[test]
fn floats_and_doubles_are_those_of_the_processor() {
    let samples = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        3.25,
        1e-30,
        -7e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for datatype in [Datatype::Float, Datatype::Double] {
        let bytes = |value: f64| match datatype {
            Datatype::Float => (value as f32).to_ne_bytes().to_vec(),
            _ => value.to_ne_bytes().to_vec(),
        };
        for operation in operations(datatype) {
            for (at, (t, o)) in pairs(&samples).enumerate() {
                let c = if at % 3 == 0 {
                    t
                } else {
                    samples[at % samples.len()]
                };
                let found = run(datatype, operation, &bytes(t), &bytes(o), &bytes(c));
                let expected = match computed(operation, t, o) {
                    Some(_) if datatype == Datatype::Float => {
                        let [t, o] = [t, o].map(|value| value as f32);
                        match operation {
                            Operation::Sum => f64::from(t + o),
                            Operation::Diff => f64::from(t - o),
                            Operation::Prod => f64::from(t * o),
                            _ => computed(operation, t.into(), o.into()).expect("it is logical"),
                        }
                    }
                    Some(value) => value,
                    None if chosen(operation, t, o, c) => o,
                    None => t,
                };
                let value = match datatype {
                    Datatype::Float => f64::from(f32::from_ne_bytes(array(&found))),
                    _ => f64::from_ne_bytes(array(&found)),
                };
                let expected = f64::from_ne_bytes(match datatype {
                    Datatype::Float => f64::from(expected as f32).to_ne_bytes(),
                    _ => expected.to_ne_bytes(),
                });
                let same =
                    value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
                assert!(same, "{operation:?} of {datatype:?}: {t} {o} {c}: {value}");
            }
        }
    }
}

#[test]
fn complex_numbers_follow_the_rules_of_their_parts() {
    let parts = [0.0, 1.0, -2.5, 0.75];
    let numbers: Vec<(f64, f64)> = pairs(&parts).collect();
    for datatype in [
        Datatype::FloatComplex,
        Datatype::DoubleComplex,
        Datatype::LongDoubleComplex,
    ] {
        for operation in operations(datatype) {
            for (at, (&(a, b), &(c, d))) in numbers
                .iter()
                .flat_map(|t| numbers.iter().map(move |o| (t, o)))
                .enumerate()
            {
                let with = if at % 2 == 0 {
                    (a, b)
                } else {
                    numbers[at % numbers.len()]
                };
                let truth = |value: bool| (f64::from(u8::from(value)), 0.0);
                let is_true = |(re, im): (f64, f64)| re != 0.0 || im != 0.0;
                let (first, second) = (is_true((a, b)), is_true((c, d)));
                let expected = match operation {
                    Operation::Sum => (a + c, b + d),
                    Operation::Diff => (a - c, b - d),
                    Operation::Prod => (a * c - b * d, a * d + b * c),
                    Operation::Lor => truth(first | second),
                    Operation::Land => truth(first & second),
                    Operation::Lxor => truth(first ^ second),
                    Operation::Write => (c, d),
                    Operation::Cswap if with == (a, b) => (c, d),
                    Operation::CswapNe if with != (a, b) => (c, d),
                    _ => (a, b),
                };
                let bytes = |(re, im)| pair_bytes(datatype, re, im);
                let found = run(
                    datatype,
                    operation,
                    &bytes((a, b)),
                    &bytes((c, d)),
                    &bytes(with),
                );
                let found = value_of(datatype, &found);
                assert_eq!(
                    found, expected,
                    "{operation:?} of {datatype:?}: {a} {b}, {c} {d}"
                );
            }
        }
    }
}

#[test]
fn long_doubles_hold_what_doubles_hold() {
    if !Operation::Sum.is_valid(Form::Base, Datatype::LongDouble) {
        return;
    }
    let samples = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        1e300,
        4e-320,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for operation in operations(Datatype::LongDouble) {
        for (at, (t, o)) in pairs(&samples).enumerate() {
            let c = if at % 3 == 0 {
                t
            } else {
                samples[at % samples.len()]
            };
            let [target, operand, compare] = [t, o, c].map(extended);
            let found = run(Datatype::LongDouble, operation, &target, &operand, &compare);
            let expected = match computed(operation, t, o) {
                // Doubles are not precise enough for these, or too small.
                Some(_) if inexact(operation, t, o) => continue,
                Some(value) => extended(value),
                None if chosen(operation, t, o, c) => operand.clone(),
                None => target.clone(),
            };
            let is_nan = |bytes: &[u8]| {
                bytes[8] == 0xff
                    && bytes[9] & 0x7f == 0x7f
                    && bytes[..8] != [0, 0, 0, 0, 0, 0, 0, 0x80]
            };
            let same = found[..10] == expected[..10] || is_nan(&found) && is_nan(&expected);
            assert!(
                same,
                "{operation:?}: {t} {o} {c}: {found:x?}, not {expected:x?}"
            );
        }
    }
}

fn inexact(operation: Operation, t: f64, o: f64) -> bool {
    let (t_size, o_size) = (t.abs(), o.abs());
    let mixed = t_size.is_finite() && o_size.is_finite() && t != 0.0 && o != 0.0;
    let extreme = |size: f64| !(1e-100..1e100).contains(&size);
    match operation {
        Operation::Sum | Operation::Diff | Operation::Prod => {
            mixed && (extreme(t_size) || extreme(o_size))
        }
        _ => false,
    }
}

/// Writes a double as the x87 does.
fn extended(value: f64) -> Vec<u8> {
    let bits = value.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (exponent, significand) = match (field, fraction) {
        (0, 0) => (0, 0),
        (0, _) => {
            let shift = fraction.leading_zeros();
            (16383 - 1022 - 52 + 63 - shift as i32, fraction << shift)
        }
        (0x7ff, _) => (0x7fff, 1 << 63 | fraction << 11),
        _ => (field - 1023 + 16383, 1 << 63 | fraction << 11),
    };
    let mut bytes = significand.to_le_bytes().to_vec();
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    bytes.extend((exponent as u16 | sign).to_le_bytes());
    bytes.resize(16, 0xa5);
    bytes
}

/// Reads an x87 number that a double can hold.
fn double(bytes: &[u8]) -> f64 {
    let significand = u64::from_le_bytes(array(&bytes[..8]));
    let top = u16::from_le_bytes([bytes[8], bytes[9]]);
    let value = significand as f64 * 2f64.powi(i32::from(top & 0x7fff) - 16383 - 63);
    if top >> 15 == 0 { value } else { -value }
}

fn pair_bytes(datatype: Datatype, re: f64, im: f64) -> Vec<u8> {
    let bytes = |value: f64| match datatype {
        Datatype::FloatComplex => (value as f32).to_ne_bytes().to_vec(),
        Datatype::DoubleComplex => value.to_ne_bytes().to_vec(),
        _ => extended(value),
    };
    [bytes(re), bytes(im)].concat()
}

fn value_of(datatype: Datatype, bytes: &[u8]) -> (f64, f64) {
    let value = |bytes: &[u8]| match datatype {
        Datatype::FloatComplex => f32::from_ne_bytes(array(bytes)).into(),
        Datatype::DoubleComplex => f64::from_ne_bytes(array(bytes)),
        _ => double(bytes),
    };
    let (re, im) = bytes.split_at(bytes.len() / 2);
    (value(re), value(im))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("as many bytes as the number has")
}

fn pairs(values: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    values
        .iter()
        .flat_map(|&a| values.iter().map(move |&b| (a, b)))
}
