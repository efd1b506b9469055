//! Frames out of the bytes of a channel. Hot path for frames that come whole.
//!
//! Whatever was taken from the channel is in the state; a stalled frame's body stays in the channel.

use oxifabric_engine::link::{Body, Header, HeaderFlags, Placement, RxToken, Sink, Target};
use oxifabric_mem::Iov;
use oxifabric_types::PeerId;
use oxifabric_wire::reliable::record::{HEAD_MAX, Record, RecordError, TARGETS_MAX};

use super::channel::Consumer;
use crate::wire_kind;

/// Puts the bytes of one peer together again.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    /// A header of which a part has come.
    head: [u8; HEAD_MAX],
    head_len: usize,
}

#[derive(Debug)]
enum State {
    /// A header comes next.
    Head,
    /// A frame waits for an answer of the sink, which had no room.
    Stalled(Arrived),
    /// The stalled frame is to be delivered again.
    Again(Arrived),
    /// A body goes into memory.
    Body {
        into: Iov,
        token: RxToken,
        done: usize,
        len: usize,
    },
    /// A body comes that is discarded.
    Unwanted(usize),
    /// The peer broke the protocol.
    Broken,
}

/// A header that has come, before the sink has placed its body.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    header: Header,
    targets: [Target; TARGETS_MAX],
    count: usize,
    body: usize,
}

/// A reader at work.
pub(super) struct Feed<'a, S> {
    pub(super) reader: &'a mut Reader,
    pub(super) from: PeerId,
    pub(super) sink: &'a mut S,
    /// Number of calls of the sink.
    pub(super) events: usize,
    /// Number of further bytes that may be kept for it.
    pub(super) room: usize,
}

impl Reader {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Head,
            head: [0; HEAD_MAX],
            head_len: 0,
        }
    }

    /// Returns whether the peer sent what is no frame.
    pub(super) const fn is_broken(&self) -> bool {
        matches!(self.state, State::Broken)
    }

    /// Returns whether no frame has come in part, or waits.
    pub(super) const fn is_between_frames(&self) -> bool {
        self.head_len == 0 && matches!(self.state, State::Head)
    }

    /// Gives up; returns the token of the body that was coming.
    pub(super) fn abandon(&mut self) -> Option<RxToken> {
        self.head_len = 0;
        match core::mem::replace(&mut self.state, State::Head) {
            State::Body { token, .. } => Some(token),
            _ => None,
        }
    }
}

impl<S: Sink> Consumer for Feed<'_, S> {
    fn room(&self) -> usize {
        self.room
    }

    fn take(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        loop {
            match &mut self.reader.state {
                State::Head => {
                    if rest.is_empty() {
                        break;
                    }
                    rest = self.head(rest);
                }
                State::Body {
                    into,
                    token,
                    done,
                    len,
                } => {
                    let part = rest.len().min(*len - *done);
                    into.write(*done, &rest[..part]);
                    *done += part;
                    rest = &rest[part..];
                    self.events += usize::from(part > 0);
                    if done < len {
                        break;
                    }
                    let token = *token;
                    self.reader.state = State::Head;
                    self.sink.placed(token, Ok(()));
                }
                State::Unwanted(left) => {
                    let part = rest.len().min(*left);
                    *left -= part;
                    rest = &rest[part..];
                    if *left > 0 {
                        break;
                    }
                    self.reader.state = State::Head;
                }
                State::Again(arrived) => {
                    let arrived = *arrived;
                    self.reader.state = State::Head;
                    rest = self.deliver(&arrived, rest);
                }
                State::Stalled(_) | State::Broken => break,
            }
        }
        bytes.len() - rest.len()
    }
}

