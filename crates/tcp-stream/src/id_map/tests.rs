use oxifabric_wire::tcp::{ByteOrder, Dialect};

use super::*;

fn negotiated(named: bool) -> Negotiated {
    Negotiated {
        dialect: Dialect {
            order: ByteOrder::NATIVE,
            named,
            atomics: named,
        },
        rndv: true,
        collectives: named,
        pid: 1,
    }
}

fn header(kind: Kind, id: u32) -> Header {
    Header {
        kind,
        flags: HeaderFlags::empty(),
        id,
        tag: 0,
        data: 0,
        len: 0,
    }
}

/// Carries a frame from one id map to the other.
fn carry(
    from: &mut IdMap,
    to: &mut IdMap,
    header: Header,
    len: usize,
) -> Result<Incoming, ProtocolError> {
    let outgoing = from.outgoing(&header, len, 0).expect("it can be said");
    from.sent(&outgoing);
    to.incoming(&outgoing.header)
}

fn frame(incoming: Result<Incoming, ProtocolError>) -> Header {
    match incoming {
        Ok(Incoming::Frame(header)) => header,
        other => panic!("no frame: {other:?}"),
    }
}

fn pair(named: bool) -> (IdMap, IdMap) {
    (
        IdMap::new(&negotiated(named)),
        IdMap::new(&negotiated(named)),
    )
}

#[test]
fn messages_keep_tag_data_and_length() {
    for named in [false, true] {
        let (mut a, mut b) = pair(named);
        let sent = Header {
            flags: HeaderFlags::DATA,
            tag: 5,
            data: 6,
            len: 9,
            ..header(Kind::Tagged, 0)
        };
        assert_eq!(frame(carry(&mut a, &mut b, sent, 9)), sent);
    }
}

#[test]
fn plain_acknowledgements_find_their_messages_by_order() {
    let (mut a, mut b) = pair(false);
    for id in [70_000, 3] {
        let sent = Header {
            flags: HeaderFlags::DELIVERY,
            ..header(Kind::Msg, id)
        };
        let got = frame(carry(&mut a, &mut b, sent, 0));
        assert_eq!(got.flags, HeaderFlags::DELIVERY);
    }
    for id in [70_000, 3] {
        let got = frame(carry(&mut b, &mut a, header(Kind::Ack, 0), 0));
        assert_eq!((got.kind, got.id), (Kind::Ack, id));
    }
    let error = carry(&mut b, &mut a, header(Kind::Ack, 0), 0);
    assert_eq!(error, Err(ProtocolError::Acknowledgement));
}

#[test]
fn named_acknowledgements_come_in_any_order_with_a_status() {
    let (mut a, mut b) = pair(true);
    let sent = Header {
        flags: HeaderFlags::MATCH,
        ..header(Kind::Msg, 8)
    };
    assert_eq!(frame(carry(&mut a, &mut b, sent, 0)), sent);
    let ack = Header {
        data: 265,
        ..header(Kind::Ack, 8)
    };
    assert_eq!(frame(carry(&mut b, &mut a, ack, 0)), ack);
}

#[test]
fn a_rendezvous_goes_through_its_steps() {
    for named in [false, true] {
        let (mut a, mut b) = pair(named);
        let rts = Header {
            flags: HeaderFlags::DELIVERY,
            tag: 4,
            len: 1000,
            ..header(Kind::TaggedRts, 90_000)
        };
        let arrived = frame(carry(&mut a, &mut b, rts, 1000));
        assert_eq!(
            (arrived.kind, arrived.len, arrived.tag),
            (rts.kind, 1000, 4)
        );
        let asked = frame(carry(&mut b, &mut a, header(Kind::Cts, arrived.id), 0));
        assert_eq!((asked.kind, asked.id), (Kind::Cts, 90_000));
        let data = frame(carry(&mut a, &mut b, header(Kind::Segment, 90_000), 1000));
        assert_eq!(
            (data.kind, data.id, data.len),
            (Kind::Segment, arrived.id, 1000)
        );
        let ack = frame(carry(&mut b, &mut a, header(Kind::Ack, arrived.id), 0));
        assert_eq!(ack.id, 90_000);
    }
}

