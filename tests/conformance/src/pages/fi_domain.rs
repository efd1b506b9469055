//! Domains.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, bind, close};
use oxifabric_fixtures::rma_fixture::{ACCESS, BOTH, RmaFixture};
use oxifabric_fixtures::{c, refused};

use crate::requirements;

requirements! { "fi_domain(3)";

/// A domain that has open objects cannot be closed: -FI_EBUSY.
fn a_domain_in_use_stays_open(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|_| {});
    assert_eq!(close(fixture.domain), -FI_EBUSY);
    assert_eq!(close(cq), 0);
}

/// A fabric that has an open domain cannot be closed: -FI_EBUSY.
fn a_fabric_in_use_stays_open(subject) {
    let fixture = Fixture::new(subject);
    assert_eq!(close(fixture.fabric), -FI_EBUSY);
}

/// Several domains of one fabric can be open at once.
fn a_fabric_has_several_domains(subject) {
    let fixture = Fixture::new(subject);
    let mut other = null_mut();
    assert_eq!(c!(fi_domain(fixture.fabric, fixture.info.as_ptr(), &mut other, null_mut())), 0);
    assert_ne!(other, fixture.domain);
    assert_eq!(close(other), 0);
}

/// The context that a domain was opened with stays with its handle.
fn a_domain_keeps_its_context(subject) {
    let fixture = Fixture::new(subject);
    let mut place = 0_u8;
    let context = (&raw mut place).cast();
    let mut other = null_mut();
    assert_eq!(c!(fi_domain(fixture.fabric, fixture.info.as_ptr(), &mut other, context)), 0);
    assert_eq!(c!((*other).fid.context), context);
    assert_eq!(c!((*other).fid.fclass), FI_CLASS_DOMAIN);
    assert_eq!(close(other), 0);
}

/// An event queue can be bound to a domain, and is in use then.
fn an_event_queue_is_bound_to_a_domain(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    assert_eq!(c!(fi_domain_bind(fixture.domain, eq.cast(), 0)), 0);
    assert_eq!(close(eq), -FI_EBUSY);
    // The domain closes with the fixture; the queue can be closed only after that.
    let (domain, fabric) = fixture.into_handles();
    assert_eq!((close(domain), close(eq), close(fabric)), (0, 0, 0));
}

/// An object of another domain cannot be bound to an endpoint.
fn domains_do_not_mix(subject) {
    let (one, other) = (Fixture::new(subject), Fixture::new(subject));
    let ep = one.bare();
    let cq = other.cq(|_| {});
    refused!(bind(ep, cq, FI_SEND | FI_RECV), FI_EDOMAIN);
    assert_eq!((close(ep), close(cq)), (0, 0));
}

/// The attributes say how many bytes of a key and of remote completion data travel.
fn sizes_of_keys_and_data_are_told(subject) {
    let fixture = Fixture::new(subject);
    let attr = c!(&*fixture.info.first().domain_attr);
    assert!(attr.cq_data_size <= 8);
    assert!(attr.mr_key_size >= 1);
}

/// Callbacks that are unknown are refused with -FI_ENOSYS.
fn unknown_callbacks_are_refused(subject) {
    let fixture = Fixture::new(subject);
    let name = c"no such operations".as_ptr();
    let set = c!(fi_set_ops(fixture.domain.cast(), name, 0, null_mut(), null_mut()));
    assert_eq!(set, -FI_ENOSYS);
}

/// Interfaces that are unknown are not opened.
fn unknown_interfaces_are_not_opened(subject) {
    let fixture = Fixture::new(subject);
    let mut ops = null_mut();
    let name = c"no such operations".as_ptr();
    refused!(c!(fi_open_ops(fixture.domain.cast(), name, 0, &mut ops, null_mut())), FI_ENOSYS);
}

/// fi_domain2 without flags is fi_domain.
fn a_domain_may_be_opened_with_flags(subject) {
    let fixture = Fixture::new(subject);
    let mut other = null_mut();
    let opened = c!(fi_domain2(fixture.fabric, fixture.info.as_ptr(), &mut other, 0, null_mut()));
    assert_eq!((opened, close(other)), (0, 0));
}

/// With FI_PROGRESS_AUTO operations end without further calls of the application at the target.
fn automatic_progress_needs_no_calls(subject) {
    let mut hints = subject.hints();
    hints.first_mut().caps |= ACCESS;
    c!((*hints.first().tx_attr).op_flags = FI_DELIVERY_COMPLETE);
    c!((*hints.first().domain_attr).data_progress = FI_PROGRESS_AUTO);
    let Ok(info) = subject.try_query(&hints, None, 0) else {
        return;
    };
    assert_eq!(c!((*info.first().domain_attr).data_progress), FI_PROGRESS_AUTO);
    let rma = RmaFixture::with(Fixture::of(subject, info), BOTH);
    rma.write(b"automatic", 0, rma.key());
    // The queue of the target is not read.
    let begun = std::time::Instant::now();
    while rma.pair.a.read().is_none() {
        assert!(begun.elapsed() < oxifabric_fixtures::traffic::TIMEOUT);
    }
    assert_eq!(&rma.region()[..9], b"automatic");
    rma.close();
}

/// The progress, threading and resource management that were asked for are those of the domain.
fn models_are_as_asked(subject) {
    for threading in [FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_ENDPOINT, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN] {
        let mut hints = subject.hints();
        c!((*hints.first_mut().domain_attr).threading = threading);
        let info = subject.query(&hints);
        assert_eq!(c!((*info.first().domain_attr).threading), threading);
        drop(Fixture::of(subject, info).end());
    }
}

/// Where resources are managed, what cannot be posted now says -FI_EAGAIN, and nothing is lost.
fn what_does_not_fit_comes_again(subject) {
    let fixture = Fixture::with(subject, |hints| c!((*hints.domain_attr).resource_mgmt = FI_RM_ENABLED));
    let pair = fixture.pair();
    let place = pair.a.traffic.buffer(b"x");
    let mut sent = 0;
    while sent < 5000 {
        match c!(fi_send(pair.a.ep, place.cast(), 1, null_mut(), pair.to_b, null_mut())) {
            0 => sent += 1,
            code => {
                assert_eq!(code, -(FI_EAGAIN as isize));
                break;
            }
        }
    }
    assert!(sent > 0);
    for _ in 0..sent {
        let posted = pair.b.recv(1);
        assert_eq!(pair.done(&pair.b).op_context, posted.context);
        pair.progress(&pair.a);
    }
}
}
