//! What adapters promise a link: accesses are checked and carried out where they arrive, whether or not the target is polled, and whatever
//! is under way ends with its peer.

use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::{
    Body, Frame, Header, HeaderFlags, Kind, Link, Placement, PostError, Posted, RxToken, Sink,
    Target, TxToken,
};
use oxifabric_mem::{Iov, MemoryKind, RegionId};
use oxifabric_provider::domain::{ProviderDomain, RegistrationRequest};
use oxifabric_sim::plan::{AccessPlan, NicPlan, PacketOrder};
use oxifabric_sim::{Count, Plan, SimDomain, SimNic, World};
use oxifabric_types::{Address, Errno, Flags, Instant, PeerId};

/// The body of frames without one.
const NO_BODY: &Iov = &Iov::empty();

const PEER_TIMEOUT: Duration = Duration::from_secs(1);
const PEER: PeerId = PeerId(0);
/// Longer than a packet.
const LONG: usize = 10_000;

/// What a link has reported.
#[derive(Default)]
struct Reports {
    arrived: Vec<u64>,
    sent: Vec<(u32, Result<(), Errno>)>,
    written: Vec<u64>,
    down: Vec<Errno>,
    /// Messages find no room.
    is_full: bool,
}

impl Sink for Reports {
    fn arrival(&mut self, _: PeerId, header: &Header, body: Body<'_>) -> Placement {
        if self.is_full {
            return Placement::Stall;
        }
        assert!(matches!(body, Body::Whole(bytes) if bytes.len() as u64 == header.len));
        self.arrived.push(header.data);
        Placement::Done
    }

    fn written(&mut self, _: PeerId, write: oxifabric_engine::RemoteWrite) {
        self.written.push(write.data);
    }

    fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}

    fn sent(&mut self, token: TxToken, result: Result<(), Errno>) {
        self.sent.push((token.0, result));
    }

    fn pulled(&mut self, _: RxToken, _: Result<(), Errno>) {}

    fn writable(&mut self, _: PeerId) {}

    fn peer_down(&mut self, _: PeerId, why: Errno) {
        self.down.push(why);
    }
}

/// Two endpoints in domains of their own; each is the other's first peer.
struct Two {
    world: Arc<World>,
    domains: [SimDomain; 2],
    nics: [Option<SimNic>; 2],
    reports: [Reports; 2],
}

impl Two {
    fn new(order: PacketOrder) -> Self {
        let plan = Plan {
            nic: Some(NicPlan {
                order,
                one_sided: vec![AccessPlan::Read, AccessPlan::Write, AccessPlan::Atomic],
            }),
            ..Plan::default()
        };
        let world = Arc::new(World::new(plan));
        let domains = [false, false].map(SimDomain::with_memory);
        let mut two = Self {
            world,
            domains,
            nics: [None, None],
            reports: Default::default(),
        };
        (0..2).for_each(|me| two.open(me));
        two
    }

    fn open(&mut self, me: usize) {
        let name = |node: usize| format!("fi_sim://{node}");
        let nic = SimNic::settle(&self.world, &name(me), &self.domains[me], PEER_TIMEOUT);
        let mut nic = nic.expect("the place is free");
        assert_eq!(nic.number(&Address::Name(name(1 - me).into())), Ok(PEER));
        nic.open();
        self.nics[me] = Some(nic);
    }

    fn nic(&mut self, me: usize) -> &mut SimNic {
        self.nics[me].as_mut().expect("it is open")
    }

    /// Polls an endpoint, if it is there.
    fn poll(&mut self, me: usize) {
        if let Some(nic) = &mut self.nics[me] {
            nic.poll(Instant::END, &mut self.reports[me]);
        }
    }

    /// Polls these endpoints while time passes, until nothing more happens.
    fn play(&mut self, polled: &[usize]) {
        for _ in 0..10_000 {
            polled.iter().for_each(|me| self.poll(*me));
            match self.world.until_next() {
                None => return,
                Some(next) => self.world.pass(next),
            }
        }
        panic!("the network does not come to rest");
    }

