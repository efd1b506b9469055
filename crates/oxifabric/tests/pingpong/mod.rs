//! One side of a ping-pong of 8 bytes over tagged messages, through the safe interface and through the C interface, for tests and
//! measurements of what the safe interface costs.

pub(crate) mod c;
pub(crate) mod safe;

/// Polls after which a message is taken for lost.
const MAX_POLLS: usize = 100_000_000;
const TAG: u64 = 7;

/// The operation that a poll found completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Sent,
    Received,
}

/// An endpoint with a queue that is polled, a message to send and a receive buffer.
///
/// The calls are inlined, so that a ping-pong is compiled as a program that was written for one interface.
pub(crate) trait Side: Sized {
    fn open(provider: &str) -> Self;
    fn address(&self) -> Vec<u8>;
    fn set_peer(&mut self, address: &[u8]);
    /// Posts the receive.
    fn post_receive(&mut self);
    /// Sends a message with this first byte; returns false if the library says "again".
    fn send(&mut self, mark: u8) -> bool;
    fn poll(&mut self) -> Option<Done>;
    /// Returns the first byte of the received message.
    fn received(&self) -> u8;
}

/// Returns two sides with each other's address.
pub(crate) fn pair<S: Side>(provider: &str) -> [S; 2] {
    let [mut left, mut right] = [(); 2].map(|()| S::open(provider));
    left.set_peer(&right.address());
    right.set_peer(&left.address());
    [left, right]
}

/// Runs both sides of a ping-pong in one thread: each message goes from one to the other and back.
pub(crate) fn run_both<S: Side>([left, right]: &mut [S; 2], rounds: usize) {
    for round in 0..rounds {
        send_one(left, right, round as u8);
        send_one(right, left, round as u8);
    }
}

#[inline]
fn send_one<S: Side>(from: &mut S, to: &mut S, mark: u8) {
    to.post_receive();
    while !from.send(mark) {
        assert_eq!((from.poll(), to.poll()), (None, None));
    }
    let (mut sent, mut received) = (false, false);
    for _ in 0..MAX_POLLS {
        if !sent {
            sent = from.poll() == Some(Done::Sent);
        }
        if !received {
            received = to.poll() == Some(Done::Received);
        }
        if sent && received {
            assert_eq!(to.received(), mark);
            return;
        }
    }
    panic!("a message is lost");
}
