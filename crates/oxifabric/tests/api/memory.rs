//! Memory of peers, atomic operations, counters, and borrowed memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Instant;

use oxifabric::{
    Access, AddressVector, Buffer, Caps, Completion, CompletionQueue, Counted, Counter, Domain,
    Endpoint, Errno, Error, Exchange, Fabric, Hints, Info, Op, Operation, Peer, Rdm, Refused,
    Region, RemoteRegion, SendOptions, Update,
};

use crate::WATCHDOG;

/// An endpoint that sends to itself, which all providers allow, so that one thread is both sides.
pub(crate) struct Loop {
    pub(crate) endpoint: Endpoint,
    pub(crate) queue: CompletionQueue,
    pub(crate) me: Peer,
    pub(crate) domain: Domain,
}

/// How a counter is opened, and what it counts.
pub(crate) type Counting<'a> = (&'a dyn Fn(&Domain) -> Counter, Counted);

impl Loop {
    pub(crate) fn open(info: &Info, counter: Option<Counting<'_>>) -> Self {
        let fabric = Fabric::open(info).unwrap();
        let domain = Domain::open(&fabric, info).unwrap();
        let peers = AddressVector::open(&domain).unwrap();
        let queue = CompletionQueue::open(&domain, 256).unwrap();
        let mut builder = Endpoint::<Rdm>::builder(&domain)
            .address_vector(&peers)
            .queue(&queue);
        if let Some((open, what)) = counter {
            builder = builder.counter(&open(&domain), what);
        }
        let endpoint = builder.enable().unwrap();
        let me = peers.insert(&endpoint.address().unwrap()).unwrap();
        Self {
            endpoint,
            queue,
            me,
            domain,
        }
    }

    fn region(&self, bytes: &[u8], access: Access) -> (Region, RemoteRegion) {
        let region = Region::register(&self.domain, Buffer::from(bytes), access).unwrap();
        // The description of a region reaches a peer as bytes.
        let remote = RemoteRegion::from_bytes(&region.remote().to_bytes()).unwrap();
        (region, remote)
    }

    /// Posts until the post is not refused with AGAIN, and returns the completion of that operation.
    pub(crate) fn run<E: Into<Refused>>(
        &self,
        mut post: impl FnMut(&Endpoint, Peer) -> Result<Op, E>,
    ) -> Completion {
        let start = Instant::now();
        let op = loop {
            match post(&self.endpoint, self.me).map_err(Into::into) {
                Ok(op) => break op,
                Err(refused) if refused.is_again() => {
                    assert!(self.queue.poll().unwrap().is_none());
                }
                Err(refused) => panic!("{refused}"),
            }
            assert!(start.elapsed() < WATCHDOG, "the post stays refused");
        };
        self.done(op)
    }

    fn done(&self, op: Op) -> Completion {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < WATCHDOG, "no completion came");
            if let Some(completion) = self.queue.poll().unwrap() {
                assert_eq!(completion.op, op);
                return completion;
            }
        }
    }

    /// Runs an operation that takes a buffer, as `run` does.
    fn move_bytes(
        &self,
        buffer: Buffer,
        post: impl Fn(&Endpoint, Peer, Buffer) -> Result<Op, Refused>,
    ) -> Completion {
        let mut buffer = Some(buffer);
        self.run(|endpoint, me| {
            post(endpoint, me, buffer.take().unwrap()).map_err(|refused| {
                buffer = Some(refused.buffer);
                refused.error
            })
        })
    }
}

/// Returns the offer with more capabilities, if there is one.
pub(crate) fn with(info: &Info, caps: Caps) -> Option<Info> {
    let hints = Hints::new()
        .caps(Caps::MSG | Caps::TAGGED | caps)
        .provider(info.provider());
    let offer = crate::within_this_host(hints, info.provider()).best(info.backend());
    if let Err(why) = &offer {
        eprintln!("SKIP: {:?}: {why}", info.backend());
    }
    offer.ok()
}

fn bytes_are_written_and_read(info: &Info) {
    let Some(info) = with(info, Caps::RMA) else {
        return;
    };
    let here = Loop::open(&info, None);
    for len in [8, 300_000] {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8 ^ 0x5a).collect();
        let (region, remote) = here.region(&vec![0; len + 16], Access::READ_WRITE);
        let place = remote.slice::<u8>(16, len).unwrap();
        let done = here.move_bytes(Buffer::from(bytes.clone()), |endpoint, me, buffer| {
            endpoint.write(me, place, buffer)
        });
        assert_eq!(done.outcome.unwrap().operation, Operation::Write);
        assert_eq!(&done.buffer[..], bytes);
        let done = here.move_bytes(Buffer::zeroed(len), |endpoint, me, buffer| {
            endpoint.read(me, place, buffer)
        });
        let (buffer, transfer) = done.ok().unwrap();
        assert_eq!((transfer.operation, transfer.len), (Operation::Read, len));
        assert_eq!(&buffer[..], bytes);
        let mut seen = vec![1; len + 16];
        region.read(0, &mut seen).unwrap();
        assert_eq!((&seen[..16], &seen[16..]), (&[0; 16][..], &bytes[..]));
        let back = region.into_buffer().unwrap();
        assert_eq!(&back[16..], bytes);
    }
}

