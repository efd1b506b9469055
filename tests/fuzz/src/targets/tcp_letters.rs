//! Connection messages that arrive in pieces: however they are cut, they read the same, and nothing behind them is taken.

use oxifabric_tcp::hostile::{CmReading, cm_message};
use oxifabric_wire::tcp::ByteOrder;
use oxifabric_wire::tcp::cm::{CmHeader, CmKind, HEADER_LEN};

/// The first byte is the size of the pieces.
pub(super) fn run(bytes: &[u8]) {
    let Some((&part, bytes)) = bytes.split_first() else {
        return;
    };
    let whole = cm_message(bytes, usize::MAX);
    assert_eq!(cm_message(bytes, part.into()), whole);
    assert_eq!(cm_message(bytes, 1), whole);
    let Some(CmReading { event, taken }) = whole else {
        return;
    };
    assert!(taken <= bytes.len());
    if let Ok((_, data)) = event {
        assert_eq!(taken, HEADER_LEN + data.len());
        assert_eq!(data, bytes[HEADER_LEN..taken]);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let message = |kind, data: &[u8]| {
        let header = CmHeader {
            kind,
            data_len: data.len() as u16,
            order: ByteOrder::NATIVE,
        };
        let mut bytes = [0; HEADER_LEN];
        header
            .emit(&mut bytes)
            .map_or(Vec::new(), |_| [&[5], &bytes[..], data].concat())
    };
    vec![
        message(CmKind::Request, b"hello"),
        message(CmKind::Response, &[7; 256]),
        message(CmKind::Refusal, b""),
    ]
}
