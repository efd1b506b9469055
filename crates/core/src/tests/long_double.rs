//! The engine's arithmetic on long doubles, against the x87 itself.

use core::arch::asm;

use oxifabric_collectives::arithmetic::{Datatype, Operation, combine, compare_swap};

/// A long double in memory, with 6 bytes that mean nothing.
type Bytes = [u8; 16];

macro_rules! x87 {
    ($name:ident, $instruction:literal) => {
        fn $name(t: &Bytes, o: &Bytes) -> Bytes {
            let mut sum = *t;
            // SAFETY: reads and writes ten bytes of each array, and leaves the stack of the x87 as it was.
            unsafe {
                asm!(
                    "fld tbyte ptr [{t}]",
                    "fld tbyte ptr [{o}]",
                    $instruction,
                    "fstp tbyte ptr [{sum}]",
                    t = in(reg) t.as_ptr(),
                    o = in(reg) o.as_ptr(),
                    sum = in(reg) sum.as_mut_ptr(),
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                );
            }
            sum
        }
    };
}

x87!(sum, "faddp st(1), st");
x87!(difference, "fsubp st(1), st");
x87!(product, "fmulp st(1), st");

/// Returns whether `t` is above and whether it is below `o`; both, if they cannot be compared.
fn order(t: &Bytes, o: &Bytes) -> (bool, bool) {
    let (below, unordered): (u8, u8);
    let equal: u8;
    // SAFETY: reads ten bytes of each array, and leaves the stack of the x87 as it was.
    unsafe {
        asm!(
            "fld tbyte ptr [{o}]",
            "fld tbyte ptr [{t}]",
            "fucomip st, st(1)",
            "setb {below}",
            "setp {unordered}",
            "sete {equal}",
            "fstp st(0)",
            t = in(reg) t.as_ptr(),
            o = in(reg) o.as_ptr(),
            below = out(reg_byte) below,
            unordered = out(reg_byte) unordered,
            equal = out(reg_byte) equal,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
        );
    }
    match unordered {
        0 => (below == 0 && equal == 0, below == 1),
        _ => (true, true),
    }
}

fn bytes(significand: u64, top: u16) -> Bytes {
    let mut bytes = [0xa5; 16];
    bytes[..8].copy_from_slice(&significand.to_le_bytes());
    bytes[8..10].copy_from_slice(&top.to_le_bytes());
    bytes
}

fn is_nan(bytes: &Bytes) -> bool {
    let top = u16::from_le_bytes([bytes[8], bytes[9]]) & 0x7fff;
    let fraction = u64::from_le_bytes(*bytes.first_chunk().expect("16 bytes")) << 1;
    top == 0x7fff && fraction != 0
}

/// Numbers at the edges of the format, and others of similar size, so that every bit of a sum matters.
fn samples() -> Vec<Bytes> {
    const LEADING: u64 = 1 << 63;
    let edges = [
        (0, 0),
        (1, 0),
        (LEADING - 1, 0),
        (LEADING, 1),
        (u64::MAX, 1),
        (LEADING, 0x3fff),
        (LEADING | 1, 0x3fff),
        (u64::MAX, 0x3ffe),
        (u64::MAX, 0x7ffe),
        (LEADING, 0x7fff),
        (LEADING | 1 << 62, 0x7fff),
    ];
    let mut samples: Vec<Bytes> = edges
        .iter()
        .flat_map(|&(significand, top)| [bytes(significand, top), bytes(significand, top | 0x8000)])
        .collect();
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 29)
    };
    for center in [0x3fff, 0x2000, 0x40, 0x7fc0] {
        for _ in 0..30 {
            let top = center + (random() >> 58) as u16;
            let sign = (random() >> 63 << 15) as u16;
            samples.push(bytes(random() | LEADING, top | sign));
        }
    }
    samples
}

#[test]
fn long_doubles_are_those_of_the_processor() {
    let samples = samples();
    for t in &samples {
        for o in &samples {
            for (operation, expected) in [
                (Operation::Sum, sum(t, o)),
                (Operation::Diff, difference(t, o)),
                (Operation::Prod, product(t, o)),
            ] {
                let mut found = *t;
                assert!(combine(Datatype::LongDouble, operation, &mut found, o));
                let same = found == expected || is_nan(&found) && is_nan(&expected);
                assert!(
                    same,
                    "{operation:?}: {t:x?} {o:x?}: {found:x?}, not {expected:x?}"
                );
            }
        }
    }
}

#[test]
fn long_doubles_are_in_the_order_of_the_processor() {
    let samples = samples();
    let new = bytes(1 << 63, 0x4000);
    for t in &samples {
        for c in &samples {
            let (above, below) = order(t, c);
            let ordered = !(above && below);
            for (operation, swaps) in [
                (Operation::Cswap, !above && !below),
                (Operation::CswapNe, above || below),
                (Operation::CswapLe, ordered && !below),
                (Operation::CswapLt, ordered && above),
                (Operation::CswapGe, ordered && !above),
                (Operation::CswapGt, ordered && below),
            ] {
                let mut found = *t;
                assert!(compare_swap(
                    Datatype::LongDouble,
                    operation,
                    &mut found,
                    &new,
                    c
                ));
                assert_eq!(
                    found == new,
                    swaps || *t == new,
                    "{operation:?}: {t:x?} {c:x?}"
                );
            }
        }
    }
}
