//! The sending half of a connection: one frame under way, and shorter ones coalesced before they leave. Hot path for
//! short frames, large path for the others.
//!
//! Bytes that were accepted lie in the backlog, in order; after them comes the rest of at most one large body.
//! A post returns [`Taken::Later`] as long as the socket is full, so the backlog stays bounded.

use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroUsize;

use oxifabric_engine::TxToken;
use oxifabric_mem::Iov;
use oxifabric_types::Errno;

use crate::socket::Socket;

/// Bodies up to this length are copied behind their headers: one call with one piece is the fastest.
const COPY_MAX: usize = 2048;

/// From this number of frames on, those that are held back leave before they fill a segment: the receiver would have nothing to do for too
/// long, since it has something to do for each of them.
const MANY: u32 = 32;

/// The bytes of so many frames that leave together. Windows of 64 messages of 512 B take 0.53 us a message with 20 to 40 KiB, and twice that with more.
const MANY_LEN: usize = 20 * 1024;

/// The sending half of a connection.
#[derive(Debug, Default)]
pub struct Tx {
    /// Accepted bytes, of which the first `sent` have left.
    backlog: Vec<u8>,
    sent: usize,
    /// Number of frames in the backlog, if it is held back.
    frames: u32,
    /// What follows the backlog.
    large: Option<Large>,
    /// Length of a segment, if it is worth while to fill it: within a host each costs as much as copying its bytes.
    segment: Option<NonZeroUsize>,
    /// Whether the socket takes nothing more for now.
    blocked: bool,
    /// Whether a thread of its own looks after what is held back, for its owner to keep.
    pub scheduled: bool,
    /// Whether what is held back was there at the last look of [`Tx::flush_overdue`].
    overdue: bool,
}

/// The rest of a large body.
#[derive(Debug)]
struct Large {
    body: Iov,
    offset: usize,
    len: usize,
    token: TxToken,
}

/// Which frames are held back, to leave with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalescing {
    /// None: a frame leaves at once, with what was held back.
    Off,
    /// Those with a short body, and of longer ones what would begin another segment.
    Short,
    /// Also those with a longer body, up to [`Socket::HELD_BODY`]: others are expected to follow soon.
    Medium,
}

/// Result of posting a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The memory is free.
    Done,
    /// The memory is needed until [`Tx::advance`] returns its token.
    Pending,
    /// It was not taken: the socket is full.
    Later,
}

/// The body of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The memory that it is a part of.
    pub iov: &'a Iov,
    /// Where it begins there.
    pub offset: usize,
    /// Its length.
    pub len: usize,
    /// The token of the frame.
    pub token: TxToken,
    /// The memory is valid during the call only.
    pub transient: bool,
    /// The frame is over when the kernel has all of it.
    pub transmit_complete: bool,
}

impl Tx {
    /// Makes the half of a new connection. `segment` is the length of a segment, if it is worth while to fill it; `reserved` is how many
    /// bytes are set aside at once.
    pub fn new(segment: Option<NonZeroUsize>, reserved: usize) -> Self {
        Self {
            segment,
            backlog: Vec::with_capacity(reserved),
            ..Self::default()
        }
    }

    /// Returns whether the socket is full, so that it is worth waiting for it.
    pub fn blocked(&self) -> bool {
        self.blocked
    }

    /// Returns whether accepted bytes wait for [`Tx::flush`].
    pub fn holds_back(&self) -> bool {
        !self.blocked && !self.backlog.is_empty()
    }

    /// Returns whether bytes whose memory was given back wait for another call: held back, or because the socket is
    /// full. The thread that posted them may never call again.
    pub fn waits(&self) -> bool {
        self.large.is_none() && !self.backlog.is_empty()
    }