fn a_part_of_a_region_is_sent_and_received_into(info: &Info) {
    let Some(info) = with(info, Caps::RMA) else {
        return;
    };
    let here = Loop::open(&info, None);
    let (region, _) = here.region(b"from....", Access::NONE);
    let receive = region.slice(4..8).unwrap();
    let receive = here.endpoint.receive(receive).unwrap();
    let start = Instant::now();
    let send = loop {
        match here.endpoint.send(here.me, region.slice(0..4).unwrap()) {
            Ok(op) => break op,
            Err(refused) => assert!(refused.is_again(), "{refused}"),
        }
        assert!(start.elapsed() < WATCHDOG, "the post stays refused");
        assert!(here.queue.poll().unwrap().is_none());
    };
    let region = region.into_buffer().unwrap_err();
    let mut open = vec![receive, send];
    while !open.is_empty() {
        assert!(start.elapsed() < WATCHDOG, "no completion came");
        if let Some(done) = here.queue.poll().unwrap() {
            open.retain(|op| *op != done.op);
            let (buffer, _) = done.ok().unwrap();
            assert!(buffer.is_empty());
        }
    }
    let buffer = region.into_buffer().unwrap();
    assert_eq!(&buffer[..], b"fromfrom");
}

fn accesses_beyond_the_end_or_the_grant_are_refused_at_once(info: &Info) {
    let Some(info) = with(info, Caps::RMA) else {
        return;
    };
    let here = Loop::open(&info, None);
    let (region, remote) = here.region(&[0; 64], Access::READ);
    let (endpoint, me) = (&here.endpoint, here.me);
    let refused = endpoint.read(me, remote.bytes(), Buffer::zeroed(65));
    let Refused { error, buffer } = refused.unwrap_err();
    assert!(matches!(
        error,
        Error::OutOfBounds {
            len: 65,
            size: 64,
            ..
        }
    ));
    assert_eq!(buffer.len(), 65);
    let refused = endpoint.write(me, remote.bytes(), Buffer::zeroed(1));
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("does not grant Access::WRITE"), "{text}");
    let refused = endpoint.inject_write(me, remote.bytes(), &[1]);
    assert_eq!(refused.unwrap_err().errno(), Errno::ACCES);
    let word = remote.at::<u64>(0).unwrap();
    assert!(endpoint.fetch_atomic(me, word, Update::sum(1)).is_err());
    assert!(region.slice(60..65).is_err());
    assert!(region.write(64, &[1]).is_err());
    assert!(region.word(60).is_err());
    assert!(region.word(4).is_err());
}

fn a_grant_that_is_made_up_is_refused_by_the_owner(info: &Info) {
    let Some(info) = with(info, Caps::RMA) else {
        return;
    };
    if info.backend() != oxifabric::Backend::builtin() {
        eprintln!("SKIP: the C library answers by closing the connection, or not at all");
        return;
    }
    let here = Loop::open(&info, None);
    let (region, remote) = here.region(&[7; 64], Access::READ);
    let mut forged = remote.to_bytes();
    forged[31] = 3;
    let forged = RemoteRegion::from_bytes(&forged).unwrap();
    let done = here.move_bytes(Buffer::zeroed(64), |endpoint, me, buffer| {
        endpoint.write(me, forged.bytes(), buffer)
    });
    let error = done.outcome.unwrap_err().to_string();
    assert!(error.starts_with("write to "), "{error}");
    assert_eq!(
        region.word(0).unwrap().load(Ordering::Relaxed),
        0x0707_0707_0707_0707
    );
}

fn a_write_with_data_shows_at_its_target(info: &Info) {
    let Some(info) = with(info, Caps::RMA) else {
        return;
    };
    let here = Loop::open(&info, None);
    let (region, remote) = here.region(&[0; 8], Access::WRITE);
    let mut buffer = Buffer::from(b"datadata");
    let start = Instant::now();
    let op = loop {
        match here
            .endpoint
            .write_data(here.me, remote.bytes(), 0xfeed, buffer)
        {
            Ok(op) => break op,
            Err(refused) => {
                assert!(refused.is_again(), "{refused}");
                buffer = refused.buffer;
                assert!(here.queue.poll().unwrap().is_none());
            }
        }
    };
    let (mut written, mut told) = (false, false);
    while !(written && told) {
        assert!(start.elapsed() < WATCHDOG, "no completion came");
        let Some(done) = here.queue.poll().unwrap() else {
            continue;
        };
        let by_peer = done.op == Op::PEER;
        assert!(by_peer || done.op == op);
        let (_, transfer) = done.ok().unwrap();
        if by_peer {
            assert_eq!(transfer.operation, Operation::RemoteWrite);
            assert_eq!(transfer.data, Some(0xfeed));
        }
        (written, told) = (written || !by_peer, told || by_peer);
    }
    assert_eq!(&region.into_buffer().unwrap()[..], b"datadata");
}

