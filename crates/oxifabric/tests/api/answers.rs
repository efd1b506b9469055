//! What errors say: the call, what was expected, and what to do next.

use std::collections::VecDeque;

use oxifabric::{
    Access, Address, AddressFormat, AddressVector, AsyncEndpoint, AsyncQueue, Backend, Buffer,
    Caps, Completion, CompletionQueue, Connectionless, Counted, Counter, Dgram, Domain, Endpoint,
    Errno, Error, Fabric, Hints, Info, Kind, Operation, Peer, Rdm, Region, SendOptions,
};

use crate::{WATCHDOG, builtin, within_this_host};

/// An endpoint that is its own peer.
struct Alone<K: Kind = Rdm> {
    endpoint: Endpoint<K>,
    queue: CompletionQueue,
    peers: AddressVector,
    me: Peer,
    /// Completions that a post has handed on.
    kept: VecDeque<Completion>,
}

impl<K: Connectionless> Alone<K> {
    fn open(info: &Info) -> Self {
        let domain = Domain::open(&Fabric::open(info).unwrap(), info).unwrap();
        let peers = AddressVector::open(&domain).unwrap();
        let queue = CompletionQueue::open(&domain, 256).unwrap();
        let builder = Endpoint::<K>::builder(&domain).address_vector(&peers);
        let endpoint = builder.queue(&queue).enable().unwrap();
        let me = peers.insert(&endpoint.address().unwrap()).unwrap();
        Self {
            endpoint,
            queue,
            peers,
            me,
            kept: VecDeque::new(),
        }
    }
}

impl Alone {
    fn with(provider: &str, caps: Caps) -> Self {
        let hints = Hints::new().caps(caps).provider(provider);
        let info = within_this_host(hints, provider).best(Backend::builtin());
        Self::open(&info.unwrap())
    }

    fn send(&mut self, bytes: &[u8]) {
        let me = self.me;
        let send = |endpoint: &Endpoint, buffer| endpoint.send(me, buffer);
        let posted = self
            .endpoint
            .post(bytes, send, |done| self.kept.push_back(done));
        posted.unwrap();
    }
}

