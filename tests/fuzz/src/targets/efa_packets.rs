//! Packets of EFA's protocol for reliable datagrams. What is read is written and read again as the same.

use oxifabric_wire::efa::{
    Content, Form, Message, Packet, Piece, Pieces, Read, Reference, Sender, Write,
};

pub(super) fn run(bytes: &[u8]) {
    let Ok(packet) = Packet::decode(bytes) else {
        return;
    };
    let body = packet.content.body();
    assert!(body.len() < bytes.len());
    let mut again = Vec::new();
    packet.encode(body.len(), &mut again);
    again.extend_from_slice(body);
    assert_eq!(Packet::decode(&again), Ok(packet));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let piece = Piece {
        addr: 1 << 40,
        len: 4096,
        key: 77,
    };
    let targets = Pieces::new([piece, piece]).expect("two fit");
    let read_by_device = Form::Read {
        len: 8192,
        memory: targets,
    };
    let announced = |form, tag| {
        Content::Message(Message {
            number: 3,
            tag,
            data: Some(5),
            wants_receipt: false,
            is_after_nack: false,
            send_id: 9,
            form,
            body: &[],
        })
    };
    let contents = [
        announced(read_by_device, None),
        announced(read_by_device, Some(7)),
        announced(
            Form::Runt {
                len: 8192,
                offset: 64,
                runt: 128,
                memory: targets,
            },
            Some(7),
        ),
        Content::Write(Write {
            targets,
            data: None,
            wants_receipt: false,
            send_id: 9,
            form: read_by_device,
            body: &[],
        }),
        Content::EndOfRead {
            send_id: 9,
            recv_id: 1,
        },
        Content::ReadNack {
            send_id: 9,
            recv_id: 1,
        },
        Content::PeerError {
            id: 9,
            reference: Reference::Operation,
            cause: 7,
        },
        Content::Read(Read {
            targets,
            len: 8192,
            recv_id: 1,
            window: 8192,
            is_short: true,
        }),
        Content::Cts {
            send_id: 1,
            recv_id: 2,
            len: 1 << 20,
            is_read: false,
        },
        Content::Handshake {
            features: 0x25a,
            device: Some(0xefa1),
        },
    ];
    let sender = Sender {
        address: None,
        connid: Some(7),
    };
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for content in contents {
        let mut bytes = Vec::new();
        Packet { sender, content }.encode(0, &mut bytes);
        seeds.push(bytes);
    }
    // One packet of every kind, with all options and no pieces.
    for kind in (3..=12).chain(64..=76).chain(128..=147) {
        let mut bytes = vec![0; 160];
        bytes[..4].copy_from_slice(&[kind, 4, 2, 0x80]);
        seeds.push(bytes);
    }
    seeds
}
