//! Two links in one process.

mod recorder;

use oxifabric_engine::{Header, Kind, Link, PostError, Posted, RxToken, Target};
use oxifabric_mem::{Iov, IovSegment};
use oxifabric_provider::device::Device;
use oxifabric_shm::Params;
use oxifabric_types::{Address, Errno, PeerId};
use recorder::{Port, WATCHDOG, both, header, lend, lend_for_writing, pair, params, pattern};

#[test]
fn messages_of_every_length_arrive_whole_and_in_order() {
    let (mut a, mut b, to_b, to_a) = pair(&params());
    let eager = a.link.limits(to_b).eager;
    let lengths = (0..70).chain([127, 128, 4095, 4096, 4097, eager - 1, eager]);
    for (id, len) in lengths.enumerate() {
        let bytes = pattern(len, id);
        assert_eq!(a.send(to_b, id as u32, &bytes), Ok(Posted::Done));
        b.until("it arrives", |sink| !sink.arrived.is_empty());
        let got = b.sink.arrived.pop_front().expect("just seen");
        assert_eq!(got.header, header(Kind::Tagged, id as u32, len));
        assert_eq!((got.from, got.body), (to_a, bytes));
    }
}

#[test]
fn every_kind_of_frame_keeps_its_header_without_a_body() {
    let (mut a, mut b, to_b, _) = pair(&params());
    for (id, kind) in [Kind::Msg, Kind::Cts, Kind::Ack, Kind::Fin, Kind::Response]
        .into_iter()
        .enumerate()
    {
        let sent = header(kind, id as u32, 1 << 40);
        assert_eq!(a.try_post(to_b, sent, &Iov::empty()), Ok(Posted::Done));
        b.until("it arrives", |sink| !sink.arrived.is_empty());
        assert_eq!(b.sink.arrived.pop_front().map(|got| got.header), Some(sent));
    }
}

#[test]
fn accesses_bring_their_targets_and_bodies() {
    let (mut a, mut b, to_b, _) = pair(&params());
    let target = |key| Target {
        addr: key << 12,
        len: 64,
        key,
    };
    let targets: Vec<Target> = (1..=4).map(target).collect();
    let eager = a.link.limits(to_b).eager;
    let pull = a.link.limits(to_b).pull;
    for count in 1..=4 {
        for (kind, len) in [
            (Kind::Read, 0),
            (Kind::Write, 1),
            (Kind::Write, eager),
            (Kind::WriteRts, 500),
        ] {
            let (bytes, sent) = (pattern(len, count), header(kind, 1, len));
            let posted = a.try_access(to_b, sent, &targets[..count], &lend(&bytes));
            assert_eq!(posted, Ok(Posted::Done));
            b.until("it arrives", |sink| !sink.arrived.is_empty());
            let got = b.sink.arrived.pop_front().expect("just seen");
            assert_eq!((got.header, &got.targets[..]), (sent, &targets[..count]));
            if kind == Kind::WriteRts {
                let pieces = got.remote.map(|remote| remote.pieces().to_vec());
                assert_eq!(
                    pieces,
                    pull.then(|| vec![Target::unkeyed(bytes.as_ptr() as u64, 500)])
                );
            } else {
                assert_eq!((got.body, got.remote), (bytes, None));
            }
        }
    }
}

#[test]
fn the_target_of_a_write_that_it_wants_copied_is_not_told_of_memory() {
    let params = Params {
        segmented_size: 20_000,
        ..params()
    };
    let (mut a, mut b, to_b, _) = pair(&params);
    let target = |len: usize| Target {
        addr: 0,
        len: len as u64,
        key: 1,
    };
    for (len, is_copied) in [(20_000, true), (20_001, false)] {
        let bytes = pattern(len, 1);
        let posted = a.try_access(
            to_b,
            header(Kind::WriteRts, 1, len),
            &[target(len)],
            &lend(&bytes),
        );
        assert_eq!(posted, Ok(Posted::Done));
        b.until("it arrives", |sink| !sink.arrived.is_empty());
        let got = b.sink.arrived.pop_front().expect("just seen");
        let pull = a.link.limits(to_b).pull;
        assert_eq!(got.remote.is_some(), pull && !is_copied, "{len}");
        assert!(got.body.is_empty());
    }
}

