//! From bytes to a packet.

use super::{
    ADDRESS, Atomic, AtomicForm, Content, Form, MAX_PIECES, Message, Packet, PacketError, Piece,
    Pieces, Read, Reference, Sender, VERSION, Write, flag, kind,
};

impl<'a> Packet<'a> {
    /// Reads a packet. What follows the parts that are known is ignored where the format says so.
    ///
    /// # Errors
    /// Why the bytes are none.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let mut rest = Rest(bytes);
        let [number, version] = rest.take()?;
        let flags = rest.u16()?;
        if version != VERSION {
            return Err(PacketError::Version(version));
        }
        match number {
            64..=76 | 128..=147 => rest.request(number, flags),
            _ => rest.other(number, flags),
        }
    }
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

/// What all requests may have behind their own header.
struct Options {
    sender: Sender,
    data: Option<u64>,
}

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(PacketError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, PacketError> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    fn u32(&mut self) -> Result<u32, PacketError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, PacketError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], PacketError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(PacketError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a body of a length that the header tells.
    fn body(&mut self, len: u64) -> Result<&'a [u8], PacketError> {
        self.bytes(usize::try_from(len).map_err(|_| PacketError::Short)?)
    }

    #[inline(always)]
    fn pieces(&mut self, count: u32) -> Result<Pieces, PacketError> {
        if count as usize > MAX_PIECES {
            return Err(PacketError::Invalid);
        }
        let mut pieces = Pieces::default();
        for at in 0..count as usize {
            pieces.list[at] = Piece {
                addr: self.u64()?,
                len: self.u64()?,
                key: self.u64()?,
            };
        }
        pieces.count = count as u8;
        Ok(pieces)
    }

    fn options(&mut self, flags: u16) -> Result<Options, PacketError> {
        let mut sender = Sender::default();
        if flags & flag::ADDRESS != 0 {
            let len = self.u32()? as usize;
            let address = self.bytes(len)?.first_chunk::<ADDRESS>();
            sender.address = Some(*address.ok_or(PacketError::Short)?);
        }
        let data = match flags & flag::DATA {
            0 => None,
            _ => Some(self.u64()?),
        };
        if flags & flag::CONNID != 0 {
            sender.connid = Some(self.u32()?);
        }
        Ok(Options { sender, data })
    }

    fn request(mut self, number: u8, flags: u16) -> Result<Packet<'a>, PacketError> {
        match number {
            kind::EAGER_WRITE
            | kind::LONG_WRITE
            | kind::LONG_READ_WRITE
            | kind::EAGER_WRITE_RECEIPT
            | kind::LONG_WRITE_RECEIPT => self.write(number, flags),
            kind::SHORT_READ | kind::LONG_READ_REQUEST => self.read(number, flags),
            kind::ATOMIC | kind::FETCH | kind::COMPARE | kind::ATOMIC_RECEIPT => {
                self.atomic(number, flags)
            }
            _ => self.message(number, flags),
        }
    }

    fn message(&mut self, kind: u8, flags: u16) -> Result<Packet<'a>, PacketError> {
        let number = self.u32()?;
        let (untagged, is_tagged) = match kind {
            kind::EAGER | kind::MEDIUM | kind::LONG | kind::LONG_READ => (kind, false),
            kind::EAGER_RECEIPT | kind::MEDIUM_RECEIPT | kind::LONG_RECEIPT | kind::RUNT_READ => {
                (kind, false)
            }
            _ => (kind - 1, true),
        };
        let (mut send_id, mut pieces) = (0, 0);
        let wants_receipt = matches!(
            untagged,
            kind::EAGER_RECEIPT | kind::MEDIUM_RECEIPT | kind::LONG_RECEIPT
        );
        if matches!(untagged, kind::EAGER_RECEIPT | kind::MEDIUM_RECEIPT) {
            send_id = self.u32()?;
            self.u32()?;
        }
        let mut form = match untagged {
            kind::EAGER | kind::EAGER_RECEIPT => Form::Eager,
            kind::MEDIUM | kind::MEDIUM_RECEIPT => Form::Medium {
                len: self.u64()?,
                offset: self.u64()?,
            },
            kind::LONG | kind::LONG_RECEIPT => {
                let len = self.u64()?;
                send_id = self.u32()?;
                Form::Long {
                    len,
                    credits: self.u32()?,
                }
            }
            kind::LONG_READ | kind::RUNT_READ => {
                let len = self.u64()?;
                send_id = self.u32()?;
                pieces = self.u32()?;
                let memory = Pieces::default();
                match untagged {
                    kind::LONG_READ => Form::Read { len, memory },
                    _ => Form::Runt {
                        len,
                        offset: self.u64()?,
                        runt: self.u64()?,
                        memory,
                    },
                }
            }
            _ => return Err(PacketError::Kind(kind)),
        };
        let tag = match is_tagged {
            false => None,
            true => Some(self.u64()?),
        };
        let options = self.options(flags)?;
        if let Form::Read { memory, .. } | Form::Runt { memory, .. } = &mut form {
            *memory = self.pieces(pieces)?;
        }
        Ok(Packet {
            sender: options.sender,
            content: Content::Message(Message {
                number,
                tag,
                data: options.data,
                wants_receipt,
                is_after_nack: flags & flag::AFTER_NACK != 0,
                send_id,
                form,
                body: self.0,
            }),
        })
    }

    fn write(&mut self, kind: u8, flags: u16) -> Result<Packet<'a>, PacketError> {
        let targets = self.u32()?;
        let is_eager = matches!(kind, kind::EAGER_WRITE | kind::EAGER_WRITE_RECEIPT);
        let len = match is_eager {
            true => 0,
            false => self.u64()?,
        };
        // Behind the sender's operation is how many pieces or packets there are, or nothing.
        let (send_id, last) = match kind {
            kind::EAGER_WRITE => (0, 0),
            _ => (self.u32()?, self.u32()?),
        };
        let targets = self.pieces(targets)?;
        let Options { sender, data } = self.options(flags)?;
        let form = match kind {
            _ if is_eager => Form::Eager,
            kind::LONG_READ_WRITE => Form::Read {
                len,
                memory: self.pieces(last)?,
            },
            _ => Form::Long { len, credits: last },
        };
        Ok(Packet {
            sender,
            content: Content::Write(Write {
                targets,
                data,
                wants_receipt: matches!(kind, kind::EAGER_WRITE_RECEIPT | kind::LONG_WRITE_RECEIPT),
                send_id,
                form,
                body: self.0,
            }),
        })
    }

    fn read(&mut self, kind: u8, flags: u16) -> Result<Packet<'a>, PacketError> {
        let count = self.u32()?;
        let (len, recv_id, window) = (self.u64()?, self.u32()?, self.u32()?);
        let targets = self.pieces(count)?;
        let options = self.options(flags)?;
        Ok(Packet {
            sender: options.sender,
            content: Content::Read(Read {
                targets,
                len,
                recv_id,
                window,
                is_short: kind == kind::SHORT_READ,
            }),
        })
    }

    fn atomic(&mut self, kind: u8, flags: u16) -> Result<Packet<'a>, PacketError> {
        let (number, count) = (self.u32()?, self.u32()?);
        let (datatype, operation, id) = (self.u32()?, self.u32()?, self.u32()?);
        let targets = self.pieces(count)?;
        let options = self.options(flags)?;
        Ok(Packet {
            sender: options.sender,
            content: Content::Atomic(Atomic {
                number,
                form: match kind {
                    kind::FETCH => AtomicForm::Fetch,
                    kind::COMPARE => AtomicForm::Compare,
                    kind::ATOMIC_RECEIPT => AtomicForm::BaseWithReceipt,
                    _ => AtomicForm::Base,
                },
                datatype,
                operation,
                id,
                targets,
                data: options.data,
                body: self.0,
            }),
        })
    }

    /// Reads what is no request: each kind has its connid elsewhere.
    fn other(&mut self, kind: u8, flags: u16) -> Result<Packet<'a>, PacketError> {
        let mut sender = Sender::default();
        let mut tell = |connid| sender.connid = (flags & flag::CONNID != 0).then_some(connid);
        let content = match kind {
            kind::CTS => {
                tell(self.u32()?);
                Content::Cts {
                    send_id: self.u32()?,
                    recv_id: self.u32()?,
                    len: self.u64()?,
                    is_read: flags & flag::OF_READ != 0,
                }
            }
            kind::DATA => {
                let (recv_id, len, offset) = (self.u32()?, self.u64()?, self.u64()?);
                if flags & flag::CONNID != 0 {
                    tell(self.u32()?);
                    self.u32()?;
                }
                let body = self.body(len)?;
                Content::Data {
                    recv_id,
                    offset,
                    body,
                }
            }
            kind::READ_RESPONSE => {
                tell(self.u32()?);
                let (recv_id, send_id, len) = (self.u32()?, self.u32()?, self.u64()?);
                let body = self.body(len)?;
                Content::ReadResponse {
                    recv_id,
                    send_id,
                    body,
                }
            }
            kind::ATOMIC_RESPONSE => {
                tell(self.u32()?);
                self.u32()?;
                let (recv_id, len) = (self.u32()?, self.u64()?);
                let body = self.body(len)?;
                Content::AtomicResponse { recv_id, body }
            }
            kind::END_OF_READ | kind::READ_NACK => {
                let (send_id, recv_id) = (self.u32()?, self.u32()?);
                tell(self.u32()?);
                match kind {
                    kind::END_OF_READ => Content::EndOfRead { send_id, recv_id },
                    _ => Content::ReadNack { send_id, recv_id },
                }
            }
            kind::RECEIPT => {
                let (send_id, message) = (self.u32()?, self.u32()?);
                tell(self.u32()?);
                Content::Receipt { send_id, message }
            }
            kind::PEER_ERROR => {
                let (id, reference, cause) = (self.u32()?, self.u32()?, self.u32()?);
                tell(self.u32()?);
                let reference = match reference {
                    0 => Reference::Operation,
                    1 => Reference::Begun,
                    2 => Reference::Skipped,
                    _ => return Err(PacketError::Invalid),
                };
                Content::PeerError {
                    id,
                    reference,
                    cause,
                }
            }
            kind::HANDSHAKE => {
                let (content, connid) = self.handshake(flags)?;
                sender.connid = connid;
                content
            }
            other => return Err(PacketError::Kind(other)),
        };
        Ok(Packet { sender, content })
    }

    /// Reads a handshake: sets of features, at least one, and then what the flags say.
    fn handshake(&mut self, flags: u16) -> Result<(Content<'a>, Option<u32>), PacketError> {
        let sets = self.u32()?.checked_sub(3).filter(|sets| *sets > 0);
        let sets = sets.ok_or(PacketError::Invalid)?;
        let features = self.u64()?;
        self.body(u64::from(sets - 1) * 8)?;
        let mut optional = |bit| match flags & bit {
            0 => Ok(None),
            _ => self.u64().map(|number| Some(number as u32)),
        };
        let connid = optional(flag::CONNID)?;
        optional(flag::HOST)?;
        let device = optional(flag::DEVICE)?;
        Ok((Content::Handshake { features, device }, connid))
    }
}
