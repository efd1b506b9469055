//! `kofi_engine.ko`: random operations between two engines when it is loaded. Loading fails if one of them is not as it should be, or
//! if memory is left.
#![no_std]

use core::ffi::{c_int, c_uint};

use oxifabric_kernel_selftest::{PATHS, run};

const OPERATIONS: u32 = 2000;
const EIO: c_int = 5;

/// Runs the operations for seeds 1 to `seeds`, on each path of long messages; returns zero, or an error number.
#[unsafe(no_mangle)]
pub extern "C" fn kofi_engine_rs_init(seeds: c_uint) -> c_int {
    let before = krt::live_allocations();
    for (path, limits) in PATHS {
        let mut messages = 0;
        for seed in 1..=seeds {
            match run(limits, u64::from(seed), OPERATIONS) {
                Ok(summary) => messages += summary.messages,
                Err(why) => {
                    krt::error!("not ok: {path}, seed {seed}: {why}");
                    return -EIO;
                }
            }
        }
        krt::info!(
            "ok: {path}: {seeds} seeds of {OPERATIONS} operations, {messages} messages received"
        );
    }
    let left = krt::live_allocations() - before;
    if left != 0 {
        krt::error!("not ok: {left} allocations are left");
        return -EIO;
    }
    0
}