#[test]
fn short_writes_bring_their_target_and_body_too() {
    let (mut a, mut b, to_b, _) = pair(&params());
    for len in 1..=25 {
        let target = Target {
            addr: u64::MAX - 30,
            len: len as u64,
            key: u64::MAX,
        };
        let sent = Header {
            tag: 0,
            ..header(Kind::Write, 1, len)
        };
        let bytes = pattern(len, 3);
        let posted = a.try_access(to_b, sent, &[target], &lend(&bytes));
        assert_eq!(posted, Ok(Posted::Done));
        b.until("it arrives", |sink| !sink.arrived.is_empty());
        let got = b.sink.arrived.pop_front().expect("just seen");
        assert_eq!((got.header, &got.targets[..]), (sent, &[target][..]));
        assert_eq!(got.body, bytes);
    }
}

#[test]
fn a_full_lane_says_again_and_then_writable() {
    let (mut a, mut b, to_b, _) = pair(&params());
    for len in [8, 3000] {
        let mut posted = 0;
        while a.send(to_b, posted, &pattern(len, posted as usize)) == Ok(Posted::Done) {
            posted += 1;
        }
        assert!(posted >= 16, "a lane holds more than {posted}");
        a.poll();
        assert!(a.sink.writable.is_empty(), "nothing was taken yet");
        b.until("all arrive", |sink| sink.arrived.len() == posted as usize);
        a.until("there is room", |sink| !sink.writable.is_empty());
        assert_eq!(a.sink.writable, [to_b]);
        a.sink.writable.clear();
        for (id, got) in b.sink.arrived.drain(..).enumerate() {
            assert_eq!((got.header.id, got.body), (id as u32, pattern(len, id)));
        }
    }
}

#[test]
fn frames_that_more_follow_are_seen_after_a_flush() {
    let (mut a, mut b, to_b, _) = pair(&params());
    let body = lend(b"held");
    for id in 0..3 {
        let frame = oxifabric_engine::Frame {
            header: header(Kind::Msg, id, 4),
            body: &body,
            offset: 0,
            len: 4,
            targets: &[],
            transient: true,
            transmit_complete: false,
            more: true,
        };
        let posted = a.link.post(to_b, frame, oxifabric_engine::TxToken(0));
        assert_eq!(posted, Ok(Posted::Done));
    }
    b.poll();
    assert!(b.sink.arrived.is_empty());
    a.link.flush();
    b.until("all arrive", |sink| sink.arrived.len() == 3);
}

/// A frame for transmit complete is in memory that outlives the process when the post returns.
#[test]
fn transmit_complete_holds_nothing_back() {
    let (mut a, mut b, to_b, _) = pair(&params());
    let body = lend(b"seen");
    for (kind, id) in [(Kind::Msg, 0), (Kind::Tagged, 1)] {
        let frame = oxifabric_engine::Frame {
            header: header(kind, id, 4),
            body: &body,
            offset: 0,
            len: 4,
            targets: &[],
            transient: true,
            transmit_complete: true,
            more: true,
        };
        let posted = a.link.post(to_b, frame, oxifabric_engine::TxToken(0));
        assert_eq!(posted, Ok(Posted::Done));
    }
    b.until("all arrive", |sink| sink.arrived.len() == 2);
}

