//! What was received and not delivered yet. Path class: short.
//!
//! While datagrams come one at a time, each is asked for alone; when they come faster than they are asked for, many are taken
//! with one call. A receive buffer cannot be told before it is known who sent (fi_msg(3), directed receives), how long
//! the datagram is, and whether a buffer is there at all: so datagrams land here, and are copied.

use std::io;

use oxifabric_core::inet::RawAddr;

use crate::sys::Socket;

/// How many datagrams one call takes at most.
pub(crate) const MANY: usize = 16;

/// Longer than any datagram over IP.
pub(crate) const LONGEST: usize = 1 << 16;

/// From one place to the next. They do not begin at the same places of cache lines and pages.
pub(crate) const STRIDE: usize = LONGEST + 1600;

/// After so many polls in a row that found something there may be more to take than one datagram. If there is not, it
/// was an exchange of questions and answers: counting starts again, up to twice as many,
const BUSY: u8 = 2;
/// or so many.
const BUSY_MAX: u8 = 128;

/// How many errors of earlier sends, which the kernel reports here, are skipped in one go.
const SKIPS: usize = 16;

/// Datagrams in the order in which they came.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// One place, or [`MANY`] as soon as they are of use. Pages that no datagram reaches cost nothing.
    bytes: Vec<u8>,
    letters: Vec<Letter>,
    next: usize,
    /// Where in that place the next datagram begins.
    begin: usize,
    count: usize,
    merging: Merging,
    /// How many polls in a row found something.
    run: u8,
    /// After how many of them many datagrams are asked for.
    busy: u8,
    /// An error of an earlier send was skipped.
    trouble: bool,
}

/// Whether the kernel delivers datagrams that came together as one (udp(7), UDP_GRO). To be told apart they need a call that costs
/// more, so it is asked to when a stream comes for the first time. It is never asked to stop: it would then deliver what it has merged
/// before and not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merging {
    Never,
    Off,
    On,
}

/// Datagrams that are merged are full packets, of so many bytes at least.
const LARGE: usize = 1000;

/// A datagram in its place, or several of one sender.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) len: usize,
    /// How long each of them is; the last one may be shorter.
    pub(crate) each: usize,
    pub(crate) from: RawAddr,
}

impl Inbox {
    /// One for a socket that delivers several datagrams as one once they come in company; senders have to be asked for.
    pub(crate) fn merging() -> Self {
        Self {
            merging: Merging::Off,
            ..Self::new()
        }
    }

    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; STRIDE],
            letters: vec![Letter::empty()],
            next: 0,
            begin: 0,
            count: 0,
            merging: Merging::Never,
            run: 0,
            busy: BUSY,
            trouble: false,
        }
    }

    /// Tells whether all was delivered.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.next == self.count
    }

    /// How many datagrams are there.
    pub(crate) const fn len(&self) -> usize {
        self.count - self.next
    }

    /// Tells whether there was an error of an earlier send since the last call.
    pub(crate) fn take_trouble(&mut self) -> bool {
        std::mem::take(&mut self.trouble)
    }

    /// Receives what a socket has, if all was delivered; tells whether there is something. Addresses of senders are asked
    /// for if they count.
    #[inline]
    pub(crate) fn fill(&mut self, socket: &Socket, sources: bool) -> bool {
        (self.next, self.count) = (0, 0);
        let mut skips = SKIPS;
        loop {
            let received = match self.run < self.busy {
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
                Err(error) if is_of_the_past(&error) && skips > 0 => {
                    skips -= 1;
                    self.trouble = true;
                    continue;
                }
                Err(_) => {}
            }
            return self.count != 0;
        }
    }

    /// Has datagrams merged if they come in company.
    fn merge(&mut self, socket: &Socket) {
        let letters = &self.letters[..self.count];
        let stream = self.count > 1 && letters.iter().any(|letter| letter.len >= LARGE);
        if stream && socket.merge().is_ok() {
            self.merging = Merging::On;
        }
    }

    /// Remembers how many datagrams a poll found.
    #[inline]
    pub(crate) fn note(&mut self, found: usize) {
        self.run = match found {
            0 => 0,
            1 if self.run >= self.busy => {
                self.busy = (self.busy.saturating_mul(2)).min(BUSY_MAX);
                0
            }
            1 => self.run + 1,
            _ => {
                self.busy = BUSY;
                BUSY
            }
        };
    }

    /// Returns the first datagram that was not delivered.
    #[inline]
    pub(crate) fn front(&self) -> Option<(&Letter, &[u8])> {
        let at = self.next;
        if at == self.count {
            return None;
        }
        let letter = self.letters.get(at)?;
        let end = letter.len.min(self.begin + letter.each);
        let bytes = self.bytes.get(at * STRIDE..)?.get(self.begin..end)?;
        Some((letter, bytes))
    }

    /// The first datagram was delivered.
    #[inline]
    pub(crate) fn pop(&mut self) {
        let Some(letter) = self.letters.get(self.next) else {
            return;
        };
        self.begin += letter.each;
        if self.begin >= letter.len {
            self.begin = 0;
            self.next += 1;
        }
    }

    #[inline]
    fn receive_one(&mut self, socket: &Socket, sources: bool) -> io::Result<usize> {
        let letter = &mut self.letters[0];
        if self.merging == Merging::On {
            socket.receive_merged(&mut self.bytes[..LONGEST], letter)?;
            return Ok(1);
        }
        let from = sources.then_some(&mut letter.from);
        letter.len = socket.receive(&mut self.bytes[..LONGEST], from)?;
        letter.each = letter.len;
        Ok(1)
    }

    fn receive_many(&mut self, socket: &Socket, sources: bool) -> io::Result<usize> {
        if self.letters.len() < MANY {
            self.bytes = vec![0; MANY * STRIDE];
            self.letters.resize_with(MANY, Letter::empty);
        }
        socket.receive_many(&mut self.bytes, &mut self.letters, sources)
    }
}