    /// Registers memory of the second endpoint.
    fn register(&self, memory: &Iov, access: Flags, key: u64) -> RegionId {
        let registered = self.domains[1].register(&RegistrationRequest {
            pieces: memory.segments(),
            access,
            kind: MemoryKind::Host,
            device: 0,
            key: Some(key),
        });
        registered
            .ok()
            .and_then(|registered| registered.region)
            .expect("the key is free")
    }

    /// Has the first endpoint access memory of the second.
    fn access(&mut self, kind: Kind, local: &Iov, (addr, key): (u64, u64), token: u32) {
        let len = local.len() as u64;
        let target = Target { addr, len, key };
        let header = header(kind, 0, len);
        let posted = self.post(header, local, &[target], token);
        assert_eq!(posted, Ok(Posted::Pending));
    }

    fn post(
        &mut self,
        header: Header,
        body: &Iov,
        targets: &[Target],
        token: u32,
    ) -> Result<Posted, PostError> {
        let frame = Frame {
            targets,
            ..Frame::whole(header, body)
        };
        self.nic(0).post(PEER, frame, TxToken(token))
    }

    /// Has the first endpoint send a message without a body; returns whether it was taken.
    fn send(&mut self, number: u64) -> bool {
        let message = header(Kind::Msg, number, 0);
        self.post(message, &Iov::empty(), &[], 0).is_ok()
    }
}

fn header(kind: Kind, data: u64, len: u64) -> Header {
    Header {
        kind,
        flags: HeaderFlags::empty(),
        id: 1,
        tag: 0,
        data,
        len,
    }
}

fn filled(len: usize, with: u8) -> Iov {
    let memory = Iov::zeroed(len).expect("it is short");
    memory.write(0, &vec![with; len]);
    memory
}

fn bytes(memory: &Iov) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes);
    bytes
}

#[test]
fn the_target_of_an_access_need_not_be_polled() {
    for order in [PacketOrder::Ordered, PacketOrder::Unordered] {
        let mut two = Two::new(order);
        let memory = filled(LONG, 1);
        two.register(&memory, Flags::REMOTE_READ | Flags::REMOTE_WRITE, 7);
        two.access(Kind::Write, &filled(LONG - 100, 2), (100, 7), 1);
        two.play(&[0]);
        let read = filled(LONG, 0);
        two.access(Kind::Read, &read, (0, 7), 2);
        two.play(&[0]);
        assert_eq!(two.reports[0].sent, [(1, Ok(())), (2, Ok(()))]);
        let expected = [vec![1; 100], vec![2; LONG - 100]].concat();
        assert_eq!((bytes(&memory), bytes(&read)), (expected.clone(), expected));
        assert_eq!(two.world.count(Count::Access), 6, "three packets each");
    }
}

#[test]
fn an_access_is_refused_where_the_memory_is() {
    let mut two = Two::new(PacketOrder::Unordered);
    let memory = filled(LONG, 1);
    let read_only = two.register(&memory, Flags::REMOTE_READ, 7);
    let local = filled(LONG, 2);
    for (kind, place, token, errno) in [
        (Kind::Read, (0, 8), 1, Errno::NOKEY),
        (Kind::Read, (1, 7), 2, Errno::ACCES),
        (Kind::Read, (u64::MAX, 7), 3, Errno::ACCES),
        (Kind::Write, (0, 7), 4, Errno::ACCES),
    ] {
        two.access(kind, &local, place, token);
        two.play(&[0]);
        assert_eq!(
            two.reports[0].sent.pop(),
            Some((token, Err(errno))),
            "{kind:?}"
        );
    }
    assert_eq!(bytes(&memory), vec![1; LONG]);
    assert_eq!(two.domains[1].deregister(read_only), Ok(()));
    two.access(Kind::Read, &local, (0, 7), 5);
    two.play(&[0]);
    assert_eq!(two.reports[0].sent, [(5, Err(Errno::NOKEY))]);
    assert!(two.reports[0].down.is_empty());
}

