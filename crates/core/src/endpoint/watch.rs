//! Figures of an endpoint, published for `oxi top` (FI_OXI_STATS).
//!
//! An endpoint that is not watched has no [`Watch`], and finds that out only when it looks at the real clock, once in many
//! polls. One that is watched publishes its figures then, a few times a second, and before its thread goes to sleep.

use std::time::Duration;

use oxifabric_engine::Engine;
use oxifabric_provider::clock;
use oxifabric_provider::device::Device;
use oxifabric_provider::operations::Operations;
use oxifabric_types::stats::Figures;
use oxifabric_types::{EpType, Instant, PeerId};

use super::state::EndpointState;
use crate::stats::Slot;

/// How long published figures are true enough.
const PERIOD: Duration = Duration::from_millis(100);

/// What a watched endpoint has.
pub(super) struct Watch {
    slot: Slot,
    /// When to publish next.
    due: Instant,
    /// How many peers it had, and the number that the next one will have.
    peers: u64,
    next: PeerId,
}

impl<D: Device> EndpointState<D> {
    /// Begins to watch the endpoint, if the environment asks for it and it is not watched yet.
    pub(super) fn watch(&mut self, provider: &str, kind: EpType) {
        if self.watch.is_some() {
            return;
        }
        let Some(slot) = Slot::take(provider, kind, &self.device.name()) else {
            return;
        };
        self.watch = Some(Box::new(Watch {
            slot,
            due: Instant::default(),
            peers: 0,
            next: PeerId(0),
        }));
        self.out.watch();
        self.publish();
    }

    /// Looks at the real clock, and does what is to be done now and then while the endpoint is driven.
    #[cold]
    pub(super) fn look_at_clock(&mut self) -> Instant {
        let now = self.clock.renew();
        self.progress.ask_for_round();
        if let Some(watch) = &mut self.watch {
            // Programs that poll now and then only are to be seen in time, too.
            self.clock.hasten();
            if watch.due <= now {
                watch.due = now.after(PERIOD);
                self.publish();
            }
        }
        now
    }

    /// Reads the clock before a thread sleeps, and publishes the figures: they stay as they are until it wakes up.
    pub(super) fn look_before_sleep(&mut self) {
        self.clock.renew();
        self.publish();
    }

    /// Publishes the current figures.
    #[cold]
    fn publish(&mut self) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let engine = self.operations.engine();
        let figures = Figures {
            sampled_ns: clock::exact().as_nanos(),
            traffic: self.out.traffic(),
            errors: self.out.failures,
            retransmissions: self.device.repeated(),
            peers: watch.count_peers(&self.device),
            sends: self.operations.pending_tx() as u64,
            receives: engine.map_or(self.operations.pending_rx(), Engine::posted) as u64,
            unexpected: engine.map_or(0, Engine::unexpected) as u64,
            unexpected_bytes: engine.map_or(0, Engine::unexpected_bytes) as u64,
        };
        watch.slot.publish(&figures);
    }
}

impl Watch {
    /// Counts the peers. A device numbers them in order, so only new ones are looked for.
    fn count_peers<D: Device>(&mut self, device: &D) -> u64 {
        if D::CONNECTED {
            return device.peer_name().is_ok().into();
        }
        let is_there = |number| device.directory().has(PeerId(number));
        // Some begin with one.
        if self.next.0 == 0 && !is_there(0) && is_there(1) {
            self.next.0 = 1;
        }
        while is_there(self.next.0) {
            self.next.0 += 1;
            self.peers += 1;
        }
        // An endpoint that may send to itself knows itself as a peer.
        self.peers
            .saturating_sub(u64::from(!D::DATAGRAM && D::Operations::MATCHES))
    }
}
