//! What is held back to leave in company: sends with FI_MORE. Path class: large.

use oxifabric_engine::Frame;
use oxifabric_types::PeerId;

use crate::peer::Peers;
use crate::sys::{Outgoing, Socket};

/// How many datagrams are held back at most, and leave with one call.
pub(crate) const MANY: usize = 64;

/// Datagrams in the order of posting; what they carry is copied.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    letters: Vec<Letter>,
}

#[derive(Clone, Copy, Debug)]
struct Letter {
    to: PeerId,
    begin: usize,
    end: usize,
}

impl Outbox {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.letters.len() >= MANY
    }

    /// Takes a datagram in.
    pub(crate) fn push(&mut self, to: PeerId, frame: &Frame<'_>) {
        let begin = self.bytes.len();
        self.bytes.resize(begin + frame.len, 0);
        frame.body.read(frame.offset, &mut self.bytes[begin..]);
        let end = self.bytes.len();
        self.letters.push(Letter { to, begin, end });
    }

    /// Takes a datagram in that consists of two parts.
    #[inline]
    pub(crate) fn push_parts(&mut self, to: PeerId, parts: [&[u8]; 2]) {
        let begin = self.bytes.len();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        let end = self.bytes.len();
        self.letters.push(Letter { to, begin, end });
    }

    /// Sends what the socket takes; the rest stays. A datagram that cannot be sent is dropped: it was reported as sent
    /// when it was taken in.
    pub(crate) fn flush(&mut self, socket: &Socket, peers: &Peers) {
        let mut sent = 0;
        while sent < self.letters.len() {
            let outgoing = self.letters[sent..].iter().filter_map(|letter| {
                Some(Outgoing {
                    to: peers.destination(letter.to)?,
                    body: self.bytes.get(letter.begin..letter.end)?,
                })
            });
            match socket.send_many(outgoing) {
                Ok(count) => sent += count.max(1),
                Err(error) if is_full(&error) => break,
                Err(_) => sent += 1,
            }
        }
        self.letters.drain(..sent);
        if self.letters.is_empty() {
            self.bytes.clear();
        }
    }
}

/// Tells whether the kernel has no room for more now.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(libc::EAGAIN) || errno == Some(libc::ENOBUFS)
}
