//! The receiving half of a connection: headers through a staging buffer, large bodies straight into the memory
//! that the engine names. Hot path.
//!
//! Invariant: whatever lies in the staging buffer comes before what is still in the socket.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::{fmt, mem};

use oxifabric_engine::{Body, Header, Kind, Placement, RxToken, Sink, Target};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, PeerId};
use oxifabric_wire::tcp::Dialect;
use oxifabric_wire::tcp::frame::{FrameError, FrameHeader, RMA_PIECES_MAX, RmaPiece};

use crate::id_map::{IdMap, Incoming, ProtocolError};
use crate::socket::Socket;

/// Length of messages that are large: few of them leave between two polls, and a side that sent one reads until its socket is empty.
pub const LARGE_LEN: usize = 40 * 1024;

/// Length of messages for which an empty read of their socket costs more than asking the poller.
const ASKED_LEN: usize = 32 * 1024;

/// Maximum number of reads of the socket in a turn, so that one active peer does not starve the others. A read into a large
/// body ends the turn, because a reader that gets ahead of the sender holds the socket while the kernel fills it.
const READS_PER_TURN: usize = 8;

/// Maximum number of reads in a turn when this side sent large bodies since the last turn. Data that arrives while a thread
/// only sends leaves the caches before it is read, so the thread reads until the socket is empty; the bound is about what a
/// socket can hold.
const READS_TO_CATCH_UP: usize = 64;

/// The receiving half of a connection.
#[derive(Debug, Default)]
pub struct Rx {
    staging: Staging,
    state: State,
    /// Length of the last body: the next one is expected to be like it.
    expected: usize,
}

#[derive(Debug, Default)]
enum State {
    /// A header comes next.
    #[default]
    Header,
    /// A frame waits for the sink, which had no room.
    Stalled {
        header: Header,
        targets: Vec<Target>,
        body_len: usize,
    },
    /// A body comes.
    Body(Placed),
    /// A body comes that no receive takes.
    Unwanted { left: usize, acknowledge: bool },
}

/// A body on its way into memory.
#[derive(Debug)]
struct Placed {
    iov: Iov,
    token: RxToken,
    done: usize,
    len: usize,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The socket is empty for now.
    Drained,
    /// There may be more.
    More,
    /// The sink has no room.
    Stalled,
}

/// Why a connection cannot be read any further.
#[derive(Debug)]
pub enum Fault {
    /// The peer has closed it; within a frame or between two.
    Closed {
        /// Whether a part of a frame has come.
        within: bool,
    },
    /// The system reports an error.
    Socket(Errno),
    /// A header is malformed.
    Frame(FrameError),
    /// A header does not follow from the frames before it.
    ProtocolError(ProtocolError),
    /// The sink refused the frame.
    Refused(Header),
}

/// Results of a turn.
#[derive(Debug)]
pub struct Progress {
    /// Number of frames and parts of bodies.
    pub events: usize,
    /// Number of unwanted messages that have to be acknowledged.
    pub acknowledge: usize,
    /// How it ended.
    pub end: Result<Turn, Fault>,
}

impl Rx {
    /// Returns whether messages are expected that are so long that the poller is asked before they are read.
    #[inline]
    pub const fn expects_long(&self) -> bool {
        self.expected >= ASKED_LEN
    }

    /// Returns whether a frame waits for the sink to have room.
    pub fn stalled(&self) -> bool {
        matches!(self.state, State::Stalled { .. })
    }