#[test]
fn a_stalled_arrival_waits_and_is_delivered_again() {
    let (mut a, mut b, to_b, to_a) = pair(&params());
    b.sink.room = Some(2);
    for id in 0..5 {
        assert_eq!(a.send(to_b, id, &pattern(100, 1)), Ok(Posted::Done));
    }
    b.until("it stalls", |sink| sink.stalls == 1);
    b.poll();
    assert_eq!(
        (b.sink.arrived.len(), b.sink.stalls),
        (2, 1),
        "not delivered meanwhile"
    );
    b.sink.room = None;
    b.link.resume(to_a);
    b.until("the others arrive", |sink| sink.arrived.len() == 5);
    let ids: Vec<u32> = b.sink.arrived.iter().map(|got| got.header.id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4]);
}

/// Sends messages of these lengths in one go; returns how many the receiver has copied in the poll in which they arrived. They may cross a long one of the receiver's.
fn copied_at_once(lengths: &[usize], crossed: bool) -> Option<usize> {
    let (mut a, mut b, to_b, to_a) = pair(&params());
    if !a.link.limits(to_b).pull {
        println!("SKIP: {:?}", a.link.directory().reason(to_b));
        return None;
    }
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let mut target = vec![0; longest + 9];
    b.sink.buffer = Some(lend_for_writing(&mut target));
    let crossing = pattern(params().assist_size, 7);
    if crossed {
        let rts = header(Kind::TaggedRts, 99, crossing.len());
        let sent = b.try_post(to_a, rts, &lend(&crossing));
        assert_eq!(sent, Ok(Posted::Done));
        b.link.flush();
    }
    let sources: Vec<_> = lengths.iter().map(|&len| pattern(len, len)).collect();
    for (source, id) in sources.iter().zip(0..) {
        let rts = header(Kind::TaggedRts, id, source.len());
        let sent = a.try_post(to_b, rts, &lend(source));
        assert_eq!(sent, Ok(Posted::Done));
    }
    a.link.flush();
    let all = lengths.len();
    b.until("all arrive", |sink| sink.copied + sink.arrived.len() == all);
    let copied = b.sink.copied;
    let others = usize::from(crossed);
    a.until("their ends arrive", |sink| {
        sink.arrived.len() == copied + others
    });
    for fin in a.sink.arrived.iter().skip(others) {
        assert_eq!((fin.header.kind, fin.header.data), (Kind::Fin, 0));
    }
    if let ([len], [source], 1) = (lengths, &sources[..], copied) {
        assert!(target[..*len] == source[..]);
        assert!(target[*len..].iter().all(|&byte| byte == 0));
    }
    Some(copied)
}

#[test]
fn a_message_is_copied_in_the_poll_in_which_it_arrives_unless_its_sender_would_help() {
    let shared = params().assist_size;
    for (lengths, expected) in [
        (&[1][..], 1),
        (&[20_000], 1),
        (&[shared - 1, shared - 1], 2),
        // Requests for help are worth it when several messages are under way.
        (&[shared, shared], 1),
        (&[shared / 3 * 5], 0),
    ] {
        if let Some(copied) = copied_at_once(lengths, false) {
            assert_eq!(copied, expected, "{lengths:?}");
        }
    }
}

#[test]
fn long_messages_that_cross_one_are_copied_in_the_poll_in_which_they_arrive() {
    let shared = params().assist_size;
    for lengths in [&[shared, shared][..], &[shared / 3 * 5], &[10 * shared]] {
        if let Some(copied) = copied_at_once(lengths, true) {
            assert_eq!(copied, lengths.len(), "{lengths:?}");
        }
    }
}

