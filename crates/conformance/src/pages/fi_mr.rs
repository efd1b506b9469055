//! Registered memory.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::world::{World, close};
use crate::{c, sentences};

/// Opens a world whose endpoints access memory.
fn rma_world(stage: &crate::Stage) -> World {
    World::with(stage, |hints| {
        hints.caps |= FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE
    })
}

/// Registers memory with a wish for a key.
fn register(world: &World, bytes: &mut [u8], key: u64) -> Result<*mut fid_mr, i32> {
    let mut mr = null_mut();
    let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    let place = bytes.as_mut_ptr().cast();
    match c!(fi_mr_reg(
        world.domain,
        place,
        bytes.len(),
        access,
        0,
        key,
        0,
        &mut mr,
        null_mut()
    )) {
        0 => Ok(mr),
        code => Err(code),
    }
}

sentences! { "fi_mr(3)";

/// A region has a key that is not FI_KEY_NOTAVAIL.
fn a_region_has_a_key(stage) {
    let world = rma_world(stage);
    let mut bytes = [0; 64];
    let mr = register(&world, &mut bytes, 1).expect("a region");
    assert_ne!(c!(fi_mr_key(mr)), u64::MAX);
    assert_eq!(close(mr), 0);
}

/// Regions that are open at the same time have different keys.
fn keys_are_different(stage) {
    let world = rma_world(stage);
    let (mut one, mut other) = ([0; 64], [0; 64]);
    let first = register(&world, &mut one, 1).expect("a region");
    let second = register(&world, &mut other, 2).expect("a region");
    assert_ne!(c!(fi_mr_key(first)), c!(fi_mr_key(second)));
    assert_eq!((close(first), close(second)), (0, 0));
}

/// Where the application chooses keys, it gets the one it chose, and a second time -FI_ENOKEY.
fn chosen_keys_are_given_once(stage) {
    let world = rma_world(stage);
    if c!((*world.info.first().domain_attr).mr_mode) & FI_MR_PROV_KEY != 0 {
        return;
    }
    let (mut one, mut other) = ([0; 64], [0; 64]);
    let first = register(&world, &mut one, 42).expect("a region");
    assert_eq!(c!(fi_mr_key(first)), 42);
    assert_eq!(register(&world, &mut other, 42).err(), Some(-FI_ENOKEY));
    assert_eq!(close(first), 0);
}

/// A domain with open regions cannot be closed: -FI_EBUSY.
fn a_domain_with_regions_stays_open(stage) {
    let world = rma_world(stage);
    let mut bytes = [0; 64];
    let mr = register(&world, &mut bytes, 1).expect("a region");
    assert_eq!(close(world.domain), -FI_EBUSY);
    assert_eq!(close(mr), 0);
}

/// A region that is closed can be registered again.
fn regions_come_and_go(stage) {
    let world = rma_world(stage);
    let mut bytes = [0; 64];
    for _ in 0..10 {
        let mr = register(&world, &mut bytes, 1).expect("a region");
        assert_eq!(close(mr), 0);
    }
}

/// A region says that it is one.
fn a_region_has_its_class(stage) {
    let world = rma_world(stage);
    let mut bytes = [0; 64];
    let mr = register(&world, &mut bytes, 1).expect("a region");
    assert_eq!(c!((*mr).fid.fclass), FI_CLASS_MR);
    assert_eq!(close(mr), 0);
}
}
