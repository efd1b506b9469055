//! The provider of the page about providers, opened as the library opens its own, carries what applications send.

#[path = "../code/providers/mailbox.rs"]
mod mailbox;

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_core::info::to_c_list;
use oxifabric_core::provider_entry::ProviderEntry;
use oxifabric_core::provider_entry::make::entry;
use oxifabric_core::registry::{Registry, Request};
use oxifabric_fixtures::fixture::{Fixture, TestEndpoint, close};
use oxifabric_fixtures::subject::VERSION;
use oxifabric_fixtures::{Subject, c};
use oxifabric_provider::device::Provider;
use oxifabric_types::{Caps, Info};

use mailbox::Mailboxes;

static ENTRY: ProviderEntry = entry::<Mailboxes>();
static ENTRIES: [&ProviderEntry; 1] = [&ENTRY];

/// Opens a fabric and a domain of the provider.
fn fixture() -> Fixture {
    let subject = Subject {
        library: oxifabric_libfabric::builtin(),
        provider: Mailboxes::NAME,
    };
    let hints = Info {
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA,
        ..Info::default()
    };
    let asked = Request {
        version: VERSION,
        hints: Some(&hints),
        ..Request::default()
    };
    let found = Registry::new(&ENTRIES).query(&asked);
    assert!(!found.infos.is_empty(), "{:?}", found.refusals);
    let info = subject.empty_hints().like(to_c_list(&found.infos));
    let (mut fabric, mut domain) = (null_mut(), null_mut());
    let attr = fi_fabric_attr::ZERO;
    let version = FI_VERSION(2, 0);
    assert_eq!(
        c!(ENTRY.open_fabric(&attr, version, &mut fabric, null_mut())),
        0
    );
    assert_eq!(
        c!(fi_domain(fabric, info.as_ptr(), &mut domain, null_mut())),
        0
    );
    Fixture {
        info,
        fabric,
        domain,
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn messages_of_every_length_arrive_in_order() {
    let fixture = fixture();
    let pair = fixture.pair();
    // In a frame, in the longest frame, offered first, and posted before and after its receive.
    let lengths = [0, 8, 4096, 4097, 300_000];
    let early: Vec<_> = lengths.map(|len| pair.b.recv(len)).into();
    for len in lengths {
        pair.send(&bytes(len));
    }
    for (posted, len) in early.iter().zip(lengths) {
        let done = pair.done(&pair.b);
        assert_eq!((done.op_context, done.len), (posted.context, len));
        assert_eq!(posted.bytes(), bytes(len));
    }
    for len in lengths {
        pair.tsend(&bytes(len), len as u64);
    }
    for len in lengths.into_iter().rev() {
        let posted = pair.b.trecv(len, len as u64, 0);
        assert_eq!(pair.done(&pair.b).tag, len as u64);
        assert_eq!(posted.bytes(), bytes(len));
    }
}

#[test]
fn a_full_mailbox_holds_its_senders_back_and_loses_nothing() {
    let fixture = fixture();
    let pair = fixture.pair();
    let many = 1_000u64;
    for tag in 0..many {
        pair.start(|| c!(fi_tinject(pair.a.ep, null_mut(), 0, pair.to_b, tag)));
    }
    for tag in 0..many {
        let posted = pair.b.trecv(0, tag, 0);
        assert_eq!(pair.done(&pair.b).op_context, posted.context);
    }
}

#[test]
fn memory_of_a_peer_is_written_and_read() {
    let fixture = fixture();
    let pair = fixture.pair();
    let (there, here) = (
        pair.b.traffic.buffer(&[0; 9_000]),
        pair.a.traffic.buffer(&bytes(9_000)),
    );
    let mut region = null_mut();
    let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    let registered = c!(fi_mr_reg(
        fixture.domain,
        there.cast(),
        9_000,
        access,
        0,
        7,
        0,
        &mut region,
        null_mut()
    ));
    assert_eq!(registered, 0);
    let key = c!(fi_mr_key(region));
    let (ep, to) = (pair.a.ep, pair.to_b);
    let context = pair.a.traffic.context();
    pair.start(|| {
        c!(fi_write(
            ep,
            here.cast(),
            9_000,
            null_mut(),
            to,
            0,
            key,
            context
        ))
    });
    assert_eq!(pair.done(&pair.a).op_context, context);
    let back = pair.a.traffic.buffer(&[0; 4_500]);
    pair.start(|| {
        c!(fi_read(
            ep,
            back.cast(),
            4_500,
            null_mut(),
            to,
            4_500,
            key,
            context
        ))
    });
    assert_eq!(pair.done(&pair.a).op_context, context);
    let read = c!(core::slice::from_raw_parts(back, 4_500));
    assert_eq!(read, &bytes(9_000)[4_500..]);
    drop(pair);
    assert_eq!(close(region), 0);
}

#[test]
fn a_peer_that_closes_ends_what_is_under_way_to_it() {
    let fixture = fixture();
    let pair = fixture.pair();
    // Too long to go without an answer of its receiver, which has no receive for it.
    pair.send(&bytes(300_000));
    drop(pair.b);
    let failed = first_failure(&pair.a);
    assert_eq!(failed.err, FI_ECONNRESET);
}

/// Drives an endpoint until an operation of it fails.
fn first_failure(end: &TestEndpoint) -> fi_cq_err_entry {
    use oxifabric_fixtures::traffic::Read;
    (0..1_000_000)
        .find_map(|_| match end.read() {
            Some(Read::Failed(error)) => Some(error),
            _ => None,
        })
        .expect("the send ends")
}
