//! Datagrams within one host, where none is lost as long as there is room for it.

use std::time::Instant;

use oxifabric::{
    AddressVector, AsyncEndpoint, AsyncQueue, Backend, Buffer, Caps, Completion, CompletionQueue,
    Dgram, Domain, Endpoint, Errno, Fabric, Hints, Info, Operation, Peer, SendOptions,
};

use crate::asynchronous::block_on;
use crate::{WATCHDOG, system};

/// More than the length of any datagram of IP.
const TOO_LONG: usize = 70_000;

/// Two endpoints with each other's address and a common queue.
struct Pair {
    left: Endpoint<Dgram>,
    right: Endpoint<Dgram>,
    queue: CompletionQueue,
    to_left: Peer,
    to_right: Peer,
}

impl Pair {
    fn open(info: &Info) -> Self {
        let fabric = Fabric::open(info).unwrap();
        let domain = Domain::open(&fabric, info).unwrap();
        let peers = AddressVector::open(&domain).unwrap();
        let queue = CompletionQueue::open(&domain, 64).unwrap();
        let [left, right] = [(); 2].map(|()| {
            let builder = Endpoint::<Dgram>::builder(&domain).address_vector(&peers);
            builder.queue(&queue).enable().unwrap()
        });
        let [to_left, to_right] =
            [&left, &right].map(|endpoint| peers.insert(&endpoint.address().unwrap()).unwrap());
        Self {
            left,
            right,
            queue,
            to_left,
            to_right,
        }
    }

    fn next(&self) -> Completion {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < WATCHDOG, "no completion came");
            if let Some(completion) = self.queue.poll().unwrap() {
                return completion;
            }
        }
    }

    /// Returns the completion of a receive, after any of sends.
    fn received(&self) -> Completion {
        loop {
            let completion = self.next();
            match &completion.outcome {
                Ok(transfer) if transfer.operation == Operation::Send => {}
                _ => return completion,
            }
        }
    }
}

fn a_datagram_arrives_and_both_buffers_come_back(info: &Info) {
    let pair = Pair::open(info);
    let receive = pair.right.receive(Buffer::zeroed(64)).unwrap();
    let send = pair.left.send(pair.to_right, Buffer::from("across"));
    let send = send.unwrap();
    for _ in 0..2 {
        let done = pair.next();
        assert_eq!(&done.buffer[..], b"across");
        let transfer = done.outcome.unwrap();
        match transfer.operation {
            Operation::Send => assert_eq!(done.op, send),
            _ => assert_eq!((done.op, done.buffer.capacity()), (receive, 64)),
        }
    }
}

fn both_sides_answer_each_other(info: &Info) {
    let pair = Pair::open(info);
    for _ in 0..100 {
        pair.right.receive(Buffer::zeroed(8)).unwrap();
        pair.left.inject(pair.to_right, b"there").unwrap();
        assert_eq!(&pair.received().buffer[..], b"there");
        pair.left.receive(Buffer::zeroed(8)).unwrap();
        pair.right.inject(pair.to_left, b"back").unwrap();
        assert_eq!(&pair.received().buffer[..], b"back");
    }
}

fn the_longest_datagram_arrives_and_a_longer_one_is_refused(info: &Info) {
    let pair = Pair::open(info);
    let len = info.max_message_size();
    assert!(len < TOO_LONG);
    let mut buffer = Buffer::zeroed(len);
    buffer[len - 1] = 7;
    pair.right.receive(Buffer::zeroed(len)).unwrap();
    pair.left.send(pair.to_right, buffer).unwrap();
    let got = pair.received();
    assert_eq!((got.buffer.len(), got.buffer[len - 1]), (len, 7));

    let refused = pair.left.send(pair.to_right, Buffer::zeroed(TOO_LONG));
    let refused = refused.unwrap_err();
    assert_eq!(refused.error.errno(), Errno::MSGSIZE);
    assert_eq!(refused.buffer.len(), TOO_LONG);
}

fn datagrams_name_their_sender(info: &Info) {
    let Some(info) = offer(info.backend(), Caps::MSG | Caps::SOURCE) else {
        return;
    };
    let pair = Pair::open(&info);
    pair.right.receive(Buffer::zeroed(8)).unwrap();
    pair.left.inject(pair.to_right, b"me").unwrap();
    let source = pair.received().outcome.unwrap().source;
    assert_eq!(source, Some(pair.to_left));
}

fn borrowed_memory_is_sent_and_filled(info: &Info) {
    let pair = Pair::open(info);
    let mut theirs = [0; 8];
    pair.right
        .scope(|right| {
            let receive = right.receive(&mut theirs)?;
            pair.left.scope(|left| {
                left.send(pair.to_right, b"borrowed", SendOptions::new())
                    .map(drop)
            })?;
            assert_eq!(right.wait(receive)?.len, 8);
            Ok(())
        })
        .unwrap();
    assert_eq!(&theirs, b"borrowed");
}

fn futures_wait_for_datagrams(info: &Info) {
    let pair = Pair::open(info);
    let queue = match AsyncQueue::new(pair.queue.clone()) {
        Ok(queue) => queue,
        Err(error) => {
            eprintln!("SKIP: {}: {error}", info.provider());
            return;
        }
    };
    let [left, right] = [pair.left, pair.right]
        .map(|endpoint| AsyncEndpoint::new(endpoint, &queue, &queue).unwrap());
    block_on(async {
        for round in 0..20_u8 {
            let post = |right: &Endpoint<Dgram>| right.receive(Buffer::zeroed(8));
            let receive = right.start_receive(post).unwrap();
            let sent = left.send(pair.to_right, Buffer::from(&[round])).await;
            assert_eq!(&sent.ok().unwrap().0[..], [round]);
            assert_eq!(&receive.await.ok().unwrap().0[..], [round]);
        }
    });
}

fn dropping_everything_with_receives_posted_is_sound(info: &Info) {
    let pair = Pair::open(info);
    for _ in 0..20 {
        pair.right.receive(Buffer::zeroed(1000)).unwrap();
    }
    let Pair { right, queue, .. } = pair;
    drop(right);
    assert!(queue.poll().unwrap().is_none());
}

/// Returns the first offer of datagrams over the loopback.
fn offer(backend: Backend, caps: Caps) -> Option<Info> {
    let hints = Hints::new().kind::<Dgram>().provider("udp").caps(caps);
    match hints.local(Some("127.0.0.1"), None).best(backend) {
        Ok(info) => Some(info),
        Err(why) => {
            eprintln!("SKIP: udp: {why}");
            None
        }
    }
}

/// Runs cases over the provider of each library.
macro_rules! both {
    ($($case:ident)*) => {
        mod builtin_udp {
            $(
                #[test]
                fn $case() {
                    let info = super::offer(super::Backend::builtin(), super::Caps::MSG);
                    super::$case(&info.expect("the library has the provider"));
                }
            )*
        }
        mod system_udp {
            $(
                #[test]
                fn $case() {
                    let info = super::system().and_then(|system| super::offer(system, super::Caps::MSG));
                    if let Some(info) = info {
                        super::$case(&info);
                    }
                }
            )*
        }
    };
}

both! {
    a_datagram_arrives_and_both_buffers_come_back
    both_sides_answer_each_other
    the_longest_datagram_arrives_and_a_longer_one_is_refused
    datagrams_name_their_sender
    borrowed_memory_is_sent_and_filled
    futures_wait_for_datagrams
    dropping_everything_with_receives_posted_is_sound
}
