//! Datagrams received and not delivered yet. Path class: hot.
//!
//! While datagrams come one at a time, a system call takes one; when they come faster than the endpoint is polled, one call
//! takes many. A receive buffer cannot be chosen before the source (fi_msg(3), directed receives) and the
//! length of the datagram are known, and whether there is a buffer at all: so datagrams are received here, and copied.

use std::io;

use oxifabric_provider::inet::RawAddr;

use crate::sys::Socket;

/// Maximum number of datagrams that one call takes.
pub(crate) const MANY: usize = 16;

/// Longer than any datagram over IP.
pub(crate) const LONGEST: usize = 1 << 16;

/// Distance in bytes of the places of two datagrams: no power of two, so that they do not compete for the same cache sets.
pub(crate) const STRIDE: usize = LONGEST + 1600;

/// Number of polls in a row that found something, after which a call asks for many datagrams. If it finds only one, the traffic
/// was requests and responses: counting starts again, with twice the number.
const BATCH_AFTER: u8 = 2;
/// Highest number of polls that doubling leads to.
const BATCH_AFTER_MAX: u8 = 128;

/// Maximum number of errors of earlier sends, which the kernel reports here, that are skipped in one go.
const SKIPS: usize = 16;

/// Datagrams in the order in which they came.
#[derive(Debug)]
pub(crate) struct RxQueue {
    /// One place, or [`MANY`] as soon as they are of use. Pages that no datagram reaches cost nothing.
    bytes: Vec<u8>,
    datagrams: Vec<Received>,
    next: usize,
    /// Offset in that place where the next datagram begins.
    begin: usize,
    count: usize,
    merging: Merging,
    /// Length of datagrams that others follow.
    full: usize,
    /// Number of polls in a row that found something.
    filled_polls: u8,
    /// Number of such polls after which many datagrams are asked for.
    batch_after: u8,
    /// Whether an error of an earlier send was skipped.
    send_error: bool,
}

/// Whether the kernel delivers datagrams that came together as one (udp(7), UDP_GRO). To be told apart they need a call
/// that costs more, so the socket asks for it when a stream, or a full packet, comes for the first time. It never asks to stop: the kernel
/// would then deliver what it has merged before without marking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merging {
    Never,
    Off,
    On,
}

/// Least length of datagrams that are merged, which are full packets of some path.
const LARGE: usize = 1000;

/// A datagram in its place, or several of one source that the kernel has merged.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) len: usize,
    /// Length of each datagram; the last one may be shorter.
    pub(crate) each: usize,
    pub(crate) from: RawAddr,
}