/// Sends so many messages of a length from which their sender helps to copy them, and asks for the first one when all have arrived; returns what the link says.
fn asked_late(count: u32) -> Option<Result<Posted, PostError>> {
    let (mut a, mut b, to_b, _) = pair(&params());
    if !a.link.limits(to_b).pull {
        println!("SKIP: {:?}", a.link.directory().reason(to_b));
        return None;
    }
    let source = pattern(params().assist_size, 3);
    let mut target = vec![0; source.len()];
    for id in 0..count {
        let rts = header(Kind::TaggedRts, id, source.len());
        assert_eq!(a.try_post(to_b, rts, &lend(&source)), Ok(Posted::Done));
    }
    a.link.flush();
    b.until("all arrive", |sink| sink.arrived.len() == count as usize);
    let first = b.sink.arrived.pop_front().expect("just seen");
    let remote = first.remote.expect("the sender's memory");
    let into = lend_for_writing(&mut target);
    let asked = b.link.pull(first.from, &remote, into, RxToken(1));
    if asked == Ok(Posted::Pending) {
        b.until("the pull ends", |sink| !sink.pulled.is_empty());
    }
    assert!(target == source);
    Some(asked)
}

#[test]
fn a_message_that_came_alone_is_copied_at_once_although_its_receive_comes_later() {
    for (count, expected) in [(1, Posted::Done), (2, Posted::Pending)] {
        if let Some(asked) = asked_late(count) {
            assert_eq!(asked, Ok(expected), "{count} messages");
        }
    }
}

/// Sends six messages of 10,000 bytes to a side that copies 25,000 bytes in a poll, into a buffer of this length; returns what it has copied and tried to copy in the
/// polls in which they arrived.
fn copied_of_six(room: usize) -> Option<(usize, usize)> {
    let params = Params {
        pull_chunk: 25_000,
        ..params()
    };
    let (mut a, mut b, to_b, _) = pair(&params);
    let (source, mut target) = (pattern(10_000, 1), vec![0; room]);
    b.sink.buffer = Some(lend_for_writing(&mut target));
    for id in 0..6 {
        let rts = header(Kind::TaggedRts, id, source.len());
        assert_eq!(a.try_post(to_b, rts, &lend(&source)), Ok(Posted::Done));
    }
    a.link.flush();
    if !a.link.limits(to_b).pull {
        return None;
    }
    b.until("all arrive", |sink| sink.copied + sink.arrived.len() == 6);
    Some((b.sink.copied, b.sink.tried))
}

#[test]
fn a_poll_copies_no_more_than_a_chunk() {
    let lengths = [10_000; 12];
    if let Some(copied) = copied_at_once(&lengths, false) {
        assert_eq!(copied, lengths.len());
    }
    if let Some((copied, _)) = copied_of_six(10_000) {
        assert!(copied < 6, "{copied}");
    }
}

#[test]
fn a_message_of_which_a_part_was_copied_in_vain_counts_as_well() {
    if let Some(counts) = copied_of_six(9_999) {
        assert_eq!(counts, (0, 2));
    }
}

/// Sends a long message and pulls it; with `shared`, the sender is polled meanwhile and copies a part.
fn pull(a: &mut Port, b: &mut Port, to_b: PeerId, body: &Iov, into: Iov, shared: bool) {
    let len = body.len();
    let sent = a.try_post(to_b, header(Kind::TaggedRts, 9, len), body);
    assert_eq!(sent, Ok(Posted::Done));
    b.until("the Rts arrives", |sink| !sink.arrived.is_empty());
    let got = b.sink.arrived.pop_front().expect("just seen");
    let remote = got.remote.expect("the sender's memory");
    let begun = b.link.pull(got.from, &remote, into, RxToken(5));
    assert!(b.sink.pulled.is_empty(), "not before the call returns");
    if len < params().assist_size {
        return assert_eq!(begun, Ok(Posted::Done), "{len} bytes");
    }
    assert_eq!(begun, Ok(Posted::Pending), "{len} bytes");
    if shared {
        both("the pull ends", a, b, |_, b| !b.sink.pulled.is_empty());
    } else {
        b.until("the pull ends", |sink| !sink.pulled.is_empty());
    }
    assert_eq!(
        b.sink.pulled.drain(..).collect::<Vec<_>>(),
        [(RxToken(5), Ok(()))]
    );
}

