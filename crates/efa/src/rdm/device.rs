//! The device of an endpoint: how it opens and closes, and what it is called.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use oxifabric_engine::Engine;
use oxifabric_ibv::{
    Capacity, Channel, Cq, CqOptions, EfaCaps, Poller, Qp, QpKind, QpOptions, StateChange,
};
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Device, OwnValue};
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::{clock, secret};
use oxifabric_types::{Address, EfaAddress, EpType, Errno, Info, Instant, PeerId};

use super::EfaRdm;
use super::access_table::Accesses;
use super::deferred::Deferred;
use super::idle_period::IdlePeriod;
use super::link::limits;
use super::operations::Operations;
use super::parts::Parts;
use super::peers::Peers;
use super::reach::{self, Reach};
use super::tx::TxPool;
use super::waiting::Waiting;
use crate::domain::EfaDomain;
use crate::hardware::{Hardware, PORT};
use crate::options;
use crate::params::Params;
use crate::queue_pair::{CONNIDS, operations};
use crate::status;
use crate::sys::{ReceiveBuffers, WaitSet};

/// How many packets an endpoint has under way at most, and for how many it has room.
const SENDS: u32 = 512;
const RECEIVES: u32 = 1024;

/// The shortest sleep before peers are looked at.
const LOOK_MIN: Duration = Duration::from_millis(10);

impl Connection for EfaRdm {}

impl Device for EfaRdm {
    const READS_DESCRIPTORS: bool = true;
    const OWN_OPTIONS: &'static [i32] = &options::WITH_ENGINE;
    type Operations = Engine;
    type Domain = EfaDomain;

    fn serves(kind: EpType) -> bool {
        kind == EpType::Rdm
    }

    fn open(info: &Info, domain: &Arc<EfaDomain>) -> Result<Self, Errno> {
        let hardware = domain.hardware;
        let tells_unsolicited = tells_unsolicited(hardware);
        let capacity = capacity(hardware);
        let channel = Channel::new(&domain.context)?;
        let wait = WaitSet::new(channel.as_fd()).map_err(|_| Errno::MFILE)?;
        let options = CqOptions {
            entries: capacity.send_wr + capacity.recv_wr,
            sgid: false,
            unsolicited: tells_unsolicited,
        };
        let cq = Cq::efa(&domain.context, Some(&channel), options)?;
        let qp = queue_pair(domain, &cq, tells_unsolicited)?;
        let (sends, receives) = (capacity.send_wr as usize, capacity.recv_wr as usize);
        let inline = hardware.efa.inline_len.into();
        let reach = Reach::new(info, hardware, tells_unsolicited);
        Ok(Self {
            name: EfaAddress {
                gid: hardware.gid,
                qpn: qp.number().try_into().map_err(|_| Errno::IO)?,
                connid: (secret::draw() & CONNIDS) as u32,
            },
            is_named: Cell::new(false),
            tx: TxPool::new(&domain.pd, sends, hardware.mtu, inline)?,
            rx: Some(Box::new(ReceiveBuffers::new(
                &domain.pd,
                receives,
                hardware.mtu,
            )?)),
            qp,
            poller: Some(Poller::new(&cq)),
            cq,
            domain: Arc::clone(domain),
            is_active: false,
            is_closing: false,
            rnr_retry: options::WITH_ENGINE_TRIES,
            limits: std::array::from_fn(|at| {
                limits(hardware.mtu, sends, reach.reads, reach::accesses(at))
            }),
            reach,
            accesses: Accesses::default(),
            reads_again_at: Instant::from_nanos(0),
            peers: Peers::default(),
            operations: Operations::default(),
            mine: BTreeMap::new(),
            deferred: VecDeque::new(),
            polled: Vec::new(),
            attention: Vec::new(),
            parts: Parts::default(),
            gathers: capacity.send_sge > 1,
            waiting: Waiting::default(),
            doomed: Vec::new(),
            stalled_bytes: 0,
            early_bytes: 0,
            asked_up_to: 0,
            now: clock::now(),
            look_at: Instant::from_nanos(0),
            idle_period: IdlePeriod::default(),
            is_quiet: true,
            wait,
            header: Vec::new(),
        })
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        if self.is_active {
            return Ok(());
        }
        let sets_retries = self.domain.hardware.can(EfaCaps::RNR_RETRY);
        let change = StateChange {
            qkey: self.name.connid,
            rnr_retry: sets_retries.then_some(self.rnr_retry),
        };
        self.peers
            .assume(reach::index(self.reach.before_handshake()));
        self.qp.activate(PORT, change)?;
        self.is_active = true;
        self.idle_period.end();
        self.post_receives();
        Ok(())
    }

