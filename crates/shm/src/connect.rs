//! Sockets, and how pairs open and close, docs/protocol/shm.md "Greeting".
//!
//! Set-up path. A pair is opened by three messages over a socket that stays open afterwards, so that the kernel says
//! when the other side is gone. What to do about a hello is decided in [`crate::handshake`].

use std::os::fd::OwnedFd;

use oxifabric_core::log;
use oxifabric_engine::Sink;
use oxifabric_types::{Errno, Instant, PeerId};
use oxifabric_wire::shm::greeting::{Ability, Accept, Cause, Greeting, Hello, MAX_SIZE, Refuse};

use crate::NAME;
use crate::doorbell::Doorbell;
use crate::handshake::{self, Verdict};
use crate::link::ShmLink;
use crate::pair::{self, Pair};
use crate::peer::{Half, NO_PAIR, Stage};
use crate::pull::Desk;
use crate::region::{Region, Spare};
use crate::sys;
use crate::sys::process;
use crate::sys::socket::{Credentials, Received, Socket};
use crate::sys::wait::{Epoll, Timer};

/// Tokens of what is no connection.
const LISTENER: u64 = 0;
const TIMER: u64 = 1;
/// The token of the first connection.
const FIRST: u64 = 2;
/// Most callers that are let in at once.
const CALLERS_PER_LOOK: usize = 64;

/// The sockets of an endpoint, and its name.
#[derive(Debug)]
pub(crate) struct Switchboard {
    pub(crate) name: Box<str>,
    pub(crate) me: PeerId,
    pub(crate) listener: Socket,
    pub(crate) epoll: Epoll,
    pub(crate) timer: Timer,
    /// Tells this endpoint from others of its name; peers read it to learn whether they may read here.
    pub(crate) incarnation: Box<u64>,
    pub(crate) enabled: bool,
    /// Somebody may sleep.
    pub(crate) waits: bool,
    /// Peers whose pair is being opened.
    pub(crate) opening: Vec<PeerId>,
    pub(crate) conns: Vec<Conn>,
    /// Connections whose hello waits for an older pair to end.
    pub(crate) parked: Vec<usize>,
    pub(crate) spare: Option<Spare>,
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Conn {
    /// There is none at this index.
    Free,
    /// Somebody called and has not said hello yet.
    Stranger(Socket, Instant),
    /// Its hello cannot be judged yet.
    Parked(Box<Caller>),
    /// This side said hello and waits for the answer.
    Called(Socket, PeerId),
    /// This side accepted and waits for ready.
    Answered(Socket, PeerId),
    /// The socket is with the pair.
    Open(PeerId),
}

/// Somebody who said hello.
#[derive(Debug)]
pub(crate) struct Caller {
    socket: Socket,
    hello: Hello,
    memory: OwnedFd,
    who: Credentials,
    deadline: Instant,
}

impl Switchboard {
    /// Watches a new connection; returns its index.
    fn add(&mut self, socket: &Socket) -> std::io::Result<usize> {
        use std::os::fd::AsFd;
        let free = self
            .conns
            .iter()
            .position(|conn| matches!(conn, Conn::Free));
        let index = free.unwrap_or(self.conns.len());
        self.epoll.add(socket.as_fd(), FIRST + index as u64)?;
        if free.is_none() {
            self.conns.push(Conn::Free);
        }
        Ok(index)
    }

    fn take(&mut self, index: usize) -> Conn {
        match self.conns.get_mut(index) {
            Some(conn) => std::mem::replace(conn, Conn::Free),
            None => Conn::Free,
        }
    }

    fn set(&mut self, index: usize, conn: Conn) {
        if let Some(place) = self.conns.get_mut(index) {
            *place = conn;
        }
    }

    /// Closes a connection; `socket` is its socket if the pair has it.
    pub(crate) fn forget(&mut self, index: usize, socket: Option<&Socket>) {
        use std::os::fd::AsFd;
        let conn = self.take(index);
        let own = match &conn {
            Conn::Stranger(socket, _) | Conn::Called(socket, _) | Conn::Answered(socket, _) => {
                Some(socket)
            }
            Conn::Parked(caller) => Some(&caller.socket),
            Conn::Free | Conn::Open(_) => None,
        };
        // A forked child may hold the descriptor, too, so that closing it here would not end the watch.
        if let Some(socket) = own.or(socket) {
            self.epoll.remove(socket.as_fd());
        }
        self.parked.retain(|&parked| parked != index);
    }

