//! Who is to be asked whether it is there: peers that owe something, and that nothing else would be heard of (protocol
//! section 6.4).

use alloc::vec::Vec;
use core::time::Duration;

use oxifabric_types::{Instant, PeerId};

use super::{PacketPort, ReliableLink};
use crate::link::Sink;

/// How often the engine is asked who that is.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Watch {
    /// When the engine is asked next; never, as long as there is no channel.
    pub(super) at: Instant,
    /// Whom it named the last time.
    awaited: Vec<PeerId>,
}

impl Watch {
    pub(super) const fn new() -> Self {
        Self {
            at: Instant::END,
            awaited: Vec::new(),
        }
    }

    /// There is a channel.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.at == Instant::END {
            self.at = now.after(PAUSE);
        }
    }
}

impl<P: PacketPort> ReliableLink<P> {
    /// Has the channels watched whose peers something waits for, and no others.
    #[cold]
    pub(super) fn watch(&mut self, sink: &mut impl Sink) {
        self.part(sink);
        let goes_on = self.acquaintance.is_waiting() || self.peers.iter().any(Option::is_some);
        self.watch.at = match goes_on {
            true => self.now.after(PAUSE),
            false => Instant::END,
        };
        for id in &self.watch.awaited {
            if let Some(Some(peer)) = self.peers.get_mut(id.index()) {
                peer.awaited = false;
            }
        }
        let before = self.watch.awaited.len();
        let (peers, awaited) = (&mut self.peers, &mut self.watch.awaited);
        sink.awaited(&mut |id| {
            if let Some(Some(peer)) = peers.get_mut(id.index())
                && !peer.awaited
            {
                peer.awaited = true;
                awaited.push(id);
            }
        });
        let mut at = 0;
        while let Some(&id) = self.watch.awaited.get(at) {
            self.attend(id);
            at += 1;
        }
        if before != 0 {
            self.watch.awaited.drain(..before);
        }
    }

    fn attend(&mut self, id: PeerId) {
        if let Some(Some(peer)) = self.peers.get_mut(id.index()) {
            peer.channel.attend(peer.awaited, self.now);
            self.warm(id);
        }
    }
}