    /// Sends a frame, or holds it back.
    ///
    /// # Errors
    /// The error of the socket; the connection is of no use any more.
    #[inline]
    pub fn post<S: Socket>(
        &mut self,
        socket: &S,
        header: &[u8],
        body: Body<'_>,
        coalescing: Coalescing,
    ) -> Result<Taken, Errno> {
        if self.blocked {
            return Ok(Taken::Later);
        }
        let coalescing = match body.transmit_complete {
            true => Coalescing::Off,
            false => coalescing,
        };
        let copied = match coalescing {
            Coalescing::Medium => S::HELD_BODY,
            _ => COPY_MAX,
        };
        if body.len > copied {
            let more = coalescing != Coalescing::Off;
            return self.post_large(socket, header, body, more);
        }
        self.backlog.extend_from_slice(header);
        self.append(&body);
        if coalescing == Coalescing::Off {
            self.flush(socket)?;
            return Ok(self.taken(&body));
        }
        self.frames += 1;
        if self.backlog.len() >= MANY_LEN.min(S::HELD_BACK) {
            self.flush_full(socket)?;
        }
        Ok(Taken::Done)
    }

    /// Sends what fills segments of what is held back, or all of it where many frames wait or segments need not be full.
    fn flush_full<S: Socket>(&mut self, socket: &S) -> Result<(), Errno> {
        let waiting = self.backlog.len();
        if self.frames >= MANY {
            return self.flush(socket);
        }
        let segment = self.segment.map_or(1, NonZeroUsize::get);
        let limit = S::HELD_BACK - S::HELD_BACK % segment;
        if waiting < limit.max(segment) {
            return Ok(());
        }
        self.send_up_to(socket, waiting - waiting % segment)
    }

    /// Returns the result of a post whose frame is in the socket, or the rest of it in the backlog.
    #[inline]
    fn taken(&mut self, body: &Body<'_>) -> Taken {
        if !body.transmit_complete || self.backlog.is_empty() {
            return Taken::Done;
        }
        self.large = Some(Large {
            body: Iov::empty(),
            offset: 0,
            len: 0,
            token: body.token,
        });
        Taken::Pending
    }

    /// Accepts a header that must go out, whatever the socket's state.
    ///
    /// # Errors
    /// `NOMEM`: there is no memory for what has to go before it.
    pub fn force(&mut self, header: &[u8]) -> Result<(), Errno> {
        let of_body = self.large.as_ref().map_or(0, |large| large.len);
        self.reserve(of_body.saturating_add(header.len()))?;
        if let Some(large) = &mut self.large {
            // It has to follow the body, which therefore joins the backlog.
            let (offset, len) = (large.offset, mem::take(&mut large.len));
            copy(&mut self.backlog, &large.body, offset, len);
        }
        self.backlog.extend_from_slice(header);
        Ok(())
    }

    /// Sets memory aside for bytes that are as long as a peer or an application wants.
    fn reserve(&mut self, len: usize) -> Result<(), Errno> {
        self.backlog.try_reserve(len).map_err(|_| Errno::NOMEM)
    }

    /// Sends the bytes that were held back.
    ///
    /// # Errors
    /// As [`Tx::post`].
    #[inline]
    pub fn flush(&mut self, socket: &impl Socket) -> Result<(), Errno> {
        self.send_up_to(socket, self.backlog.len())
    }

    /// Sends the backlog up to `end`. Where the socket does not take all of that, it is full.
    #[inline]
    fn send_up_to(&mut self, socket: &impl Socket, end: usize) -> Result<(), Errno> {
        let wanted = &self.backlog[self.sent..end];
        self.overdue = false;
        let count = or_none(socket.send(wanted))?;
        if count < wanted.len() {
            self.sent += count;
            self.blocked = true;
        } else if end == self.backlog.len() {
            self.clear();
        } else {
            // What is left is the end of the last frame.
            self.backlog.drain(..end);
            self.sent = 0;
            self.frames = 1;
        }
        Ok(())
    }

    /// Sends what has waited since the last such look; returns whether anything waited. What the socket does not take, and its errors, are left
    /// to the next call. That a full socket has room again is left to the thread that polls.
    pub fn flush_overdue(&mut self, socket: &impl Socket) -> bool {
        if !self.waits() {
            return false;
        }
        if mem::replace(&mut self.overdue, true)
            && let Ok(count) = socket.send(&self.backlog[self.sent..])
        {
            self.backlog.drain(..self.sent + count);
            self.sent = 0;
            self.overdue = !self.backlog.is_empty();
        }
        true
    }

