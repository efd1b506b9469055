//! Messages between endpoints of one process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use oxifabric::{
    Address, AddressFormat, AddressVector, Backend, Buffer, Caps, Completion, CompletionQueue,
    Domain, Endpoint, Errno, Error, Fabric, Hints, Info, Level, Operation, Rdm, SendOptions,
};

use crate::{Pair, Side, WATCHDOG, builtin, system};

fn sent(completion: Completion) {
    assert_eq!(completion.outcome.unwrap().operation, Operation::Send);
}

fn a_message_arrives_and_both_buffers_come_back(info: &Info) {
    let pair = Pair::open(info);
    let receive = pair.right.endpoint.receive(Buffer::zeroed(64)).unwrap();
    let send = pair.send(b"across");
    let on_left = |done: Completion| {
        assert_eq!((done.op, &done.buffer[..]), (send, &b"across"[..]));
        sent(done);
    };
    let on_right = |done: Completion| {
        assert_eq!((done.op, &done.buffer[..]), (receive, &b"across"[..]));
        assert_eq!(done.buffer.capacity(), 64);
        assert_eq!(done.outcome.unwrap().len, 6);
    };
    pair.drive((1, on_left), (1, on_right));
}

fn long_messages_arrive_whole(info: &Info) {
    let pair = Pair::open(info);
    let len = 3_000_001;
    let mut buffer = Buffer::zeroed(len);
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (at % 251) as u8;
    }
    let receive = Buffer::zeroed(len);
    pair.right.endpoint.receive_tagged(5, 0, receive).unwrap();
    pair.post(buffer, |left, buffer| {
        left.send_tagged(pair.left.peer, 5, buffer)
    });
    let on_right = |done: Completion| {
        assert!((0..len).all(|at| done.buffer[at] == (at % 251) as u8));
        assert_eq!(done.outcome.unwrap().len, len);
    };
    pair.drive((1, sent), (1, on_right));
}

fn tags_choose_the_receive(info: &Info) {
    let pair = Pair::open(info);
    let right = &pair.right.endpoint;
    let exact = right.receive_tagged(1, 0, Buffer::zeroed(8)).unwrap();
    let masked = right.receive_tagged(0x20, 0xf, Buffer::zeroed(8)).unwrap();
    for tag in [0x2a, 1] {
        pair.post(Buffer::from(&[tag as u8]), |left, buffer| {
            left.send_tagged(pair.left.peer, tag, buffer)
        });
    }
    let mut seen = Vec::new();
    let on_right = |done: Completion| {
        seen.push((done.op, done.buffer[0], done.outcome.unwrap().tag));
    };
    pair.drive((2, sent), (2, on_right));
    assert!(seen.contains(&(exact, 1, 1)), "{seen:?}");
    assert!(seen.contains(&(masked, 0x2a, 0x2a)), "{seen:?}");
}

fn data_comes_beside_the_message(info: &Info) {
    let pair = Pair::open(info);
    let to = pair.left.peer;
    for _ in 0..3 {
        pair.right.endpoint.receive(Buffer::zeroed(8)).unwrap();
    }
    pair.post(Buffer::from(b"1"), |left, buffer| {
        left.send_data(to, 0xfeed, buffer)
    });
    pair.inject(|left| left.inject_data(to, 0xbeef, b"2"));
    pair.inject(|left| left.inject(to, b"3"));
    let mut seen = Vec::new();
    let on_right = |done: Completion| seen.push((done.buffer[0], done.outcome.unwrap().data));
    pair.drive((1, sent), (3, on_right));
    assert_eq!(
        seen,
        [(b'1', Some(0xfeed)), (b'2', Some(0xbeef)), (b'3', None)]
    );
}

fn options_travel_with_a_send(info: &Info) {
    let pair = Pair::open(info);
    let receive = Buffer::zeroed(8);
    pair.right.endpoint.receive_tagged(9, 0, receive).unwrap();
    let options = SendOptions::new()
        .tag(9)
        .data(0xda7a)
        .level(Level::Transmit);
    pair.post(Buffer::from(b"all"), |left, buffer| {
        left.send_with(pair.left.peer, buffer, options)
    });
    let on_right = |done: Completion| {
        let got = done.outcome.unwrap();
        assert_eq!((got.tag, got.data, got.len), (9, Some(0xda7a), 3));
    };
    pair.drive((1, sent), (1, on_right));
}

