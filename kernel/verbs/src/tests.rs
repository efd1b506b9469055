//! Endpoints of the provider through the C tables, over the devices of this program: what takes luck in a guest is tried often here.

mod world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::vec;

use oxifabric_abi::{
    FI_CONNECTED, FI_EACCES, FI_EAGAIN, FI_ECANCELED, FI_ETRUNC, FI_READ, FI_REMOTE_CQ_DATA,
    FI_REMOTE_WRITE, FI_RMA, FI_SHUTDOWN, FI_WRITE,
};

use world::{Pair, Server, World};

/// Messages of each test with threads.
const MESSAGES: usize = 300;

#[test]
fn messages_wait_for_receives_and_keep_their_order() {
    let world = World::new();
    let pair = Pair::new(&world, b"hello");
    for round in 0..40_u8 {
        pair.left.send(&[round; 20], round.into());
    }
    for round in 0..40_u8 {
        let mut into = vec![0; 100];
        pair.right.receive(&mut into, 7);
        assert_eq!(pair.right.done(), (7, 20));
        assert_eq!(into[..20], [round; 20]);
        assert_eq!(pair.left.done().0, usize::from(round));
    }
}

#[test]
fn injected_messages_give_their_places_in_the_queue_back_without_completions() {
    let world = World::new();
    let pair = Pair::new(&world, b"");
    let mut into = vec![0; 8];
    for round in 0..2000_u32 {
        pair.right.receive(&mut into, 7);
        pair.left.inject_when_there_is_room(&round.to_ne_bytes());
        assert_eq!(pair.right.done(), (7, 4));
        assert_eq!(into[..4], round.to_ne_bytes());
    }
    pair.right.receive(&mut into, 7);
    pair.left.send(&[1; 8], 9);
    assert_eq!(pair.left.done().0, 9, "the only completion");
}

#[test]
fn an_injected_message_is_counted_by_its_call() {
    let world = World::new();
    let pair = Pair::new(&world, b"");
    for count in 1..=40 {
        assert_eq!(pair.left.inject(b"counted"), 0);
        assert_eq!(pair.left.sent(), count, "no receive takes it");
    }
}

#[test]
fn as_many_sends_are_outstanding_as_the_attributes_say() {
    let world = World::new();
    let pair = Pair::new(&world, b"");
    for round in 0..world.tx_size() {
        pair.left.send(&[1; 8], round);
    }
    assert_eq!(pair.left.inject(b"more"), -(FI_EAGAIN as isize));
}

#[test]
fn an_injected_message_that_fails_ends_the_connection_without_an_entry_of_its_own() {
    let world = World::new();
    let pair = Pair::new(&world, b"");
    let mut into = vec![0; 8];
    pair.right.receive(&mut into, 1);
    assert_eq!(pair.left.inject(&[1; 9]), 0);
    assert_eq!(pair.right.error(), FI_ETRUNC);
    assert_eq!(pair.left.event(), Some(FI_SHUTDOWN));
    assert_eq!(pair.left.drain(), 0);
}

#[test]
fn two_threads_send_to_each_other_at_once() {
    let world = World::new();
    let pair = Pair::new(&world, b"");
    let play = |own: &world::Endpoint| {
        for round in 0..MESSAGES {
            let mut into = vec![0; 5000];
            own.receive(&mut into, 1);
            own.send(&vec![round as u8; 10 + round], 2);
            assert_eq!(own.done().0 + own.done().0, 3, "one receive, one send");
            assert_eq!(into[..10], [round as u8; 10]);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play(&pair.left));
        scope.spawn(|| play(&pair.right));
    });
}