    /// Returns whether no part of a frame has come.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Header) && self.staging.is_empty()
    }

    /// Returns whether a part of the stalled frame is missing, with `unread` bytes in the socket.
    pub fn lacks(&self, unread: usize) -> bool {
        match &self.state {
            State::Stalled { body_len, .. } => {
                self.staging.len().saturating_add(unread) < *body_len
            }
            _ => false,
        }
    }

    /// Abandons the frame that was arriving; returns the token of its body.
    pub fn abandon(&mut self) -> Option<RxToken> {
        match mem::replace(&mut self.state, State::Header) {
            State::Body(placed) => Some(placed.token),
            _ => None,
        }
    }

    /// Reads and delivers what is there; all of it with `catch_up`, after large bodies were sent.
    pub fn turn<S: Socket>(
        &mut self,
        catch_up: bool,
        socket: &S,
        dialect: Dialect,
        id_map: &mut IdMap,
        from: PeerId,
        sink: &mut impl Sink,
    ) -> Progress {
        let mut progress = Progress {
            events: 0,
            acknowledge: 0,
            end: Ok(Turn::More),
        };
        if self.stalled() {
            progress.end = Ok(Turn::Stalled);
            return progress;
        }
        let mut delivery = Delivery {
            id_map,
            dialect,
            from,
            sink,
            progress: &mut progress,
        };
        let reads = match catch_up {
            true => READS_TO_CATCH_UP,
            false => READS_PER_TURN,
        };
        for _ in 0..reads {
            let (placed, drained) = match self.read(socket) {
                Ok(read) => read,
                Err(fault) => {
                    progress.end = Err(fault);
                    return progress;
                }
            };
            delivery.progress.events += usize::from(placed);
            match self.deliver(&mut delivery) {
                Ok(()) if self.stalled() => {
                    progress.end = Ok(Turn::Stalled);
                    return progress;
                }
                Ok(()) => {}
                Err(fault) => {
                    progress.end = Err(fault);
                    return progress;
                }
            }
            if drained {
                progress.end = Ok(Turn::Drained);
                return progress;
            }
            if placed && !catch_up {
                return progress;
            }
        }
        progress
    }

    /// Delivers a stalled frame again, with what lies behind it.
    pub fn retry(
        &mut self,
        dialect: Dialect,
        id_map: &mut IdMap,
        from: PeerId,
        sink: &mut impl Sink,
    ) -> Progress {
        let mut progress = Progress {
            events: 0,
            acknowledge: 0,
            end: Ok(Turn::More),
        };
        let mut delivery = Delivery {
            id_map,
            dialect,
            from,
            sink,
            progress: &mut progress,
        };
        let result = match mem::replace(&mut self.state, State::Header) {
            State::Stalled {
                header,
                targets,
                body_len,
            } => self.deliver_frame(header, &targets, body_len, &mut delivery),
            other => {
                self.state = other;
                Ok(())
            }
        };
        let result = result.and_then(|()| self.deliver(&mut delivery));
        progress.end = match result {
            Ok(()) if self.stalled() => Ok(Turn::Stalled),
            Ok(()) => Ok(Turn::More),
            Err(fault) => Err(fault),
        };
        progress
    }

    /// Reads the socket once; returns whether bytes of a body went into their memory, and whether the socket is empty.
    #[inline]
    fn read<S: Socket>(&mut self, socket: &S) -> Result<(bool, bool), Fault> {
        let limit = match &self.state {
            State::Unwanted { .. } => S::READ_AHEAD,
            State::Body(placed) if placed.room() == 0 => S::READ_AHEAD,
            _ if self.expected >= S::LONG_LEN => S::NARROW_LEN,
            _ => S::READ_AHEAD,
        };
        let tail = self.staging.room(S::READ_AHEAD, limit);
        let (asked, direct, result) = match &self.state {
            State::Body(placed) if placed.room() > 0 => {
                let room = placed.room();
                let asked = room + tail.len();
                let result = socket.recv_scatter(&placed.iov, placed.done, room, tail);
                (asked, room, result)
            }
            _ => (tail.len(), 0, socket.recv(tail)),
        };
        match result {
            Ok(0) => {
                let within = !matches!(self.state, State::Header) || !self.staging.is_empty();
                Err(Fault::Closed { within })
            }
            Ok(count) => {
                let placed_len = count.min(direct);
                if let State::Body(placed) = &mut self.state {
                    placed.done += placed_len;
                }
                self.staging.added(count - placed_len);
                Ok((placed_len > 0, count < asked))
            }
            Err(Errno::AGAIN) => Ok((false, true)),
            Err(Errno::INTR) => Ok((false, false)),
            Err(errno) => Err(Fault::Socket(errno)),
        }
    }

    /// Delivers what is staged, up to a stall or an incomplete piece.
    #[inline]
    fn deliver<S: Sink>(&mut self, to: &mut Delivery<'_, S>) -> Result<(), Fault> {
        loop {
            match &mut self.state {
                State::Header => {
                    let staged = self.staging.bytes();
                    let (wire, len) = match FrameHeader::parse(staged, to.dialect) {
                        Ok(parsed) => parsed,
                        Err(FrameError::Truncated(_)) => return Ok(()),
                        Err(error) => return Err(Fault::Frame(error)),
                    };
                    let mut pieces;
                    let targets = match wire.pieces {
                        0 => &[],
                        _ => {
                            pieces = [Target::default(); RMA_PIECES_MAX];
                            targets(staged, &wire, to.dialect, &mut pieces)
                        }
                    };
                    self.staging.consume(len);
                    let body_len = usize::try_from(wire.body_len).unwrap_or(usize::MAX);
                    match to.id_map.incoming(&wire).map_err(Fault::ProtocolError)? {
                        Incoming::Frame(header) => self.deliver_frame(header, &[], body_len, to)?,
                        Incoming::Access(header) => {
                            let header = match header.kind {
                                Kind::Read => Header {
                                    len: wanted(targets),
                                    ..header
                                },
                                _ => header,
                            };
                            self.deliver_frame(header, targets, body_len, to)?;
                        }
                        Incoming::Unwanted { acknowledge } => {
                            self.state = State::Unwanted {
                                left: body_len,
                                acknowledge,
                            };
                        }
                    }
                }
                State::Stalled { .. } => return Ok(()),
                State::Body(placed) => {
                    let staged = self.staging.bytes();
                    let part = staged.len().min(placed.len - placed.done);
                    placed.iov.write(placed.done, &staged[..part]);
                    placed.done += part;
                    self.staging.consume(part);
                    if placed.done < placed.len {
                        return Ok(());
                    }
                    to.sink.placed(placed.token, Ok(()));
                    to.progress.events += 1;
                    self.state = State::Header;
                }
                State::Unwanted { left, acknowledge } => {
                    let part = self.staging.len().min(*left);
                    *left -= part;
                    self.staging.consume(part);
                    if *left > 0 {
                        return Ok(());
                    }
                    to.progress.acknowledge += usize::from(*acknowledge);
                    self.state = State::Header;
                }
            }
        }
    }

    /// Delivers a header to the sink, and puts the body where the sink places it.
    #[inline]
    fn deliver_frame<S: Sink>(
        &mut self,
        header: Header,
        targets: &[Target],
        body_len: usize,
        to: &mut Delivery<'_, S>,
    ) -> Result<(), Fault> {
        to.progress.events += 1;
        let staged = self.staging.bytes();
        let whole = staged.get(..body_len);
        let body = match whole {
            Some(bytes) => Body::Whole(bytes),
            None => Body::Stream(body_len),
        };
        let placement = match targets {
            [] => to.sink.arrival(to.from, &header, body),
            _ => to.sink.access(to.from, &header, targets, body),
        };
        self.state = match placement {
            Placement::Done if whole.is_some() => {
                self.expected = body_len;
                self.staging.consume(body_len);
                return Ok(());
            }
            Placement::Into(iov, token) => State::Body(Placed {
                iov,
                token,
                done: 0,
                len: body_len,
            }),
            Placement::Done | Placement::Discard => State::Unwanted {
                left: body_len,
                acknowledge: false,
            },
            Placement::Stall => State::Stalled {
                header,
                targets: targets.to_vec(),
                body_len,
            },
            Placement::Refuse => return Err(Fault::Refused(header)),
        };
        self.expected = body_len;
        Ok(())
    }
}

