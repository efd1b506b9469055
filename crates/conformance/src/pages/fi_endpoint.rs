//! Endpoints.

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::world::{World, bind, close};
use crate::{c, sentences};

sentences! { "fi_endpoint(3)";

/// An endpoint cannot be enabled without an address vector: -FI_ENOAV.
fn a_vector_is_needed(stage) {
    let world = World::new(stage);
    let (ep, cq) = (world.bare(), world.cq(|_| {}));
    assert_eq!(bind(ep, cq, FI_SEND | FI_RECV), 0);
    assert_eq!(c!(fi_enable(ep)), -FI_ENOAV);
    assert_eq!((close(ep), close(cq)), (0, 0));
}

/// An endpoint cannot be enabled without a queue or counter for its completions: -FI_ENOCQ.
fn a_queue_is_needed(stage) {
    let world = World::new(stage);
    let (ep, av) = (world.bare(), world.av());
    assert_eq!(bind(ep, av, 0), 0);
    assert_eq!(c!(fi_enable(ep)), -FI_ENOCQ);
    assert_eq!((close(ep), close(av)), (0, 0));
}

/// A disabled endpoint transfers nothing: -FI_EOPBADSTATE.
fn a_disabled_endpoint_refuses_data(stage) {
    let world = World::new(stage);
    let ep = world.bare();
    let sent = c!(fi_send(ep, null_mut(), 0, null_mut(), 0, null_mut()));
    assert_eq!(sent, -(FI_EOPBADSTATE as isize));
    let posted = c!(fi_recv(ep, null_mut(), 0, null_mut(), FI_ADDR_UNSPEC, null_mut()));
    assert_eq!(posted, -(FI_EOPBADSTATE as isize));
    assert_eq!(close(ep), 0);
}

/// A queue that is bound to an endpoint cannot be closed: -FI_EBUSY.
fn a_queue_in_use_stays_open(stage) {
    let world = World::new(stage);
    let end = world.end();
    assert_eq!(close(end.cq), -FI_EBUSY);
}

/// A vector that is bound to an endpoint cannot be closed: -FI_EBUSY.
fn a_vector_in_use_stays_open(stage) {
    let world = World::new(stage);
    let end = world.end();
    assert_eq!(close(end.av), -FI_EBUSY);
}

/// Nothing can be bound once the endpoint is enabled.
fn an_enabled_endpoint_is_not_bound_again(stage) {
    let world = World::new(stage);
    let end = world.end();
    let cq = world.cq(|_| {});
    assert_ne!(bind(end.ep, cq, FI_SEND | FI_RECV), 0);
    assert_eq!(close(cq), 0);
}

/// A flag that means nothing in a binding is refused.
fn a_binding_with_a_false_flag_is_refused(stage) {
    let world = World::new(stage);
    let (ep, cq) = (world.bare(), world.cq(|_| {}));
    assert_ne!(bind(ep, cq, FI_REMOTE_READ), 0);
    assert_eq!((close(ep), close(cq)), (0, 0));
}

/// An endpoint can be opened, bound, enabled and closed again and again.
fn endpoints_come_and_go(stage) {
    let world = World::new(stage);
    for _ in 0..20 {
        drop(world.end());
    }
}

/// The flags of operations without a flags argument can be read back as set.
fn operation_flags_are_read_back(stage) {
    let world = World::new(stage);
    let end = world.end();
    let mut flags = FI_TRANSMIT | FI_INJECT_COMPLETE;
    assert_eq!(c!(fi_control(end.ep.cast(), FI_SETOPSFLAG, (&raw mut flags).cast())), 0);
    let mut read = FI_TRANSMIT;
    assert_eq!(c!(fi_control(end.ep.cast(), FI_GETOPSFLAG, (&raw mut read).cast())), 0);
    assert_eq!(read & FI_INJECT_COMPLETE, FI_INJECT_COMPLETE);
}

/// Operation flags belong to one direction; to name none or both is an error.
fn operation_flags_name_one_direction(stage) {
    let world = World::new(stage);
    let end = world.end();
    for mut flags in [0, FI_TRANSMIT | FI_RECV] {
        assert_ne!(c!(fi_control(end.ep.cast(), FI_SETOPSFLAG, (&raw mut flags).cast())), 0);
    }
}

/// The least room of a multi-receive buffer is read back as set.
fn the_least_multi_receive_room_is_read_back(stage) {
    let world = World::new(stage);
    let end = world.end();
    let (value, mut read) = (333_usize, 0_usize);
    let mut len = size_of::<usize>();
    let set = c!(fi_setopt(
        end.ep.cast(),
        FI_OPT_ENDPOINT as _,
        FI_OPT_MIN_MULTI_RECV as _,
        (&raw const value).cast(),
        len
    ));
    assert_eq!(set, 0);
    let got = c!(fi_getopt(
        end.ep.cast(),
        FI_OPT_ENDPOINT as _,
        FI_OPT_MIN_MULTI_RECV as _,
        (&raw mut read).cast(),
        &mut len
    ));
    assert_eq!((got, read, len), (0, value, size_of::<usize>()));
}

/// An option that does not exist is -FI_ENOPROTOOPT.
fn an_unknown_option_is_told(stage) {
    let world = World::new(stage);
    let end = world.end();
    let mut value = 0_usize;
    let mut len = size_of::<usize>();
    let got = c!(fi_getopt(
        end.ep.cast(),
        FI_OPT_ENDPOINT as _,
        0x7fff,
        (&raw mut value).cast(),
        &mut len
    ));
    assert_eq!(got, -FI_ENOPROTOOPT);
}

/// Cancelling a receive ends it with an error completion FI_ECANCELED that has its context.
fn a_cancelled_receive_completes_in_error(stage) {
    let world = World::new(stage);
    let two = world.two();
    let posted = two.b.recv(64);
    assert_eq!(c!(fi_cancel(two.b.ep.cast(), posted.context)), 0);
    let error = two.failed(&two.b);
    assert_eq!((error.err, error.op_context), (FI_ECANCELED, posted.context));
}

/// An endpoint's address fits a buffer that is long enough, and its length is told if it does not.
fn a_short_buffer_for_the_name_is_told_the_length(stage) {
    let world = World::new(stage);
    let end = world.end();
    let name = end.name();
    let mut short = [0_u8; 2];
    let mut len = short.len();
    let got = c!(fi_getname(end.ep.cast(), short.as_mut_ptr().cast(), &mut len));
    assert_eq!((got, len), (-FI_ETOOSMALL, name.len()));
}
}