    fn own_option(&self, name: i32) -> Result<OwnValue, Errno> {
        match name {
            options::RNR_RETRY => Ok(OwnValue::Size(self.rnr_retry.into())),
            options::EMULATED_READ => Ok(OwnValue::Bool(!self.reach.reads)),
            options::EMULATED_WRITE => Ok(OwnValue::Bool(!self.reach.writes)),
            options::EMULATED_ATOMICS => Ok(OwnValue::Bool(true)),
            _ => Err(Errno::NOPROTOOPT),
        }
    }

    fn set_own_option(&mut self, name: i32, value: OwnValue) -> Result<(), Errno> {
        match (name, value) {
            (options::RNR_RETRY, value) => {
                let hardware = self.domain.hardware;
                self.rnr_retry = options::rnr_retry(value, self.is_active, hardware)?;
                Ok(())
            }
            (options::USE_DEVICE_RDMA, OwnValue::Bool(wanted)) => self.use_rdma(wanted),
            (options::USE_DEVICE_RDMA, OwnValue::Size(_)) => Err(Errno::INVAL),
            // Not even turning it off is known upstream.
            (options::SENDRECV_IN_ORDER, OwnValue::Bool(_)) => Err(Errno::OPNOTSUPP),
            (options::SENDRECV_IN_ORDER | options::WRITE_IN_ORDER, value) => {
                options::in_order(value)
            }
            (options::HOMOGENEOUS_PEERS, OwnValue::Bool(wanted)) => {
                self.reach.peers_are_alike = wanted;
                self.peers
                    .assume(reach::index(self.reach.before_handshake()));
                Ok(())
            }
            (options::HOMOGENEOUS_PEERS, OwnValue::Size(_)) => Err(Errno::INVAL),
            // The endpoint has receives of its own.
            (options::USE_UNSOLICITED, value) => {
                let wanted = options::unsolicited(value, self.is_active, true)?;
                self.use_unsolicited(wanted)
            }
            _ => Err(Errno::NOPROTOOPT),
        }
    }

    fn name(&self) -> Address {
        self.is_named.set(true);
        Address::Efa(self.name)
    }

    /// Devices number their queue pairs themselves.
    fn rename(&mut self, _name: Address) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        let Address::Efa(at) = *address else {
            return Err(Errno::INVAL);
        };
        let peer = self.peers.number(&self.domain, at)?;
        self.peers.table.name(peer);
        self.idle_period.end();
        Ok(peer)
    }

    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn fd(&self) -> RawFd {
        self.wait.fd()
    }

    fn arm(&mut self) -> bool {
        let mut doomed = self.doomed.iter();
        let has_work = !self.deferred.is_empty()
            || !self.attention.is_empty()
            || doomed.any(|(peer, _)| !self.device_has_of(*peer))
            || (self.may_post() && self.waiting.may_go_on(self.tx.room()));
        self.cq.take_events();
        if has_work || self.cq.arm().is_err() {
            return false;
        }
        let now = clock::now();
        // Peers that are awaited are looked at even if nothing comes from them, and what its receiver was not ready for is sent again; others have their turn when that
        // of a message is over.
        let look = self.look_at.max(now.after(LOOK_MIN));
        let turn = self.waiting.turn_ends().filter(|_| self.may_post());
        let wake = [(!self.is_quiet).then_some(look), self.tx.repeats_at(), turn];
        let wake = wake.into_iter().flatten().min();
        if wake.is_some_and(|due| due <= now) {
            return false;
        }
        self.wait.set(wake);
        // Completions that came before the queue was armed make no event.
        self.fill();
        self.polled.is_empty()
    }

    #[inline]
    fn posted(&mut self) {
        if std::mem::take(&mut self.is_quiet) {
            self.look_soon();
        }
    }

    fn idle(&self) -> bool {
        let owes_answers = self.is_closing && !self.deferred.is_empty();
        self.tx.is_idle() && !owes_answers
    }

    /// Packets in buffers of this end are sent again until they are delivered. What takes memory of the application has not completed, and goes no further: no
    /// request names it from now on, and memory that this end registered to be read by a peer's device is that no longer. What the application registered itself, and the device was
    /// asked for already, is reached as long as that registration lasts, by peers too that were told its key.
    fn discards(&mut self) -> bool {
        self.is_closing = true;
        self.tx.hasten(self.now);
        self.idle_period.end();
        self.deferred.retain(Deferred::is_owed);
        self.operations.withdraw();
        self.accesses.give_up(Errno::CANCELED);
        true
    }

    fn explain(code: u32, peer: Option<&Address>) -> Option<String> {
        Some(status::explain(code, peer))
    }
}