#[test]
fn a_write_with_data_is_reported_when_all_of_it_is_there() {
    let mut two = Two::new(PacketOrder::Unordered);
    let memory = filled(LONG, 1);
    two.register(&memory, Flags::REMOTE_WRITE, 7);
    let local = filled(LONG, 2);
    let len = LONG as u64;
    let write = Header {
        flags: HeaderFlags::DATA,
        ..header(Kind::Write, 77, len)
    };
    let target = Target {
        addr: 0,
        len,
        key: 7,
    };
    assert_eq!(two.post(write, &local, &[target], 1), Ok(Posted::Pending));
    for _ in 0..10 {
        two.world.pass(Duration::from_micros(50));
        two.poll(0);
    }
    assert_eq!(bytes(&memory), vec![2; LONG], "the target is not polled");
    assert!(two.reports[0].sent.is_empty() && two.reports[1].written.is_empty());
    two.play(&[0, 1]);
    assert_eq!(two.reports[1].written, [77]);
    assert_eq!(two.reports[0].sent, [(1, Ok(()))]);
}

#[test]
fn messages_keep_their_order_where_packets_do_not() {
    let mut two = Two::new(PacketOrder::Unordered);
    let mut sent = 0;
    while sent < 1000 {
        two.poll(0);
        while sent < 1000 && two.send(sent) {
            sent += 1;
        }
        two.world.pass(Duration::from_micros(5));
        two.poll(1);
    }
    two.play(&[0, 1]);
    assert!(two.world.count(Count::Overtaken) > 100);
    assert_eq!(two.reports[1].arrived, (0..1000).collect::<Vec<_>>());
}

#[test]
fn no_more_than_a_window_of_frames_waits_for_a_peer_without_room() {
    let mut two = Two::new(PacketOrder::Unordered);
    two.reports[1].is_full = true;
    assert!(!two.send(0), "there is no connection yet");
    let mut sent = 0;
    for _ in 0..100 {
        two.world.pass(Duration::from_micros(50));
        (0..2).for_each(|me| two.poll(me));
        while two.send(sent) {
            sent += 1;
        }
    }
    assert_eq!(sent, 64);
    two.reports[1].is_full = false;
    two.nic(1).resume(PEER);
    two.play(&[0, 1]);
    assert_eq!(two.reports[1].arrived, (0..64).collect::<Vec<_>>());
    assert!(two.send(64));
}

#[test]
fn what_is_under_way_to_a_peer_that_dies_fails() {
    for order in [PacketOrder::Ordered, PacketOrder::Unordered] {
        let mut two = Two::new(order);
        let memory = filled(LONG, 1);
        two.register(&memory, Flags::REMOTE_READ, 7);
        two.send(0);
        two.play(&[0, 1]);
        let local = filled(LONG, 0);
        let message = header(Kind::Msg, 0, 16);
        let posted = two.post(message, &local.slice(0, 16), &[], 1);
        assert_eq!(posted, Ok(Posted::Pending));
        two.access(Kind::Read, &local, (0, 7), 2);
        two.nics[1] = None;
        two.play(&[0]);
        let failed = Err(Errno::CONNRESET);
        assert_eq!(two.reports[0].sent, [(1, failed), (2, failed)]);
        assert_eq!(two.reports[0].down, [Errno::CONNRESET]);
        assert!(two.nic(0).is_done());
    }
}

#[test]
fn a_message_to_an_endpoint_that_is_not_there_waits_for_it_and_not_for_ever() {
    let mut two = Two::new(PacketOrder::Unordered);
    two.nics[1] = None;
    assert!(!two.send(0));
    for _ in 0..10 {
        two.world.pass(PEER_TIMEOUT / 20);
        two.poll(0);
    }
    assert!(two.reports[0].down.is_empty());
    two.open(1);
    two.play(&[0, 1]);
    assert!(two.send(0));
    two.play(&[0, 1]);
    assert_eq!(two.reports[1].arrived, [0]);

    let mut two = Two::new(PacketOrder::Unordered);
    two.nics[1] = None;
    assert!(!two.send(0));
    two.play(&[0]);
    assert_eq!(two.reports[0].down, [Errno::CONNREFUSED]);
}

