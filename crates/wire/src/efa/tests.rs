//! What is written is read as it was, and the bytes are those of the C library's structures.

use std::vec::Vec;

use super::*;

fn encoded(packet: &Packet<'_>, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(body.len(), &mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

/// All contents, with a body where they have one.
fn contents(body: &[u8]) -> Vec<Content<'_>> {
    let piece = Piece {
        addr: 0x1000,
        len: 7,
        key: 9,
    };
    let memory = Pieces::new([
        piece,
        Piece {
            addr: 1,
            len: 2,
            key: 3,
        },
    ])
    .expect("two fit");
    let mut all = Vec::new();
    for form in [
        Form::Eager,
        Form::Medium {
            len: 100,
            offset: 50,
        },
        Form::Long {
            len: 1 << 40,
            credits: 32,
        },
        Form::Read { len: 9, memory },
        Form::Runt {
            len: 90,
            offset: 4,
            runt: 8,
            memory,
        },
    ] {
        let is_announced = matches!(form, Form::Read { .. } | Form::Runt { .. });
        for (tag, data, wants_receipt) in [
            (None, None, false),
            (Some(u64::MAX), Some(5), !is_announced),
        ] {
            let is_named = wants_receipt || !matches!(form, Form::Eager | Form::Medium { .. });
            let send_id = if is_named { 77 } else { 0 };
            all.push(Content::Message(Message {
                number: 3,
                tag,
                data,
                wants_receipt,
                is_after_nack: tag.is_some(),
                send_id,
                form,
                body,
            }));
            if !matches!(form, Form::Medium { .. } | Form::Runt { .. }) {
                all.push(Content::Write(Write {
                    targets: memory,
                    data,
                    wants_receipt,
                    send_id,
                    form,
                    body,
                }));
            }
        }
    }
    for is_short in [true, false] {
        all.push(Content::Read(Read {
            targets: memory,
            len: 9,
            recv_id: 4,
            window: 9,
            is_short,
        }));
    }
    for form in [
        AtomicForm::Base,
        AtomicForm::BaseWithReceipt,
        AtomicForm::Fetch,
        AtomicForm::Compare,
    ] {
        all.push(Content::Atomic(Atomic {
            number: 8,
            form,
            datatype: 6,
            operation: 2,
            id: 11,
            targets: memory,
            data: None,
            body,
        }));
    }
    all.extend([
        Content::Data {
            recv_id: 1,
            offset: 2,
            body,
        },
        Content::ReadResponse {
            recv_id: 1,
            send_id: 2,
            body,
        },
        Content::AtomicResponse { recv_id: 1, body },
    ]);
    all
}

fn answers() -> [Content<'static>; 8] {
    [
        Content::Cts {
            send_id: 1,
            recv_id: 2,
            len: 3,
            is_read: true,
        },
        Content::EndOfRead {
            send_id: 1,
            recv_id: 2,
        },
        Content::Handshake {
            features: 0x25a,
            device: Some(0xefa1),
        },
        Content::Handshake {
            features: 1,
            device: None,
        },
        Content::Receipt {
            send_id: 1,
            message: 2,
        },
        Content::ReadNack {
            send_id: 1,
            recv_id: 2,
        },
        Content::PeerError {
            id: 1,
            reference: Reference::Begun,
            cause: 13,
        },
        Content::PeerError {
            id: 1,
            reference: Reference::Skipped,
            cause: 0,
        },
    ]
}

#[test]
fn where_a_part_begins_can_be_changed_in_its_header() {
    for wants_receipt in [false, true] {
        for (tag, data, address) in [(None, None, None), (Some(3), Some(9), Some([7; ADDRESS]))] {
            let header = |offset| {
                let content = Content::Message(Message {
                    number: 5,
                    tag,
                    data,
                    wants_receipt,
                    is_after_nack: false,
                    send_id: if wants_receipt { 6 } else { 0 },
                    form: Form::Medium { len: 1000, offset },
                    body: &[],
                });
                let sender = Sender {
                    address,
                    connid: address.is_none().then_some(8),
                };
                encoded(&Packet { sender, content }, &[])
            };
            let mut changed = header(0);
            set_offset(&mut changed, wants_receipt, 0x1234_5678_9abc);
            assert_eq!(changed, header(0x1234_5678_9abc));
        }
    }
    set_offset(&mut [0; 17], false, 1);
}

#[test]
fn what_is_written_is_read() {
    let body = [1, 2, 3, 4, 5];
    let with_bodies = contents(&body)
        .into_iter()
        .map(|content| (content, &body[..]));
    let without = answers().into_iter().map(|content| (content, &[][..]));
    for (content, body) in with_bodies.chain(without) {
        for connid in [None, Some(0x1234_5678)] {
            let sender = Sender {
                address: None,
                connid,
            };
            let packet = Packet { sender, content };
            let body = if matches!(content, Content::Read(_)) {
                &[]
            } else {
                body
            };
            let bytes = encoded(&packet, body);
            assert!(bytes.len() - body.len() <= HEADER_MAX, "{content:?}");
            assert_eq!(Packet::decode(&bytes), Ok(packet));
            for end in 0..bytes.len() - body.len() {
                assert!(
                    Packet::decode(&bytes[..end]).is_err(),
                    "{end} bytes of {content:?}"
                );
            }
        }
    }
}

#[test]
fn an_address_is_padded_and_may_be_longer_than_known() {
    let sender = Sender {
        address: Some([7; ADDRESS]),
        connid: None,
    };
    let content = contents(&[9])[0];
    let packet = Packet { sender, content };
    let bytes = encoded(&packet, &[9]);
    assert_eq!(bytes.len(), 8 + 40 + 1);
    assert_eq!(bytes[8..12], 36_u32.to_le_bytes());
    assert_eq!(Packet::decode(&bytes), Ok(packet));
    let mut longer = bytes.clone();
    longer[8] = 40;
    longer.splice(48..48, [0; 4]);
    assert_eq!(Packet::decode(&longer), Ok(packet));
    longer[8] = 31;
    assert_eq!(Packet::decode(&longer), Err(PacketError::Short));
}

#[test]
fn the_bytes_of_a_tagged_message() {
    let message = Message {
        number: 1,
        tag: Some(0x0807_0605_0403_0201),
        data: Some(0x11),
        wants_receipt: true,
        is_after_nack: false,
        send_id: 5,
        form: Form::Eager,
        body: &[],
    };
    let sender = Sender {
        address: None,
        connid: Some(0x22),
    };
    let bytes = encoded(
        &Packet {
            sender,
            content: Content::Message(message),
        },
        b"x",
    );
    let expected = [
        134, 4, 0x0e, 0x80, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0, 0,
        0, 0, 0, 0, 0, 0x22, 0, 0, 0, b'x',
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(
        Packet::decode(&[64, 3, 0, 0, 0]),
        Err(PacketError::Version(3))
    );
    for kind in [
        0, 1, 2, 6, 13, 63, 77, 127, 131, 132, 142, 143, 144, 147, 148, 255,
    ] {
        let mut bytes = [0; 64];
        (bytes[0], bytes[1]) = (kind, 4);
        assert_eq!(Packet::decode(&bytes), Err(PacketError::Kind(kind)));
    }
    let mut pieces = [0; 256];
    (pieces[0], pieces[1], pieces[4]) = (70, 4, 5);
    assert_eq!(Packet::decode(&pieces), Err(PacketError::Invalid));
    let mut handshake = [0; 64];
    (handshake[0], handshake[1], handshake[4]) = (9, 4, 3);
    assert_eq!(Packet::decode(&handshake), Err(PacketError::Invalid));
}
