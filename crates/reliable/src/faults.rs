//! A port with packet faults injected: lost, doubled or overtaken before they leave. Testing path.

use alloc::boxed::Box;
use alloc::vec::Vec;

use oxifabric_engine::faults::{FaultPlan, PacketFaults};
use oxifabric_types::{Instant, PeerId};
use oxifabric_wire::reliable::packet::HEADER_LEN;

use super::channel::CloseReason;
use super::link::PacketPort;

/// A port whose packets suffer the faults of a plan, if there is one.
#[derive(Debug)]
pub(super) struct Faulty<P> {
    pub(super) port: P,
    faults: Option<Box<PacketFaults<Copied>>>,
}

/// A packet as it was to be sent.
#[derive(Debug)]
struct Copied {
    to: PeerId,
    header: [u8; HEADER_LEN],
    payload: Vec<u8>,
}

impl<P: PacketPort> Faulty<P> {
    pub(super) fn new(port: P, plan: Option<FaultPlan>) -> Self {
        let faults = PacketFaults::of(plan);
        Self { port, faults }
    }
}

impl<P: PacketPort> PacketPort for Faulty<P> {
    fn longest(&self) -> usize {
        self.port.longest()
    }

    fn window_max(&self, to: PeerId) -> usize {
        self.port.window_max(to)
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.port.has_room()
    }

    #[inline]
    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        match &mut self.faults {
            None => self.port.send(to, header, payload),
            Some(faults) => {
                let packet = Copied {
                    to,
                    header: *header,
                    payload: payload.into(),
                };
                faults.pass(packet, |packet| {
                    self.port.send(packet.to, &packet.header, &packet.payload);
                });
            }
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.port.flush();
    }

    #[inline]
    fn next(&mut self) -> bool {
        self.port.next()
    }

    #[inline]
    fn packet(&self) -> (PeerId, &[u8]) {
        self.port.packet()
    }

    fn number(&mut self) -> Option<PeerId> {
        self.port.number()
    }

    fn release(&mut self, peer: PeerId) {
        self.port.release(peer);
    }

    fn answer(&mut self, header: &[u8; HEADER_LEN], payload: &[u8]) {
        self.port.answer(header, payload);
    }

    fn source(&self) -> u64 {
        self.port.source()
    }

    fn source_of(&self, peer: PeerId) -> Option<u64> {
        self.port.source_of(peer)
    }

    fn lost(&mut self, peer: PeerId, why: CloseReason, had_answered: bool) {
        self.port.lost(peer, why, had_answered);
    }

    fn refused(&mut self) -> Option<PeerId> {
        self.port.refused()
    }

    fn secret(&mut self) -> u64 {
        self.port.secret()
    }

    #[inline]
    fn now(&self) -> Instant {
        self.port.now()
    }

    #[inline]
    fn begin(&mut self, coarse: Instant) -> Instant {
        self.port.begin(coarse)
    }

    #[inline]
    fn set_due(&mut self, due: Instant) {
        self.port.set_due(due);
    }
}
