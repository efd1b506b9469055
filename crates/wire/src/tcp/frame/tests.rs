use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const LITTLE: Dialect = Dialect {
    order: ByteOrder::Little,
    named: false,
    atomics: false,
};
const BIG: Dialect = Dialect {
    order: ByteOrder::Big,
    named: false,
    atomics: false,
};
const NAMED: Dialect = Dialect {
    order: ByteOrder::Little,
    named: true,
    atomics: true,
};

fn emitted(header: FrameHeader, dialect: Dialect) -> Vec<u8> {
    let mut out = [0xee; HEADER_MAX];
    let pieces = &PIECES[..usize::from(header.pieces)];
    let len = header.emit(pieces, &mut out, dialect).expect("it fits");
    out[..len].to_vec()
}

const PIECES: [RmaPiece; 4] = [piece(1), piece(4), piece(7), piece(u64::MAX - 2)];

const fn piece(first: u64) -> RmaPiece {
    RmaPiece {
        addr: first,
        len: first + 1,
        key: first + 2,
    }
}

#[test]
fn a_write_names_memory_behind_its_completion_data() {
    let header = FrameHeader {
        flags: FrameFlags::DATA,
        pieces: 1,
        data: 9,
        body_len: 2,
        ..FrameHeader::new(Op::Write)
    };
    let bytes = [
        3, 4, 1, 0, 0, 1, 48, 0, 50, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, //
        1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(emitted(header, LITTLE), bytes);
    assert_eq!(FrameHeader::parse(&bytes, LITTLE), Ok((header, 48)));
    assert_eq!(RmaPiece::parse(&bytes, &header, 0, LITTLE), Some(PIECES[0]));
    assert_eq!(RmaPiece::parse(&bytes, &header, 1, LITTLE), None);
    assert_eq!(
        header.emit(&[], &mut [0; 64], LITTLE),
        None,
        "a piece is missing"
    );
}

#[test]
fn an_untagged_message_is_the_base_alone() {
    let header = FrameHeader {
        seq: 9,
        body_len: 0x100,
        ..FrameHeader::new(Op::Msg)
    };
    let bytes = [3, 0, 0, 0, 0, 0, 16, 9, 0x10, 1, 0, 0, 0, 0, 0, 0];
    assert_eq!(emitted(header, LITTLE), bytes);
    assert_eq!(FrameHeader::parse(&bytes, LITTLE), Ok((header, 16)));
}

#[test]
fn completion_data_precedes_the_tag() {
    let header = FrameHeader {
        flags: FrameFlags::DATA | FrameFlags::DELIVERY,
        data: 0x1122,
        tag: 0x3344,
        body_len: 1,
        ..FrameHeader::new(Op::Tagged)
    };
    let bytes = [
        3, 1, 5, 0, 0, 0, 32, 0, 33, 0, 0, 0, 0, 0, 0, 0, //
        0x22, 0x11, 0, 0, 0, 0, 0, 0, 0x44, 0x33, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(emitted(header, LITTLE), bytes);
    assert_eq!(FrameHeader::parse(&bytes, LITTLE), Ok((header, 32)));
}

#[test]
fn a_foreign_peer_sees_big_endian_numbers() {
    let header = FrameHeader {
        flags: FrameFlags::DATA,
        op_data: 7,
        data: 1,
        tag: 2,
        message_len: 0x0a0b,
        ..FrameHeader::new(Op::Rts)
    };
    let bytes = [
        3, 5, 0, 1, 7, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0, 40, //
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x0a, 0x0b,
    ];
    assert_eq!(emitted(header, BIG), bytes);
    assert_eq!(FrameHeader::parse(&bytes, BIG), Ok((header, 40)));
}

#[test]
fn a_name_and_a_status_follow_everything_else() {
    let header = FrameHeader {
        flags: FrameFlags::NAMED,
        op_data: OP_DATA_ACK,
        name: 0x0102_0304,
        status: 5,
        ..FrameHeader::new(Op::Msg)
    };
    let bytes = [
        3, 0, 0, 1, 2, 0, 24, 0, 24, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 5, 0, 0, 0,
    ];
    assert_eq!(emitted(header, NAMED), bytes);
    assert_eq!(FrameHeader::parse(&bytes, NAMED), Ok((header, 24)));
    assert_eq!(
        FrameHeader::parse(&bytes, LITTLE),
        Err(FrameError::HeaderLen {
            expected: 16,
            found: 24
        }),
        "the flag means nothing to peers that did not agree on it"
    );
}

#[test]
fn waits_for_the_rest_of_a_header() {
    let bytes = emitted(FrameHeader::new(Op::Tagged), LITTLE);
    for len in 0..BASE_LEN {
        assert_eq!(
            FrameHeader::parse(&bytes[..len], LITTLE),
            Err(FrameError::Truncated(BASE_LEN))
        );
    }
    for len in BASE_LEN..bytes.len() {
        assert_eq!(
            FrameHeader::parse(&bytes[..len], LITTLE),
            Err(FrameError::Truncated(24))
        );
    }
}

fn spoiled(op: Op, at: usize, value: u8) -> Result<(FrameHeader, usize), FrameError> {
    let mut bytes = [0; HEADER_MAX];
    let header = FrameHeader::new(if op == Op::Write { Op::Msg } else { op });
    header.emit(&[], &mut bytes, LITTLE).expect("it fits");
    bytes[1] = op as u8;
    bytes[at] = value;
    FrameHeader::parse(&bytes, LITTLE)
}

#[test]
fn names_the_broken_rule() {
    assert_eq!(spoiled(Op::Msg, 0, 2), Err(FrameError::Version(2)));
    assert_eq!(spoiled(Op::Msg, 1, 8), Err(FrameError::Op(8)));
    assert_eq!(spoiled(Op::Msg, 1, 255), Err(FrameError::Op(255)));
    for found in [0, 15, 17, 24, 120, 255] {
        assert_eq!(
            spoiled(Op::Msg, 6, found),
            Err(FrameError::HeaderLen {
                expected: 16,
                found
            })
        );
    }
    assert_eq!(spoiled(Op::Msg, 8, 15), Err(FrameError::Size(15)));
    assert_eq!(spoiled(Op::Cts, 8, 17), Err(FrameError::Body(1)));
    assert_eq!(spoiled(Op::Rts, 8, 33), Err(FrameError::Body(1)));
}

#[test]
fn an_acknowledgement_has_no_body() {
    let header = FrameHeader {
        op_data: OP_DATA_ACK,
        body_len: 4,
        ..FrameHeader::new(Op::Msg)
    };
    let bytes = emitted(header, LITTLE);
    assert_eq!(FrameHeader::parse(&bytes, LITTLE), Err(FrameError::Body(4)));
}

#[test]
fn a_false_count_of_remote_pieces_is_found() {
    assert_eq!(spoiled(Op::Write, 5, 5), Err(FrameError::RmaCount(5)));
    assert_eq!(spoiled(Op::Write, 5, 255), Err(FrameError::RmaCount(255)));
    assert_eq!(
        spoiled(Op::Write, 5, 4),
        Err(FrameError::HeaderLen {
            expected: 112,
            found: 16
        })
    );
    assert!(
        spoiled(Op::Msg, 5, 255).is_ok(),
        "it means nothing in a message"
    );
}

#[test]
fn an_atomic_says_what_it_does_behind_the_memory_that_it_names() {
    let header = FrameHeader {
        flags: FrameFlags::NAMED,
        pieces: 1,
        body_len: 8,
        tag: 0x0207,
        name: 5,
        ..FrameHeader::new(Op::FetchAtomic)
    };
    let bytes = emitted(header, NAMED);
    let mut expected = vec![3, 9, 0, 1, 0, 1, 56, 0, 64, 0, 0, 0, 0, 0, 0, 0];
    for word in [1u64, 2, 3, 0x0207, 5] {
        expected.extend(word.to_le_bytes());
    }
    assert_eq!(bytes, expected);
    assert_eq!(FrameHeader::parse(&bytes, NAMED), Ok((header, 56)));
    let plain = Dialect {
        atomics: false,
        ..NAMED
    };
    assert_eq!(FrameHeader::parse(&bytes, plain), Err(FrameError::Op(9)));
}

#[test]
fn does_not_write_beyond_the_end_or_overflow() {
    let header = FrameHeader::new(Op::Rts);
    assert_eq!(header.emit(&[], &mut [0; 31], LITTLE), None);
    let endless = FrameHeader {
        body_len: u64::MAX,
        ..FrameHeader::new(Op::Msg)
    };
    assert_eq!(endless.emit(&[], &mut [0; 64], LITTLE), None);
}

fn any_header() -> impl Strategy<Value = (FrameHeader, Dialect)> {
    let op = prop_oneof![
        Just(Op::Msg),
        Just(Op::Tagged),
        Just(Op::Rts),
        Just(Op::Cts),
        Just(Op::Data),
        Just(Op::ReadReq),
        Just(Op::ReadRsp),
        Just(Op::Write),
        Just(Op::Atomic),
        Just(Op::FetchAtomic),
        Just(Op::CompareAtomic)
    ];
    (
        op,
        any::<u16>(),
        any::<[u8; 2]>(),
        any::<[u64; 4]>(),
        any::<[u32; 2]>(),
        any::<[bool; 2]>(),
    )
        .prop_map(|(op, flags, [op_data, seq], words, names, [big, named])| {
            let mask = if named { u16::MAX } else { 0xff };
            let flags = FrameFlags::from_bits_truncate(flags & mask);
            let keep = |yes: bool, value: u64| if yes { value } else { 0 };
            let bare = matches!(op, Op::Rts | Op::Cts | Op::ReadReq)
                || op == Op::Msg && (2..=3).contains(&op_data);
            let has_name = flags.contains(FrameFlags::NAMED);
            let header = FrameHeader {
                op,
                flags,
                op_data,
                seq,
                pieces: match op {
                    Op::Msg | Op::Tagged | Op::Rts | Op::Cts | Op::Data | Op::ReadRsp => 0,
                    _ => op_data % 5,
                },
                body_len: keep(!bare, words[0] >> 1),
                data: keep(flags.contains(FrameFlags::DATA), words[1]),
                tag: keep(
                    matches!(op, Op::Tagged | Op::Rts) || op.is_atomic(),
                    words[2],
                ),
                message_len: keep(op == Op::Rts, words[3]),
                name: if has_name { names[0] } else { 0 },
                status: if has_name { names[1] } else { 0 },
            };
            let order = if big {
                ByteOrder::Big
            } else {
                ByteOrder::Little
            };
            let atomics = op.is_atomic();
            (
                header,
                Dialect {
                    order,
                    named,
                    atomics,
                },
            )
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read((header, dialect) in any_header()) {
        let bytes = emitted(header, dialect);
        prop_assert_eq!(FrameHeader::parse(&bytes, dialect), Ok((header, bytes.len())));
        for (index, piece) in (0..header.pieces).zip(PIECES) {
            prop_assert_eq!(RmaPiece::parse(&bytes, &header, index, dialect), Some(piece));
        }
    }

    #[test]
    fn no_bytes_confuse_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..160), named: bool) {
        let dialect = Dialect { order: ByteOrder::Little, named, atomics: named };
        match FrameHeader::parse(&bytes, dialect) {
            Ok((_, len)) => prop_assert!(len <= bytes.len() && len <= HEADER_MAX),
            Err(FrameError::Truncated(need)) => prop_assert!(need > bytes.len() && need <= HEADER_MAX),
            Err(_) => {}
        }
    }

    #[test]
    fn plausible_bytes_do_not_confuse_it_either(
        mut bytes in prop::collection::vec(any::<u8>(), 16..160), op in 0u8..11, len in 0u8..140,
    ) {
        bytes[0] = 3;
        bytes[1] = op;
        bytes[6] = len;
        if let Ok((header, len)) = FrameHeader::parse(&bytes, NAMED) {
            prop_assert!(len <= bytes.len());
            prop_assert!(header.body_len.checked_add(len as u64).is_some());
        }
    }
}