impl Letter {
    fn empty() -> Self {
        Self {
            len: 0,
            each: 0,
            from: RawAddr::zeroed(),
        }
    }
}

/// Tells whether an error is about something that was sent before: a datagram may be there all the same.
fn is_of_the_past(error: &io::Error) -> bool {
    error.raw_os_error() != Some(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use oxifabric_types::PeerId;

    use super::*;
    use crate::outbox::Outbox;
    use crate::peer::Peers;

    /// A socket, and another that knows where it is.
    fn pair() -> (Socket, UdpSocket) {
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = Socket::open(&at).expect("a socket");
        socket.bind(&at).expect("a port");
        let sender = UdpSocket::bind(at).expect("a socket");
        let name = socket.local().expect("a bound socket");
        sender.connect(name).expect("an address");
        (socket, sender)
    }

    /// Takes everything that a poll finds; tells how many datagrams there were.
    fn poll(inbox: &mut Inbox, socket: &Socket) -> usize {
        let mut found = 0;
        if inbox.fill(socket, true) {
            while inbox.front().is_some() {
                inbox.pop();
                found += 1;
            }
        }
        inbox.note(found);
        found
    }

    #[test]
    fn one_is_taken_at_a_time_until_they_come_faster() {
        let (socket, sender) = pair();
        let mut inbox = Inbox::new();
        for _ in 0..6 {
            sender.send(b"x").expect("a datagram sent");
        }
        let found = [(); 5].map(|()| poll(&mut inbox, &socket));
        assert_eq!(found, [1, 1, 4, 0, 0]);
    }

    #[test]
    fn questions_and_answers_are_taken_one_at_a_time() {
        let (socket, sender) = pair();
        let mut inbox = Inbox::new();
        let mut attempts = 0;
        for _ in 0..1000 {
            sender.send(b"x").expect("a datagram sent");
            attempts += usize::from(inbox.run == inbox.busy);
            assert_eq!(poll(&mut inbox, &socket), 1);
        }
        assert!(attempts < 20, "{attempts} calls for many found one");
        for _ in 0..300 {
            sender.send(b"x").expect("a datagram sent");
        }
        while poll(&mut inbox, &socket) == 1 {}
        assert_eq!(inbox.busy, BUSY, "they come faster");
    }

    /// A socket that knows where another is, and what it is to send there.
    fn outbox(to: &Socket) -> (Socket, Outbox, Peers, PeerId) {
        let at = to.local().expect("a bound socket");
        let mut peers = Peers::default();
        let peer = peers.number(&at).expect("there is room");
        let socket = Socket::open(&at).expect("a socket");
        (socket, Outbox::default(), peers, peer)
    }

    #[test]
    fn what_was_merged_comes_apart_again() {
        let (socket, _) = pair();
        let (sender, mut outbox, peers, peer) = outbox(&socket);
        socket.merge().expect("a kernel with UDP_GRO");
        for run in [0, BUSY] {
            for number in 0..5_u8 {
                let len = if number == 4 { 300 } else { 1000 };
                outbox.push_parts(peer, [&[number], &vec![number; len - 1]]);
            }
            outbox.flush(&sender, &peers);
            let mut inbox = Inbox::merging();
            (inbox.run, inbox.merging) = (run, Merging::On);
            assert!(inbox.fill(&socket, true));
            assert_eq!(inbox.len(), 1, "one piece");
            for number in 0..5_u8 {
                let (_, bytes) = inbox.front().expect("as many as were sent");
                let len = if number == 4 { 300 } else { 1000 };
                assert_eq!(bytes, vec![number; len]);
                inbox.pop();
            }
            assert!(inbox.is_empty() && !inbox.fill(&socket, true));
        }
    }

    #[test]
    fn datagrams_are_merged_once_they_come_in_company() {
        let (socket, _) = pair();
        let (sender, mut outbox, peers, peer) = outbox(&socket);
        let mut inbox = Inbox::merging();
        for (together, after) in [(1, Merging::Off), (20, Merging::On), (1, Merging::On)] {
            for _ in 0..together {
                outbox.push_parts(peer, [&[0; LARGE], b"x"]);
            }
            outbox.flush(&sender, &peers);
            let mut taken = 0;
            while taken < together {
                taken += poll(&mut inbox, &socket);
            }
            assert_eq!((taken, inbox.merging), (together, after));
        }
    }

    #[test]
    fn many_keep_their_bytes_and_senders() {
        let (socket, sender) = pair();
        let mut inbox = Inbox::new();
        inbox.run = BUSY;
        for len in 0..MANY {
            sender.send(&vec![len as u8; len]).expect("a datagram sent");
        }
        assert!(inbox.fill(&socket, true));
        for len in 0..MANY {
            let (letter, bytes) = inbox.front().expect("as many as were sent");
            assert_eq!(bytes, vec![len as u8; len]);
            assert_eq!(letter.from.address(), sender.local_addr().ok());
            inbox.pop();
        }
        assert!(inbox.is_empty() && !inbox.fill(&socket, true));
    }
}
