//! The device of one endpoint: a queue pair with a completion queue of its own.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use oxifabric_ibv::{
    Access, Capacity, Channel, Completion, Cq, CqOptions, EfaCaps, Mr, Qp, QpKind, QpOptions,
    SendOps, StateChange,
};
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Device, OwnValue};
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_provider::queues::WorkLedger;
use oxifabric_provider::secret;
use oxifabric_types::{Address, Caps, EfaAddress, EpType, Errno, Info, PeerId};

use crate::domain::EfaDomain;
use crate::hardware::PORT;
use crate::info::{MSG_PREFIX, RX_CQ_DATA};
use crate::options;
use crate::params::Params;
use crate::peers::Peers;
use crate::status;

/// The largest connection id, which is the Q_Key of a queue pair, that programs may use; those above are for the kernel.
pub(crate) const CONNIDS: u64 = 0x7fff_ffff;

/// The connection id of datagram endpoints: the C library up to 2.6 sends to no other one (docs/protocol/efa.md section 3).
const DATAGRAM_CONNID: u32 = 0;

/// The device of an endpoint: its queue pair, completion queue and peers.
#[derive(Debug)]
pub struct QueuePair {
    pub(crate) qp: Qp,
    pub(crate) cq: Arc<Cq>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) domain: Arc<EfaDomain>,
    pub(crate) peers: Peers,
    name: EfaAddress,
    is_reliable: bool,
    is_active: bool,
    rnr_retry: u8,
    has_rma: bool,
    /// The application has receives for writes with data (FI_RX_CQ_DATA).
    takes_data: bool,
    /// Memory for reads and writes of nothing: a device wants some to be named.
    pub(crate) nothing: Option<Mr>,
    /// How many bytes of a buffer in front of a message belong to the device (FI_MSG_PREFIX).
    pub(crate) prefix: usize,
    /// The longest message that a send carries inline, in its request.
    pub(crate) inline: usize,
    /// The application wants to know where messages come from.
    pub(crate) names_sources: bool,
    /// What was polled before a thread went to sleep.
    pub(crate) polled: Vec<Completion>,
}

impl Connection for QueuePair {}

impl Device for QueuePair {
    const READS_DESCRIPTORS: bool = true;
    /// Requests for reads and writes carry no inline data.
    const INJECTS_ACCESSES: bool = false;
    const OWN_OPTIONS: &'static [i32] = &options::ANY;
    type Operations = WorkLedger;
    type Domain = EfaDomain;

    fn serves(kind: EpType) -> bool {
        matches!(kind, EpType::Rdm | EpType::Dgram)
    }

    fn open(info: &Info, domain: &Arc<EfaDomain>) -> Result<Self, Errno> {
        let hardware = domain.hardware;
        let is_reliable = info.ep.kind != EpType::Dgram;
        let tells_unsolicited = is_reliable
            && hardware.can(EfaCaps::UNSOLICITED_WRITE_RECV)
            && Params::read().unsolicited;
        let takes_data = info.mode & RX_CQ_DATA != 0;
        let capacity = capacity(info, domain)?;
        let channel = Channel::new(&domain.context)?;
        let options = CqOptions {
            entries: capacity.send_wr + capacity.recv_wr,
            sgid: false,
            unsolicited: tells_unsolicited,
        };
        let cq = Cq::efa(&domain.context, Some(&channel), options)?;
        let options = QpOptions {
            kind: match is_reliable {
                true => QpKind::Srd,
                false => QpKind::Ud,
            },
            capacity,
            send_ops: operations(domain, is_reliable),
            unsolicited: tells_unsolicited && !takes_data,
        };
        let qp = Qp::new(&domain.pd, &cq, &cq, &options)?;
        let name = EfaAddress {
            gid: hardware.gid,
            qpn: qp.number().try_into().map_err(|_| Errno::IO)?,
            connid: match is_reliable {
                true => (secret::draw() & CONNIDS) as u32,
                false => DATAGRAM_CONNID,
            },
        };
        let prefix = match info.mode & MSG_PREFIX {
            0 if !is_reliable => return Err(Errno::INVAL),
            0 => 0,
            _ => info.ep.msg_prefix_size,
        };
        Ok(Self {
            qp,
            cq,
            channel,
            domain: Arc::clone(domain),
            peers: Peers::new(),
            name,
            is_reliable,
            is_active: false,
            rnr_retry: options::WITHOUT_END,
            has_rma: info.caps.contains(Caps::RMA),
            takes_data,
            nothing: match info.caps.contains(Caps::RMA) {
                true => Some(domain.pd.allocate(1, Access::LOCAL_WRITE)?),
                false => None,
            },
            prefix,
            inline: hardware.efa.inline_len.into(),
            names_sources: (info.caps | info.rx.caps).contains(Caps::SOURCE),
            polled: Vec::new(),
        })
    }

