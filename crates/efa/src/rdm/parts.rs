//! Messages that the device sends out of memory of the application, or in several packets, and with whose end the engine is told: that of their last
//! packet. Path class: hot.

use oxifabric_engine::TxToken;
use oxifabric_types::{Errno, PeerId};

/// The messages of an endpoint, by number. Each has a buffer for each of its packets, so there are no more than buffers.
#[derive(Debug, Default)]
pub(super) struct Parts {
    rows: Vec<Option<Message>>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    peer: PeerId,
    token: TxToken,
    /// How many of its packets the device has.
    left: usize,
    failure: Option<Errno>,
}

impl Parts {
    /// Notes a message of so many packets.
    pub(super) fn insert(&mut self, peer: PeerId, token: TxToken, packets: usize) -> u32 {
        let message = Some(Message {
            peer,
            token,
            left: packets,
            failure: None,
        });
        match self.free.pop() {
            Some(at) => {
                self.rows[at as usize] = message;
                at
            }
            None => {
                self.rows.push(message);
                self.rows.len() as u32 - 1
            }
        }
    }

    /// Notes the end of a packet; returns what is to be told of the message if that was its last one.
    pub(super) fn ended(
        &mut self,
        at: u32,
        result: Result<(), Errno>,
    ) -> Option<(TxToken, Result<(), Errno>)> {
        let message = self.rows.get_mut(at as usize)?.as_mut()?;
        message.left = message.left.saturating_sub(1);
        message.failure = message.failure.or(result.err());
        let over = *message;
        if over.left > 0 {
            return None;
        }
        self.remove(at);
        Some((over.token, over.failure.map_or(Ok(()), Err)))
    }

    /// Forgets a message of which the device has no packet.
    pub(super) fn remove(&mut self, at: u32) {
        if let Some(row) = self.rows.get_mut(at as usize)
            && row.take().is_some()
        {
            self.free.push(at);
        }
    }

    /// Returns whether the device has packets of a message to a peer.
    pub(super) fn any_with(&self, peer: PeerId) -> bool {
        let mut all = self.rows.iter().flatten();
        all.any(|message| message.peer == peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_last_packet_is_that_of_the_message() {
        let mut parts = Parts::default();
        let first = parts.insert(PeerId(1), TxToken(7), 3);
        let second = parts.insert(PeerId(2), TxToken(8), 1);
        assert_eq!(parts.ended(first, Ok(())), None);
        assert_eq!(parts.ended(second, Ok(())), Some((TxToken(8), Ok(()))));
        assert!(parts.any_with(PeerId(1)) && !parts.any_with(PeerId(2)));
        assert_eq!(parts.ended(second, Ok(())), None, "it is over");
        assert_eq!(parts.ended(first, Err(Errno::IO)), None);
        let over = parts.ended(first, Ok(()));
        assert_eq!(
            over,
            Some((TxToken(7), Err(Errno::IO))),
            "one of them failed"
        );
        assert!(!parts.any_with(PeerId(1)));
    }

    #[test]
    fn places_are_used_again() {
        let mut parts = Parts::default();
        for _ in 0..1000 {
            let at = [1, 2].map(|peer| parts.insert(PeerId(peer), TxToken(0), 1));
            parts.remove(at[0]);
            assert!(parts.ended(at[1], Ok(())).is_some());
        }
        assert_eq!(parts.rows.len(), 2);
    }
}