fn numbers_are_updated_in_place(info: &Info) {
    let Some(info) = with(info, Caps::ATOMIC) else {
        return;
    };
    let here = Loop::open(&info, None);
    let (region, remote) = here.region(&[0; 64], Access::READ_WRITE);
    let word = remote.at::<u64>(8).unwrap();
    for expected in [0_u64, 5, 10] {
        let done = here.run(|endpoint, me| endpoint.fetch_atomic(me, word, Update::sum(5)));
        assert_eq!(done.fetched::<u64>(), Some(expected));
        assert_eq!(done.fetched::<i64>(), None);
        assert_eq!(done.outcome.unwrap().operation, Operation::Fetch);
    }
    let done = here.run(|endpoint, me| endpoint.atomic(me, word, Update::or(16)));
    assert_eq!(done.fetched::<u64>(), None);
    let done = here.run(|endpoint, me| endpoint.atomic_read(me, word));
    assert_eq!(done.fetched(), Some(31_u64));
    for (compare, was) in [(1, 31_u64), (31, 31), (31, 99)] {
        let exchange = Exchange::if_equal(compare, 99);
        let done = here.run(|endpoint, me| endpoint.compare_atomic(me, word, exchange));
        assert_eq!(done.fetched(), Some(was));
    }
    let float = remote.at::<f64>(16).unwrap();
    here.run(|endpoint, me| endpoint.atomic(me, float, Update::write(1.5)));
    let done = here.run(|endpoint, me| endpoint.fetch_atomic(me, float, Update::max(2.5)));
    assert_eq!(done.fetched(), Some(1.5_f64));
    let mut bytes = [0; 8];
    region.read(16, &mut bytes).unwrap();
    assert_eq!(f64::from_ne_bytes(bytes), 2.5);
    assert_eq!(region.word(8).unwrap().load(Ordering::Relaxed), 99);
}

fn runs_of_numbers_are_updated_together(info: &Info) {
    let Some(info) = with(info, Caps::ATOMIC) else {
        return;
    };
    let here = Loop::open(&info, None);
    let (region, remote) = here.region(&[1; 16], Access::READ_WRITE);
    let bins = remote.slice::<u8>(0, 16).unwrap();
    let add: Buffer = (0..16).collect::<Vec<u8>>().into();
    let done = here.move_bytes(add, |endpoint, me, buffer| {
        endpoint.atomic_slice(me, bins, Update::sum, buffer)
    });
    assert_eq!(done.buffer[15], 15);
    done.outcome.unwrap();
    let expected: Vec<u8> = (1..17).collect();
    assert_eq!(&region.into_buffer().unwrap()[..], expected);
    let words = remote.slice::<u32>(0, 4).unwrap();
    let refused = here
        .endpoint
        .atomic_slice(here.me, words, Update::sum, Buffer::zeroed(6));
    assert_eq!(refused.unwrap_err().error.errno(), Errno::INVAL);
}

fn runs_of_numbers_are_fetched_and_compared(info: &Info) {
    let Some(info) = with(info, Caps::ATOMIC) else {
        return;
    };
    let here = Loop::open(&info, None);
    let (_region, remote) = here.region(&[0; 32], Access::READ_WRITE);
    let words = remote.slice::<u64>(1, 3);
    assert!(words.unwrap().at(3).is_err());
    let words = remote.slice::<u64>(8, 3).unwrap();
    let rows = |rows: &[[u64; 3]]| {
        let mut buffer = Buffer::zeroed_of::<u64>(3 * rows.len());
        buffer
            .as_mut_slice_of::<u64>()
            .copy_from_slice(rows.as_flattened());
        buffer
    };
    let last_row = |done: Completion| {
        // A fetched value is reported for single elements only, not for slices.
        assert_eq!(done.fetched::<u64>(), None);
        let (buffer, _) = done.ok().unwrap();
        <[u64; 3]>::try_from(&buffer.as_slice_of()[buffer.len() / 8 - 3..]).unwrap()
    };
    for expected in [[0, 0, 0], [1, 2, 3]] {
        let done = here.move_bytes(rows(&[[1, 2, 3], [9; 3]]), |endpoint, me, buffer| {
            endpoint.fetch_atomic_slice(me, words, Update::sum, buffer)
        });
        assert_eq!(last_row(done), expected);
    }
    let payload = rows(&[[2, 0, 6], [20, 40, 60], [9; 3]]);
    let done = here.move_bytes(payload, |endpoint, me, buffer| {
        endpoint.compare_atomic_slice(me, words, Exchange::if_equal, buffer)
    });
    assert_eq!(last_row(done), [2, 4, 6]);
    let done = here.move_bytes(rows(&[[9; 3]]), |endpoint, me, buffer| {
        endpoint.atomic_read_slice(me, words, buffer)
    });
    assert_eq!(last_row(done), [20, 4, 60]);

    let (endpoint, me) = (&here.endpoint, here.me);
    let uneven = endpoint.fetch_atomic_slice(me, words, Update::sum, Buffer::zeroed(24));
    assert_eq!(uneven.unwrap_err().error.errno(), Errno::INVAL);
    let long = endpoint.compare_atomic_slice(me, words, Exchange::if_equal, Buffer::zeroed(96));
    assert!(matches!(
        long.unwrap_err().error,
        Error::OutOfBounds { len: 32, .. }
    ));
}