impl Placed {
    /// Returns how much of the rest goes straight into the memory.
    fn room(&self) -> usize {
        self.len.min(self.iov.len()).saturating_sub(self.done)
    }
}

/// Reads the memory that a header names.
#[cold]
fn targets<'a>(
    bytes: &[u8],
    wire: &FrameHeader,
    dialect: Dialect,
    into: &'a mut [Target; RMA_PIECES_MAX],
) -> &'a [Target] {
    let mut count = 0;
    for (index, target) in (0..).zip(into.iter_mut()) {
        let Some(piece) = RmaPiece::parse(bytes, wire, index, dialect) else {
            break;
        };
        (target.addr, target.len, target.key) = (piece.addr, piece.len, piece.key);
        count += 1;
    }
    &into[..count]
}

/// Returns how much a read asks for; more than any memory, if that does not fit a number.
fn wanted(targets: &[Target]) -> u64 {
    let add = |sum: u64, target: &Target| sum.saturating_add(target.len);
    targets.iter().fold(0, add)
}

/// The sink of a turn, and the turn's counters.
struct Delivery<'a, S> {
    id_map: &'a mut IdMap,
    dialect: Dialect,
    from: PeerId,
    sink: &'a mut S,
    progress: &'a mut Progress,
}

/// Bytes that were read ahead.
#[derive(Debug, Default)]
struct Staging {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Staging {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Returns space for bytes to come, at most `limit` in a buffer of `len`. There always is some: incomplete pieces are headers, which are
    /// shorter than the buffer, and are moved to its start.
    #[inline]
    fn room(&mut self, len: usize, limit: usize) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; len].into_boxed_slice();
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let room = (self.bytes.len() - self.end).min(limit);
        &mut self.bytes[self.end..self.end + room]
    }

    #[inline]
    fn added(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }
}

