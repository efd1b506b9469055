//! Every operation on every datatype against arithmetic that is written differently.

extern crate std;

mod floats;
mod integers;

use std::vec::Vec;

use super::*;

/// Numbers that look random; the same ones every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Runs one operation on one element, with another one on each side that must stay as it is, at an odd address.
fn run(
    datatype: Datatype,
    operation: Operation,
    target: &[u8],
    operand: &[u8],
    compare: &[u8],
) -> Vec<u8> {
    let size = datatype.size();
    assert_eq!(
        (target.len(), operand.len(), compare.len()),
        (size, size, size)
    );
    let mut memory: Vec<u8> = (0..3 * size + 1).map(|at| at as u8 ^ 0xa5).collect();
    let before = memory.clone();
    let middle = size + 1..2 * size + 1;
    memory[middle.clone()].copy_from_slice(target);
    let done = match operation.is_valid(Form::Compare, datatype) {
        true => compare_swap(
            datatype,
            operation,
            &mut memory[middle.clone()],
            operand,
            compare,
        ),
        false => combine(datatype, operation, &mut memory[middle.clone()], operand),
    };
    assert!(done, "{operation:?} of {datatype:?}");
    assert_eq!(memory[..middle.start], before[..middle.start]);
    assert_eq!(memory[middle.end..], before[middle.end..]);
    memory[middle].to_vec()
}

/// Operations that a datatype has in any form.
fn operations(datatype: Datatype) -> impl Iterator<Item = Operation> {
    Operation::ALL.into_iter().filter(move |operation| {
        operation.is_valid(Form::Fetch, datatype) || operation.is_valid(Form::Compare, datatype)
    })
}

#[test]
fn what_a_datatype_does_not_have_changes_nothing() {
    for datatype in Datatype::ALL {
        for operation in Operation::ALL {
            let mut target = [7; Datatype::LARGEST];
            let other = [9; Datatype::LARGEST];
            if !operation.is_valid(Form::Fetch, datatype) {
                assert!(!combine(datatype, operation, &mut target, &other));
            }
            if !operation.is_valid(Form::Compare, datatype) {
                assert!(!compare_swap(
                    datatype,
                    operation,
                    &mut target,
                    &other,
                    &other
                ));
            }
            assert_eq!(target, [7; Datatype::LARGEST]);
        }
    }
}

#[test]
fn lists_are_worked_through_to_the_end_of_the_shorter_one() {
    let mut target = [1u8, 2, 3, 4, 5];
    assert!(combine(
        Datatype::Uint8,
        Operation::Sum,
        &mut target,
        &[10, 20, 30]
    ));
    assert_eq!(target, [11, 22, 33, 4, 5]);
    let mut target = [1, 0, 2, 0, 9];
    assert!(compare_swap(
        Datatype::Uint16,
        Operation::Cswap,
        &mut target,
        &[7; 5],
        &[1, 0, 0, 0, 9]
    ));
    assert_eq!(target, [7, 7, 2, 0, 9]);
}