fn completions_name_the_sender(info: &Info) {
    let caps = info.caps() | Caps::SOURCE | Caps::DIRECTED_RECV;
    let hints = Hints::new().caps(caps).provider(info.provider());
    let offers = hints.fabric(info.fabric()).offers(info.backend());
    let Some(info) = offers.ok().and_then(|offers| offers.into_iter().next()) else {
        eprintln!("SKIP: this provider does not know senders");
        return;
    };
    let pair = Pair::open(&info);
    let (to, from) = (pair.left.peer, pair.right.peer);
    let right = &pair.right.endpoint;
    right.receive_from(to, Buffer::zeroed(8)).unwrap();
    let wanted = right.receive_from(from, Buffer::zeroed(8)).unwrap();
    pair.send(b"me");
    let on_right = |done: Completion| {
        assert_eq!(done.op, wanted);
        assert_eq!(done.outcome.unwrap().source, Some(from));
    };
    pair.drive((1, sent), (1, on_right));
}

fn too_long_a_message_is_an_error_that_names_the_cause(info: &Info) {
    if is_c(info, "shm", 0..=117) {
        eprintln!("SKIP: this provider says EIO");
        return;
    }
    let pair = Pair::open(info);
    pair.right.endpoint.receive(Buffer::zeroed(4)).unwrap();
    pair.send(b"123456");
    let on_right = |done: Completion| {
        assert_eq!(done.buffer.len(), 4);
        let error = done.outcome.unwrap_err();
        assert_eq!(error.errno(), Errno::TRUNC);
        let text = error.to_string();
        assert!(
            text.starts_with("receive failed: Truncation error"),
            "{text}"
        );
    };
    pair.drive((1, |_| ()), (1, on_right));
}

fn a_cancelled_receive_gives_its_buffer_back(info: &Info) {
    let pair = Pair::open(info);
    let right = &pair.right.endpoint;
    let op = right.receive(Buffer::zeroed(123)).unwrap();
    right.cancel(op).unwrap();
    let on_right = |done: Completion| {
        assert_eq!((done.op, done.buffer.len()), (op, 123));
        assert_eq!(done.outcome.unwrap_err().errno(), Errno::CANCELED);
    };
    pair.drive((0, |_| ()), (1, on_right));
    assert_eq!(right.cancel(op).unwrap_err().errno(), Errno::NOENT);
}

fn dropping_everything_in_any_order_with_receives_posted_is_sound(info: &Info) {
    for order in 0..2 {
        let pair = Pair::open(info);
        for _ in 0..100 {
            pair.right.endpoint.receive(Buffer::zeroed(1000)).unwrap();
        }
        let Side {
            endpoint, queue, ..
        } = pair.right;
        if order == 0 {
            drop(queue);
            drop(endpoint);
        } else {
            drop(endpoint);
            assert!(queue.poll().unwrap().is_none());
        }
    }
}

fn a_full_queue_refuses_and_gives_the_buffer_back(info: &Info) {
    if is_c(info, "shm", 0..=117) {
        eprintln!("SKIP: this provider says ENOMEM");
        return;
    }
    let pair = Pair::open(info);
    let right = &pair.right.endpoint;
    let refused = (0..20_000).find_map(|_| right.receive(Buffer::zeroed(16)).err());
    if let Some(refused) = refused {
        assert!(refused.is_again(), "{refused}");
        assert_eq!(refused.buffer.len(), 16);
        assert!(
            refused.to_string().contains("read completions"),
            "{refused}"
        );
    }
}

fn a_peer_of_another_vector_is_refused(info: &Info) {
    let (one, other) = (Pair::open(info), Pair::open(info));
    let refused = one
        .left
        .endpoint
        .send(other.left.peer, Buffer::from(b"astray"))
        .unwrap_err();
    assert_eq!(refused.error.errno(), Errno::INVAL);
    assert_eq!(&refused.buffer[..], b"astray");
    let error = one.left.endpoint.inject(other.left.peer, b"astray");
    assert_eq!(error.unwrap_err().errno(), Errno::INVAL);
}

fn objects_of_another_domain_are_refused(info: &Info) {
    let fabric = Fabric::open(info).unwrap();
    let [one, other] = [(); 2].map(|()| Domain::open(&fabric, info).unwrap());
    let peers = AddressVector::open(&other).unwrap();
    let queue = CompletionQueue::polled(&one, 16).unwrap();
    let builder = Endpoint::<Rdm>::builder(&one)
        .address_vector(&peers)
        .queue(&queue);
    let error = builder.enable().err().unwrap();
    assert_eq!(error.errno(), Errno::DOMAIN);
    let error = Endpoint::<Rdm>::builder(&one).enable().err().unwrap();
    assert_eq!(error.errno(), Errno::NOAV);
}