impl RxQueue {
    /// Returns a queue for a socket that merges datagrams (UDP_GRO) once several arrive at a time, or one of the length `full`, which others follow.
    pub(crate) fn merging(full: usize) -> Self {
        Self {
            merging: Merging::Off,
            full,
            ..Self::new()
        }
    }

    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; STRIDE],
            datagrams: vec![Received::empty()],
            next: 0,
            begin: 0,
            count: 0,
            merging: Merging::Never,
            full: LONGEST,
            filled_polls: 0,
            batch_after: BATCH_AFTER,
            send_error: false,
        }
    }

    /// Returns whether all was delivered.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.next == self.count
    }

    /// Returns the number of datagrams.
    pub(crate) const fn len(&self) -> usize {
        self.count - self.next
    }

    /// Returns whether there was an error of an earlier send since the last call.
    pub(crate) fn take_send_error(&mut self) -> bool {
        std::mem::take(&mut self.send_error)
    }

    /// Receives what a socket has; returns whether there is something. What was not delivered of the datagrams before is dropped. `sources`: also the
    /// addresses that datagrams come from.
    #[inline]
    pub(crate) fn fill(&mut self, socket: &Socket, sources: bool) -> bool {
        (self.next, self.count) = (0, 0);
        let mut skips = SKIPS;
        loop {
            let received = match self.filled_polls < self.batch_after {
                true => self.receive_one(socket, sources),
                false => self.receive_many(socket, sources),
            };
            match received {
                Ok(count) => {
                    self.count = count;
                    if self.merging == Merging::Off {
                        self.merge(socket);
                    }
                }
                Err(error) if may_have_more(&error) && skips > 0 => {
                    skips -= 1;
                    self.send_error = true;
                    continue;
                }
                Err(_) => {}
            }
            return self.count != 0;
        }
    }

    /// Asks the socket to merge datagrams if several have arrived at a time, large ones among them, or a full one.
    fn merge(&mut self, socket: &Socket) {
        let datagrams = &self.datagrams[..self.count];
        let least = if self.count > 1 { LARGE } else { self.full };
        let stream = datagrams.iter().any(|datagram| datagram.len >= least);
        if stream && socket.merge().is_ok() {
            self.merging = Merging::On;
        }
    }

    /// Counts the datagrams that a poll found.
    #[inline]
    pub(crate) fn note(&mut self, found: usize) {
        self.filled_polls = match found {
            0 => 0,
            1 if self.filled_polls >= self.batch_after => {
                self.batch_after = (self.batch_after.saturating_mul(2)).min(BATCH_AFTER_MAX);
                0
            }
            1 => self.filled_polls + 1,
            _ => {
                self.batch_after = BATCH_AFTER;
                BATCH_AFTER
            }
        };
    }

    /// Returns the first datagram that was not delivered.
    #[inline]
    pub(crate) fn front(&self) -> Option<(&Received, &[u8])> {
        let at = self.next;
        if at == self.count {
            return None;
        }
        let datagram = self.datagrams.get(at)?;
        let end = datagram.len.min(self.begin + datagram.each);
        let bytes = self.bytes.get(at * STRIDE..)?.get(self.begin..end)?;
        Some((datagram, bytes))
    }

    /// Removes the first datagram, which was delivered.
    #[inline]
    pub(crate) fn pop(&mut self) {
        let Some(datagram) = self.datagrams.get(self.next) else {
            return;
        };
        self.begin += datagram.each;
        if self.begin >= datagram.len {
            self.begin = 0;
            self.next += 1;
        }
    }

    #[inline]
    fn receive_one(&mut self, socket: &Socket, sources: bool) -> io::Result<usize> {
        let datagram = &mut self.datagrams[0];
        if self.merging == Merging::On {
            socket.receive_merged(&mut self.bytes[..LONGEST], datagram)?;
            return Ok(1);
        }
        let from = sources.then_some(&mut datagram.from);
        datagram.len = socket.receive(&mut self.bytes[..LONGEST], from)?;
        datagram.each = datagram.len;
        Ok(1)
    }

    fn receive_many(&mut self, socket: &Socket, sources: bool) -> io::Result<usize> {
        if self.datagrams.len() < MANY {
            self.bytes = vec![0; MANY * STRIDE];
            self.datagrams.resize_with(MANY, Received::empty);
        }
        socket.receive_many(&mut self.bytes, &mut self.datagrams, sources)
    }
}

impl Received {
    fn empty() -> Self {
        Self {
            len: 0,
            each: 0,
            from: RawAddr::zeroed(),
        }
    }
}

