//! Datagrams held back to be coalesced: sends with FI_MORE, packets of reliable channels. Path class: large.
//!
//! One system call takes many datagrams, and the kernel takes those of equal length to one peer as one piece, which it segments
//! when they leave (udp(7), UDP_SEGMENT).

use oxifabric_engine::Frame;
use oxifabric_engine::faults::{FaultPlan, PacketFaults};
use oxifabric_types::PeerId;

use crate::cutting::Cutting;
use crate::peer::Peers;
use crate::sys::{Outgoing, Socket};

/// Maximum number of datagrams that are held back, and leave with one call.
pub(crate) const MANY: usize = 64;

/// Maximum number of bytes of one piece: as many as a datagram over IP, with either header.
const PIECE: usize = 65_487;

/// Maximum number of datagrams into which one piece is cut.
const CUTS: usize = 64;

/// Datagrams in the order of posting; what they carry is copied.
#[derive(Debug, Default)]
pub(crate) struct TxQueue {
    bytes: Vec<u8>,
    datagrams: Vec<Queued>,
    /// Whether the next datagram of an endpoint has to be queued, too: others wait before it, or a fault may be injected.
    takes_next: bool,
    /// Faults injected into the datagrams of an endpoint.
    faults: Option<Box<PacketFaults<Copied>>>,
    cutting: Cutting,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    to: PeerId,
    begin: usize,
    end: usize,
}

/// A datagram as it was to be sent.
type Copied = (PeerId, Vec<u8>);

impl TxQueue {
    /// Returns a queue with the packet faults of a plan, if there is one.
    pub(crate) fn with_faults(plan: Option<FaultPlan>) -> Self {
        let faults = PacketFaults::of(plan);
        Self {
            takes_next: faults.is_some(),
            faults,
            ..Self::default()
        }
    }

    /// Returns a queue that times what long pieces cost, and does without them where that is much.
    pub(crate) fn timed() -> Self {
        Self {
            cutting: Cutting::timed(),
            ..Self::default()
        }
    }

    /// Returns whether the next datagram of an endpoint has to be queued.
    #[inline]
    pub(crate) fn takes_next(&self) -> bool {
        self.takes_next
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.datagrams.len() >= MANY
    }

    /// Queues a datagram.
    pub(crate) fn push(&mut self, to: PeerId, frame: &Frame<'_>) {
        if let Some(mut faults) = self.faults.take() {
            let mut copy = vec![0; frame.len];
            frame.body.read(frame.offset, &mut copy);
            faults.pass((to, copy), |(to, bytes)| self.push_parts(*to, [bytes, &[]]));
            self.faults = Some(faults);
            return;
        }
        self.takes_next = true;
        let begin = self.bytes.len();
        self.bytes.resize(begin + frame.len, 0);
        frame.body.read(frame.offset, &mut self.bytes[begin..]);
        let end = self.bytes.len();
        self.datagrams.push(Queued { to, begin, end });
    }

    /// Queues a datagram that consists of two parts.
    #[inline]
    pub(crate) fn push_parts(&mut self, to: PeerId, parts: [&[u8]; 2]) {
        let begin = self.bytes.len();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        let end = self.bytes.len();
        self.datagrams.push(Queued { to, begin, end });
    }

    /// Sends what the socket takes; the rest stays. A datagram that cannot be sent is dropped: it was reported as sent
    /// when it was taken in.
    pub(crate) fn flush(&mut self, socket: &Socket, peers: &Peers) {
        let sent = match self.datagrams.as_slice() {
            [only] => self.send_one(only, socket, peers),
            _ => self.send_all(socket, peers),
        };
        self.datagrams.drain(..sent);
        if self.datagrams.is_empty() {
            self.bytes.clear();
            self.takes_next = self.faults.is_some();
        }
    }

    /// Sends a datagram; returns how many are done with.
    fn send_one(&self, datagram: &Queued, socket: &Socket, peers: &Peers) -> usize {
        let body = self.bytes.get(datagram.begin..datagram.end);
        let (Some(to), Some(body)) = (peers.destination(datagram.to), body) else {
            return 1;
        };
        match socket.send_bytes(to, body) {
            Err(error) if is_full(&error) => 0,
            _ => 1,
        }
    }

    /// Sends what the socket takes; returns how many datagrams are done with.
    fn send_all(&mut self, socket: &Socket, peers: &Peers) -> usize {
        let mut sent = 0;
        while sent < self.datagrams.len() {
            let pieces = self.pieces(sent);
            let outgoing = pieces.clone().filter_map(|piece| {
                Some(Outgoing {
                    to: peers.destination(piece.first.to)?,
                    body: self.bytes.get(piece.first.begin..piece.end)?,
                    cut: (piece.count > 1).then(|| piece.first.len() as u16),
                })
            });
            let Some(first) = pieces.clone().next() else {
                break;
            };
            let cut = pieces.clone().filter(|piece| piece.count > 1);
            let longest = cut.map(|piece| piece.first.len()).max();
            let begun = self.cutting.begin(longest);
            match socket.send_many(outgoing) {
                Ok(count) => {
                    let gone = pieces.take(count.max(1));
                    let (datagrams, bytes) = gone.fold((0, 0), |(datagrams, bytes), piece| {
                        (datagrams + piece.count, bytes + piece.len())
                    });
                    self.cutting.end(begun, count.max(1), bytes);
                    sent += datagrams;
                }
                Err(error) if is_full(&error) => break,
                Err(error) if first.count > 1 && is_uncuttable(&error) => {
                    self.cutting.refused(first.first.len());
                }
                Err(_) => sent += first.count,
            }
        }
        sent
    }