    /// Resumes sending where the socket was full; returns whether it took anything, and the token of a large body that
    /// has left completely.
    ///
    /// # Errors
    /// As [`Tx::post`].
    pub fn advance(&mut self, socket: &impl Socket) -> Result<(bool, Option<TxToken>), Errno> {
        let nothing = Iov::empty();
        let rest = &self.backlog[self.sent..];
        let (body, offset, len) = match &self.large {
            Some(large) => (&large.body, large.offset, large.len),
            None => (&nothing, 0, 0),
        };
        let wanted = rest.len() + len;
        self.overdue = false;
        let count = or_none(socket.send_gather(rest, body, offset, len))?;
        let of_body = count.saturating_sub(rest.len());
        self.sent += count - of_body;
        self.blocked = count < wanted;
        self.clear_if_sent();
        if let Some(large) = &mut self.large {
            large.offset += of_body;
            large.len -= of_body;
            if large.len == 0 && self.backlog.is_empty() {
                return Ok((count > 0, self.large.take().map(|large| large.token)));
            }
        }
        Ok((count > 0, None))
    }

    /// Takes nothing more. Nothing waits to be sent.
    pub fn end(&mut self) {
        debug_assert!(self.backlog.is_empty() && self.large.is_none());
        self.blocked = true;
    }

    /// Abandons what was not sent; returns the token of the body that is under way.
    pub fn abandon(&mut self) -> Option<TxToken> {
        self.large.take().map(|large| large.token)
    }

    fn post_large<S: Socket>(
        &mut self,
        socket: &S,
        header: &[u8],
        body: Body<'_>,
        more: bool,
    ) -> Result<Taken, Errno> {
        let before = self.backlog.len();
        self.backlog.extend_from_slice(header);
        let lead = self.backlog.len();
        let end = match self.segment {
            Some(segment) if more => (lead + body.len) % segment,
            _ => 0,
        };
        let now = body.len - if end <= COPY_MAX { end } else { 0 };
        let result = socket.send_gather(&self.backlog, body.iov, body.offset, now);
        let count = or_none(result)?;
        if count == lead + now {
            self.clear();
            self.append(&Body {
                offset: body.offset + now,
                len: body.len - now,
                ..body
            });
            return Ok(Taken::Done);
        }
        self.blocked = true;
        if count <= before {
            // What was held back fills the socket; the engine posts this frame again.
            self.backlog.truncate(before);
            self.sent = count;
            self.clear_if_sent();
            return Ok(Taken::Later);
        }
        let of_body = count.saturating_sub(lead);
        self.sent = count - of_body;
        let rest = Body {
            offset: body.offset + of_body,
            len: body.len - of_body,
            ..body
        };
        if rest.transient || rest.len <= COPY_MAX {
            self.reserve(rest.len)?;
            self.append(&rest);
            return Ok(self.taken(&rest));
        }
        self.large = Some(Large {
            body: rest.iov.clone(),
            offset: rest.offset,
            len: rest.len,
            token: rest.token,
        });
        Ok(Taken::Pending)
    }

    fn clear_if_sent(&mut self) {
        if self.sent == self.backlog.len() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.backlog.clear();
        self.sent = 0;
        self.frames = 0;
    }

    #[inline]
    fn append(&mut self, body: &Body<'_>) {
        copy(&mut self.backlog, body.iov, body.offset, body.len);
    }
}

#[inline]
fn copy(backlog: &mut Vec<u8>, iov: &Iov, offset: usize, len: usize) {
    if len > 0 {
        let start = backlog.len();
        backlog.resize(start + len, 0);
        iov.read(offset, &mut backlog[start..]);
    }
}

/// Turns the error of a full socket into zero bytes sent.
fn or_none(result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        // With the last one the kernel is short of memory for the moment.
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests;