fn a_counter_counts_and_wakes(info: &Info) {
    let counter = std::cell::OnceCell::new();
    let open = |domain: &Domain| {
        counter
            .get_or_init(|| Counter::open(domain).unwrap())
            .clone()
    };
    let here = Loop::open(info, Some((&open, Counted::RECEIVE)));
    let counter = counter.get().unwrap();
    assert_eq!((counter.read(), counter.errors()), (0, 0));
    assert!(!counter.wait(1, Some(std::time::Duration::ZERO)).unwrap());
    for _ in 0..3 {
        here.endpoint.receive(Buffer::zeroed(8)).unwrap();
    }
    for _ in 0..3 {
        let start = Instant::now();
        while let Err(error) = here.endpoint.inject(here.me, b"count me") {
            assert!(error.is_again() && start.elapsed() < WATCHDOG, "{error}");
            counter.read();
        }
    }
    assert!(counter.wait(3, Some(WATCHDOG)).unwrap());
    counter.set(10).unwrap();
    counter.add(1).unwrap();
    let start = Instant::now();
    while counter.read() != 11 {
        assert!(start.elapsed() < WATCHDOG, "the counter is never set");
    }
}

fn borrowed_memory_is_free_after_its_scope(info: &Info) {
    let here = Loop::open(info, None);
    let (out, mut first, mut second) = (*b"borrowed", [0; 8], [0; 8]);
    let tagged = here
        .endpoint
        .scope(|scope| {
            let tagged = scope.receive_tagged(7, 0, &mut second)?;
            scope.receive(&mut first)?;
            scope.send(here.me, &out, SendOptions::new())?;
            scope.send(here.me, &out[..3], SendOptions::new().tag(7))?;
            scope.wait(tagged)
        })
        .unwrap();
    assert_eq!((tagged.len, tagged.tag), (3, 7));
    assert_eq!((&first, &second[..3]), (&out, &out[..3]));
    assert!(here.queue.poll().unwrap().is_none());
}

fn a_scope_that_fails_takes_its_receives_back(info: &Info) {
    let here = Loop::open(info, None);
    // Another receive of the same queue, whose completion is for the thread that reads the queue.
    let other = here
        .endpoint
        .receive_tagged(1, 0, Buffer::zeroed(4))
        .unwrap();
    let mut bytes = [0; 8];
    let error = here.endpoint.scope(|scope| {
        scope.receive(&mut bytes)?;
        here.endpoint.cancel(other)?;
        Err::<(), _>(here.endpoint.cancel(Op::PEER).unwrap_err())
    });
    assert_eq!(error.unwrap_err().errno(), Errno::NOENT);
    bytes[0] = 1;
    let panics = catch_unwind(AssertUnwindSafe(|| {
        here.endpoint.scope(|scope| -> Result<(), Error> {
            scope.receive(&mut bytes)?;
            panic!("in the middle of it");
        })
    }));
    assert!(panics.is_err());
    assert_eq!(bytes, [1, 0, 0, 0, 0, 0, 0, 0]);
    let done = here.done(other);
    assert_eq!(done.outcome.unwrap_err().errno(), Errno::CANCELED);
    assert_eq!(done.buffer.len(), 4);
}

worlds! {
    bytes_are_written_and_read
    a_part_of_a_region_is_sent_and_received_into
    accesses_beyond_the_end_or_the_grant_are_refused_at_once
    a_grant_that_is_made_up_is_refused_by_the_owner
    a_write_with_data_shows_at_its_target
    numbers_are_updated_in_place
    runs_of_numbers_are_updated_together
    runs_of_numbers_are_fetched_and_compared
    a_counter_counts_and_wakes
    borrowed_memory_is_free_after_its_scope
    a_scope_that_fails_takes_its_receives_back
}
