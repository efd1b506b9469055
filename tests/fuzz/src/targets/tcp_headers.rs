//! The headers of tcp: frames, connection messages and handshakes. What is accepted is written back as it was read.

use oxifabric_wire::tcp::cm::{CmHeader, CmKind, DATA_MAX, HEADER_LEN};
use oxifabric_wire::tcp::frame::{
    FrameError, FrameFlags, FrameHeader, HEADER_MAX, Op, RMA_PIECES_MAX, RmaPiece,
};
use oxifabric_wire::tcp::handshake::{HANDSHAKE_MAX, Handshake};
use oxifabric_wire::tcp::{ByteOrder, Dialect};

/// The first byte says how the others are read.
pub(super) fn run(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let dialect = dialect(how);
    match how >> 3 & 3 {
        0 | 1 => frame(bytes, dialect),
        2 => connection_message(bytes),
        _ => handshake(bytes),
    }
}

fn dialect(how: u8) -> Dialect {
    let named = how & 2 != 0;
    Dialect {
        order: match how & 1 {
            0 => ByteOrder::Little,
            _ => ByteOrder::Big,
        },
        named,
        atomics: named && how & 4 != 0,
    }
}

fn frame(bytes: &[u8], dialect: Dialect) {
    let (header, len) = match FrameHeader::parse(bytes, dialect) {
        Ok(parsed) => parsed,
        Err(FrameError::Truncated(needed)) => {
            assert!(needed > bytes.len() && needed <= HEADER_MAX);
            return;
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(len <= bytes.len() && len <= HEADER_MAX);
    assert!(usize::from(header.pieces) <= RMA_PIECES_MAX);
    let pieces: Vec<RmaPiece> = (0..=u8::MAX)
        .map_while(|index| RmaPiece::parse(bytes, &header, index, dialect))
        .collect();
    assert_eq!(pieces.len(), usize::from(header.pieces));
    let mut out = [0; HEADER_MAX];
    assert_eq!(header.emit(&pieces, &mut out, dialect), Some(len));
    assert_eq!(
        FrameHeader::parse(&out[..len], dialect),
        Ok((header, len)),
        "what is written is what was read"
    );
    for short in 0..len {
        let cut = FrameHeader::parse(&bytes[..short], dialect);
        assert!(matches!(cut, Err(FrameError::Truncated(_))), "{cut:?}");
    }
}

fn connection_message(bytes: &[u8]) {
    let Ok(header) = CmHeader::parse(bytes) else {
        return;
    };
    assert!(usize::from(header.data_len) <= DATA_MAX);
    let mut out = [0; HEADER_LEN];
    assert_eq!(header.emit(&mut out), Some(HEADER_LEN));
    let own = CmHeader {
        order: ByteOrder::NATIVE,
        ..header
    };
    assert_eq!(CmHeader::parse(&out), Ok(own));
    handshake(&bytes[HEADER_LEN..]);
}

fn handshake(bytes: &[u8]) {
    let Ok(handshake) = Handshake::parse(bytes) else {
        return;
    };
    let mut out = [0; HANDSHAKE_MAX];
    let len = handshake.emit(&mut out).expect("there is room for any");
    assert_eq!(Handshake::parse(&out[..len]), Ok(handshake));
    assert_eq!(out[..len], bytes[..len]);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let ops = [
        Op::Msg,
        Op::Tagged,
        Op::ReadReq,
        Op::Write,
        Op::Rts,
        Op::CompareAtomic,
    ];
    for (how, op) in (0..8).cycle().zip(ops) {
        let how = how | 6;
        let pieces = match op {
            Op::ReadReq | Op::Write | Op::CompareAtomic => 2,
            _ => 0,
        };
        let header = FrameHeader {
            flags: FrameFlags::DATA | FrameFlags::NAMED,
            pieces,
            ..FrameHeader::new(op)
        };
        let mut out = [0; HEADER_MAX];
        let pieces = [RmaPiece::default(); 2];
        let pieces = &pieces[..header.pieces.into()];
        let len = header
            .emit(pieces, &mut out, dialect(how))
            .expect("there is room");
        seeds.push([&[how], &out[..len]].concat());
    }
    let handshake = Handshake {
        version: 1,
        checked: true,
        features: 0,
        port: 9,
        pid: 7,
        extension: Some(7),
    };
    let mut data = [0; HANDSHAKE_MAX];
    let data_len = handshake.emit(&mut data).expect("there is room");
    seeds.push([&[0x18], &data[..data_len]].concat());
    let header = CmHeader {
        kind: CmKind::Request,
        data_len: data_len as u16,
        order: ByteOrder::NATIVE,
    };
    let mut out = [0; HEADER_LEN];
    header.emit(&mut out).expect("there is room");
    seeds.push([&[0x10], out.as_slice(), &data[..data_len]].concat());
    seeds
}
