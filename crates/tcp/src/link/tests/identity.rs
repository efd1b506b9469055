//! Requests in the name of a peer that has a connection.

use oxifabric_tcp_stream::tx::Coalescing;

use super::*;
use crate::sys::testing::forget;

/// A peer with a connection, and another process at its address that asks for one.
struct Case {
    a: Node,
    to_b: PeerId,
    /// The sockets of the process that was there first.
    old: Vec<crate::peer::Peer>,
    newcomer: Node,
    to_a: PeerId,
}

fn case() -> Case {
    let (a, mut b, to_b, _) = pair(V4);
    let (at, name) = (b.at(), a.link.name());
    let old: Vec<_> = b.link.kind.peers.drain().collect();
    drop(b);
    let mut newcomer = Node::new(&at.to_string());
    newcomer.link.kind.local_params.pid ^= 1;
    let to_a = newcomer.link.peer(&name).expect("an address");
    Case {
        a,
        to_b,
        old,
        newcomer,
        to_a,
    }
}

impl Case {
    /// Lets the newcomer try to send until `done`. Time goes by as it does for the kernel, which asks for signs of life.
    fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let start = Clock::now();
        let begun = self.a.now;
        while !done(self) {
            let (iov, header) = (Iov::empty(), message(3, 0));
            if self.newcomer.sink.down.is_empty() {
                let _ = self.newcomer.try_post(self.to_a, header, &iov);
            }
            for node in [&mut self.a, &mut self.newcomer] {
                node.now = begun.after(start.elapsed());
                node.poll();
            }
            assert!(start.elapsed() < WATCHDOG, "nothing moves any more");
        }
    }
}

#[test]
fn a_live_connection_is_not_replaced_and_serves_on() {
    let mut case = case();
    case.until(|case| case.a.link.conns.counts.rejected >= 2);
    assert_eq!(
        (case.a.link.conns.ready.as_slice(), case.a.sink.down.len()),
        (&[case.to_b][..], 0)
    );
    assert!(case.a.sink.arrived.is_empty());
    // The first process still talks.
    let conn = case
        .old
        .iter_mut()
        .find_map(|peer| match &mut peer.driver.state {
            crate::driver::ConnState::Ready(conn) => Some(conn),
            _ => None,
        });
    let body = Iov::empty();
    let frame = Frame::whole(message(5, 0), &body);
    let posted = conn
        .expect("a connection")
        .stream
        .post(&frame, TxToken(5), Coalescing::Off);
    assert!(matches!(posted, Ok(Ok(Posted::Done))));
    case.until(|case| !case.a.sink.arrived.is_empty());
    assert_eq!(
        case.a.pop().map(|(header, _)| header.tag),
        Some(message(5, 0).tag)
    );
}

#[test]
fn a_dead_connection_is_replaced_by_the_process_that_comes_after() {
    let mut case = case();
    for peer in case.old.drain(..) {
        if let crate::driver::ConnState::Ready(conn) = peer.driver.state
            && !forget(conn.socket())
        {
            println!("SKIP: without CAP_NET_ADMIN no socket vanishes unheard");
            return;
        }
    }
    case.until(|case| !case.a.sink.arrived.is_empty());
    assert_eq!(case.a.sink.down.len(), 1);
    assert_eq!(case.a.link.conns.ready, [case.to_b]);
}

#[test]
fn a_process_that_ended_is_replaced_at_once() {
    let mut case = case();
    case.old.clear();
    case.until(|case| !case.a.sink.arrived.is_empty());
    assert_eq!(case.a.sink.down, [(case.to_b, Errno::CONNRESET)]);
    assert_eq!(case.a.link.conns.counts.rejected, 0);
}
