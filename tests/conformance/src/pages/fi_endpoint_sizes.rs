//! How many operations an endpoint takes.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::c;
use oxifabric_fixtures::fixture::{Fixture, Pair};
use oxifabric_fixtures::subject::{InfoList, Subject};

use crate::requirements;

/// Asks for this number of operations of each direction, if the provider grants them.
fn granted(subject: &Subject, count: usize) -> Option<InfoList> {
    let mut hints = subject.hints();
    c!((*hints.first_mut().tx_attr).size = count);
    c!((*hints.first_mut().rx_attr).size = count);
    subject.try_query(&hints, None, 0).ok()
}

/// Returns the largest of the sizes that programs ask for which the provider grants, with its endpoints.
fn roomiest(subject: &Subject) -> (usize, InfoList) {
    let sizes = [65_536, 16_384, 4096, 1024, 256];
    let found = sizes
        .iter()
        .find_map(|&size| granted(subject, size).map(|info| (size, info)));
    found.expect("at least 256 operations")
}

/// Sends one byte from `a` to `b` and waits for it, so that they are connected.
fn introduce(pair: &Pair) {
    let _ = pair.b.recv(1);
    pair.send(&[0]);
    let _ = (pair.done(&pair.a), pair.done(&pair.b));
}

requirements! { "fi_endpoint(3), sizes";

/// An endpoint takes as many receives as the size that was asked for and granted, before any of them completes.
fn receives_up_to_the_size_are_taken(subject) {
    let (count, info) = roomiest(subject);
    let fixture = Fixture::of(subject, info);
    let pair = fixture.pair();
    let place = pair.b.traffic.buffer(&vec![0; count]);
    for at in 0..count {
        let into = place.wrapping_add(at).cast();
        let code = c!(fi_recv(pair.b.ep, into, 1, null_mut(), FI_ADDR_UNSPEC, null_mut()));
        assert_eq!(code, 0, "receive {at} of {count}");
    }
    for at in 0..3_u8 {
        pair.send(&[at + 1]);
        let _ = pair.done(&pair.b);
    }
    assert_eq!(c!(core::slice::from_raw_parts(place, 4)), [1, 2, 3, 0]);
}

/// An endpoint takes as many sends as the size that was asked for and granted, while no queue is read, and all arrive.
fn sends_up_to_the_size_are_taken(subject) {
    let (count, info) = roomiest(subject);
    let fixture = Fixture::of(subject, info);
    let pair = fixture.pair();
    introduce(&pair);
    let bytes: Vec<u8> = (0..count).map(|at| (at % 251) as u8).collect();
    let (from, into) = (pair.a.traffic.buffer(&bytes), pair.b.traffic.buffer(&vec![0; count]));
    for at in 0..count {
        let (ep, byte) = (pair.a.ep, from.wrapping_add(at).cast());
        let code = c!(fi_send(ep, byte, 1, null_mut(), pair.to_b, null_mut()));
        assert_eq!(code, 0, "send {at} of {count}");
    }
    for at in 0..count {
        let into = into.wrapping_add(at).cast();
        pair.start(|| c!(fi_recv(pair.b.ep, into, 1, null_mut(), FI_ADDR_UNSPEC, null_mut())));
    }
    for _ in 0..count {
        let _ = pair.done(&pair.b);
    }
    assert!(c!(core::slice::from_raw_parts(into, count)) == bytes);
}

/// The sizes that Mercury asks tcp for are granted, and up to 65,536; no more than that.
fn sizes_above_the_default_are_given(subject) {
    if subject.provider != "tcp" {
        return;
    }
    let mut hints = subject.hints();
    c!((*hints.first_mut().tx_attr).size = 4096);
    c!((*hints.first_mut().rx_attr).size = 512);
    for info in subject.query(&hints).entries() {
        assert_eq!(c!(((*info.tx_attr).size, (*info.rx_attr).size)), (4096, 512));
    }
    assert!(granted(subject, 65_536).is_some() && granted(subject, 65_537).is_none());
}

/// A queue for 131,072 completions can be opened.
fn deep_queues_are_opened(subject) {
    let fixture = Fixture::new(subject);
    let cq = fixture.cq(|attr| attr.size = 131_072);
    assert_eq!(oxifabric_fixtures::fixture::close(cq), 0);
}
}
