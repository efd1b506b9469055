//! Endpoints of the fabric `efa`: an engine over reliable datagrams, by the protocol of the C library (docs/protocol/efa.md section 6).
//!
//! - [`EfaRdm`]: the device of one endpoint, whose link is in `link`; in `send`, `offer` and `reply` frames become packets, in `take`, `answered` and `access` packets
//!   become frames, after `arrive` has found out whose they are and when it is their turn.
//! - `tx`: the packets that the device has to send; `held`: those that the engine has no room for; `early`: those that come too early.
//! - `peers`: what is kept of a peer, and which one a packet is from; `order`: the order of messages over a wire without order.
//! - `rdma`: reads and writes that the device carries out, which are in the `access_table`, and `reach`, with which peers it does; `expose`: what peers' devices read of this end.
//! - `ended`: what the device has done, or is to do again, and `repeats`, when. `parts`: messages of which the device has packets; `waiting`: peers that wait for buffers.
//! - `deferred`: what is put off to the next poll; `idle_period`: when a poll has nothing to do but to look at the queue.
//! - `settle`: what a fence waits for beyond the ends of operations.
//! - `operations`: the ids that packets name; `liveness`: peers that are gone.

mod access;
mod access_table;
mod answered;
mod arrive;
mod deferred;
mod device;
mod early;
mod ended;
mod expose;
mod held;
mod idle_period;
mod link;
mod liveness;
mod medium;
mod offer;
mod operations;
mod order;
mod parts;
mod peers;
mod rdma;
mod reach;
mod repeats;
mod reply;
mod send;
mod settle;
mod take;
mod tx;
mod waiting;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use oxifabric_engine::Limits;
use oxifabric_ibv::{Completion, Cq, Poller, Qp};
use oxifabric_types::{EfaAddress, Errno, Instant, PeerId};

use crate::domain::EfaDomain;
use crate::sys::{ReceiveBuffers, WaitSet};
use access_table::Accesses;
use deferred::Deferred;
use idle_period::IdlePeriod;
use operations::Operations;
use parts::Parts;
use peers::Peers;
use reach::Reach;
use tx::TxPool;
use waiting::Waiting;

/// Number of peers that the application does not know and that may be heard at a time.
const UNKNOWN_MAX: usize = 1 << 12;

/// The device of an endpoint of the fabric `efa`.
#[derive(Debug)]
pub struct EfaRdm {
    qp: Qp,
    cq: Arc<Cq>,
    /// What polls the queue; taken out while a poll is under way.
    poller: Option<Poller>,
    domain: Arc<EfaDomain>,
    name: EfaAddress,
    /// The application may have told peers the name, so that the queue pair has to stay.
    is_named: Cell<bool>,
    is_active: bool,
    /// The endpoint is being closed: packets of peers are dropped.
    is_closing: bool,
    rnr_retry: u8,
    /// What the path to a peer takes, by what the device does there ([`reach::index`]).
    limits: [Limits; reach::WAYS],
    reach: Reach,
    accesses: Accesses,
    /// Until then messages that are announced are asked for instead of read: memory could not be registered.
    reads_again_at: Instant,
    peers: Peers,
    tx: TxPool,
    /// The packets that the device may fill; taken out while one of them is read.
    rx: Option<Box<ReceiveBuffers>>,
    operations: Operations,
    /// The operations that the engine's ids name, of those that send.
    mine: BTreeMap<u32, u32>,
    /// What is to be told to the engine at the next poll.
    deferred: VecDeque<Deferred>,
    /// What was polled before a thread went to sleep.
    polled: Vec<Completion>,
    /// Peers of which something is to be done at the next poll: they owe or are owed a handshake, or are to be resumed.
    attention: Vec<PeerId>,
    /// Messages of which the device has packets.
    parts: Parts,
    /// A packet may be in two pieces: what is in its buffer, and memory of the application.
    gathers: bool,
    /// Peers for which the engine was told to wait.
    waiting: Waiting,
    /// Peers to give up at the end of the poll, and why.
    doomed: Vec<(PeerId, Errno)>,
    /// Bytes that are kept because the engine has no room for them.
    stalled_bytes: usize,
    /// Bytes that are kept of peers that the application does not know, until what comes before is here.
    early_bytes: usize,
    /// The peer up to which silent ones that the application does not know were asked whether they are there.
    asked_up_to: u32,
    now: Instant,
    look_at: Instant,
    idle_period: IdlePeriod,
    /// No peer was awaited at the last look, and nothing has happened since.
    is_quiet: bool,
    wait: WaitSet,
    /// A header that is being put together.
    header: Vec<u8>,
}
