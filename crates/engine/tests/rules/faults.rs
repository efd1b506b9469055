//! Injected post failures change timing, never results.

use oxifabric_engine::faults::FaultPlan;
use oxifabric_engine::{PostError, TxOp};
use oxifabric_types::{Errno, Flags, PeerId};

use crate::script::{Bench, OTHER, PEER, memory, tx};

/// A bench whose posts fare as a plan says.
fn under(plan: &str) -> Bench {
    let plan: FaultPlan = plan.parse().expect("it is a plan");
    let mut bench = Bench::with(|_| {}, |config| config.tx_size = 100);
    bench.engine.plan_faults(&plan);
    for peer in [PEER, OTHER] {
        bench.engine.include_in_faults(peer);
    }
    bench
}

fn send_tagged(bench: &mut Bench, peer: PeerId, tag: u64) {
    let op = TxOp {
        peer,
        tag,
        flags: Flags::TAGGED | Flags::COMPLETION,
        ..tx(&memory(b"body"), 0)
    };
    bench.send(op).expect("there is room");
}

/// Returns the number of operations that ended well and in error since the last call.
fn endings(bench: &mut Bench) -> (usize, usize) {
    let (mut good, mut bad) = (0, 0);
    while let Some(event) = bench.event() {
        match event {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    (good, bad)
}

/// Returns the tags that the link got for a peer, in order.
fn tags(bench: &Bench, peer: PeerId) -> Vec<u64> {
    let posted = bench.link.posted.iter();
    let to_peer = posted.filter(|sent| sent.to == peer);
    to_peer.map(|sent| sent.header.tag).collect()
}

#[test]
fn what_is_refused_keeps_its_order_and_completes_once() {
    let mut bench = under("refuse=0.3,seed=1");
    for tag in 0..50 {
        send_tagged(&mut bench, PEER, tag);
        send_tagged(&mut bench, OTHER, tag);
    }
    let begun: Vec<u64> = (0..50).collect();
    assert_ne!(tags(&bench, PEER), begun, "some was refused");
    while bench.poll() > 0 {}
    for peer in [PEER, OTHER] {
        assert_eq!(tags(&bench, peer), begun);
    }
    assert_eq!(endings(&mut bench), (100, 0));
    assert!(bench.engine.idle());
}

#[test]
fn a_refused_peer_waits_for_a_poll() {
    let mut bench = under("refuse=1");
    send_tagged(&mut bench, PEER, 1);
    send_tagged(&mut bench, PEER, 2);
    for _ in 0..10 {
        assert!(bench.poll() > 0, "a thread that looks for events polls on");
    }
    assert!(bench.link.posted.is_empty());
    assert_eq!(endings(&mut bench), (0, 0));
}

#[test]
fn a_broken_connection_ends_what_was_begun_and_the_next_send_begins_anew() {
    let mut bench = under("break=1");
    send_tagged(&mut bench, PEER, 1);
    send_tagged(&mut bench, PEER, 2);
    assert_eq!(endings(&mut bench), (0, 0));
    bench.poll();
    assert_eq!(endings(&mut bench), (0, 2));
    // The link has no connection that could break: the next send makes one.
    bench.link.is_apart = true;
    send_tagged(&mut bench, PEER, 3);
    assert_eq!(tags(&bench, PEER), [3]);
    bench.link.is_apart = false;
    send_tagged(&mut bench, PEER, 4);
    assert_eq!(tags(&bench, PEER), [3]);
}

#[test]
fn a_link_that_is_full_by_itself_gets_no_injected_fault() {
    let mut bench = under("break=1");
    bench.link.is_apart = true;
    bench.link.answers.push_back(Err(PostError::Again));
    send_tagged(&mut bench, PEER, 1);
    bench.link.is_apart = false;
    send_tagged(&mut bench, PEER, 2);
    assert!(bench.link.disconnected.is_empty());
    bench.tell(|sink| sink.peer_down(PEER, Errno::CONNRESET));
    assert_eq!(endings(&mut bench), (0, 2));
}

#[test]
fn a_plan_for_packets_injects_no_fault_at_posts() {
    let mut bench = under("drop=1");
    send_tagged(&mut bench, PEER, 1);
    assert_eq!(tags(&bench, PEER), [1]);
    assert!(bench.link.disconnected.is_empty());
}