impl<S: Sink> Feed<'_, S> {
    /// Delivers the stalled frame again: with the next bytes, or at once if it has no body.
    pub(super) fn retry(&mut self) {
        let state = core::mem::replace(&mut self.reader.state, State::Head);
        self.reader.state = match state {
            State::Stalled(arrived) if arrived.body == 0 => {
                self.deliver(&arrived, &[]);
                return;
            }
            State::Stalled(arrived) => State::Again(arrived),
            other => other,
        };
    }

    /// Reads a header, whole or a part of it; returns what follows.
    fn head<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let reader = &mut *self.reader;
        if reader.head_len == 0 {
            match Record::parse(bytes) {
                Ok((record, len)) => {
                    let Some(arrived) = Arrived::read(&record, bytes) else {
                        reader.state = State::Broken;
                        return bytes;
                    };
                    return self.deliver(&arrived, &bytes[len..]);
                }
                Err(RecordError::Targets(_)) => {
                    reader.state = State::Broken;
                    return bytes;
                }
                Err(RecordError::Truncated(_)) => {}
            }
        }
        // It comes in parts.
        let mut rest = bytes;
        loop {
            let held = &reader.head[..reader.head_len];
            match Record::parse(held) {
                Err(RecordError::Truncated(wanted)) => {
                    let part = rest.len().min(wanted - reader.head_len);
                    if part == 0 {
                        return rest;
                    }
                    let end = reader.head_len + part;
                    reader.head[reader.head_len..end].copy_from_slice(&rest[..part]);
                    reader.head_len = end;
                    rest = &rest[part..];
                }
                Ok((record, _)) => {
                    let arrived = Arrived::read(&record, held);
                    reader.head_len = 0;
                    let Some(arrived) = arrived else {
                        reader.state = State::Broken;
                        return rest;
                    };
                    return self.deliver(&arrived, rest);
                }
                Err(RecordError::Targets(_)) => {
                    reader.state = State::Broken;
                    return rest;
                }
            }
        }
    }

    /// Delivers a header to the sink, and puts the body where the sink places it; returns what follows.
    fn deliver<'b>(&mut self, arrived: &Arrived, bytes: &'b [u8]) -> &'b [u8] {
        self.events += 1;
        let whole = bytes.get(..arrived.body);
        let body = match whole {
            Some(bytes) => Body::Whole(bytes),
            None => Body::Stream(arrived.body),
        };
        let placement = match &arrived.targets[..arrived.count] {
            [] => self.sink.arrival(self.from, &arrived.header, body),
            targets => self.sink.access(self.from, &arrived.header, targets, body),
        };
        self.reader.state = match placement {
            Placement::Done if whole.is_some() => return &bytes[arrived.body..],
            Placement::Into(into, token) => State::Body {
                into,
                token,
                done: 0,
                len: arrived.body,
            },
            Placement::Done | Placement::Discard => State::Unwanted(arrived.body),
            Placement::Stall => State::Stalled(*arrived),
            Placement::Refuse => State::Broken,
        };
        bytes
    }
}