#[track_caller]
fn says(error: impl Into<Error>, errno: Errno, parts: &[&str]) {
    let error = error.into();
    assert_eq!(error.errno(), errno, "{error}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
}

#[test]
fn what_is_too_long_to_inject_names_the_call_and_the_limit() {
    let alone = Alone::with("tcp", Caps::MSG | Caps::TAGGED | Caps::RMA);
    let most = alone.endpoint.info().inject_size();
    let long = vec![0; most + 1];
    let both = format!("{} bytes, and `Info::inject_size` is {most}", most + 1);
    let errno = Errno::MSGSIZE;
    let (endpoint, me) = (&alone.endpoint, alone.me);
    let error = endpoint.inject(me, &long).unwrap_err();
    says(error, errno, &["fi_inject failed", &both, "use `send`"]);
    let error = endpoint.inject_data(me, 1, &long).unwrap_err();
    says(error, errno, &["fi_injectdata failed", &both]);
    let error = endpoint.inject_tagged(me, 1, &long).unwrap_err();
    let parts = ["fi_tinject failed", &both, "use `send_tagged`"];
    says(error, errno, &parts);
}

#[test]
fn a_message_that_is_too_long_names_the_limit() {
    let hints = Hints::new().kind::<Dgram>().provider("udp");
    let info = within_this_host(hints, "udp").best(Backend::builtin());
    let alone = Alone::<Dgram>::open(&info.unwrap());
    let most = alone.endpoint.info().max_message_size();
    let refused = alone.endpoint.send(alone.me, Buffer::zeroed(most + 1));
    let both = format!("{} bytes, and `Info::max_message_size` is {most}", most + 1);
    says(
        refused.unwrap_err(),
        Errno::MSGSIZE,
        &["fi_send failed", &both],
    );
}

#[test]
fn bytes_that_are_no_address_are_shown_with_the_format_that_was_expected() {
    let alone = Alone::with("tcp", Caps::MSG);
    let format = alone.endpoint.info().address_format();
    let bytes = Address::new(format, b"hello");
    let parts = [
        "fi_av_insert failed",
        "these 5 bytes, 68656c6c6f, are no address of the format FI_SOCKADDR_IN",
        "`Address::bytes`",
    ];
    says(
        alone.peers.insert(&bytes).unwrap_err(),
        Errno::INVAL,
        &parts,
    );
    let name = Address::new(AddressFormat::NAME, b"fi_shm://1\0");
    let parts = [
        "fi_shm://1 is an address of the format FI_ADDR_STR, and those of this domain are FI_SOCKADDR_IN",
    ];
    says(alone.peers.insert(&name).unwrap_err(), Errno::INVAL, &parts);
    let mine = alone.endpoint.address().unwrap();
    let error = alone.peers.insert_all(&[mine, name]).unwrap_err();
    says(error, Errno::INVAL, &parts);
    let empty = alone.peers.insert(&Address::new(format, &[]));
    says(
        empty.unwrap_err(),
        Errno::INVAL,
        &[": no bytes are no address"],
    );
    let why = Hints::new().destination(&bytes).best(Backend::builtin());
    says(
        why.unwrap_err(),
        Errno::INVAL,
        &["are no address of the format"],
    );
}

#[test]
fn a_peer_of_another_vector_is_named_as_such_wherever_it_is_used() {
    let (one, other) = (builtin("tcp"), builtin("tcp"));
    let (one, other): (Alone, Alone) = (Alone::open(&one), Alone::open(&other));
    let parts = [
        "the peer is of another address vector",
        "insert its address",
    ];
    let refused = one.endpoint.send(other.me, Buffer::from([1]));
    says(refused.unwrap_err(), Errno::INVAL, &parts);
    let error = one.endpoint.inject_tagged(other.me, 1, b"x");
    says(error.unwrap_err(), Errno::INVAL, &parts);
    says(
        one.peers.lookup(other.me).unwrap_err(),
        Errno::INVAL,
        &parts,
    );
    says(
        one.peers.remove(other.me).unwrap_err(),
        Errno::INVAL,
        &parts,
    );
    let error = one.endpoint.scope(|scope| {
        scope.send(other.me, b"x", SendOptions::new())?;
        Ok(())
    });
    says(error.unwrap_err(), Errno::INVAL, &parts);
}

#[test]
fn operations_without_their_capability_are_refused() {
    for provider in ["tcp", "shm", "udp;ofi_rxd", "sim"] {
        let tagged = Alone::with(provider, Caps::TAGGED);
        let (endpoint, me) = (&tagged.endpoint, tagged.me);
        let errno = Errno::OPNOTSUPP;
        let parts = ["opened without FI_MSG; ask for it in `Hints::caps`"];
        let refused = endpoint.send(me, Buffer::from([1])).unwrap_err();
        assert_eq!(refused.buffer[..], [1]);
        says(refused, errno, &parts);
        says(
            endpoint.receive(Buffer::zeroed(1)).unwrap_err(),
            errno,
            &parts,
        );
        says(endpoint.inject(me, b"x").unwrap_err(), errno, &parts);
        let scoped = endpoint.scope(|scope| scope.send(me, b"x", SendOptions::new()).map(drop));
        says(scoped.unwrap_err(), errno, &parts);
        let directed = endpoint.receive_tagged_from(me, 1, 0, Buffer::zeroed(1));
        says(
            directed.unwrap_err(),
            errno,
            &["opened without FI_DIRECTED_RECV"],
        );
        let untagged = Alone::with(provider, Caps::MSG);
        let refused = untagged.endpoint.send_tagged(untagged.me, 1, Buffer::new());
        says(refused.unwrap_err(), errno, &["opened without FI_TAGGED"]);
    }
}

#[test]
fn a_misspelt_provider_is_told_what_was_meant() {
    let why = |name: &str| {
        let why = Hints::new().provider(name).best(Backend::builtin());
        why.unwrap_err().to_string()
    };
    let text = why("tpc");
    assert!(
        text.contains("tpc: no provider has this name; did you mean tcp?"),
        "{text}"
    );
    assert!(!text.contains("was asked for"), "{text}");
    let text = why("verbs");
    assert!(
        text.contains("verbs: no provider has this name; there are efa, tcp, "),
        "{text}"
    );
}

#[test]
fn the_provider_that_was_asked_for_says_what_is_missing_and_others_nothing() {
    let hints = Hints::new()
        .caps(Caps::MSG | Caps::MULTICAST)
        .provider("tcp");
    let why = hints.best(Backend::builtin()).unwrap_err();
    let text = why.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("  tcp"), "{text}");
    assert!(
        lines[1].contains("caps: FI_MULTICAST was asked for and is not offered"),
        "{text}"
    );
    assert!(
        lines[1..].iter().all(|line| line.starts_with("  tcp")),
        "{text}"
    );
    assert!(!text.contains("FI_TAGGED"), "{text}");
    assert_eq!(why.rejections()[0].provider, "tcp");
    assert!(why.rejections().len() >= lines.len());
}

