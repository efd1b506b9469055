//! What each operation makes of the memory of a peer.

use core::fmt::Debug;
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::rma_fixture::{BOTH, RmaFixture, elements_of};
use oxifabric_fixtures::{Subject, c};

use crate::requirements;

/// Asserts what a base atomic makes of the elements of its target, and that its fetching kind does the same and
/// returns what they were.
fn updates<T: Copy + PartialEq + Debug>(
    subject: &Subject,
    (datatype, op): (fi_datatype, fi_op),
    target: &[T],
    operands: &[T],
    expected: &[T],
) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(target);
    rma.update(datatype, op, operands);
    let _ = rma.pair.done(&rma.pair.a);
    assert_eq!(rma.elements::<T>(target.len()), expected);
    rma.fill(target);
    assert_eq!(rma.fetch(datatype, op, operands), target);
    assert_eq!(rma.elements::<T>(target.len()), expected);
    rma.close();
}

/// Asserts what a comparing atomic makes of target elements 4, 5 and 6 that are compared with 5, and swapped with 9.
fn swaps(subject: &Subject, op: fi_op, expected: [i32; 3]) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(&[4, 5, 6]);
    assert_eq!(rma.compare(FI_INT32, op, &[9; 3], &[5; 3]), [4, 5, 6]);
    assert_eq!(rma.elements::<i32>(3), expected);
    rma.close();
}