impl Arrived {
    /// Reads a record; `None` if it is of no kind.
    fn read(record: &Record, bytes: &[u8]) -> Option<Self> {
        let mut targets = [Target::default(); TARGETS_MAX];
        let count = usize::from(record.targets);
        for (at, target) in targets.iter_mut().enumerate().take(count) {
            let read = Record::target(bytes, at)?;
            (target.addr, target.len, target.key) = (read.addr, read.len, read.key);
        }
        Some(Self {
            header: Header {
                kind: wire_kind::kind(record.kind)?,
                flags: HeaderFlags::from_bits(record.flags)?,
                id: record.id,
                tag: record.tag,
                data: record.data,
                len: record.len,
            },
            targets,
            count,
            body: record.body.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use oxifabric_types::Errno;
    use oxifabric_wire::reliable::record::RecordTarget;

    use super::*;
    use oxifabric_engine::link::{Kind, TxToken};

    /// Takes bodies up to a length; has no room for the first frames.
    #[derive(Default)]
    struct Recorder {
        got: Vec<(Header, usize, usize)>,
        stalls: usize,
        placed: usize,
    }

    impl Recorder {
        fn answer(&mut self, header: &Header, targets: usize, body: &Body<'_>) -> Placement {
            if self.stalls > 0 {
                self.stalls -= 1;
                return Placement::Stall;
            }
            let (len, placement) = match body {
                Body::Whole(bytes) => (bytes.len(), Placement::Done),
                Body::Stream(len) => (*len, Placement::Into(Iov::empty(), RxToken(1))),
                Body::Remote(_) => (0, Placement::Refuse),
            };
            self.got.push((*header, targets, len));
            placement
        }
    }

    impl Sink for Recorder {
        fn arrival(&mut self, _: PeerId, header: &Header, body: Body<'_>) -> Placement {
            self.answer(header, 0, &body)
        }

        fn access(
            &mut self,
            _: PeerId,
            header: &Header,
            targets: &[Target],
            body: Body<'_>,
        ) -> Placement {
            self.answer(header, targets.len(), &body)
        }

        fn placed(&mut self, _: RxToken, result: Result<(), Errno>) {
            assert_eq!(result, Ok(()));
            self.placed += 1;
        }

        fn sent(&mut self, _: TxToken, _: Result<(), Errno>) {}

        fn pulled(&mut self, _: RxToken, _: Result<(), Errno>) {}

        fn writable(&mut self, _: PeerId) {}

        fn peer_down(&mut self, _: PeerId, _: Errno) {}
    }

    /// Returns a tagged message of 10 bytes, a write with two targets and 7 bytes, an acknowledgement.
    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, targets, body) in [
            (Kind::Tagged, 0, 10),
            (Kind::Write, 2, 7),
            (Kind::Ack, 0, 0),
        ] {
            let record = Record {
                kind: wire_kind::number(kind),
                targets,
                id: 5,
                body,
                ..Record::default()
            };
            let mut head = [0; HEAD_MAX];
            let len = record.emit([RecordTarget::default(); 2], &mut head);
            bytes.extend_from_slice(&head[..len]);
            bytes.extend(vec![1; body as usize]);
        }
        bytes
    }

    fn feed<'a>(reader: &'a mut Reader, sink: &'a mut Recorder) -> Feed<'a, Recorder> {
        Feed {
            reader,
            from: PeerId(1),
            sink,
            events: 0,
            room: usize::MAX,
        }
    }

    fn kinds(sink: &Recorder) -> Vec<(Kind, usize, usize)> {
        let got = sink.got.iter();
        got.map(|(header, targets, len)| (header.kind, *targets, *len))
            .collect()
    }

    const ALL: [(Kind, usize, usize); 3] = [
        (Kind::Tagged, 0, 10),
        (Kind::Write, 2, 7),
        (Kind::Ack, 0, 0),
    ];

    #[test]
    fn frames_come_out_wherever_the_bytes_are_cut() {
        let bytes = stream();
        for cut in 0..=bytes.len() {
            let (mut reader, mut sink) = (Reader::new(), Recorder::default());
            for part in [&bytes[..cut], &bytes[cut..]] {
                assert_eq!(feed(&mut reader, &mut sink).take(part), part.len());
            }
            assert_eq!(kinds(&sink), ALL, "cut at {cut}");
        }
    }

    #[test]
    fn a_stalled_frame_is_delivered_again_with_its_body() {
        let bytes = stream();
        let (mut reader, mut sink) = (Reader::new(), Recorder::default());
        sink.stalls = 2;
        let taken = feed(&mut reader, &mut sink).take(&bytes);
        assert!(taken < bytes.len());
        assert_eq!(
            feed(&mut reader, &mut sink).take(&bytes[taken..]),
            0,
            "not yet"
        );
        feed(&mut reader, &mut sink).retry();
        assert_eq!(
            feed(&mut reader, &mut sink).take(&bytes[taken..]),
            0,
            "again"
        );
        feed(&mut reader, &mut sink).retry();
        let rest = &bytes[taken..];
        assert_eq!(feed(&mut reader, &mut sink).take(rest), rest.len());
        assert_eq!(kinds(&sink), ALL);
    }

    #[test]
    fn what_is_no_frame_ends_the_channel() {
        let mut bytes = stream();
        bytes[0] = 200;
        let (mut reader, mut sink) = (Reader::new(), Recorder::default());
        feed(&mut reader, &mut sink).take(&bytes);
        assert!(reader.is_broken());
        assert!(sink.got.is_empty());
    }
}