#[test]
fn long_messages_are_pulled_with_and_without_copies_by_the_sender() {
    let (mut a, mut b, to_b, _) = pair(&params());
    if !a.link.limits(to_b).pull {
        println!("SKIP: {:?}", a.link.directory().reason(to_b));
        return;
    }
    for len in [1, 20_000, 100_000, 3 * 1024 * 1024 + 17] {
        for shared in [false, true] {
            let source = pattern(len, len);
            let mut target = vec![0; len];
            // SAFETY: the vector outlives the pull.
            let into = unsafe { Iov::contiguous(target.as_mut_ptr(), len) };
            pull(&mut a, &mut b, to_b, &lend(&source), into, shared);
            assert!(target == source, "{len} bytes, shared: {shared}");
        }
    }
}

#[test]
fn pieces_are_pulled_into_pieces() {
    let (mut a, mut b, to_b, _) = pair(&params());
    if !a.link.limits(to_b).pull {
        println!("SKIP: {:?}", a.link.directory().reason(to_b));
        return;
    }
    let source = pattern(1_000_000, 3);
    let mut target = vec![0; 1_000_000];
    let (x, y) = source.split_at(333_333);
    let piece = |bytes: &[u8]| IovSegment::new(bytes.as_ptr().cast_mut(), bytes.len());
    let (p, q) = target.split_at_mut(777_777);
    let into = [
        IovSegment::new(p.as_mut_ptr(), p.len()),
        IovSegment::new(q.as_mut_ptr(), q.len()),
    ];
    // SAFETY: both vectors outlive the pull.
    let (body, into) = unsafe { (Iov::scattered(&[piece(x), piece(y)]), Iov::scattered(&into)) };
    let (body, into) = (body.expect("two pieces"), into.expect("two pieces"));
    pull(&mut a, &mut b, to_b, &body, into, true);
    assert!(target == source);
}

#[test]
fn a_shorter_buffer_pulls_only_the_front() {
    let (mut a, mut b, to_b, _) = pair(&params());
    if !a.link.limits(to_b).pull {
        println!("SKIP: {:?}", a.link.directory().reason(to_b));
        return;
    }
    let source = pattern(500_000, 8);
    let mut target = vec![0; 200_000];
    // SAFETY: the vector outlives the pull.
    let into = unsafe { Iov::contiguous(target.as_mut_ptr(), target.len()) };
    pull(&mut a, &mut b, to_b, &lend(&source), into, true);
    assert!(target == source[..200_000]);
}

#[test]
fn without_permission_an_rts_names_no_memory_and_the_reason_is_returned() {
    let careful = Params {
        disable_cma: true,
        ..params()
    };
    let (mut a, mut b) = (Port::open(&careful), Port::open(&params()));
    let to_b = a.peer(&b);
    both("a connection opens", &mut a, &mut b, |a, _| {
        a.try_post(to_b, header(Kind::TaggedRts, 1, 1 << 20), &lend(&[0; 64])) == Ok(Posted::Done)
    });
    b.until("the Rts arrives", |sink| !sink.arrived.is_empty());
    let got = b.sink.arrived.pop_front().expect("just seen");
    assert_eq!((got.remote, got.body.len()), (None, 0));
    assert!(!b.link.limits(got.from).pull && !a.link.limits(to_b).pull);
    let reason = a.link.directory().reason(to_b).expect("a path to explain");
    assert!(reason.contains("FI_SHM_DISABLE_CMA"), "{reason}");
}

