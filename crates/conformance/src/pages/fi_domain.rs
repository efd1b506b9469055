//! Domains.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::ground::{ACCESS, BOTH, Ground};
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

/// Callbacks that are unknown are refused with -FI_ENOSYS.
fn unknown_callbacks_are_refused(stage) {
    let world = World::new(stage);
    let name = c"no such operations".as_ptr();
    let set = c!(fi_set_ops(world.domain.cast(), name, 0, null_mut(), null_mut()));
    assert_eq!(set, -FI_ENOSYS);
}

/// Interfaces that are unknown are not opened.
fn unknown_interfaces_are_not_opened(stage) {
    let world = World::new(stage);
    let mut ops = null_mut();
    let name = c"no such operations".as_ptr();
    assert!(c!(fi_open_ops(world.domain.cast(), name, 0, &mut ops, null_mut())) < 0);
}

/// fi_domain2 without flags is fi_domain.
fn a_domain_may_be_opened_with_flags(stage) {
    let world = World::new(stage);
    let mut other = null_mut();
    let opened = c!(fi_domain2(world.fabric, world.info.as_ptr(), &mut other, 0, null_mut()));
    assert_eq!((opened, close(other)), (0, 0));
}

/// With FI_PROGRESS_AUTO operations end without further calls of the application at the target.
fn automatic_progress_needs_no_calls(stage) {
    let mut hints = stage.hints();
    hints.first_mut().caps |= ACCESS;
    c!((*hints.first().tx_attr).op_flags = FI_DELIVERY_COMPLETE);
    c!((*hints.first().domain_attr).data_progress = FI_PROGRESS_AUTO);
    let Ok(info) = stage.try_query(&hints, None, 0) else {
        return;
    };
    assert_eq!(c!((*info.first().domain_attr).data_progress), FI_PROGRESS_AUTO);
    let ground = Ground::with(World::of(stage, info), BOTH);
    ground.write(b"automatic", 0, ground.key());
    // Nobody reads the queue of the target.
    let begun = std::time::Instant::now();
    while ground.two.a.read().is_none() {
        assert!(begun.elapsed() < crate::traffic::PATIENCE);
    }
    assert_eq!(&ground.region()[..9], b"automatic");
    ground.close();
}

/// The progress, threading and resource management that were asked for are those of the domain.
fn models_are_as_asked(stage) {
    for threading in [FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_ENDPOINT, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN] {
        let mut hints = stage.hints();
        c!((*hints.first_mut().domain_attr).threading = threading);
        let info = stage.query(&hints);
        assert_eq!(c!((*info.first().domain_attr).threading), threading);
        drop(World::of(stage, info).end());
    }
}

/// Where resources are managed, what cannot be posted now says -FI_EAGAIN, and nothing is lost.
fn what_does_not_fit_comes_again(stage) {
    let world = World::with(stage, |hints| c!((*hints.domain_attr).resource_mgmt = FI_RM_ENABLED));
    let two = world.two();
    let place = two.a.traffic.buffer(b"x");
    let mut sent = 0;
    while sent < 5000 {
        match c!(fi_send(two.a.ep, place.cast(), 1, null_mut(), two.to_b, null_mut())) {
            0 => sent += 1,
            code => {
                assert_eq!(code, -(FI_EAGAIN as isize));
                break;
            }
        }
    }
    assert!(sent > 0);
    for _ in 0..sent {
        let posted = two.b.recv(1);
        assert_eq!(two.done(&two.b).op_context, posted.context);
        two.progress(&two.a);
    }
}
}