#[test]
fn memory_is_reached_by_the_keys_of_the_device() {
    let world = World::new();
    let pair = Pair::new(&world, b"");
    let mut memory = vec![5_u8; 1000];
    let region = world.register(&mut memory);
    let at = memory.as_ptr() as u64;
    pair.left.write(&[9; 30], at + 10, region.key());
    assert_eq!(pair.left.entry().flags, FI_RMA | FI_WRITE);
    assert_eq!(
        (memory[9], memory[10], memory[39], memory[40]),
        (5, 9, 9, 5)
    );
    let mut into = vec![0; 40];
    pair.left.read(&mut into, at, region.key());
    assert_eq!(pair.left.entry().flags, FI_RMA | FI_READ);
    assert_eq!(into, memory[..40]);
    let mut taken = vec![0; 1];
    pair.right.receive(&mut taken, 3);
    pair.left.write_with_data(&[1; 4], at, region.key(), 77);
    let entry = pair.right.entry();
    assert_eq!(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    assert_eq!((entry.op_context.addr(), entry.len, entry.data), (3, 4, 77));
}

#[test]
fn an_access_that_is_not_allowed_ends_the_connection() {
    let world = World::new();
    let mut memory = vec![5_u8; 100];
    let region = world.register(&mut memory);
    let at = memory.as_ptr() as u64;
    for (place, key) in [
        (at + 90, region.key()),
        (at - 1, region.key()),
        (at, 999_999),
    ] {
        let pair = Pair::new(&world, b"");
        let mut waits = vec![0; 8];
        pair.right.receive(&mut waits, 1);
        pair.left.write(&[1; 20], place, key);
        assert_eq!(pair.left.error(), FI_EACCES);
        assert_eq!(pair.right.error(), FI_ECANCELED);
        assert_eq!(pair.left.event(), Some(FI_SHUTDOWN));
        assert_eq!(pair.right.event(), Some(FI_SHUTDOWN));
    }
    assert_eq!(memory, [5; 100]);
}

#[test]
fn a_message_may_overtake_the_last_word_on_its_connection() {
    let world = World::new();
    let Pair { left, right } = Pair::answered(&world, b"deaf");
    let mut into = vec![0; 8];
    right.receive(&mut into, 1);
    left.send(&[1; 8], 2);
    assert_eq!(right.event(), Some(FI_CONNECTED));
    assert_eq!(right.done(), (1, 8));
    drop(left);
    assert_eq!(right.event(), Some(FI_SHUTDOWN));
}

#[test]
fn one_that_does_not_fit_ends_the_connection_then_as_well() {
    let world = World::new();
    let Pair { left, right } = Pair::answered(&world, b"deaf");
    let mut into = vec![0; 8];
    right.receive(&mut into, 1);
    left.send(&[1; 9], 2);
    assert_eq!(right.error(), FI_ETRUNC);
    assert_eq!(right.event(), Some(FI_CONNECTED));
    assert_eq!(right.event(), Some(FI_SHUTDOWN));
}

#[test]
fn a_message_that_does_not_fit_ends_the_connection() {
    let world = World::new();
    let pair = Pair::new(&world, b"");
    let mut into = vec![0; 8];
    pair.right.receive(&mut into, 1);
    pair.left.send(&[1; 9], 2);
    assert_eq!(pair.right.error(), FI_ETRUNC);
    assert_ne!(pair.left.error(), 0);
    assert_eq!(pair.left.event(), Some(FI_SHUTDOWN));
}

#[test]
fn an_endpoint_that_closes_gives_back_what_waits() {
    let world = World::new();
    let Pair { left, right } = Pair::new(&world, b"");
    let mut into = vec![0; 8];
    left.receive(&mut into, 1);
    drop(right);
    assert_eq!(left.event(), Some(FI_SHUTDOWN));
    assert_eq!(left.error(), FI_ECANCELED);
}

#[test]
fn requests_that_no_one_takes_end_with_their_listener() {
    let world = World::new();
    let server = Server::new(&world);
    let clients = [0; 8].map(|_| server.ask(b"please"));
    drop(server);
    for client in &clients {
        assert_eq!(client.event(), None, "an error");
    }
}

#[test]
fn connections_come_and_go_while_messages_are_under_way() {
    let world = World::new();
    let server = Server::new(&world);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..60 {
                let client = server.ask(b"x");
                assert_eq!(client.event(), Some(FI_CONNECTED));
                for _ in 0..round % 7 {
                    client.inject(&[1; 50]);
                }
            }
            is_over.store(true, Ordering::Release);
        });
        let mut into = vec![0; 100];
        while !is_over.load(Ordering::Acquire) {
            if let Some(endpoint) = server.accept(20) {
                endpoint.try_receive(&mut into);
                endpoint.drain();
            }
        }
    });
}
