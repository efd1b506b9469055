//! Domains.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::world::{World, bind, close};
use crate::{c, sentences};

sentences! { "fi_domain(3)";

/// A domain that has open objects cannot be closed: -FI_EBUSY.
fn a_domain_in_use_stays_open(stage) {
    let world = World::new(stage);
    let cq = world.cq(|_| {});
    assert_eq!(close(world.domain), -FI_EBUSY);
    assert_eq!(close(cq), 0);
}

/// A fabric that has an open domain cannot be closed: -FI_EBUSY.
fn a_fabric_in_use_stays_open(stage) {
    let world = World::new(stage);
    assert_eq!(close(world.fabric), -FI_EBUSY);
}

/// Several domains of one fabric can be open at once.
fn a_fabric_has_several_domains(stage) {
    let world = World::new(stage);
    let mut other = null_mut();
    assert_eq!(c!(fi_domain(world.fabric, world.info.as_ptr(), &mut other, null_mut())), 0);
    assert_ne!(other, world.domain);
    assert_eq!(close(other), 0);
}

/// The context that a domain was opened with stays with its handle.
fn a_domain_keeps_its_context(stage) {
    let world = World::new(stage);
    let mut place = 0_u8;
    let context = (&raw mut place).cast();
    let mut other = null_mut();
    assert_eq!(c!(fi_domain(world.fabric, world.info.as_ptr(), &mut other, context)), 0);
    assert_eq!(c!((*other).fid.context), context);
    assert_eq!(c!((*other).fid.fclass), FI_CLASS_DOMAIN);
    assert_eq!(close(other), 0);
}

/// An event queue can be bound to a domain, and is in use then.
fn an_event_queue_is_bound_to_a_domain(stage) {
    let world = World::new(stage);
    let eq = world.eq();
    assert_eq!(c!(fi_domain_bind(world.domain, eq.cast(), 0)), 0);
    assert_eq!(close(eq), -FI_EBUSY);
    // The domain closes with the world; the queue can be closed only after that.
    let (domain, fabric) = world.into_handles();
    assert_eq!((close(domain), close(eq), close(fabric)), (0, 0, 0));
}

/// An object of another domain cannot be bound to an endpoint.
fn domains_do_not_mix(stage) {
    let (one, other) = (World::new(stage), World::new(stage));
    let ep = one.bare();
    let cq = other.cq(|_| {});
    assert_ne!(bind(ep, cq, FI_SEND | FI_RECV), 0);
    assert_eq!((close(ep), close(cq)), (0, 0));
}

/// The attributes say how many bytes of a key and of remote completion data travel.
fn sizes_of_keys_and_data_are_told(stage) {
    let world = World::new(stage);
    let attr = c!(&*world.info.first().domain_attr);
    assert!(attr.cq_data_size <= 8);
    assert!(attr.mr_key_size >= 1);
}
}