#[test]
fn hellos_that_cross_make_one_connection_and_lose_nothing() {
    for _ in 0..20 {
        let (mut a, mut b) = (Port::open(&params()), Port::open(&params()));
        let (to_b, to_a) = (a.peer(&b), b.peer(&a));
        assert_eq!(a.send(to_b, 1, b"a"), Err(PostError::Again));
        assert_eq!(b.send(to_a, 2, b"b"), Err(PostError::Again));
        both("both may write", &mut a, &mut b, |a, b| {
            !a.sink.writable.is_empty() && !b.sink.writable.is_empty()
        });
        assert_eq!(a.send(to_b, 1, b"a"), Ok(Posted::Done));
        assert_eq!(b.send(to_a, 2, b"b"), Ok(Posted::Done));
        both("both receive", &mut a, &mut b, |a, b| {
            !a.sink.arrived.is_empty() && !b.sink.arrived.is_empty()
        });
        assert_eq!((a.sink.arrived.len(), b.sink.arrived.len()), (1, 1));
        assert!(a.sink.down.is_empty() && b.sink.down.is_empty());
    }
}

#[test]
fn a_name_that_no_endpoint_has_is_refused_with_a_reason() {
    let mut a = Port::open(&params());
    let missing = a
        .link
        .peer(&Address::Name("fi_shm://missing".into()))
        .expect("a name");
    assert_eq!(a.send(missing, 1, b"x"), Err(PostError::Again));
    a.until("it is given up", |sink| !sink.down.is_empty());
    assert_eq!(a.sink.down, [(missing, Errno::CONNREFUSED)]);
    let reason = a.link.directory().reason(missing).expect("a reason");
    assert!(
        reason.contains("fi_shm://missing") && reason.contains("no endpoint"),
        "{reason}"
    );
}

#[test]
fn an_endpoint_is_reached_only_once_enabled() {
    let mut a = Port::open(&params());
    let mut b = Port::named(None, &params()).expect("an endpoint");
    let to_b = a.peer(&b);
    assert_eq!(a.send(to_b, 1, b"x"), Err(PostError::Again));
    a.until("it is refused", |sink| !sink.down.is_empty());
    b.link.enable(false).expect("a listener");
    both("a later call works", &mut a, &mut b, |a, _| {
        a.send(to_b, 1, b"x") == Ok(Posted::Done)
    });
}

#[test]
fn an_endpoint_that_is_enabled_soon_is_waited_for() {
    let patient = Params {
        absent_timeout: WATCHDOG,
        ..params()
    };
    let mut a = Port::open(&patient);
    let mut b = Port::named(None, &params()).expect("an endpoint");
    let to_b = a.peer(&b);
    assert_eq!(a.send(to_b, 1, b"x"), Err(PostError::Again));
    for _ in 0..100 {
        a.poll();
    }
    b.link.enable(false).expect("a listener");
    both("the first call works", &mut a, &mut b, |a, _| {
        a.send(to_b, 1, b"x") == Ok(Posted::Done)
    });
    assert_eq!(a.sink.down, []);
}

#[test]
fn a_name_can_be_had_once_and_the_owner_does_not_notice() {
    let name = format!("fi_ns://taken-{}", std::process::id());
    let mut a = Port::named(Some(&name), &params()).expect("the first");
    a.link.enable(false).expect("a listener");
    assert_eq!(a.link.name(), Address::Name(name.as_str().into()));
    let second = Port::named(Some(&name), &params()).map(drop);
    assert_eq!(second, Err(Errno::ADDRINUSE));
    let mut b = Port::open(&params());
    let to_a = b.peer(&a);
    both("it still answers", &mut a, &mut b, |_, b| {
        b.send(to_a, 1, b"x") == Ok(Posted::Done)
    });
    drop((a, b));
    Port::named(Some(&name), &params()).expect("free again");
}

#[test]
fn an_endpoint_is_renamed_only_before_it_is_enabled() {
    let mut a = Port::named(None, &params()).expect("an endpoint");
    let name = Address::Name(format!("anything-{}", std::process::id()).into());
    assert_eq!(a.link.rename(name.clone()), Ok(()));
    assert_eq!(a.link.name(), name);
    assert_eq!(a.link.rename(Address::Name("".into())), Err(Errno::INVAL));
    a.link.enable(false).expect("a listener");
    assert_eq!(a.link.rename(name), Err(Errno::OPBADSTATE));
}