#[test]
fn a_plain_peer_is_asked_for_what_is_then_dropped() {
    let (mut a, mut b) = pair(false);
    let rts = Header {
        flags: HeaderFlags::DELIVERY,
        len: 10,
        ..header(Kind::TaggedRts, 1)
    };
    let arrived = frame(carry(&mut a, &mut b, rts, 10));
    let asked = frame(carry(&mut b, &mut a, header(Kind::Fin, arrived.id), 0));
    assert_eq!(asked.kind, Kind::Cts);
    let data = carry(&mut a, &mut b, header(Kind::Segment, 1), 10);
    assert_eq!(data, Ok(Incoming::Unwanted { acknowledge: true }));
}

#[test]
fn a_named_peer_is_told() {
    let (mut a, mut b) = pair(true);
    let rts = header(Kind::MsgRts, 1);
    assert_eq!(frame(carry(&mut a, &mut b, rts, 0)), rts);
    let fin = header(Kind::Fin, 1);
    assert_eq!(frame(carry(&mut b, &mut a, fin, 0)), fin);
}

#[test]
fn numbers_run_out_and_come_back() {
    let (mut a, mut b) = pair(false);
    for id in 0..255 {
        frame(carry(&mut a, &mut b, header(Kind::TaggedRts, id), 0));
    }
    let more = a.outgoing(&header(Kind::TaggedRts, 999), 0, 0).map(drop);
    assert_eq!(more, Err(EncodeError::Full));
    frame(carry(&mut b, &mut a, header(Kind::Cts, 5), 0));
    frame(carry(&mut a, &mut b, header(Kind::Segment, 4), 0));
    frame(carry(&mut a, &mut b, header(Kind::TaggedRts, 999), 0));
}

#[test]
fn an_old_peer_has_no_rendezvous_and_a_plain_one_no_untagged() {
    let old = IdMap::new(&Negotiated {
        rndv: false,
        ..negotiated(false)
    });
    let (plain, _) = pair(false);
    let refused = |id_map: &IdMap, kind| id_map.outgoing(&header(kind, 1), 0, 0).map(drop);
    assert_eq!(refused(&old, Kind::TaggedRts), Err(EncodeError::Unspoken));
    assert_eq!(refused(&plain, Kind::MsgRts), Err(EncodeError::Unspoken));
    assert_eq!(refused(&plain, Kind::Cts), Err(EncodeError::Unspoken));
    assert_eq!(refused(&plain, Kind::Segment), Err(EncodeError::Unspoken));
}

#[test]
fn breaches_are_named() {
    let wire = |op, op_data, body_len| FrameHeader {
        op_data,
        body_len,
        message_len: 7,
        ..FrameHeader::new(op)
    };
    let (mut plain, mut named) = (pair(false).0, pair(true).0);
    let mut decode = |op, number, len| plain.incoming(&wire(op, number, len));
    assert_eq!(decode(Op::Rts, 0, 0), Err(ProtocolError::Number(0)));
    assert_eq!(decode(Op::Cts, 9, 0), Err(ProtocolError::Number(9)));
    assert_eq!(decode(Op::Data, 9, 0), Err(ProtocolError::Number(9)));
    assert!(decode(Op::Rts, 9, 0).is_ok());
    assert_eq!(decode(Op::Rts, 9, 0), Err(ProtocolError::Number(9)));
    assert_eq!(
        decode(Op::Data, 9, 7),
        Err(ProtocolError::Number(9)),
        "not asked for"
    );
    let asked = plain
        .outgoing(&header(Kind::Cts, 9), 0, 0)
        .expect("it has arrived");
    plain.sent(&asked);
    let short = ProtocolError::Length {
        announced: 7,
        found: 6,
    };
    assert_eq!(plain.incoming(&wire(Op::Data, 9, 6)), Err(short));
    let write = plain.incoming(&wire(Op::Write, 0, 0));
    assert_eq!(write, Err(ProtocolError::Nowhere(Op::Write)));
    let response = plain.incoming(&wire(Op::ReadRsp, 0, 0));
    assert_eq!(response, Err(ProtocolError::Response));
    let nameless = named.incoming(&wire(Op::Cts, 0, 0));
    assert_eq!(nameless, Err(ProtocolError::Nameless(Op::Cts)));
}

#[test]
fn responses_name_the_reads_that_they_answer() {
    for named in [false, true] {
        let (mut a, mut b) = pair(named);
        for id in [7, 8] {
            let read = a
                .outgoing(&header(Kind::Read, id), 0, 1)
                .expect("it can be said");
            a.sent(&read);
            let Ok(Incoming::Access(asked)) = b.incoming(&read.header) else {
                panic!("a read names memory");
            };
            assert_eq!(asked.kind, Kind::Read);
            let answer = Header {
                tag: asked.id.into(),
                ..header(Kind::Response, 99)
            };
            let back = frame(carry(&mut b, &mut a, answer, 3));
            assert_eq!(
                (back.kind, back.tag, back.len),
                (Kind::Response, id.into(), 3)
            );
        }
    }
}

