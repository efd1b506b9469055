//! Seeds and past findings, on every target: what libFuzzer found once stays repaired.

use std::panic;

use oxifabric_fuzz::TARGETS;

/// Every input, with cuts and flipped bits of it: a small part of what libFuzzer tries.
#[test]
fn seeds_and_findings_break_no_target() {
    for target in TARGETS {
        let inputs = target.inputs();
        assert!(inputs.len() > 1, "{} has no seeds", target.name);
        for input in inputs {
            run(target.name, target.run, &input);
            for at in [0, 1, input.len() / 2, input.len().saturating_sub(1)] {
                run(target.name, target.run, &input[..at.min(input.len())]);
                let mut flipped = input.clone();
                if let Some(byte) = flipped.get_mut(at) {
                    *byte ^= 0x80;
                }
                run(target.name, target.run, &flipped);
            }
        }
    }
}

fn run(name: &str, target: fn(&[u8]), input: &[u8]) {
    if let Err(cause) = panic::catch_unwind(|| target(input)) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("cargo xtask fuzz {name} --input {hex}");
        panic::resume_unwind(cause);
    }
}
