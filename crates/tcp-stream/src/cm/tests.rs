use oxifabric_wire::tcp::handshake::HandshakeError;

use super::*;

const LOW: &str = "10.0.0.1:900";
const HIGH: &str = "10.0.0.2:20";

fn at(text: &str) -> SocketAddr {
    text.parse().expect("a socket address")
}

fn local_params(names: bool) -> LocalParams {
    LocalParams {
        port: 4711,
        pid: 7,
        firewall: false,
        names,
    }
}

/// Returns the handshake in a connection message.
fn handshake(cm_message: &CmMessage) -> Handshake {
    Handshake::parse(&deliver(cm_message, 99).data).expect("a good handshake")
}

fn deliver(cm_message: &CmMessage, piece: usize) -> Message {
    let mut reader = CmReader::default();
    let mut rest = cm_message.bytes();
    loop {
        let room = reader.room();
        let count = room.len().min(piece).min(rest.len());
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        if reader.filled(count).expect("a good header") {
            assert!(rest.is_empty(), "it asks for no byte too many");
            return reader.message().expect("a good message");
        }
    }
}

#[test]
fn messages_arrive_in_pieces_of_any_size() {
    for piece in 1..=64 {
        let message = deliver(&local_params(true).request(), piece);
        assert_eq!(message.kind, CmKind::Request);
        let handshake = Handshake::parse(&message.data).expect("a good handshake");
        assert_eq!((handshake.port, handshake.pid), (4711, 7));
    }
}

#[test]
fn both_ends_agree_on_the_same_terms() {
    for (ours, theirs) in [(true, true), (true, false), (false, true), (false, false)] {
        let (requester, responder) = (local_params(ours), local_params(theirs));
        let request = handshake(&requester.request());
        let (cm_message, there) = responder.respond(&request, ByteOrder::Big);
        let here = requester.negotiated(&handshake(&cm_message), ByteOrder::Big);
        assert_eq!(here, there);
        assert_eq!(here.dialect.named, ours && theirs);
        assert!(!here.dialect.atomics, "the byte orders differ");
        let same = requester.negotiated(&handshake(&cm_message), ByteOrder::NATIVE);
        assert_eq!(same.dialect.atomics, ours && theirs);
        assert!(here.rndv);
    }
}

#[test]
fn atomics_are_spoken_only_where_both_ends_offer_them_with_names() {
    for offered in [EXTENSION_NAMES, EXTENSION_ATOMICS, 0] {
        let request = Handshake {
            extension: Some(offered),
            ..local_params(true).handshake()
        };
        let (cm_message, negotiated) = local_params(true).respond(&request, ByteOrder::NATIVE);
        let answered = handshake(&cm_message).extension;
        assert_eq!(
            (answered, negotiated.dialect.atomics),
            (Some(offered), false)
        );
    }
}

#[test]
fn a_plain_requester_gets_a_plain_response() {
    let request = handshake(&local_params(false).request());
    let (cm_message, negotiated) = local_params(true).respond(&request, ByteOrder::NATIVE);
    assert_eq!(cm_message.bytes().len(), 40);
    assert!(!negotiated.dialect.named);
}

#[test]
fn version_zero_is_repeated_unchecked_and_has_no_rendezvous() {
    let request = Handshake {
        version: 0,
        ..local_params(false).handshake()
    };
    let (cm_message, negotiated) = local_params(true).respond(&request, ByteOrder::NATIVE);
    let response = handshake(&cm_message);
    assert_eq!((response.version, response.checked), (0, false));
    assert!(!negotiated.rndv);
    let echo = Handshake {
        version: 1,
        ..request
    };
    assert!(!local_params(true).negotiated(&echo, ByteOrder::NATIVE).rndv);
}

#[test]
fn bytes_that_are_no_message_are_named() {
    let mut reader = CmReader::default();
    reader.room().fill(0x47);
    let error = reader.filled(HEADER_LEN);
    assert_eq!(error, Err(CmError::Version(0x47)));
    let mut reader = CmReader::default();
    let header = [3, 0, 0, 4].into_iter().chain([0; 28]);
    for (room, byte) in reader.room().iter_mut().zip(header) {
        *room = byte;
    }
    assert_eq!(reader.filled(HEADER_LEN), Ok(false));
    assert_eq!(reader.filled(4), Ok(true));
    let message = reader.message().expect("a good message");
    assert_eq!(*message.data, [0; 4]);
    let handshake = Handshake::parse(&message.data);
    assert_eq!(handshake, Err(HandshakeError::Truncated));
}

#[test]
fn the_higher_address_wins_by_ip_then_port() {
    let dialing = |local: &str, remote: &str| {
        resolve_crossing(PeerState::Dialing, &at(local), &at(remote), 1)
    };
    assert_eq!(dialing(LOW, HIGH), Verdict::Yield);
    assert_eq!(dialing(HIGH, LOW), Verdict::Refuse);
    assert_eq!(dialing("10.0.0.1:8", "10.0.0.1:9"), Verdict::Yield);
    assert_eq!(dialing("[::1]:256", "[::1]:255"), Verdict::Refuse);
    assert_eq!(dialing(LOW, LOW), Verdict::Refuse, "to oneself");
}

