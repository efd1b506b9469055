//! What an endpoint's lock protects.

use alloc::vec::Vec;

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, FI_ADDR_UNSPEC, FI_CONNECTED, FI_SHUTDOWN, fi_addr_t, fid_t,
};
use oxifabric_engine::Config;
use oxifabric_types::{Caps, EpType, Errno, Info, PeerId};

use super::report::Report;
use crate::av::Av;
use crate::domain::Domain;
use crate::eq::{Eq, Event};
use crate::handle::Ref;
use crate::operations::Operations;
use crate::provider::{ConnectionEvent, Device, Provider};

/// Budget for messages that no receive waits for, and its limit, in bytes.
const UNEXPECTED_BYTES: usize = 256 << 10;
const UNEXPECTED_CEILING: usize = 1 << 20;
/// The peer of a connection.
const CONNECTED_PEER: PeerId = PeerId(0);

/// What can be done with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is being set up.
    Disabled,
    /// As `Disabled`, for a connection that a peer asked for.
    Asked,
    /// It may post; one with connections only receives.
    Enabled,
    /// It has asked for a connection, or accepted one.
    Connecting,
    /// The connection stands.
    Connected,
    /// The connection has ended.
    Down,
}

/// What carries out the operations of a provider's endpoints.
pub(super) type OperationsOf<P> = <<P as Provider>::Device as Device>::Operations;

pub(super) struct State<P: Provider> {
    pub(super) operations: OperationsOf<P>,
    pub(super) device: Option<P::Device>,
    pub(super) report: Report,
    pub(super) av: Option<Ref<Av>>,
    pub(super) eq: Option<Ref<Eq>>,
    pub(super) phase: Phase,
    rx_size: usize,
    /// Receives may name a source.
    is_directed: bool,
    kind: EpType,
    /// The device's number of a peer, by that of the address vector; `ANY` for those that were not asked for.
    peers: Vec<PeerId>,
    /// Version of the address vector from which the report's sources are.
    av_version: u64,
}

impl<P: Provider> State<P> {
    pub(super) fn new(info: &Info, domain: Ref<Domain>) -> Self {
        let config = Config {
            tx_size: info.tx.size,
            rx_size: info.rx.size,
            unexpected_bytes: UNEXPECTED_BYTES,
            unexpected_ceiling: UNEXPECTED_CEILING,
            min_multi_recv: 64,
            directed_recv: info.caps.contains(Caps::DIRECTED_RECV),
        };
        Self {
            is_directed: config.directed_recv,
            operations: OperationsOf::<P>::new(config),
            device: None,
            report: Report::new(domain),
            av: None,
            eq: None,
            phase: Phase::Disabled,
            rx_size: info.rx.size,
            kind: info.ep.kind,
            peers: Vec::new(),
            av_version: 0,
        }
    }

    /// Lets it post and, without connections, be reached.
    pub(super) fn enable(&mut self, info: &Info) -> Result<(), Errno> {
        if !matches!(self.phase, Phase::Disabled | Phase::Asked) {
            return Err(Errno::OPBADSTATE);
        }
        self.report.check(info.caps)?;
        match self.kind {
            EpType::Msg if self.eq.is_none() => return Err(Errno::NOEQ),
            EpType::Rdm if self.av.is_none() => return Err(Errno::NOAV),
            _ => {}
        }
        self.device.as_mut().ok_or(Errno::OPBADSTATE)?.enable()?;
        if self.phase == Phase::Disabled {
            self.phase = Phase::Enabled;
        }
        Ok(())
    }

    /// Returns the peer that an operation is for.
    pub(super) fn destination(&mut self, number: fi_addr_t) -> Result<PeerId, Errno> {
        match (self.kind, self.phase) {
            (_, Phase::Disabled) => return Err(Errno::OPBADSTATE),
            (EpType::Msg, Phase::Connected) => return Ok(CONNECTED_PEER),
            (EpType::Msg, _) => return Err(Errno::NOTCONN),
            _ => {}
        }
        self.named(number)
    }

    /// Returns the peer that a receive takes messages of.
    pub(super) fn source(&mut self, number: fi_addr_t) -> Result<PeerId, Errno> {
        match self.phase {
            Phase::Disabled | Phase::Asked => Err(Errno::OPBADSTATE),
            Phase::Down => Err(Errno::NOTCONN),
            _ if self.posted() >= self.rx_size => Err(Errno::AGAIN),
            _ if self.kind == EpType::Msg || number == FI_ADDR_UNSPEC => Ok(PeerId::ANY),
            _ if !self.is_directed => Ok(PeerId::ANY),
            _ => self.named(number),
        }
    }

    /// Returns how many receives are posted.
    fn posted(&self) -> usize {
        let posted = |device| self.operations.posted(device);
        self.device.as_ref().map_or(0, posted)
    }

