//! Random operations between two engines, checked against a model that knows nothing of how they travel.
//!
//! The same code runs as a test of user space and when `kofi_engine.ko` is loaded: it needs memory, and neither clock nor threads. A
//! seed decides everything, so a failure in a kernel is repeated in a debugger.
//!
//! - [`world`]: both endpoints with their link, and what is done at random.
//! - `book`: which message belongs into which receive.
//! - `access`: reads, writes and sums in registered memory.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod access;
mod book;
mod outcome;
mod random;
pub mod world;

use oxifabric_engine::{Limits, OneSided};

pub use world::{Summary, World};

/// How long messages travel, each with what it is called.
pub const PATHS: [(&str, Limits); 3] = [
    ("eager and segments", limits(1 << 16, false)),
    ("rendezvous by segments", limits(256, false)),
    ("rendezvous by pulling", limits(256, true)),
];

const fn limits(segmented: usize, pull: bool) -> Limits {
    Limits {
        eager: world::EAGER,
        segmented,
        segmented_rma: true,
        segment: 100,
        rndv_msg: true,
        rndv_tagged: true,
        rndv_rma: true,
        pull,
        ack_on_arrival: false,
        one_sided: OneSided::empty(),
    }
}

/// Runs random operations on one path.
///
/// # Errors
/// Says what was not as the model has it.
pub fn run(limits: Limits, seed: u64, operations: u32) -> Result<Summary, &'static str> {
    let mut world = World::new(limits, seed)?;
    for _ in 0..operations {
        world.step()?;
    }
    world.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_in_one_kernel_do_what_the_model_says() {
        for (path, limits) in PATHS {
            for seed in 1..40 {
                let summary = run(limits, seed, 2000);
                let summary = summary.unwrap_or_else(|why| panic!("{path}, seed {seed}: {why}"));
                assert!(
                    summary.messages > 200 && summary.accesses > 200,
                    "{summary:?}"
                );
            }
        }
    }
}