/// Returns whether writes with data use up no receive, unless the application says otherwise.
fn tells_unsolicited(hardware: &Hardware) -> bool {
    hardware.can(EfaCaps::UNSOLICITED_WRITE_RECV) && Params::read().unsolicited
}

/// Returns the capacities of the queues of an endpoint.
fn capacity(hardware: &Hardware) -> Capacity {
    Capacity {
        send_wr: SENDS.min(hardware.efa.max_sq_wr),
        recv_wr: RECEIVES.min(hardware.efa.max_rq_wr),
        send_sge: u32::from(hardware.efa.max_sq_sge).min(2),
        recv_sge: 1,
        inline: hardware.efa.inline_len.into(),
    }
}

/// Makes the queue pair of an endpoint; with `unsolicited`, writes with data use up no receive.
///
/// # Errors
/// What the device says.
fn queue_pair(domain: &EfaDomain, cq: &Arc<Cq>, unsolicited: bool) -> Result<Qp, Errno> {
    let options = QpOptions {
        kind: QpKind::Srd,
        capacity: capacity(domain.hardware),
        send_ops: operations(domain, true),
        unsolicited,
    };
    Qp::new(&domain.pd, cq, cq, &options)
}

impl EfaRdm {
    /// Wakes a thread that sleeps, in time for a look at the peers.
    #[cold]
    fn look_soon(&mut self) {
        self.wait.set_by(clock::now().after(LOOK_MIN));
    }

    /// Lets writes of peers with data use up no receive, if the device can do that, or have them use up one. The latter takes another queue pair than the endpoint was
    /// opened with, and so another address.
    ///
    /// # Errors
    /// `OPBADSTATE` if the address would change that the application was told, and what the device says.
    fn use_unsolicited(&mut self, wanted: bool) -> Result<(), Errno> {
        let unsolicited = wanted && tells_unsolicited(self.domain.hardware);
        if unsolicited != self.reach.tells_unsolicited {
            if self.is_named.get() {
                return Err(Errno::OPBADSTATE);
            }
            let qp = queue_pair(&self.domain, &self.cq, unsolicited)?;
            self.name.qpn = qp.number().try_into().map_err(|_| Errno::IO)?;
            self.qp = qp;
            self.reach.tells_unsolicited = unsolicited;
        }
        Ok(())
    }

    /// Lets the device read and write memory of peers, or not, before peers are told of it.
    ///
    /// # Errors
    /// `NOPROTOOPT` for an application with an early version of the interface, `INVAL` if the environment says otherwise, `OPNOTSUPP` if the device cannot,
    /// `OPBADSTATE` if the endpoint is enabled.
    fn use_rdma(&mut self, wanted: bool) -> Result<(), Errno> {
        Params::read().admits_rdma(self.reach.api_version, wanted)?;
        let hardware = self.domain.hardware;
        if wanted && !hardware.can(EfaCaps::RDMA_READ) {
            return Err(Errno::OPNOTSUPP);
        }
        if self.is_active {
            return Err(Errno::OPBADSTATE);
        }
        self.reach.set(wanted, hardware);
        for limits in &mut self.limits {
            limits.pull = self.reach.reads;
        }
        Ok(())
    }
}