#[test]
fn a_post_makes_room_and_hands_on_every_completion() {
    const COUNT: usize = 1000;
    for provider in ["tcp", "shm"] {
        let mut alone = Alone::with(provider, Caps::MSG);
        let start = std::time::Instant::now();
        let (mut received, mut sent) = (0, 0);
        for _ in 0..COUNT {
            let me = &mut alone;
            let receive = |endpoint: &Endpoint, buffer| endpoint.receive(buffer);
            let posted = me
                .endpoint
                .post(Buffer::zeroed(2), receive, |done| me.kept.push_back(done));
            posted.unwrap();
            // Nothing else reads the queue, so the post has to.
            alone.send(b"ab");
        }
        let mut many = Vec::new();
        while received + sent < 2 * COUNT {
            assert!(
                start.elapsed() < WATCHDOG,
                "{received} and {sent} over {provider}"
            );
            many.extend(alone.kept.drain(..));
            alone.queue.poll_many(&mut many, 100).unwrap();
            for completion in many.drain(..) {
                let (buffer, transfer) = completion.ok().unwrap();
                assert_eq!(&buffer[..], b"ab");
                match transfer.operation {
                    Operation::Receive => received += 1,
                    _ => sent += 1,
                }
            }
        }
        assert_eq!((received, sent), (COUNT, COUNT));
        assert_eq!(alone.queue.poll_many(&mut many, 100).unwrap(), 0);
    }
}

#[test]
fn many_completions_are_at_most_as_many_as_asked_for_with_failed_ones_among_them() {
    let alone = Alone::with("tcp", Caps::MSG);
    let receives: Vec<_> = (0..40)
        .map(|_| alone.endpoint.receive(Buffer::zeroed(1)).unwrap())
        .collect();
    for op in &receives {
        alone.endpoint.cancel(*op).unwrap();
    }
    let mut many = Vec::new();
    assert_eq!(alone.queue.poll_many(&mut many, 0).unwrap(), 0);
    assert_eq!(alone.queue.poll_many(&mut many, 7).unwrap(), 7);
    while many.len() < receives.len() {
        alone.queue.poll_many(&mut many, usize::MAX).unwrap();
    }
    for (completion, op) in many.iter().zip(receives) {
        assert_eq!((completion.op, completion.buffer.len()), (op, 1));
        let error = completion.outcome.as_ref().unwrap_err();
        assert_eq!(error.errno(), Errno::CANCELED);
    }
}