fn many_messages_reuse_their_slots(info: &Info) {
    let pair = Pair::open(info);
    let (mut there, mut back) = (Buffer::zeroed(8), Buffer::zeroed(8));
    for round in 0..2000_u64 {
        pair.right.endpoint.receive(back).unwrap();
        there.copy_from_slice(&round.to_le_bytes());
        pair.post(there, |left, buffer| left.send(pair.left.peer, buffer));
        let (mut from_left, mut from_right) = (None, None);
        let on_left = |done: Completion| from_left = Some(done.buffer);
        let on_right = |done: Completion| {
            assert_eq!(&done.buffer[..], &round.to_le_bytes());
            from_right = Some(done.buffer);
        };
        pair.drive((1, on_left), (1, on_right));
        (there, back) = (from_left.unwrap(), from_right.unwrap());
    }
}

fn two_threads_share_an_endpoint(info: &Info) {
    const EACH: usize = 200;
    let pair = Pair::open(info);
    for _ in 0..2 * EACH {
        pair.right.endpoint.receive(Buffer::zeroed(8)).unwrap();
    }
    std::thread::scope(|scope| {
        for byte in 0..2 {
            let pair = &pair;
            scope.spawn(move || (0..EACH).for_each(|_| _ = pair.send(&[byte])));
        }
    });
    let mut counts = [0; 2];
    let on_right = |done: Completion| counts[usize::from(done.buffer[0])] += 1;
    pair.drive((2 * EACH, sent), (2 * EACH, on_right));
    assert_eq!(counts, [EACH; 2]);
}

fn a_deadline_ends_a_wait_and_a_message_does_too(info: &Info) {
    if is_c(info, "shm", 0..=117) {
        eprintln!("SKIP: blocking reads of this provider never end");
        return;
    }
    let pair = Pair::open(info);
    let short = Some(Duration::from_millis(5));
    assert!(pair.right.queue.wait(short).unwrap().is_none());
    pair.right.endpoint.receive(Buffer::zeroed(8)).unwrap();
    let arrived = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pair.inject(|left| left.inject(pair.left.peer, b"wake"));
            while !arrived.load(Ordering::Relaxed) {
                pair.left.progress();
            }
        });
        let early = || pair.right.early.lock().unwrap().pop_front();
        let start = Instant::now();
        let done = loop {
            if let Some(done) = early().or_else(|| pair.right.queue.wait(short).unwrap()) {
                break done;
            }
            assert!(start.elapsed() < WATCHDOG, "no completion came");
        };
        arrived.store(true, Ordering::Relaxed);
        assert_eq!(&done.buffer[..], b"wake");
    });
}

