//! One side of a ping-pong of 8 bytes over tagged messages, played through the safe interface and as a C program plays it, for
//! tests and measurements of what the first costs above the second.

pub(crate) mod c;
pub(crate) mod safe;

/// Reads of a queue in vain after which a message is taken for lost.
const PATIENCE: usize = 100_000_000;
const TAG: u64 = 7;

/// What one read of a queue found to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Sent,
    Received,
}

/// An endpoint with a queue that is polled, a message to send and room for one.
///
/// The calls are inlined, so that a game is compiled as a program that was written for one interface.
pub(crate) trait Player: Sized {
    fn open(provider: &str) -> Self;
    fn address(&self) -> Vec<u8>;
    fn meet(&mut self, address: &[u8]);
    /// Posts the receive.
    fn expect(&mut self);
    /// Sends a message with this first byte; false if the library says "again".
    fn throw(&mut self, mark: u8) -> bool;
    fn poll(&mut self) -> Option<Done>;
    /// The first byte of what was received.
    fn caught(&self) -> u8;
}

/// Two players who know each other.
pub(crate) fn pair<P: Player>(provider: &str) -> [P; 2] {
    let [mut left, mut right] = [(); 2].map(|()| P::open(provider));
    left.meet(&right.address());
    right.meet(&left.address());
    [left, right]
}

/// Both sides of a game in one thread: each message goes from one to the other and back.
pub(crate) fn play_both<P: Player>([left, right]: &mut [P; 2], rounds: usize) {
    for round in 0..rounds {
        volley(left, right, round as u8);
        volley(right, left, round as u8);
    }
}

#[inline]
fn volley<P: Player>(from: &mut P, to: &mut P, mark: u8) {
    to.expect();
    while !from.throw(mark) {
        assert_eq!((from.poll(), to.poll()), (None, None));
    }
    let (mut sent, mut received) = (false, false);
    for _ in 0..PATIENCE {
        if !sent {
            sent = from.poll() == Some(Done::Sent);
        }
        if !received {
            received = to.poll() == Some(Done::Received);
        }
        if sent && received {
            assert_eq!(to.caught(), mark);
            return;
        }
    }
    panic!("a message is lost");
}