    fn ability(&self, reads: bool) -> Ability {
        let mut ability = Ability::empty();
        ability.set(Ability::SLEEPS, self.waits);
        ability.set(Ability::READS, reads);
        ability
    }

    fn probe(&self) -> u64 {
        (&raw const *self.incarnation) as u64
    }

    /// Starts to listen.
    pub(crate) fn listen(&mut self) -> std::io::Result<()> {
        use std::os::fd::AsFd;
        self.listener.listen()?;
        self.epoll.add(self.listener.as_fd(), LISTENER)?;
        self.epoll.add(self.timer.as_fd(), TIMER)
    }
}

impl ShmLink {
    /// Deals with whatever the sockets say; returns how many events that were.
    pub(crate) fn look_at_sockets(&mut self, sink: &mut impl Sink) -> usize {
        let ready = self.board.epoll.ready();
        let mut events = 0;
        for &token in ready.tokens() {
            events += match token {
                LISTENER => self.let_callers_in(),
                TIMER => 0,
                conn => self.read_conn((conn - FIRST) as usize, sink),
            };
        }
        events += self.judge_parked(sink);
        events + self.advance_opening(sink)
    }

    fn deadline(&self) -> Instant {
        self.now.after(self.params.connect_timeout)
    }

    fn let_callers_in(&mut self) -> usize {
        self.drop_silent_callers();
        for count in 0..CALLERS_PER_LOOK {
            let socket = match self.board.listener.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => return count,
                Err(error) => {
                    log::warn!(NAME, EpCtrl, "a caller cannot be let in: {error}");
                    return count;
                }
            };
            let deadline = self.deadline();
            match self.board.add(&socket) {
                Ok(index) => self.board.set(index, Conn::Stranger(socket, deadline)),
                Err(error) => log::warn!(NAME, EpCtrl, "a caller cannot be watched: {error}"),
            }
        }
        CALLERS_PER_LOOK
    }

    /// Drops callers that never said hello, so that they do not pile up.
    fn drop_silent_callers(&mut self) {
        for index in 0..self.board.conns.len() {
            let silent = matches!(&self.board.conns[index],
                Conn::Stranger(_, deadline) if *deadline <= self.now);
            if silent {
                self.board.forget(index, None);
            }
        }
    }