    /// Returns the peer with a number of the address vector.
    fn named(&mut self, number: fi_addr_t) -> Result<PeerId, Errno> {
        self.refresh();
        let at = usize::try_from(number).map_err(|_| Errno::INVAL)?;
        if let Some(&peer) = self.peers.get(at)
            && peer != PeerId::ANY
        {
            return Ok(peer);
        }
        let av = self.av.as_ref().ok_or(Errno::NOAV)?;
        let address = av.address(number).ok_or(Errno::INVAL)?;
        let device = self.device.as_mut().ok_or(Errno::OPBADSTATE)?;
        let peer = device.peer(&address)?;
        let missing = (at + 1).saturating_sub(self.peers.len());
        self.peers.try_reserve(missing).map_err(|_| Errno::NOMEM)?;
        if missing > 0 {
            self.peers.resize(at + 1, PeerId::ANY);
        }
        self.peers[at] = peer;
        if let Some(engine) = self.operations.engine() {
            engine.name(peer);
            if device.address() == address {
                engine.set_self(peer);
            }
        }
        self.find_sources();
        Ok(peer)
    }

    /// Forgets what is known of the address vector if it has changed.
    fn refresh(&mut self) {
        let version = self.av.as_ref().map_or(0, |av| av.version());
        if version != self.av_version {
            self.av_version = version;
            self.peers.clear();
            self.report.sources.clear();
        }
    }

    /// Finds the numbers of the peers that have come since the last time.
    fn find_sources(&mut self) {
        let (Some(device), Some(av)) = (&mut self.device, &self.av) else {
            return;
        };
        let sources = &mut self.report.sources;
        if device.takes_new_numbers() {
            sources.clear();
        }
        while let Some(address) = device.address_of(PeerId(sources.len() as u32)) {
            if sources.try_reserve(1).is_err() {
                return;
            }
            sources.push(av.number(&address));
        }
    }

    /// Moves what can be moved, and reports what became of the connection.
    pub(super) fn drive(&mut self, fid: fid_t) {
        if matches!(self.phase, Phase::Disabled | Phase::Asked) {
            return;
        }
        let Some(device) = &mut self.device else {
            return;
        };
        device.admit();
        self.refresh();
        self.find_sources();
        let Some(device) = &mut self.device else {
            return;
        };
        if self.report.lets_in() {
            self.operations.reconsider(device);
        }
        self.operations.progress(device, &mut self.report);
        while let Some(event) = device.event() {
            let (phase, event) = described(event, fid);
            self.phase = phase;
            match phase {
                Phase::Connected => {
                    if let Some(engine) = self.operations.engine() {
                        engine.name(CONNECTED_PEER);
                    }
                }
                // Nothing more will come.
                Phase::Down => self.operations.cancel_receives(device, &mut self.report),
                _ => {}
            }
            if let Some(eq) = &self.eq {
                eq.push(event);
            }
        }
    }

    /// Drops what is outstanding and returns what is to be let go of without the lock.
    pub(super) fn end(&mut self) -> Left<P> {
        self.operations.abandon(&mut self.report);
        self.report.end();
        Left {
            device: self.device.take(),
            eq: self.eq.take(),
            av: self.av.take(),
        }
    }
}

/// What an endpoint had.
pub(super) struct Left<P: Provider> {
    device: Option<P::Device>,
    eq: Option<Ref<Eq>>,
    av: Option<Ref<Av>>,
}

impl<P: Provider> Left<P> {
    /// Lets go of it: events of the endpoint are dropped.
    pub(super) fn forget(self, fid: fid_t) {
        drop((self.device, self.av));
        if let Some(eq) = self.eq {
            eq.forget(fid);
        }
    }
}

/// Returns what an endpoint can do after an event, and the event as the queue has it.
fn described(event: ConnectionEvent, fid: fid_t) -> (Phase, Event) {
    let (phase, kind, data, errno) = match event {
        ConnectionEvent::Connected(data) => (Phase::Connected, FI_CONNECTED, data, None),
        ConnectionEvent::Refused(errno, data) => (Phase::Down, FI_CONNECTED, data, Some(errno)),
        ConnectionEvent::Shutdown => (Phase::Down, FI_SHUTDOWN, Vec::new(), None),
    };
    let info = core::ptr::null_mut();
    let event = Event {
        kind,
        fid,
        info,
        data,
        errno,
    };
    (phase, event)
}

/// Returns what completions say of their source.
pub(super) fn source_of(sources: &[fi_addr_t], peer: PeerId) -> fi_addr_t {
    sources
        .get(peer.0 as usize)
        .copied()
        .unwrap_or(FI_ADDR_NOTAVAIL)
}