fn addresses_can_be_looked_up(info: &Info) {
    if is_c(info, "shm", 200..=206) {
        eprintln!("SKIP: this provider leaves out the scheme");
        return;
    }
    let pair = Pair::open(info);
    let fabric = Fabric::open(info).unwrap();
    let domain = Domain::open(&fabric, info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    let address = pair.left.endpoint.address().unwrap();
    let peer = peers.insert(&address).unwrap();
    assert_eq!(peers.lookup(peer).unwrap().to_string(), address.to_string());
}

/// Returns whether this is a provider of a C library, of these versions.
fn is_c(info: &Info, provider: &str, versions: core::ops::RangeInclusive<u16>) -> bool {
    info.backend() != Backend::builtin()
        && info.provider() == provider
        && versions.contains(&info.provider_version().0)
}

worlds! {
    a_message_arrives_and_both_buffers_come_back
    long_messages_arrive_whole
    tags_choose_the_receive
    data_comes_beside_the_message
    options_travel_with_a_send
    completions_name_the_sender
    too_long_a_message_is_an_error_that_names_the_cause
    a_cancelled_receive_gives_its_buffer_back
    dropping_everything_in_any_order_with_receives_posted_is_sound
    a_full_queue_refuses_and_gives_the_buffer_back
    a_peer_of_another_vector_is_refused
    objects_of_another_domain_are_refused
    many_messages_reuse_their_slots
    two_threads_share_an_endpoint
    a_deadline_ends_a_wait_and_a_message_does_too
    addresses_can_be_looked_up
}

/// A long message has been announced (RTS), and no receive has asked for it.
#[test]
fn a_reliable_peer_that_closes_over_udp_says_goodbye() {
    let pair = Pair::open(&builtin("udp;ofi_rxd"));
    let small = Buffer::zeroed(8);
    pair.right.endpoint.receive_tagged(1, 0, small).unwrap();
    pair.send(&[0; 1 << 20]);
    pair.post(b"x"[..].into(), |left, buffer| {
        left.send_tagged(pair.left.peer, 1, buffer)
    });
    pair.drive((1, sent), (1, |_| ()));
    let (Pair { left, right }, start) = (pair, Instant::now());
    drop(right);
    let error = loop {
        assert!(
            start.elapsed() < WATCHDOG,
            "the peer is still not reported as gone"
        );
        if let Some(done) = left.next() {
            break done.outcome.unwrap_err();
        }
    };
    assert_eq!(error.errno(), Errno::CONNRESET, "{error}");
}

#[test]
fn the_error_of_a_send_to_a_closed_port_names_the_peer_and_what_to_do() {
    let info = builtin("tcp");
    let fabric = Fabric::open(&info).unwrap();
    let domain = Domain::open(&fabric, &info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    let queue = CompletionQueue::open(&domain, 16).unwrap();
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let endpoint = builder.queue(&queue).enable().unwrap();
    let absent = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let peer = peers.insert(&absent.into()).unwrap();
    let op = endpoint.send(peer, Buffer::from(b"anyone?")).unwrap();
    let done = queue.wait(Some(WATCHDOG)).unwrap().unwrap();
    assert_eq!((done.op, &done.buffer[..]), (op, &b"anyone?"[..]));
    let error = done.outcome.unwrap_err();
    assert_eq!(error.errno(), Errno::CONNREFUSED);
    let text = error.to_string();
    let start = format!("send to {absent} failed: Connection refused (FI_ECONNREFUSED)");
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains("check that the peer runs"), "{text}");
}

#[test]
fn a_request_that_no_provider_meets_gives_the_reasons() {
    let Some(backend) = system() else { return };
    let why = Hints::new().provider("none").offers(backend).unwrap_err();
    assert_eq!(why.errno(), Errno::NODATA);
    let error = Error::from(why);
    assert!(error.to_string().contains("FI_ENODATA"), "{error}");
}

#[test]
fn addresses_that_are_none_are_refused_before_a_provider_sees_them() {
    let stump = Address::new(AddressFormat::INET, &[2, 0, 0]);
    let why = Hints::new().destination(&stump).offers(Backend::builtin());
    assert_eq!(why.unwrap_err().errno(), Errno::INVAL);

    let info = builtin("tcp");
    let fabric = Fabric::open(&info).unwrap();
    let domain = Domain::open(&fabric, &info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    assert_eq!(peers.insert(&stump).unwrap_err().errno(), Errno::INVAL);
    let queue = CompletionQueue::polled(&domain, 16).unwrap();
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let error = builder.queue(&queue).name(&stump).enable().err().unwrap();
    assert_eq!(error.errno(), Errno::INVAL);
}

#[test]
fn an_endpoint_takes_the_name_that_it_is_given() {
    let info = builtin("tcp");
    let fabric = Fabric::open(&info).unwrap();
    let domain = Domain::open(&fabric, &info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    let queue = CompletionQueue::polled(&domain, 16).unwrap();
    let free = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Address::from(listener.local_addr().unwrap())
    };
    let builder = || {
        let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
        builder.queue(&queue).name(&free)
    };
    let first = builder().enable().unwrap();
    assert_eq!(first.address().unwrap(), free);
    let error = builder().enable().err().unwrap();
    assert_eq!(error.errno(), Errno::ADDRINUSE);
    assert!(
        error.to_string().contains("choose another address"),
        "{error}"
    );
}

#[test]
fn a_library_that_is_not_there_is_an_error_with_its_path() {
    let error = Backend::system("/nowhere/libfabric.so.1").unwrap_err();
    assert!(
        error.to_string().contains("/nowhere/libfabric.so.1"),
        "{error}"
    );
}

#[test]
fn an_offer_with_modes_of_its_own_is_refused() {
    let Some(backend) = system() else { return };
    let offers = Hints::anything().offers(backend).unwrap();
    let unsuitable = offers.iter().find(|info| info.obstacle().is_some());
    let Some(info) = unsuitable else {
        eprintln!("SKIP: this library makes no such offer");
        return;
    };
    let fabric = Fabric::open(info).unwrap();
    assert!(matches!(
        Domain::open(&fabric, info),
        Err(Error::Unsuitable(_))
    ));
}