    /// Reads what a connection has to say.
    fn read_conn(&mut self, index: usize, sink: &mut impl Sink) -> usize {
        match self.board.take(index) {
            Conn::Free => return 0,
            Conn::Stranger(socket, deadline) => self.hear_hello(index, socket, deadline, sink),
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
    fn hear_pair(&mut self, peer: PeerId) {
        use std::os::fd::AsFd;
        let Some(index) = self.peers.get(peer).map(|peer| peer.pair) else {
            return;
        };
        let Some(pair) = self.pairs.get_mut(index as usize) else {
            return;
        };
        let mut byte = [0];
        loop {
            match pair.socket.receive(&mut byte) {
                Ok(Received::Packet(..)) => {}
                Ok(Received::Nothing) => return,
                Ok(Received::Closed) | Err(_) => break,
            }
        }
        // What it published is delivered first; the socket has nothing more to say.
        self.board.epoll.remove(pair.socket.as_fd());
        pair.ending.get_or_insert(Errno::CONNRESET);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.stage = Stage::Ending;
            peer.reason = Some(format!(
                "{}: process {} has closed its endpoint or ended",
                peer.name(),
                pair.pid
            ));
        }
    }

    fn watch_parked(&mut self, index: usize, caller: Box<Caller>) {
        let gone = !matches!(
            caller.socket.receive(&mut [0]),
            Ok(Received::Packet(..) | Received::Nothing)
        );
        self.board.set(index, Conn::Parked(caller));
        if gone {
            self.board.forget(index, None);
        }
    }

    /// Judges again the hellos that had to wait.
    fn judge_parked(&mut self, sink: &mut impl Sink) -> usize {
        let parked = std::mem::take(&mut self.board.parked);
        for &index in &parked {
            if let Conn::Parked(caller) = self.board.take(index) {
                self.judge(index, caller, sink);
            }
        }
        parked.len()
    }

    fn hear_hello(
        &mut self,
        index: usize,
        socket: Socket,
        deadline: Instant,
        sink: &mut impl Sink,
    ) {
        let mut bytes = [0; MAX_SIZE];
        let (len, memory) = match socket.receive(&mut bytes) {
            Ok(Received::Packet(len, memory)) => (len, memory),
            Ok(Received::Nothing) if self.now < deadline => {
                return self.board.set(index, Conn::Stranger(socket, deadline));
            }
            _ => return self.drop_conn(index, socket),
        };
        let who = socket.credentials().unwrap_or(Credentials {
            pid: 0,
            uid: u32::MAX,
        });
        if let Err(refuse) = handshake::check_owner(who, process::user()) {
            return self.refuse(index, socket, refuse);
        }
        match (Greeting::parse(&bytes[..len]), memory) {
            (Ok(Greeting::Hello(hello)), Some(memory)) => {
                let caller = Caller {
                    socket,
                    hello,
                    memory,
                    who,
                    deadline,
                };
                self.judge(index, Box::new(caller), sink);
            }
            (Err(error), _) => {
                log::warn!(NAME, EpCtrl, "process {} called: {error}", who.pid);
                if let Some(answer) = handshake::answer_garbage(error) {
                    let _ = socket.send(&answer.emit(), None);
                }
                self.drop_conn(index, socket);
            }
            (Ok(_), _) => {
                log::warn!(
                    NAME,
                    EpCtrl,
                    "process {} called without a proper hello",
                    who.pid
                );
                self.drop_conn(index, socket);
            }
        }
    }

    fn drop_conn(&mut self, index: usize, socket: Socket) {
        self.board.forget(index, Some(&socket));
    }

    fn refuse(&mut self, index: usize, socket: Socket, refuse: Refuse) {
        // A caller whose call crossed ours expects this answer; everybody else's user should know.
        if refuse.cause != Cause::Crossed {
            log::warn!(NAME, EpCtrl, "a caller was refused: {}", refuse.text);
        }
        let _ = socket.send(&Greeting::Refuse(refuse).emit(), None);
        self.drop_conn(index, socket);
    }

    /// Acts on what [`handshake::judge`] says of a hello.
    fn judge(&mut self, index: usize, caller: Box<Caller>, sink: &mut impl Sink) {
        let peer = match self.peers.named(&caller.hello.from, &self.expected) {
            Ok(peer) => peer,
            Err(errno) => {
                let refuse = Refuse {
                    cause: Cause::Limit,
                    text: format!("{} cannot be a peer: {errno}", caller.hello.from),
                };
                return self.refuse(index, caller.socket, refuse);
            }
        };
        // An endpoint that calls again has hung up before: that is heard first.
        self.hear_pair(peer);
        match handshake::judge(&self.board.name, &caller.hello, self.standing(peer)) {
            Verdict::Accept => self.accept(index, *caller, peer, sink),
            Verdict::Refuse(refuse) => self.refuse(index, caller.socket, refuse),
            Verdict::Replace => {
                self.end_old(peer, sink);
                self.park(index, caller);
            }
            Verdict::Wait => self.park(index, caller),
        }
    }

    fn park(&mut self, index: usize, caller: Box<Caller>) {
        if self.now >= caller.deadline {
            return self.drop_conn(index, caller.socket);
        }
        self.board.set(index, Conn::Parked(caller));
        self.board.parked.push(index);
    }

    fn standing(&self, peer: PeerId) -> handshake::Standing {
        let paired = self
            .peers
            .get(peer)
            .and_then(|peer| self.pairs.get(peer.pair as usize))
            .filter(|pair| pair.ending.is_none())
            .map(|pair| pair.incarnation);
        self.peers
            .get(peer)
            .map_or(handshake::Standing::Apart, |peer| peer.standing(paired))
    }

    /// The peer has a successor of the same name: its own pair is over.
    fn end_old(&mut self, peer: PeerId, sink: &mut impl Sink) {
        let index = self.peers.get(peer).map_or(NO_PAIR, |peer| peer.pair);
        match self.pairs.get_mut(index as usize) {
            Some(pair) => {
                pair.ending.get_or_insert(Errno::CONNRESET);
                if let Some(peer) = self.peers.get_mut(peer) {
                    peer.stage = Stage::Ending;
                }
            }
            None => self.fail(peer, Errno::CONNRESET, "its process was replaced", sink),
        }
    }

    /// Makes a pair with a caller's memory.
    fn accept(&mut self, index: usize, caller: Caller, peer: PeerId, sink: &mut impl Sink) {
        let hello = &caller.hello;
        let unsealed = self.params.dir.is_some();
        let region = match Region::adopt(&caller.memory, hello.cells, hello.bytes, unsealed) {
            Ok(region) => region,
            Err(error) => {
                let text = error.to_string();
                let cause = Cause::Memory;
                return self.refuse(index, caller.socket, Refuse { cause, text });
            }
        };
        let reads = self.probe(caller.who.pid, hello.probe, hello.incarnation);
        let accept = Greeting::Accept(Accept {
            ability: self.board.ability(reads.is_ok()),
            incarnation: *self.board.incarnation,
            probe: self.board.probe(),
        });
        if caller.socket.send(&accept.emit(), None).is_err() {
            // It is gone already, or so hostile as to leave no room for the answer.
            return self.drop_conn(index, caller.socket);
        }
        self.drop_own_call(peer);
        let half = Half {
            region,
            deadline: self.deadline(),
            conn: index,
            pid: caller.who.pid,
            ability: hello.ability,
            incarnation: hello.incarnation,
            reads,
        };
        self.board.set(index, Conn::Answered(caller.socket, peer));
        if let Some(known) = self.peers.get_mut(peer) {
            known.stage = Stage::Answered(Box::new(half));
            if !self.board.opening.contains(&peer) {
                self.board.opening.push(peer);
            }
        }
        // A ready that came with the call is not waited for.
        self.read_conn(index, sink);
    }

    /// The peer's call counts, not this side's.
    fn drop_own_call(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get_mut(peer) else {
            return;
        };
        if let Stage::Called(half) = std::mem::replace(&mut known.stage, Stage::Apart) {
            self.board.forget(half.conn, None);
        }
    }

    /// Reads the word that the other side says it has at an address: where that works, long messages can be read.
    fn probe(&self, pid: i32, address: u64, expected: u64) -> Result<(), String> {
        if self.params.disable_cma {
            return Err("FI_SHM_DISABLE_CMA forbids it".into());
        }
        if pid <= 0 {
            return Err("the process is in another namespace".into());
        }
        match process::read_word(pid, address) {
            Ok(word) if word == expected => Ok(()),
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
        let deadline = self.deadline();
        let Some(known) = self.peers.get_mut(peer) else {
            return false;
        };
        if let Stage::Wanted(unset @ None) = &mut known.stage {
            *unset = Some(deadline);
        }
        match known.deadline() {
            None => return false,
            Some(deadline) if now >= deadline => {
                self.fail(peer, Errno::TIMEDOUT, "it did not answer in time", sink);
                return false;
            }
            Some(_) => {}
        }
        if let Stage::Wanted(Some(deadline)) = known.stage {
            self.call(peer, deadline, sink);
        }
        self.peers
            .get(peer)
            .is_some_and(|peer| peer.deadline().is_some())
    }

    /// Connects to a peer and says hello; stays as it is when the peer's backlog is full.
    fn call(&mut self, peer: PeerId, deadline: Instant, sink: &mut impl Sink) {
        let Some(name) = self.peers.get(peer).map(|peer| peer.name().to_owned()) else {
            return;
        };
        let socket = match Socket::connect(&handshake::socket_name(&name)) {
            Ok(socket) => socket,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            Err(error) => {
                let why = match error.kind() {
                    std::io::ErrorKind::ConnectionRefused => {
                        "no endpoint on this host has that name, or it is not enabled yet".into()
                    }
                    _ => format!("connecting failed: {error}"),
                };
                return self.fail(peer, sys::errno(&error), &why, sink);
            }
        };
        match self.say_hello(&socket, name) {
            Ok(half) => self.await_answer(peer, socket, half, deadline, sink),
            Err((errno, why)) => self.fail(peer, errno, &why, sink),
        }
    }

    fn say_hello(&mut self, socket: &Socket, to: String) -> Result<HalfCall, (Errno, String)> {
        use std::os::fd::AsFd;
        let who = socket
            .credentials()
            .map_err(|error| (sys::errno(&error), error.to_string()))?;
        handshake::check_owner(who, process::user())
            .map_err(|refuse| (handshake::errno_of(refuse.cause), refuse.text))?;
        let spare = match self.board.spare.take() {
            Some(spare) => Ok(spare),
            None => Spare::new(&self.params),
        };
        let made = spare.and_then(|spare| Ok((spare.map()?, spare)));
        let (region, spare) = made.map_err(|error| (error.errno, error.to_string()))?;
        let hello = Greeting::Hello(Hello {
            ability: self.board.ability(false),
            incarnation: *self.board.incarnation,
            probe: self.board.probe(),
            cells: region.layout.cells() as u32,
            bytes: region.layout.bytes() as u32,
            from: self.board.name.clone(),
            to: to.into(),
        });
        socket
            .send(&hello.emit(), Some(spare.file.as_fd()))
            .map_err(|error| (sys::errno(&error), format!("saying hello failed: {error}")))?;
        Ok(HalfCall {
            region,
            pid: who.pid,
        })
    }

    fn await_answer(
        &mut self,
        peer: PeerId,
        socket: Socket,
        call: HalfCall,
        deadline: Instant,
        sink: &mut impl Sink,
    ) {
        let index = match self.board.add(&socket) {
            Ok(index) => index,
            Err(error) => {
                return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
            }
        };
        self.board.set(index, Conn::Called(socket, peer));
        if let Some(known) = self.peers.get_mut(peer) {
            known.stage = Stage::Called(Box::new(Half {
                region: call.region,
                deadline,
                conn: index,
                pid: call.pid,
                ability: Ability::empty(),
                incarnation: 0,
                reads: Err(String::new()),
            }));
        }
    }

    fn hear_answer(&mut self, index: usize, socket: Socket, peer: PeerId, sink: &mut impl Sink) {
        let mut bytes = [0; MAX_SIZE];
        let len = match socket.receive(&mut bytes) {
            Ok(Received::Packet(len, _)) => len,
            Ok(Received::Nothing) => return self.board.set(index, Conn::Called(socket, peer)),
            Ok(Received::Closed) => {
                self.board.set(index, Conn::Called(socket, peer));
                return self.fail(
                    peer,
                    Errno::CONNREFUSED,
                    "it hung up without an answer",
                    sink,
                );
            }
            Err(error) => {
                self.board.set(index, Conn::Called(socket, peer));
                return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
            }
        };
        match Greeting::parse(&bytes[..len]) {
            Ok(Greeting::Accept(accept)) => self.say_ready(index, socket, peer, accept, sink),
            Ok(Greeting::Refuse(refuse)) if refuse.cause == Cause::Crossed => {
                self.drop_conn(index, socket);
                self.yield_to(peer);
            }
            Ok(Greeting::Refuse(refuse)) => {
                self.board.set(index, Conn::Called(socket, peer));
                let why = format!("it refused: {}", refuse.text);
                self.fail(peer, handshake::errno_of(refuse.cause), &why, sink);
            }
            other => {
                self.board.set(index, Conn::Called(socket, peer));
                let why = match other {
                    Err(error) => error.to_string(),
                    Ok(_) => "its answer makes no sense".into(),
                };
                self.fail(peer, Errno::PROTO, &why, sink);
            }
        }
    }

    /// The peer calls, too, and its call counts: it is waited for as long as this side's would have been.
    fn yield_to(&mut self, peer: PeerId) {
        if let Some(known) = self.peers.get_mut(peer)
            && let Stage::Called(half) = &known.stage
        {
            known.stage = Stage::Yielded(half.deadline);
        }
    }

    fn say_ready(
        &mut self,
        index: usize,
        socket: Socket,
        peer: PeerId,
        accept: Accept,
        sink: &mut impl Sink,
    ) {
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_conn(index, socket);
        };
        let Stage::Called(mut half) = std::mem::replace(&mut known.stage, Stage::Apart) else {
            return self.drop_conn(index, socket);
        };
        half.ability = accept.ability;
        half.incarnation = accept.incarnation;
        half.reads = self.probe(half.pid, accept.probe, accept.incarnation);
        let ready = Greeting::Ready(self.board.ability(half.reads.is_ok()));
        if let Err(error) = socket.send(&ready.emit(), None) {
            self.drop_conn(index, socket);
            return self.fail(peer, sys::errno(&error), &error.to_string(), sink);
        }
        self.open_pair(*half, socket, peer);
    }

    fn hear_ready(&mut self, index: usize, socket: Socket, peer: PeerId, sink: &mut impl Sink) {
        let mut bytes = [0; MAX_SIZE];
        let len = match socket.receive(&mut bytes) {
            Ok(Received::Packet(len, _)) => len,
            Ok(Received::Nothing) => return self.board.set(index, Conn::Answered(socket, peer)),
            Ok(Received::Closed) | Err(_) => {
                self.board.set(index, Conn::Answered(socket, peer));
                return self.fail(peer, Errno::CONNRESET, "it called and hung up", sink);
            }
        };
        let Ok(Greeting::Ready(ability)) = Greeting::parse(&bytes[..len]) else {
            self.board.set(index, Conn::Answered(socket, peer));
            return self.fail(peer, Errno::PROTO, "it did not say ready", sink);
        };
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_conn(index, socket);
        };
        let Stage::Answered(mut half) = std::mem::replace(&mut known.stage, Stage::Apart) else {
            return self.drop_conn(index, socket);
        };
        half.ability = ability;
        self.open_pair(*half, socket, peer);
    }