#[test]
fn a_connection_gives_way_to_another_process_only() {
    let ready = PeerState::Ready { pid: 5 };
    let (local, remote) = (at(LOW), at(HIGH));
    assert_eq!(resolve_crossing(ready, &local, &remote, 5), Verdict::Refuse);
    assert_eq!(
        resolve_crossing(ready, &local, &remote, 6),
        Verdict::Challenge
    );
    assert_eq!(
        resolve_crossing(PeerState::Closed, &local, &remote, 5),
        Verdict::Replace
    );
    assert_eq!(
        resolve_crossing(PeerState::Idle, &local, &remote, 5),
        Verdict::Accept
    );
}

/// Two endpoints that may both dial, and what is under way between them, in every possible order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pair {
    nodes: [Node; 2],
    /// By connection (named after its requester) and direction of travel.
    wires: [[Vec<Word>; 2]; 2],
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    /// Which connection is in use: that of which requester.
    ready: Option<usize>,
    dialing: bool,
    /// How many times it may still dial.
    dials: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Word {
    Request,
    Response,
    Refusal,
    Close,
}

impl Pair {
    fn new() -> Self {
        let node = Node {
            ready: None,
            dialing: false,
            dials: 3,
        };
        Self {
            nodes: [node.clone(), node],
            wires: Default::default(),
        }
    }

    fn quiet(&self) -> bool {
        self.wires.iter().flatten().all(Vec::is_empty)
    }

    /// Every state that one step of either node or wire leads to. A node dials only when its last attempt's
    /// socket is gone from the model, which keeps the wires apart.
    fn steps(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for me in 0..2 {
            let node = &self.nodes[me];
            let idle = node.ready.is_none() && !node.dialing && node.dials > 0;
            if idle && self.wires[me].iter().all(Vec::is_empty) {
                let mut pair = self.clone();
                pair.nodes[me].dialing = true;
                pair.nodes[me].dials -= 1;
                pair.wires[me][me].push(Word::Request);
                next.push(pair);
            }
            for connection in 0..2 {
                if !self.wires[connection][1 - me].is_empty() {
                    let mut pair = self.clone();
                    let word = pair.wires[connection][1 - me].remove(0);
                    pair.take(me, connection, word);
                    next.push(pair);
                }
            }
        }
        next
    }

    fn take(&mut self, me: usize, connection: usize, word: Word) {
        let addresses = [at(LOW), at(HIGH)];
        let (local, remote) = (&addresses[me], &addresses[1 - me]);
        let node = &mut self.nodes[me];
        let reply = &mut self.wires[connection][me];
        match word {
            Word::Request => {
                let peer_state = match (node.ready, node.dialing) {
                    (Some(_), _) => PeerState::Ready { pid: 1 },
                    (None, true) => PeerState::Dialing,
                    (None, false) => PeerState::Idle,
                };
                match resolve_crossing(peer_state, local, remote, 1) {
                    Verdict::Refuse => reply.push(Word::Refusal),
                    Verdict::Accept => {
                        node.ready = Some(connection);
                        reply.push(Word::Response);
                    }
                    Verdict::Yield => {
                        node.ready = Some(connection);
                        node.dialing = false;
                        reply.push(Word::Response);
                        self.wires[me][me].push(Word::Close);
                    }
                    Verdict::Replace | Verdict::Challenge => {
                        unreachable!("processes stay the same here")
                    }
                }
            }
            Word::Response if node.dialing => {
                node.dialing = false;
                node.ready = Some(me);
            }
            Word::Refusal if node.dialing => node.dialing = false,
            Word::Close if node.ready == Some(connection) => node.ready = None,
            // Answers to an attempt that was abandoned, and the end of a connection that never was.
            Word::Response | Word::Refusal | Word::Close => {}
        }
    }
}

#[test]
fn simultaneous_requests_end_in_one_connection_in_every_order() {
    let mut seen = std::collections::HashSet::new();
    let mut open = vec![Pair::new()];
    let mut ended = 0;
    while let Some(pair) = open.pop() {
        if !seen.insert(pair.clone()) {
            continue;
        }
        let next = pair.steps();
        if next.is_empty() {
            assert!(pair.quiet());
            let [a, b] = &pair.nodes;
            assert!(a.ready.is_some(), "no endpoint is left without: {pair:?}");
            assert_eq!(a.ready, b.ready, "both use the same: {pair:?}");
            assert!(!a.dialing && !b.dialing);
            ended += 1;
        }
        open.extend(next);
    }
    assert!(ended > 0 && seen.len() > 40, "{} states", seen.len());
}

#[test]
fn collectives_need_names_and_one_byte_order() {
    let both = EXTENSION_NAMES | EXTENSION_COLLECTIVES;
    for (offered, order, spoken) in [
        (both, ByteOrder::NATIVE, true),
        (both, ByteOrder::Big, ByteOrder::NATIVE == ByteOrder::Big),
        (EXTENSION_NAMES, ByteOrder::NATIVE, false),
        (EXTENSION_COLLECTIVES, ByteOrder::NATIVE, false),
    ] {
        let request = Handshake {
            extension: Some(offered),
            ..local_params(true).handshake()
        };
        let (_, negotiated) = local_params(true).respond(&request, order);
        assert_eq!(negotiated.collectives, spoken);
    }
}