#[test]
fn many_addresses_are_inserted_at_once() {
    for provider in ["tcp", "shm"] {
        let info = builtin(provider);
        let others: Vec<Alone> = (0..5).map(|_| Alone::open(&info)).collect();
        let addresses = others.iter().map(|other| other.endpoint.address().unwrap());
        let addresses: Vec<Address> = addresses.collect();
        let peers = &others[0].peers;
        let inserted = peers.insert_all(&addresses).unwrap();
        for (peer, address) in inserted.iter().zip(&addresses) {
            assert_eq!(&peers.lookup(*peer).unwrap(), address);
        }
        assert_eq!(inserted.len(), addresses.len());
        assert!(peers.insert_all(&[]).unwrap().is_empty());
    }
}

#[test]
fn an_access_that_the_peer_does_not_allow_says_what_to_check() {
    for provider in ["tcp", "shm"] {
        let alone = Alone::with(provider, Caps::MSG | Caps::RMA);
        let domain = Domain::open(
            &Fabric::open(alone.endpoint.info()).unwrap(),
            alone.endpoint.info(),
        );
        // A region of another domain has a key that the target's does not know.
        let memory = Buffer::zeroed(8);
        let region = Region::register(&domain.unwrap(), memory, Access::READ_WRITE).unwrap();
        let far = region.remote().bytes();
        let write = |endpoint: &Endpoint, buffer| endpoint.write(alone.me, far, buffer);
        let posted = alone
            .endpoint
            .post([1; 8], write, |done| panic!("{done:?}"));
        posted.unwrap();
        let failed = alone.queue.wait(Some(WATCHDOG)).unwrap().unwrap();
        let error = failed.outcome.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("write to "), "{text}");
        assert!(text.contains("no region of the peer allows it"), "{text}");
    }
}

#[test]
fn a_counter_with_a_failure_says_where_the_reason_is() {
    let info = builtin("tcp");
    let domain = Domain::open(&Fabric::open(&info).unwrap(), &info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    let queue = CompletionQueue::open(&domain, 16).unwrap();
    let counter = Counter::open(&domain).unwrap();
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let builder = builder.queue(&queue).counter(&counter, Counted::RECEIVE);
    let endpoint = builder.enable().unwrap();
    let received = endpoint.receive(Buffer::zeroed(1)).unwrap();
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| counter.wait(1, Some(WATCHDOG)));
        // The counter of failures is compared with that at the beginning of the wait, so failures come until it has ended.
        let mut op = received;
        while !waiting.is_finished() {
            endpoint.cancel(op).unwrap();
            drop(queue.wait(Some(WATCHDOG)).unwrap());
            op = endpoint.receive(Buffer::zeroed(1)).unwrap();
        }
        waiting.join().unwrap()
    });
    let parts = [
        "fi_cntr_wait failed",
        "read the completion queue of its endpoint",
    ];
    says(waiting.unwrap_err(), Errno::AVAIL, &parts);
}

#[test]
fn futures_say_which_queue_they_need() {
    let info = builtin("tcp");
    let domain = Domain::open(&Fabric::open(&info).unwrap(), &info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    let polled = CompletionQueue::polled(&domain, 16).unwrap();
    let error = AsyncQueue::new(polled).err().unwrap();
    let parts = ["fi_control failed", "open it by `CompletionQueue::open`"];
    says(error, Errno::NODATA, &parts);
    let [queue, other] = [(); 2].map(|()| CompletionQueue::open(&domain, 16).unwrap());
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let endpoint = builder.queue(&queue).enable().unwrap();
    let other = AsyncQueue::new(other).unwrap();
    let error = AsyncEndpoint::new(endpoint, &other, &other).unwrap_err();
    says(error, Errno::DOMAIN, &["pass those that it was built with"]);
}

#[test]
fn a_library_that_is_none_says_how_to_do_without() {
    let error = Backend::system("/no/such/library").unwrap_err();
    says(
        error,
        Errno::NOENT,
        &["cannot use /no/such/library", "`Backend::builtin`"],
    );
}