    fn enable(&mut self, _waits: bool) -> Result<(), Errno> {
        if self.is_active {
            return Ok(());
        }
        let sets_retries = self.is_reliable && self.domain.hardware.can(EfaCaps::RNR_RETRY);
        let change = StateChange {
            qkey: self.name.connid,
            rnr_retry: sets_retries.then_some(self.rnr_retry),
        };
        self.qp.activate(PORT, change)?;
        self.is_active = true;
        Ok(())
    }

    fn own_option(&self, name: i32) -> Result<OwnValue, Errno> {
        match name {
            options::RNR_RETRY => Ok(OwnValue::Size(self.rnr_retry.into())),
            // All accesses are the device's.
            options::EMULATED_READ | options::EMULATED_WRITE => Ok(OwnValue::Bool(false)),
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
            (options::USE_DEVICE_RDMA, OwnValue::Bool(false)) if self.has_rma => {
                Err(Errno::OPNOTSUPP)
            }
            (options::USE_DEVICE_RDMA, OwnValue::Bool(_)) => Ok(()),
            (options::USE_DEVICE_RDMA, OwnValue::Size(_)) => Err(Errno::INVAL),
            (options::SENDRECV_IN_ORDER | options::WRITE_IN_ORDER, value) => {
                options::in_order(value)
            }
            // Nothing is asked of peers here.
            (options::HOMOGENEOUS_PEERS, OwnValue::Bool(_)) => Ok(()),
            // Where the application has receives for writes with data, they use some up from the beginning.
            (options::USE_UNSOLICITED, value) => {
                options::unsolicited(value, self.is_active, self.takes_data).map(|_| ())
            }
            _ => Err(Errno::NOPROTOOPT),
        }
    }

    fn name(&self) -> Address {
        Address::Efa(self.name)
    }

    /// Devices number their queue pairs themselves.
    fn rename(&mut self, _name: Address) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno> {
        match address {
            Address::Efa(at) => self.peers.number(&self.domain, *at),
            Address::Inet(_) | Address::Name(_) => Err(Errno::INVAL),
        }
    }

    fn directory(&self) -> &PeerDirectory {
        self.peers.directory()
    }

    fn fd(&self) -> RawFd {
        self.channel.as_fd().as_raw_fd()
    }

    fn arm(&mut self) -> bool {
        self.cq.take_events();
        if self.cq.arm().is_err() {
            return false;
        }
        // Completions that came before the queue was armed make no event.
        self.fill();
        self.polled.is_empty()
    }

    fn explain(code: u32, peer: Option<&Address>) -> Option<String> {
        Some(status::explain(code, peer))
    }
}

/// Returns the capacities of the queues of an endpoint with these attributes.
///
/// # Errors
/// `INVAL` for more than the device has.
fn capacity(info: &Info, domain: &EfaDomain) -> Result<Capacity, Errno> {
    let efa = &domain.hardware.efa;
    let at_most = |asked: usize, most: u32| match u32::try_from(asked) {
        Ok(0) => Ok(most),
        Ok(asked) if asked <= most => Ok(asked),
        _ => Err(Errno::INVAL),
    };
    Ok(Capacity {
        send_wr: at_most(info.tx.size, efa.max_sq_wr)?,
        recv_wr: at_most(info.rx.size, efa.max_rq_wr)?,
        send_sge: at_most(info.tx.iov_limit, efa.max_sq_sge.into())?,
        recv_sge: at_most(info.rx.iov_limit, efa.max_rq_sge.into())?,
        inline: efa.inline_len.into(),
    })
}

/// Returns which operations may be posted on the queue pair.
pub(crate) fn operations(domain: &EfaDomain, is_reliable: bool) -> SendOps {
    let mut operations = SendOps::SEND | SendOps::SEND_WITH_IMM;
    if is_reliable && domain.hardware.can(EfaCaps::RDMA_READ) {
        operations = operations | SendOps::RDMA_READ;
    }
    if is_reliable && domain.hardware.can(EfaCaps::RDMA_WRITE) {
        operations = operations | SendOps::RDMA_WRITE | SendOps::RDMA_WRITE_WITH_IMM;
    }
    operations
}
