//! The socket of a connection, as far as frames and connection messages need it.

use oxifabric_mem::Iov;
use oxifabric_types::Errno;

/// A stream socket whose calls never wait.
///
/// Calls return `AGAIN` when the socket is full or empty, `INTR` or `NOBUFS` when the next call may succeed, and any other error when the connection
/// is of no use any more.
pub trait Socket {
    /// Bytes that are read at most before they are looked at. Small messages come many at a time.
    const READ_AHEAD: usize;

    /// Length of messages from which on little more than the header is read at first, and the body straight into its memory: a second call costs less
    /// than copying them.
    const LONG_LEN: usize;

    /// Bytes that are read while long messages come: little more than a header, so that their bodies are not copied.
    const NARROW_LEN: usize;

    /// Bytes that may be held back, to leave together, with one more frame. Less costs more calls; more, and the receiver has nothing to do for too long.
    const HELD_BACK: usize;

    /// Longest body that may be held back: longer ones are not worth copying.
    const HELD_BODY: usize;

    /// Sends bytes; returns how many it took.
    ///
    /// # Errors
    /// See [`Socket`].
    fn send(&self, bytes: &[u8]) -> Result<usize, Errno>;

    /// Sends `head` and then `body[offset..offset + len]`; returns how many bytes it took.
    ///
    /// # Errors
    /// See [`Socket`].
    fn send_gather(
        &self,
        head: &[u8],
        body: &Iov,
        offset: usize,
        len: usize,
    ) -> Result<usize, Errno>;

    /// Receives bytes; zero when the peer has closed its end.
    ///
    /// # Errors
    /// See [`Socket`].
    fn recv(&self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Receives into `body[offset..offset + len]` and what follows into `tail`; zero when the peer has closed its end.
    ///
    /// # Errors
    /// See [`Socket`].
    fn recv_scatter(
        &self,
        body: &Iov,
        offset: usize,
        len: usize,
        tail: &mut [u8],
    ) -> Result<usize, Errno>;

    /// Closes the sending direction: the peer sees that nothing more will come.
    fn shut_writing(&self);

    /// Returns whether the peer has closed its end, whatever is still to be read.
    fn is_closed_by_peer(&self) -> bool;

    /// Returns how many bytes have arrived and were not read; zero if that is not known.
    fn unread(&self) -> usize;
}