    /// Returns the pieces in which the kernel takes the datagrams, from one on.
    fn pieces(&self, from: usize) -> Pieces<'_> {
        Pieces {
            datagrams: self.datagrams.get(from..).unwrap_or_default(),
            uncut: self.cutting.uncut(),
        }
    }
}

impl Piece {
    const fn len(&self) -> usize {
        self.end - self.first.begin
    }
}

impl Queued {
    const fn len(&self) -> usize {
        self.end - self.begin
    }
}

/// Datagrams that the kernel takes as one.
#[derive(Clone, Copy, Debug)]
struct Piece {
    first: Queued,
    end: usize,
    count: usize,
}

/// Datagrams one after the other, as many together as are of one length and for one peer; the last one may be shorter.
#[derive(Clone, Debug)]
struct Pieces<'a> {
    datagrams: &'a [Queued],
    uncut: Option<usize>,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let (first, rest) = self.datagrams.split_first()?;
        let mut piece = Piece {
            first: *first,
            end: first.end,
            count: 1,
        };
        let cuts = self.uncut.is_none_or(|len| first.len() < len);
        let most = if cuts { CUTS - 1 } else { 0 };
        for datagram in rest.iter().take(most) {
            let fits = datagram.len() <= first.len() && datagram.end - first.begin <= PIECE;
            if datagram.to != first.to
                || datagram.begin != piece.end
                || datagram.len() == 0
                || !fits
            {
                break;
            }
            piece.end = datagram.end;
            piece.count += 1;
            if datagram.len() < first.len() {
                break;
            }
        }
        self.datagrams = &self.datagrams[piece.count..];
        Some(piece)
    }
}

/// Returns whether the path to a peer has an MTU that is too small for pieces of that kind, or its device cannot cut
/// them.
fn is_uncuttable(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    [libc::EINVAL, libc::EIO, libc::EMSGSIZE, libc::EOPNOTSUPP]
        .map(Some)
        .contains(&errno)
}

/// Returns whether the kernel has no room for more now.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(libc::EAGAIN) || errno == Some(libc::ENOBUFS)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use oxifabric_types::Instant;

    use super::*;

    /// Returns the lengths of the datagrams, by piece.
    fn cut(uncut: Option<usize>, datagrams: &[(u32, usize)]) -> Vec<(u32, usize, usize)> {
        let mut tx_queue = TxQueue::default();
        if let Some(len) = uncut {
            tx_queue.cutting.refused(len);
        }
        for (to, len) in datagrams {
            tx_queue.push_parts(PeerId(*to), [&vec![0; *len], &[]]);
        }
        let pieces = tx_queue.pieces(0);
        pieces
            .map(|piece| (piece.first.to.0, piece.count, piece.end - piece.first.begin))
            .collect()
    }

    #[test]
    fn pieces_are_tried_again_after_as_many_calls_as_the_pause_has() {
        const LONG: usize = 4096;
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let receiver = UdpSocket::bind(at).expect("a socket");
        let name = receiver.local_addr().expect("a bound socket");
        let mut peers = Peers::default();
        let peer = peers.number(&name).expect("there is room");
        let socket = Socket::open(&at).expect("a socket");
        let mut tx_queue = TxQueue::timed();
        for _ in 0..2 {
            // Calls that have taken since the clock's beginning.
            tx_queue.cutting.end(Some(Instant::from_nanos(0)), 1, LONG);
        }
        let mut pieces = Vec::new();
        for _ in 0..=64 {
            for _ in 0..2 {
                tx_queue.push_parts(peer, [&[1; LONG], &[]]);
            }
            pieces.push(tx_queue.pieces(0).count());
            tx_queue.flush(&socket, &peers);
            assert_eq!(tx_queue.pieces(0).count(), 0, "all are sent");
        }
        assert_eq!(pieces[..64], [2; 64]);
        assert_eq!(pieces[64], 1, "both at once");
    }

    #[test]
    fn what_is_alike_leaves_as_one_piece() {
        let alike = [
            (1, 100),
            (1, 100),
            (1, 40),
            (1, 100),
            (2, 100),
            (2, 200),
            (2, 0),
        ];
        assert_eq!(
            cut(None, &alike),
            [
                (1, 3, 240),
                (1, 1, 100),
                (2, 1, 100),
                (2, 1, 200),
                (2, 1, 0)
            ]
        );
        assert_eq!(cut(Some(100), &alike).len(), alike.len());
        assert_eq!(cut(Some(101), &alike).len(), 5);
    }

    #[test]
    fn a_piece_has_its_bounds() {
        let many = vec![(1, 10); 100];
        assert_eq!(cut(None, &many), [(1, 64, 640), (1, 36, 360)]);
        let long = vec![(1, 16_384); 5];
        assert_eq!(cut(None, &long), [(1, 3, 49_152), (1, 2, 32_768)]);
    }
}
