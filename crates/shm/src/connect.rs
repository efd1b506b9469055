//! How pairs open and close, docs/protocol/shm.md "Greeting".
//!
//! Set-up path. A pair is opened by three messages over a socket that stays open afterwards, so that the kernel says
//! when the other side is gone. [`caller`] and [`callee`] are the two sides of the opening; before it, [`door`] bounds how many callers are heard.

mod callee;
mod caller;
mod door;
#[cfg(test)]
mod tests;

use oxifabric_core::log;
use oxifabric_engine::Sink;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::shm::greeting::Ability;

use crate::NAME;
use crate::doorbell::Doorbell;
use crate::link::ShmLink;
use crate::pair::{self, Pair};
use crate::peer::{Half, Peer, Stage};
use crate::pull::Desk;
use crate::switchboard::{Conn, ENDED, FIRST, LISTENER, TIMER};
use crate::sys::identity::Identity;
use crate::sys::process;
use crate::sys::socket::{Received, Socket};

/// Pairs of departed peers whose messages may wait for room: a server may hear of as many clients that do not wait for an answer.
/// Each takes the memory of its lanes, 330 KiB by default.
const MOST_DEPARTED: usize = 64;

impl ShmLink {
    /// Deals with whatever the sockets say; returns how many events that were.
    pub(crate) fn look_at_sockets(&mut self, sink: &mut impl Sink) -> usize {
        self.board.open_door(self.now);
        let ready = self.board.epoll.ready();
        let mut events = 0;
        for &token in ready.tokens() {
            events += match token {
                LISTENER => self.let_callers_in(sink),
                TIMER => 0,
                conn if conn & ENDED != 0 => self.hear_end(((conn & !ENDED) - FIRST) as usize),
                conn => self.read_conn((conn - FIRST) as usize, sink),
            };
        }
        events += self.judge_parked(sink);
        events + self.advance_opening(sink)
    }

    /// Returns when a peer that is there and does not answer is given up.
    pub(super) fn deadline(&self) -> Instant {
        let timeout = self.params.connect_timeout;
        timeout.map_or(Instant::END, |timeout| self.now.after(timeout))
    }

    /// Reads what a connection has to say.
    pub(super) fn read_conn(&mut self, index: usize, sink: &mut impl Sink) -> usize {
        match self.board.take(index) {
            Conn::Free => return 0,
            Conn::Stranger(newcomer) => self.hear_hello(index, newcomer, sink),
            Conn::Parked(caller) => self.watch_parked(index, caller),
            Conn::Called(socket, peer) => self.hear_answer(index, socket, peer, sink),
            Conn::Answered(socket, peer) => self.hear_ready(index, socket, peer, sink),
            Conn::Open(peer) => {
                self.board.set(index, Conn::Open(peer));
                self.hear_pair(peer);
            }
        }
        1
    }

    /// Reads an open pair's socket: rings of the doorbell, or its end.
    pub(super) fn hear_pair(&mut self, peer: PeerId) {
        let place = self.place_of(peer);
        let Some(pair) = place.and_then(|place| self.pairs.get_mut(place)) else {
            return;
        };
        let mut byte = [0];
        let Some(socket) = &pair.socket else {
            return;
        };
        loop {
            match socket.receive(&mut byte) {
                Ok(Received::Packet(_)) => {}
                Ok(Received::Nothing) => return,
                Ok(Received::Closed) | Err(_) => break,
            }
        }
        self.end_pair(peer);
    }

    /// A process has ended. Usually its socket says so; that of one whose child has it, too, does not.
    fn hear_end(&mut self, index: usize) -> usize {
        if let Some(Conn::Open(peer)) = self.board.conns.get(index) {
            self.end_pair(*peer);
        }
        1
    }