requirements! { "fi_atomic(3), operations";

/// FI_MIN leaves the lesser of each target and operand, by the order of their type.
fn min_leaves_the_lesser(subject) {
    updates(subject, (FI_INT32, FI_MIN), &[-1, 5, 7], &[1, 3, 7], &[-1, 3, 7]);
    updates(subject, (FI_UINT8, FI_MIN), &[0xFF_u8, 5], &[1, 0xF0], &[1, 5]);
    updates(subject, (FI_DOUBLE, FI_MIN), &[-2.5, 1.0], &[-3.5, 1.5], &[-3.5, 1.0]);
}

/// FI_MAX leaves the greater of each target and operand, by the order of their type.
fn max_leaves_the_greater(subject) {
    updates(subject, (FI_INT64, FI_MAX), &[-1_i64, 5], &[1, -3], &[1, 5]);
    updates(subject, (FI_UINT64, FI_MAX), &[u64::MAX, 5], &[1, 6], &[u64::MAX, 6]);
    updates(subject, (FI_FLOAT, FI_MAX), &[-2.5_f32, 1.0], &[-3.5, 1.5], &[-2.5, 1.5]);
}

/// FI_SUM adds the operand to the target.
fn sum_adds(subject) {
    updates(subject, (FI_UINT16, FI_SUM), &[0xFFFF_u16, 1], &[2, 3], &[1, 4]);
    updates(subject, (FI_INT8, FI_SUM), &[-1_i8, 4], &[-2, -4], &[-3, 0]);
    updates(subject, (FI_DOUBLE, FI_SUM), &[0.5, 1.0], &[0.25, -1.0], &[0.75, 0.0]);
}

/// FI_PROD multiplies the target by the operand.
fn prod_multiplies(subject) {
    updates(subject, (FI_INT16, FI_PROD), &[-7_i16, 3], &[6, 0], &[-42, 0]);
    updates(subject, (FI_FLOAT, FI_PROD), &[0.5_f32], &[-8.0], &[-4.0]);
}

/// FI_LOR is one where target or operand is not zero, and zero elsewhere.
fn lor_is_the_logical_or(subject) {
    updates(subject, (FI_UINT32, FI_LOR), &[0_u32, 0, 8, 2], &[0, 4, 0, 1], &[0, 1, 1, 1]);
}

/// FI_LAND is one where target and operand are not zero, and zero elsewhere.
fn land_is_the_logical_and(subject) {
    updates(subject, (FI_UINT32, FI_LAND), &[0_u32, 0, 8, 2], &[0, 4, 0, 1], &[0, 0, 0, 1]);
}

/// FI_LXOR is one where exactly one of target and operand is not zero, and zero elsewhere.
fn lxor_is_the_logical_exclusive_or(subject) {
    updates(subject, (FI_UINT32, FI_LXOR), &[0_u32, 0, 8, 2], &[0, 4, 0, 1], &[0, 1, 1, 0]);
}

/// FI_BOR sets the bits of the operand.
fn bor_sets_bits(subject) {
    updates(subject, (FI_UINT8, FI_BOR), &[0b0101_u8], &[0b0011], &[0b0111]);
}

/// FI_BAND leaves the bits that the operand has, too.
fn band_leaves_common_bits(subject) {
    updates(subject, (FI_UINT64, FI_BAND), &[0xFF00_FF00_FF00_FF00_u64], &[0xF0F0_F0F0_F0F0_F0F0], &[0xF000_F000_F000_F000]);
}

/// FI_BXOR flips the bits of the operand.
fn bxor_flips_bits(subject) {
    updates(subject, (FI_INT16, FI_BXOR), &[0b0101_i16], &[0b0011], &[0b0110]);
}

/// FI_ATOMIC_WRITE replaces the target by the operand.
fn write_replaces(subject) {
    updates(subject, (FI_INT64, FI_ATOMIC_WRITE), &[1_i64, 2], &[-1, 3], &[-1, 3]);
}

/// FI_ATOMIC_READ gives the target and leaves it, and takes no operand.
fn read_leaves_the_target(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(&[11_u64, 12]);
    let pair = &rma.pair;
    let (result, context) = (elements_of(pair, &[0_u64; 2]), pair.a.traffic.context());
    let (at, key) = (rma.base, rma.key());
    pair.start(|| {
        c!(fi_fetch_atomic(
            pair.a.ep, null_mut(), 2, null_mut(), result.cast(), null_mut(), pair.to_b, at, key, FI_UINT64,
            FI_ATOMIC_READ, context
        ))
    });
    assert_eq!(pair.done(&pair.a).op_context, context);
    assert_eq!(c!([*result, *result.add(1)]), [11, 12]);
    assert_eq!(rma.elements::<u64>(2), [11, 12]);
    rma.close();
}

/// FI_CSWAP replaces targets that are equal to the comparison.
fn cswap_replaces_equals(subject) {
    swaps(subject, FI_CSWAP, [4, 9, 6]);
}

/// FI_CSWAP_NE replaces targets that differ from the comparison.
fn cswap_ne_replaces_what_differs(subject) {
    swaps(subject, FI_CSWAP_NE, [9, 5, 9]);
}

/// FI_CSWAP_LE replaces targets that the comparison is less than or equal to.
fn cswap_le_replaces_greater_and_equal(subject) {
    swaps(subject, FI_CSWAP_LE, [4, 9, 9]);
}

/// FI_CSWAP_LT replaces targets that the comparison is less than.
fn cswap_lt_replaces_greater(subject) {
    swaps(subject, FI_CSWAP_LT, [4, 5, 9]);
}

/// FI_CSWAP_GE replaces targets that the comparison is greater than or equal to.
fn cswap_ge_replaces_less_and_equal(subject) {
    swaps(subject, FI_CSWAP_GE, [9, 9, 6]);
}

/// FI_CSWAP_GT replaces targets that the comparison is greater than.
fn cswap_gt_replaces_less(subject) {
    swaps(subject, FI_CSWAP_GT, [9, 5, 6]);
}

/// FI_MSWAP replaces the bits of the target that the comparison masks.
fn mswap_replaces_masked_bits(subject) {
    let rma = RmaFixture::atomic(subject, BOTH);
    rma.fill(&[0b1100_u64]);
    assert_eq!(rma.compare(FI_UINT64, FI_MSWAP, &[0b1010_u64], &[0b0110_u64]), [0b1100]);
    assert_eq!(rma.elements::<u64>(1), [0b1010]);
    rma.close();
}
}