#[test]
fn a_refused_access_is_told_by_name_or_ends_the_connection() {
    let refusal = Header {
        data: 13,
        ..header(Kind::Fin, 7)
    };
    let (plain, _) = pair(false);
    let unsayable = plain.outgoing(&refusal, 0, 0).map(drop);
    assert_eq!(unsayable, Err(EncodeError::Unsayable));
    let (mut a, mut b) = pair(true);
    let told = frame(carry(&mut a, &mut b, refusal, 0));
    assert_eq!((told.kind, told.id, told.data), (Kind::Fin, 7, 13));
}

#[test]
fn acknowledged_writes_wait_in_line_with_messages() {
    let (mut a, mut b) = pair(false);
    let write = Header {
        flags: HeaderFlags::DELIVERY,
        ..header(Kind::Write, 5)
    };
    let sent = a.outgoing(&write, 4, 1).expect("it can be said");
    a.sent(&sent);
    assert!(matches!(b.incoming(&sent.header), Ok(Incoming::Access(_))));
    let ack = frame(carry(&mut b, &mut a, header(Kind::Ack, 0), 0));
    assert_eq!((ack.kind, ack.id), (Kind::Ack, 5));
}

#[test]
fn atomics_keep_what_they_do_and_have_names_where_an_operation_waits() {
    let (mut a, mut b) = pair(true);
    let delivery = HeaderFlags::DELIVERY;
    for (kind, flags) in [
        (Kind::Atomic, HeaderFlags::empty()),
        (Kind::Atomic, delivery),
        (Kind::FetchAtomic, HeaderFlags::empty()),
        (Kind::CompareAtomic, HeaderFlags::empty()),
    ] {
        let atomic = Header {
            flags,
            tag: 0x0203,
            ..header(kind, 7)
        };
        let sent = a.outgoing(&atomic, 4, 1).expect("it can be said");
        a.sent(&sent);
        let Ok(Incoming::Access(found)) = b.incoming(&sent.header) else {
            panic!("an atomic names memory");
        };
        assert_eq!(found, Header { len: 4, ..atomic });
        let waits = kind != Kind::Atomic || flags == delivery;
        assert_eq!(sent.header.flags.contains(FrameFlags::NAMED), waits);
    }
    let nameless = FrameHeader {
        pieces: 1,
        ..FrameHeader::new(Op::FetchAtomic)
    };
    assert_eq!(
        b.incoming(&nameless),
        Err(ProtocolError::Nameless(Op::FetchAtomic))
    );
    let nowhere = FrameHeader::new(Op::Atomic);
    assert_eq!(
        b.incoming(&nowhere),
        Err(ProtocolError::Nowhere(Op::Atomic))
    );
}

#[test]
fn atomics_are_not_spoken_without_agreement() {
    let plain = IdMap::new(&negotiated(false));
    let mut names_only = negotiated(true);
    names_only.dialect.atomics = false;
    for id_map in [plain, IdMap::new(&names_only)] {
        for kind in [Kind::Atomic, Kind::FetchAtomic, Kind::CompareAtomic] {
            let result = id_map.outgoing(&header(kind, 7), 4, 1).map(drop);
            assert_eq!(result, Err(EncodeError::Unspoken));
        }
    }
}

#[test]
fn messages_of_collectives_stay_apart_from_tagged_ones() {
    let (mut a, mut b) = pair(true);
    let sent = Header {
        tag: 5,
        len: 9,
        ..header(Kind::Collective, 0)
    };
    assert_eq!(frame(carry(&mut a, &mut b, sent, 9)), sent);
    let rts = Header {
        tag: 5,
        len: 1000,
        ..header(Kind::CollectiveRts, 90_000)
    };
    assert_eq!(frame(carry(&mut a, &mut b, rts, 1000)), rts);
}

#[test]
fn messages_of_collectives_are_not_spoken_without_agreement() {
    let plain = IdMap::new(&negotiated(false));
    let names_only = Negotiated {
        collectives: false,
        ..negotiated(true)
    };
    for id_map in [plain, IdMap::new(&names_only)] {
        for kind in [Kind::Collective, Kind::CollectiveRts] {
            let result = id_map.outgoing(&header(kind, 7), 4, 0).map(drop);
            assert_eq!(result, Err(EncodeError::Unspoken));
        }
    }
}