    /// The other side of an open pair is gone. What it published is delivered first; its socket has nothing more to say.
    pub(crate) fn end_pair(&mut self, peer: PeerId) {
        let place = self.place_of(peer);
        let Some(pair) = place.and_then(|place| self.pairs.get_mut(place)) else {
            return;
        };
        // Whatever of it is still to be taken lies in memory.
        if let Some(socket) = pair.socket.take() {
            self.board.stop_watching(&socket, &pair.process);
        }
        pair.process.let_go();
        pair.end(Errno::CONNRESET);
        self.departures += 1;
        pair.departure = self.departures;
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.stage = Stage::Ending;
            peer.reason = Some(format!(
                "{}: process {} has closed its endpoint or ended",
                peer.name(),
                pair.process.pid()
            ));
        }
        self.bound_departed();
    }

    /// Of peers that have gone, and that the application has not named, some may leave messages that wait for room. Beyond, those of the
    /// first one to go are dropped.
    fn bound_departed(&mut self) {
        loop {
            let peers = &self.peers;
            let waiting = self.pairs.iter_mut().filter(|pair| {
                let named = peers.get(pair.peer).is_some_and(|peer| peer.named);
                !named && !pair.broken && pair.stalled && pair.ending.is_some()
            });
            let mut waiting: Vec<_> = waiting.collect();
            if waiting.len() <= MOST_DEPARTED {
                return;
            }
            if let Some(first) = waiting.iter_mut().min_by_key(|pair| pair.departure) {
                log::warn!(
                    NAME,
                    EpData,
                    "messages of peers that have gone are dropped: there is no room for them"
                );
                first.fail(Errno::CONNRESET);
            }
        }
    }

    /// Reads the word that the other side says it has at an address: where that works, long messages can be read.
    ///
    /// The processes must be of one user: more rights than the other one's are not to be lent to it. The kernel judges what the process
    /// is now, and lets root read every process, also one that has become another user's since it called.
    pub(super) fn probe(
        &self,
        process: &Identity,
        address: u64,
        expected: u64,
    ) -> Result<(), String> {
        let pid = process.pid();
        if self.params.disable_cma {
            return Err("FI_SHM_DISABLE_CMA forbids it".into());
        }
        if process.uid() != process::user() {
            return Err(format!("process {pid} belongs to user {}", process.uid()));
        }
        if !process.is_certain() {
            return Err("the process is in another namespace, or hidden".into());
        }
        match process::read_word(pid, address) {
            // The process that was found is the one that has the word, as it has not ended since.
            Ok(word) if word == expected && process.runs() => Ok(()),
            Ok(_) => Err(format!("process {pid} is another one here")),
            Err(error) => Err(format!("process_vm_readv of process {pid}: {error}")),
        }
    }

    /// Calls peers that are wanted, and gives up those that take too long.
    fn advance_opening(&mut self, sink: &mut impl Sink) -> usize {
        let before = self.board.opening.len();
        let opening = std::mem::take(&mut self.board.opening);
        for peer in opening {
            if self.is_opening(peer, sink) {
                self.board.opening.push(peer);
            }
        }
        before - self.board.opening.len().min(before)
    }

    /// Takes the next step towards a pair that this side can take; returns whether there are more to come.
    fn is_opening(&mut self, peer: PeerId, sink: &mut impl Sink) -> bool {
        let now = self.now;
        let Some(known) = self.peers.get_mut(peer) else {
            return false;
        };
        match &mut known.stage {
            Stage::Wanted(patience) => {
                let patience = *patience.get_or_insert(now.after(self.params.connect_patience));
                self.call(peer, patience, sink);
            }
            Stage::Called(half) | Stage::Answered(half) if now >= half.deadline => {
                self.fail(peer, Errno::TIMEDOUT, "it did not answer in time", sink);
            }
            Stage::Yielded(until) if now >= *until => known.stage = Stage::Wanted(None),
            _ => {}
        }
        self.peers.get(peer).is_some_and(Peer::is_opening)
    }

    /// Both sides are ready: frames may move.
    pub(super) fn open_pair(&mut self, half: Half, socket: Socket, peer: PeerId) {
        let theirs = half.ability.contains(Ability::READS);
        let pull = half.reads.is_ok() && theirs;
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_conn(half.conn, socket);
        };
        known.limits = pair::limits(&self.params, half.region.layout, pull);
        known.stage = Stage::Open;
        known.reason = (!pull).then(|| {
            let cause = half.reads.err().unwrap_or_else(|| {
                let pid = half.process.pid();
                format!("process {pid} cannot read the memory of this one")
            });
            format!("long messages are copied through shared memory: {cause}")
        });
        let path = known.reason.as_deref();
        let path = path.unwrap_or("long messages are read from the sender's memory");
        log::info!(
            NAME,
            EpCtrl,
            "{} is process {}; {path}",
            known.name(),
            half.process.pid()
        );
        let region = half.region;
        let sleeps = half.ability.contains(Ability::SLEEPS);
        self.board.set(half.conn, Conn::Open(peer));
        self.board.watch_end(half.conn, &half.process);
        let pair = Pair {
            peer,
            rx: region.rx,
            judged: None,
            stalled: false,
            blocked: std::mem::take(&mut known.wanted).then_some(0),
            ending: None,
            ended_at: 0,
            departure: 0,
            cut_short: None,
            settled_by: None,
            broken: false,
            tx: region.tx,
            bell: Doorbell::new(region.head.clone(), region.side, sleeps),
            pull,
            process: half.process,
            socket: Some(socket),
            conn: half.conn,
            incarnation: half.incarnation,
            desk: Desk::new(region.head, region.side, self.params.assist_size),
        };
        self.pairs.add(pair, &mut self.peers);
    }

    /// Gives up opening a pair, and says why.
    pub(super) fn fail(&mut self, peer: PeerId, errno: Errno, why: &str, sink: &mut impl Sink) {
        let Some(known) = self.peers.get_mut(peer) else {
            return;
        };
        let text = format!("{}: {why}", known.name());
        if known.named {
            log::warn!(NAME, EpCtrl, "{text}");
        } else {
            // Callers choose their names, and could fill the log with them.
            log::warn!(NAME, EpCtrl, "a caller is given up: {why}");
        }
        known.reason = Some(text);
        let wanted = std::mem::take(&mut known.wanted);
        match std::mem::replace(&mut known.stage, Stage::Apart) {
            Stage::Called(half) | Stage::Answered(half) => self.board.forget(half.conn, None),
            _ => {}
        }
        if wanted {
            sink.peer_down(peer, errno);
        }
        self.peers.recycle(peer);
    }
}