#[test]
fn what_a_closed_peer_had_published_arrives_before_it_is_down() {
    let (mut a, mut b, to_b, to_a) = pair(&params());
    for id in 0..100 {
        assert_eq!(a.send(to_b, id, &pattern(50, 0)), Ok(Posted::Done));
    }
    drop(a);
    b.until("it is down", |sink| !sink.down.is_empty());
    assert_eq!(b.sink.arrived.len(), 100);
    assert_eq!(b.sink.down, [(to_a, Errno::CONNRESET)]);
    assert_eq!(b.send(to_a, 1, b"x"), Err(PostError::Again), "a new call");
    b.until("which fails", |sink| sink.down.len() == 2);
    assert_eq!(b.sink.down[1], (to_a, Errno::CONNREFUSED));
}

#[test]
fn a_stalled_arrival_outlives_its_sender() {
    let (mut a, mut b, to_b, to_a) = pair(&params());
    b.sink.room = Some(0);
    assert_eq!(a.send(to_b, 7, b"x"), Ok(Posted::Done));
    b.until("it stalls", |sink| sink.stalls == 1);
    drop(a);
    for _ in 0..1000 {
        b.poll();
    }
    assert!(b.sink.down.is_empty(), "there is something left to deliver");
    b.sink.room = None;
    b.link.resume(to_a);
    b.until("it is down", |sink| !sink.down.is_empty());
    assert_eq!(b.sink.arrived.len(), 1);
}

#[test]
fn a_successor_of_the_same_name_gets_a_new_connection() {
    let name = format!("fi_ns://again-{}", std::process::id());
    let mut b = Port::open(&params());
    for round in 0..3 {
        let mut a = Port::named(Some(&name), &params()).expect("free again");
        a.link.enable(false).expect("a listener");
        let to_b = a.peer(&b);
        both("it is heard", &mut a, &mut b, |a, b| {
            b.sink.arrived.len() > round || {
                let _ = a.send(to_b, round as u32, b"x");
                false
            }
        });
    }
    b.until("all are gone", |sink| sink.down.len() == 3);
    assert!(
        b.sink
            .down
            .iter()
            .all(|&(peer, _)| peer == b.sink.down[0].0)
    );
}

#[test]
fn many_peers_of_one_endpoint_are_told_apart() {
    let mut hub = Port::open(&params());
    let mut spokes: Vec<Port> = (0..40).map(|_| Port::open(&params())).collect();
    for (id, spoke) in spokes.iter_mut().enumerate() {
        let to_hub = spoke.peer(&hub);
        both("it connects", spoke, &mut hub, |spoke, _| {
            spoke.send(to_hub, id as u32, b"x") == Ok(Posted::Done)
        });
    }
    hub.until("all arrive", |sink| sink.arrived.len() == spokes.len());
    for got in &hub.sink.arrived {
        let name = spokes[got.header.id as usize].link.name();
        assert_eq!(hub.link.directory().address(got.from), Some(name));
    }
}

#[test]
fn long_names_work() {
    let long = |letter: char| {
        let rest: String = std::iter::repeat_n(letter, 200).collect();
        format!("fi_ns://{}-{rest}", std::process::id())
    };
    let mut a = Port::named(Some(&long('a')), &params()).expect("a long name");
    let mut b = Port::named(Some(&long('b')), &params()).expect("a long name");
    a.link.enable(false).expect("a listener");
    b.link.enable(false).expect("a listener");
    let to_b = a.peer(&b);
    both("they connect", &mut a, &mut b, |a, _| {
        a.send(to_b, 1, b"x") == Ok(Posted::Done)
    });
}

#[test]
fn messages_to_oneself_are_refused() {
    let mut a = Port::open(&params());
    let name = a.link.name();
    let me = a.link.peer(&name).expect("its own name");
    assert_eq!(a.send(me, 1, b"x"), Err(PostError::Down(Errno::OPNOTSUPP)));
}