/// Returns whether a datagram may be there in spite of an error: most are reports of earlier sends, which a receive takes in place of a datagram.
fn may_have_more(error: &io::Error) -> bool {
    error.raw_os_error() != Some(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use oxifabric_types::PeerId;

    use super::*;
    use crate::peer::Peers;
    use crate::tx_queue::TxQueue;

    /// Returns a socket, and another that is connected to it.
    fn pair() -> (Socket, UdpSocket) {
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = Socket::open(&at).expect("a socket");
        socket.bind(&at).expect("a port");
        let sender = UdpSocket::bind(at).expect("a socket");
        let name = socket.local().expect("a bound socket");
        sender.connect(name).expect("an address");
        (socket, sender)
    }

    /// Takes everything that a poll finds; returns the number of datagrams.
    fn poll(rx_queue: &mut RxQueue, socket: &Socket) -> usize {
        let mut found = 0;
        if rx_queue.fill(socket, true) {
            while rx_queue.front().is_some() {
                rx_queue.pop();
                found += 1;
            }
        }
        rx_queue.note(found);
        found
    }

    #[test]
    fn one_is_taken_at_a_time_until_they_come_faster() {
        let (socket, sender) = pair();
        let mut rx_queue = RxQueue::new();
        for _ in 0..6 {
            sender.send(b"x").expect("a datagram sent");
        }
        let found = [(); 5].map(|()| poll(&mut rx_queue, &socket));
        assert_eq!(found, [1, 1, 4, 0, 0]);
    }

    #[test]
    fn questions_and_answers_are_taken_one_at_a_time() {
        let (socket, sender) = pair();
        let mut rx_queue = RxQueue::new();
        let mut attempts = 0;
        for _ in 0..1000 {
            sender.send(b"x").expect("a datagram sent");
            attempts += usize::from(rx_queue.filled_polls == rx_queue.batch_after);
            assert_eq!(poll(&mut rx_queue, &socket), 1);
        }
        assert!(attempts < 20, "{attempts} calls for many found one");
        for _ in 0..300 {
            sender.send(b"x").expect("a datagram sent");
        }
        while poll(&mut rx_queue, &socket) == 1 {}
        assert_eq!(rx_queue.batch_after, BATCH_AFTER, "they come faster");
    }

    /// Returns a socket that has the address of another, and a queue of what it is to send there.
    fn tx_queue(to: &Socket) -> (Socket, TxQueue, Peers, PeerId) {
        let at = to.local().expect("a bound socket");
        let mut peers = Peers::default();
        let peer = peers.number(&at).expect("there is room");
        let socket = Socket::open(&at).expect("a socket");
        (socket, TxQueue::default(), peers, peer)
    }

    #[test]
    fn what_was_merged_comes_apart_again() {
        let (socket, _) = pair();
        let (sender, mut tx_queue, peers, peer) = tx_queue(&socket);
        socket.merge().expect("a kernel with UDP_GRO");
        for polls in [0, BATCH_AFTER] {
            for number in 0..5_u8 {
                let len = if number == 4 { 300 } else { 1000 };
                tx_queue.push_parts(peer, [&[number], &vec![number; len - 1]]);
            }
            tx_queue.flush(&sender, &peers);
            let mut rx_queue = RxQueue::merging(LONGEST);
            (rx_queue.filled_polls, rx_queue.merging) = (polls, Merging::On);
            assert!(rx_queue.fill(&socket, true));
            assert_eq!(rx_queue.len(), 1, "one piece");
            for number in 0..5_u8 {
                let (_, bytes) = rx_queue.front().expect("as many as were sent");
                let len = if number == 4 { 300 } else { 1000 };
                assert_eq!(bytes, vec![number; len]);
                rx_queue.pop();
            }
            assert!(rx_queue.is_empty() && !rx_queue.fill(&socket, true));
        }
    }

    /// Sends so many datagrams of a length at a time, and takes them; returns whether datagrams are merged from then on.
    fn merges(len: usize, groups: &[usize]) -> Vec<Merging> {
        const FULL: usize = 2 * LARGE;
        let (socket, _) = pair();
        let (sender, mut tx_queue, peers, peer) = tx_queue(&socket);
        let mut rx_queue = RxQueue::merging(FULL);
        let mut merging = Vec::new();
        for together in groups {
            for _ in 0..*together {
                tx_queue.push_parts(peer, [&vec![0; len], &[]]);
            }
            tx_queue.flush(&sender, &peers);
            let mut taken = 0;
            while taken < *together {
                taken += poll(&mut rx_queue, &socket);
            }
            assert_eq!(taken, *together);
            merging.push(rx_queue.merging);
        }
        merging
    }

    #[test]
    fn datagrams_are_merged_once_they_come_in_company_or_are_full() {
        use Merging::{Off, On};
        assert_eq!(merges(LARGE, &[1, 20, 1]), [Off, On, On]);
        assert_eq!(merges(LARGE - 1, &[1, 20, 1]), [Off, Off, Off]);
        assert_eq!(merges(2 * LARGE - 1, &[1, 1]), [Off, Off]);
        assert_eq!(merges(2 * LARGE, &[1, 1]), [On, On]);
    }

    #[test]
    fn many_keep_their_bytes_and_senders() {
        let (socket, sender) = pair();
        let mut rx_queue = RxQueue::new();
        rx_queue.filled_polls = BATCH_AFTER;
        for len in 0..MANY {
            sender.send(&vec![len as u8; len]).expect("a datagram sent");
        }
        assert!(rx_queue.fill(&socket, true));
        for len in 0..MANY {
            let (datagram, bytes) = rx_queue.front().expect("as many as were sent");
            assert_eq!(bytes, vec![len as u8; len]);
            assert_eq!(datagram.from.address(), sender.local_addr().ok());
            rx_queue.pop();
        }
        assert!(rx_queue.is_empty() && !rx_queue.fill(&socket, true));
    }
}