    /// Both sides are ready: frames may move.
    fn open_pair(&mut self, half: Half, socket: Socket, peer: PeerId) {
        let theirs = half.ability.contains(Ability::READS);
        let pull = half.reads.is_ok() && theirs;
        let Some(known) = self.peers.get_mut(peer) else {
            return self.drop_conn(half.conn, socket);
        };
        known.limits = pair::limits(&self.params, half.region.layout, pull);
        known.stage = Stage::Open;
        known.pair = self.pairs.len() as u32;
        known.reason = (!pull).then(|| {
            let cause = half.reads.err().unwrap_or_else(|| {
                format!("process {} cannot read the memory of this one", half.pid)
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
            half.pid
        );
        let region = half.region;
        let sleeps = half.ability.contains(Ability::SLEEPS);
        self.board.set(half.conn, Conn::Open(peer));
        self.pairs.push(Pair {
            peer,
            rx: region.rx,
            stalled: false,
            blocked: std::mem::take(&mut known.wanted).then_some(0),
            ending: None,
            broken: false,
            tx: region.tx,
            bell: Doorbell::new(region.head.clone(), region.side, sleeps),
            pull,
            pid: half.pid,
            socket,
            conn: half.conn,
            incarnation: half.incarnation,
            desk: Desk::new(region.head, region.side),
        });
    }

    /// Gives up opening a pair, and says why.
    fn fail(&mut self, peer: PeerId, errno: Errno, why: &str, sink: &mut impl Sink) {
        let Some(known) = self.peers.get_mut(peer) else {
            return;
        };
        let text = format!("{}: {why}", known.name());
        log::warn!(NAME, EpCtrl, "{text}");
        known.reason = Some(text);
        let wanted = std::mem::take(&mut known.wanted);
        match std::mem::replace(&mut known.stage, Stage::Apart) {
            Stage::Called(half) | Stage::Answered(half) => self.board.forget(half.conn, None),
            _ => {}
        }
        if wanted {
            sink.peer_down(peer, errno);
        }
    }
}

/// What a call has made.
struct HalfCall {
    region: Region,
    pid: i32,
}