#[test]
fn an_endpoint_that_takes_the_place_of_another_is_told_from_it() {
    let mut two = Two::new(PacketOrder::Unordered);
    two.send(0);
    two.play(&[0, 1]);
    assert!(two.send(1));
    two.reports[1].is_full = true;
    two.world.pass(Duration::from_millis(1));
    two.poll(1);
    two.nics[1] = None;
    two.reports[1] = Reports::default();
    two.open(1);
    two.play(&[0, 1]);
    assert_eq!(two.reports[0].down, [Errno::CONNRESET]);
    assert!(two.reports[1].arrived.is_empty());
}

/// The former endpoint has taken a message, and never sent anything: no frame of the newcomer contradicts what is known of it.
#[test]
fn an_endpoint_that_connects_in_the_place_of_another_is_told_from_it() {
    let mut two = Two::new(PacketOrder::Unordered);
    two.send(0);
    two.play(&[0, 1]);
    assert!(two.send(1));
    two.play(&[0, 1]);
    assert_eq!(two.reports[1].arrived, [1]);
    two.nics[1] = None;
    two.open(1);
    let message = header(Kind::Msg, 2, 0);
    let frame = Frame {
        transient: true,
        ..Frame::whole(message, NO_BODY)
    };
    let posted = two.nic(1).post(PEER, frame, TxToken(0));
    assert_eq!(posted, Err(PostError::Again), "it sends a Hello first");
    two.play(&[0, 1]);
    assert_eq!(two.reports[0].down, [Errno::CONNRESET]);
    let posted = two.nic(1).post(PEER, frame, TxToken(0));
    assert_eq!(posted, Ok(Posted::Done));
    two.play(&[0, 1]);
    assert_eq!(two.reports[0].arrived, [2]);
}

#[test]
fn one_seed_has_one_outcome() {
    let times = |seed: u64| {
        let plan = format!("seed = {seed}\n[nic]\norder = 'unordered'");
        let plan = Plan::parse(&plan).expect("it is a plan");
        let mut two = Two::new(PacketOrder::Unordered);
        two.world = Arc::new(World::new(plan));
        two.nics = [None, None];
        (0..2).for_each(|me| two.open(me));
        two.send(0);
        two.play(&[0, 1]);
        (0..50).for_each(|number| assert!(two.send(number)));
        two.play(&[0, 1]);
        (two.world.now(), two.world.count(Count::Overtaken))
    };
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
}

#[test]
fn accesses_that_are_not_answered_are_bounded() {
    let mut two = Two::new(PacketOrder::Unordered);
    let memory = filled(16, 1);
    two.register(&memory, Flags::REMOTE_READ, 7);
    let local = filled(16, 0);
    let target = Target {
        addr: 0,
        len: 16,
        key: 7,
    };
    let read = header(Kind::Read, 0, 16);
    let mut taken = 0;
    while two.post(read, &local, &[target], taken).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 128);
    two.play(&[0]);
    assert_eq!(two.reports[0].sent.len(), 128);
    assert_eq!(two.world.count(Count::Access), 128);
    assert!(two.post(read, &local, &[target], 0).is_ok());
}

#[test]
fn endpoints_that_come_and_go_do_not_fill_the_table_of_an_adapter() {
    let mut two = Two::new(PacketOrder::Unordered);
    for visitor in 2..300 {
        let name = format!("fi_sim://{visitor}");
        let nic = SimNic::settle(&two.world, &name, &two.domains[0], PEER_TIMEOUT);
        let mut nic = nic.expect("the place is free");
        let second = Address::Name("fi_sim://1".into());
        assert_eq!(nic.number(&second), Ok(PEER));
        nic.open();
        let mut reports = Reports::default();
        let mut is_sent = false;
        for _ in 0..4 {
            let message = header(Kind::Msg, visitor, 0);
            let frame = Frame {
                transient: true,
                ..Frame::whole(message, NO_BODY)
            };
            is_sent = is_sent || nic.post(PEER, frame, TxToken(0)).is_ok();
            two.world.pass(Duration::from_micros(100));
            two.poll(1);
            nic.poll(Instant::END, &mut reports);
        }
        nic.leave();
        drop(nic);
        two.world.pass(Duration::from_micros(100));
        two.poll(1);
    }
    assert_eq!(two.reports[1].arrived.len(), 298);
    assert_eq!(two.reports[1].down.len(), 298);
    assert!(two.nic(1).rows() <= 64, "{}", two.nic(1).rows());
}
