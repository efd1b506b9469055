//! Packets of udp;ofi_rxd, built here by hand after docs/protocol/reliable.md, and sources that send them.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long an answer may take. A bound on a hang, not an expectation.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How often what was not answered is said again.
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) const HELLO: u8 = 1;
pub(crate) const WELCOME: u8 = 2;
pub(crate) const DATA: u8 = 3;
pub(crate) const ACK: u8 = 4;
pub(crate) const PROBE: u8 = 5;
pub(crate) const BYE: u8 = 7;
pub(crate) const PART: u8 = 8;

/// The longest payload that the target takes (section 6.6).
pub(crate) const PAYLOAD: usize = 7680 - 56;

/// The kind of a record that is an untagged message (section 7).
pub(crate) const MESSAGE: u8 = 0;

/// Where fields are in a packet (section 2), and in the handshake behind it (section 3).
pub(crate) const CREDIT: usize = 2;
pub(crate) const TO: usize = 8;
pub(crate) const ARRIVED: usize = 24;
pub(crate) const FROM: usize = 56;
pub(crate) const ANSWERED: usize = 64;

/// Returns a header with a credit of 1,024 packets.
pub(crate) fn packet(kind: u8, to: u64, number: u64) -> Vec<u8> {
    let mut bytes = vec![kind, 1, 0, 4, 0, 0, 0, 0];
    bytes.extend(to.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend([0; 24]);
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes
}

/// Returns a handshake of an end that calls the channel `from`.
pub(crate) fn handshake(kind: u8, to: u64, from: u64) -> Vec<u8> {
    let mut bytes = packet(kind, to, 0);
    bytes.extend(from.to_le_bytes());
    bytes.extend(to.to_le_bytes());
    bytes.extend(16_000_u32.to_le_bytes());
    bytes.extend([0; 12]);
    bytes
}

pub(crate) fn number(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..at + 8).expect("the packet is long enough");
    u64::from_le_bytes(field.try_into().expect("eight bytes"))
}

/// Returns a packet of the stream.
pub(crate) fn data(channel: u64, number: u64, payload: usize) -> Vec<u8> {
    let mut bytes = packet(DATA, channel, number);
    bytes.resize(bytes.len() + payload, 0xaa);
    bytes
}

/// Returns the first part of a packet that is longer than any.
pub(crate) fn part(channel: u64, number: u64) -> Vec<u8> {
    let mut bytes = packet(PART, channel, number);
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(70_000_u32.to_le_bytes());
    bytes.resize(bytes.len() + 1136, 0xaa);
    bytes
}

/// Returns a record of the stream (section 7) without targets.
pub(crate) fn record(kind: u8, id: u32, tag: u64, body: &[u8]) -> Vec<u8> {
    let len = body.len() as u64;
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(id.to_le_bytes());
    for field in [tag, 0, len, len] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(body);
    bytes
}

/// A socket that speaks to the target.
pub(crate) struct Source(pub(crate) UdpSocket);

impl Source {
    /// Opens a source at any port of that address of this host.
    pub(crate) fn at(address: [u8; 4], target: SocketAddr) -> Self {
        let socket = UdpSocket::bind(SocketAddr::from((address, 0))).expect("a free port");
        socket.connect(target).expect("an address");
        socket
            .set_read_timeout(Some(TIMEOUT))
            .expect("a timeout can be set");
        Self(socket)
    }

    pub(crate) fn say(&self, bytes: &[u8]) {
        // What the target's buffer has no room for is lost, as any datagram may be.
        let _ = self.0.send(bytes);
    }

    /// Waits for a packet of one of these kinds.
    pub(crate) fn hear(&self, kinds: &[u8]) -> Vec<u8> {
        let mut bytes = [0; 2048];
        loop {
            let len = self.0.recv(&mut bytes).expect("an answer");
            if kinds.contains(&bytes[0]) {
                return bytes[..len].to_vec();
            }
        }
    }

    /// Opens a channel; returns what the target calls it.
    pub(crate) fn open(&self, name: u64) -> u64 {
        self.try_open(name, TIMEOUT).expect("an answer")
    }

    /// Opens a channel, unless the target has no room for one in that time.
    pub(crate) fn try_open(&self, name: u64, timeout: Duration) -> Option<u64> {
        let answer = self.ask(&handshake(HELLO, 0, name), &[HELLO, WELCOME], timeout)?;
        let channel = number(&answer, FROM);
        assert_eq!(number(&answer, ANSWERED), name, "it answers this Hello");
        // An end of the first releases has opened the channel at once.
        if answer[0] == HELLO {
            let confirmation = self.ask(&handshake(WELCOME, channel, name), &[ACK], timeout)?;
            assert_eq!(number(&confirmation, TO), name);
        }
        Some(channel)
    }

    /// Says it again and again, until there is an answer of one of these kinds: the target may have no room yet.
    pub(crate) fn insist(&self, bytes: &[u8], kinds: &[u8]) -> Vec<u8> {
        self.ask(bytes, kinds, TIMEOUT).expect("an answer")
    }

    fn ask(&self, bytes: &[u8], kinds: &[u8], timeout: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + timeout;
        let mut answer = [0; 2048];
        let set_timeout = |timeout| self.0.set_read_timeout(Some(timeout));
        set_timeout(AGAIN.min(timeout)).expect("a timeout can be set");
        while Instant::now() < deadline {
            self.say(bytes);
            if let Ok(len) = self.0.recv(&mut answer)
                && kinds.contains(&answer[0])
            {
                set_timeout(TIMEOUT).expect("a timeout can be set");
                return Some(answer[..len].to_vec());
            }
        }
        None
    }
}
