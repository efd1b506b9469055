//! From a packet to the bytes of its header.

use alloc::vec::Vec;

use super::{
    ADDRESS, Atomic, AtomicForm, Content, Form, Message, Packet, Pieces, Read, Reference, Sender,
    VERSION, Write, flag, kind,
};

/// The bytes that follow an address, so that what is behind it is aligned.
const ADDRESS_PADDING: usize = 4;

impl Packet<'_> {
    /// Writes the header of the packet, behind which `body_len` bytes are to follow; what is in `content` as body is not written.
    pub fn encode(&self, body_len: usize, out: &mut Vec<u8>) {
        self.content.encode(&self.sender, body_len, out);
    }
}

impl Content<'_> {
    /// Writes the header of the packet that says this, as [`Packet::encode`] does.
    pub fn encode(&self, sender: &Sender, body_len: usize, out: &mut Vec<u8>) {
        let mut out = Out(out);
        match self {
            Content::Message(message) => out.message(sender, message),
            Content::Write(write) => out.write(sender, write),
            Content::Read(read) => out.read(sender, read),
            Content::Atomic(atomic) => out.atomic(sender, atomic),
            content => out.other(sender.connid, content, body_len as u64),
        }
    }
}

/// Where the offset is in the header of a message in several packets, and the bytes before it that only one with a receipt has.
const OFFSET_AT: usize = 16;
const RECEIPT: usize = 8;

/// Changes where the part of a message in several packets ([`Form::Medium`]) begins, in a header that was encoded for another one of its packets.
pub fn set_offset(header: &mut [u8], wants_receipt: bool, offset: u64) {
    let at = match wants_receipt {
        true => OFFSET_AT + RECEIPT,
        false => OFFSET_AT,
    };
    if let Some(place) = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = offset.to_le_bytes();
    }
}

struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes two numbers, the first one first.
    fn pair(&mut self, first: u32, second: u32) {
        self.u64(u64::from(first) | u64::from(second) << 32);
    }

    /// Writes the base of a header and the number behind it.
    fn base(&mut self, kind: u8, flags: u16, number: u32) {
        let [low, high] = flags.to_le_bytes();
        self.pair(u32::from_le_bytes([kind, VERSION, low, high]), number);
    }

    fn pieces(&mut self, pieces: &Pieces) {
        for piece in pieces.all() {
            let fields = [piece.addr, piece.len, piece.key];
            let mut bytes = [0; 3 * size_of::<u64>()];
            for (place, field) in bytes.chunks_exact_mut(size_of::<u64>()).zip(fields) {
                place.copy_from_slice(&field.to_le_bytes());
            }
            self.0.extend_from_slice(&bytes);
        }
    }

    fn options(&mut self, sender: &Sender, data: Option<u64>) {
        if let Some(address) = &sender.address {
            self.u32((ADDRESS + ADDRESS_PADDING) as u32);
            self.0.extend_from_slice(address);
            self.0.extend_from_slice(&[0; ADDRESS_PADDING]);
        }
        if let Some(data) = data {
            self.u64(data);
        }
        if let Some(connid) = sender.connid {
            self.u32(connid);
        }
    }

    fn message(&mut self, sender: &Sender, message: &Message<'_>) {
        let untagged = match (&message.form, message.wants_receipt) {
            (Form::Eager, false) => kind::EAGER,
            (Form::Eager, true) => kind::EAGER_RECEIPT,
            (Form::Medium { .. }, false) => kind::MEDIUM,
            (Form::Medium { .. }, true) => kind::MEDIUM_RECEIPT,
            (Form::Long { .. }, false) => kind::LONG,
            (Form::Long { .. }, true) => kind::LONG_RECEIPT,
            (Form::Read { .. }, _) => kind::LONG_READ,
            (Form::Runt { .. }, _) => kind::RUNT_READ,
        };
        let mut flags = flag::MESSAGE | optional(sender, message.data);
        if message.tag.is_some() {
            flags |= flag::TAGGED;
        }
        if message.is_after_nack {
            flags |= flag::AFTER_NACK;
        }
        self.base(
            untagged + u8::from(message.tag.is_some()),
            flags,
            message.number,
        );
        if message.wants_receipt && matches!(message.form, Form::Eager | Form::Medium { .. }) {
            self.pair(message.send_id, 0);
        }
        let mut memory = None;
        match &message.form {
            Form::Eager => {}
            Form::Medium { len, offset } => {
                self.u64(*len);
                self.u64(*offset);
            }
            Form::Long { len, credits } => {
                self.u64(*len);
                self.pair(message.send_id, *credits);
            }
            Form::Read {
                len,
                memory: pieces,
            } => {
                self.u64(*len);
                self.pair(message.send_id, pieces.count.into());
                memory = Some(pieces);
            }
            Form::Runt {
                len,
                offset,
                runt,
                memory: pieces,
            } => {
                self.u64(*len);
                self.pair(message.send_id, pieces.count.into());
                self.u64(*offset);
                self.u64(*runt);
                memory = Some(pieces);
            }
        }
        if let Some(tag) = message.tag {
            self.u64(tag);
        }
        self.options(sender, message.data);
        if let Some(memory) = memory {
            self.pieces(memory);
        }
    }

    fn write(&mut self, sender: &Sender, write: &Write<'_>) {
        let kind = match (&write.form, write.wants_receipt) {
            (Form::Eager, false) => kind::EAGER_WRITE,
            (Form::Eager, true) => kind::EAGER_WRITE_RECEIPT,
            (Form::Read { .. }, _) => kind::LONG_READ_WRITE,
            (_, false) => kind::LONG_WRITE,
            (_, true) => kind::LONG_WRITE_RECEIPT,
        };
        self.base(
            kind,
            flag::RMA | optional(sender, write.data),
            write.targets.count.into(),
        );
        let mut memory = None;
        match &write.form {
            Form::Long { len, credits } => {
                self.u64(*len);
                self.pair(write.send_id, *credits);
            }
            Form::Read {
                len,
                memory: pieces,
            } => {
                self.u64(*len);
                self.pair(write.send_id, pieces.count.into());
                memory = Some(pieces);
            }
            _ if write.wants_receipt => {
                self.pair(write.send_id, 0);
            }
            _ => {}
        }
        self.pieces(&write.targets);
        self.options(sender, write.data);
        if let Some(memory) = memory {
            self.pieces(memory);
        }
    }

    fn read(&mut self, sender: &Sender, read: &Read) {
        let kind = match read.is_short {
            true => kind::SHORT_READ,
            false => kind::LONG_READ_REQUEST,
        };
        self.base(
            kind,
            flag::RMA | optional(sender, None),
            read.targets.count.into(),
        );
        self.u64(read.len);
        self.pair(read.recv_id, read.window);
        self.pieces(&read.targets);
        self.options(sender, None);
    }

    fn atomic(&mut self, sender: &Sender, atomic: &Atomic<'_>) {
        let kind = match atomic.form {
            AtomicForm::Base => kind::ATOMIC,
            AtomicForm::BaseWithReceipt => kind::ATOMIC_RECEIPT,
            AtomicForm::Fetch => kind::FETCH,
            AtomicForm::Compare => kind::COMPARE,
        };
        self.base(
            kind,
            flag::ATOMIC | optional(sender, atomic.data),
            atomic.number,
        );
        self.pair(atomic.targets.count.into(), atomic.datatype);
        self.pair(atomic.operation, atomic.id);
        self.pieces(&atomic.targets);
        self.options(sender, atomic.data);
    }

    fn other(&mut self, connid: Option<u32>, content: &Content<'_>, body_len: u64) {
        let flags = match connid {
            Some(_) => flag::CONNID,
            None => 0,
        };
        let connid_or_zero = connid.unwrap_or(0);
        match *content {
            Content::Cts {
                send_id,
                recv_id,
                len,
                is_read,
            } => {
                self.base(
                    kind::CTS,
                    flags | if is_read { flag::OF_READ } else { 0 },
                    connid_or_zero,
                );
                self.pair(send_id, recv_id);
                self.u64(len);
            }
            Content::Data {
                recv_id, offset, ..
            } => {
                self.base(kind::DATA, flags, recv_id);
                self.u64(body_len);
                self.u64(offset);
                if let Some(connid) = connid {
                    self.u64(connid.into());
                }
            }
            Content::ReadResponse {
                recv_id, send_id, ..
            } => {
                self.base(kind::READ_RESPONSE, flags, connid_or_zero);
                self.pair(recv_id, send_id);
                self.u64(body_len);
            }
            Content::AtomicResponse { recv_id, .. } => {
                self.base(kind::ATOMIC_RESPONSE, flags, connid_or_zero);
                self.pair(0, recv_id);
                self.u64(body_len);
            }
            Content::EndOfRead { send_id, recv_id } => {
                let numbers = [send_id, recv_id, connid_or_zero];
                self.answer(kind::END_OF_READ, flags, numbers);
            }
            Content::ReadNack { send_id, recv_id } => {
                self.answer(kind::READ_NACK, flags, [send_id, recv_id, connid_or_zero]);
            }
            Content::Receipt { send_id, message } => {
                self.answer(kind::RECEIPT, flags, [send_id, message, connid_or_zero]);
            }
            Content::PeerError {
                id,
                reference,
                cause,
            } => {
                let reference = match reference {
                    Reference::Operation => 0,
                    Reference::Begun => 1,
                    Reference::Skipped => 2,
                };
                self.answer(kind::PEER_ERROR, flags, [id, reference, cause]);
                self.u32(connid_or_zero);
            }
            Content::Handshake { features, device } => {
                let device_flag = if device.is_some() { flag::DEVICE } else { 0 };
                self.base(kind::HANDSHAKE, flags | device_flag, 1 + 3);
                self.u64(features);
                for number in [connid, device].into_iter().flatten() {
                    self.u64(number.into());
                }
            }
            // Requests, which are written elsewhere.
            Content::Message(_) | Content::Write(_) | Content::Read(_) | Content::Atomic(_) => {}
        }
    }

    fn answer(&mut self, kind: u8, flags: u16, numbers: [u32; 3]) {
        let [first, second, third] = numbers;
        self.base(kind, flags, first);
        self.pair(second, third);
    }
}

fn optional(sender: &Sender, data: Option<u64>) -> u16 {
    let mut flags = 0;
    if sender.address.is_some() {
        flags |= flag::ADDRESS;
    }
    if data.is_some() {
        flags |= flag::DATA;
    }
    if sender.connid.is_some() {
        flags |= flag::CONNID;
    }
    flags
}