impl Fault {
    /// Returns whether the fault is a warning in the log; operations that wait for the peer report the others.
    pub const fn is_worth_a_warning(&self) -> bool {
        match self {
            Self::Closed { within } => *within,
            Self::Socket(_) => false,
            Self::Frame(_) | Self::ProtocolError(_) | Self::Refused(_) => true,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { within: false } => f.write_str("the peer closed it"),
            Self::Closed { within: true } => {
                f.write_str("the peer closed it in the middle of a message")
            }
            Self::Socket(errno) => errno.fmt(f),
            Self::Frame(error) => write!(f, "the peer broke the protocol: {error}"),
            Self::ProtocolError(error) => write!(f, "the peer broke the protocol: {error}"),
            Self::Refused(header) => match header.kind {
                kind @ (Kind::Write
                | Kind::WriteRts
                | Kind::Read
                | Kind::Atomic
                | Kind::FetchAtomic
                | Kind::CompareAtomic) => write!(
                    f,
                    "{kind:?} of the peer was refused: no memory region that is open here has its key, length and right"
                ),
                kind => write!(f, "the peer broke the protocol: {kind:?} out of turn"),
            },
        }
    }
}

/// Returns the error that the engine gets for a fault.
pub fn errno_of(fault: &Fault) -> Errno {
    match fault {
        Fault::Closed { .. } => Errno::CONNRESET,
        Fault::Socket(errno) => *errno,
        Fault::Frame(_) | Fault::ProtocolError(_) | Fault::Refused(_) => Errno::PROTO,
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use oxifabric_engine::HeaderFlags;

    use super::*;

    #[test]
    fn an_access_without_a_region_is_told_from_a_broken_protocol() {
        let refused = |kind| {
            let header = Header {
                kind,
                flags: HeaderFlags::empty(),
                id: 1,
                tag: 0,
                data: 0,
                len: 8,
            };
            Fault::Refused(header).to_string()
        };
        assert_eq!(
            refused(Kind::Write),
            "Write of the peer was refused: no memory region that is open here has its key, length and right"
        );
        assert!(refused(Kind::Segment).starts_with("the peer broke the protocol: Segment"));
    }
}
