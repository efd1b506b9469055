//! The door: callers are let in, at most so many, and judged by what the kernel says of them before they are heard.
//!
//! Every process of the host can connect, so each thing that a caller takes here has a bound: descriptors, and time of the
//! thread that polls. docs/protocol/shm.md 2.9.

use std::io;
use std::time::Duration;

use oxifabric_core::log;
use oxifabric_engine::Sink;
use oxifabric_wire::shm::greeting::{Cause, Greeting, Refuse};

use crate::NAME;
use crate::handshake;
use crate::link::ShmLink;
use crate::switchboard::{Conn, Newcomer};
use crate::sys::identity;
use crate::sys::process;
use crate::sys::socket::Socket;

/// How long a caller may take to say hello: it has nothing to wait for.
const SILENCE: Duration = Duration::from_secs(15);

/// Most callers that are let in at once.
const CALLERS_PER_LOOK: usize = 64;

/// How long no caller is let in after some came for nothing, and how many may at once: a flood of them takes a
/// small part of this thread's time. What waits in a full backlog (4,096) is heard in a quarter of a second all the same.
const AFTER_REFUSAL: Duration = Duration::from_millis(1);
const REFUSALS_PER_LOOK: usize = 16;

/// Descriptors that callers leave to the application, and to the calls that this side makes.
const SPARE_DESCRIPTORS: u64 = 16;

/// The same when the system has no descriptors left; as over tcp.
const WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(100);

impl ShmLink {
    pub(super) fn let_callers_in(&mut self, sink: &mut impl Sink) -> usize {
        self.board.refusals = 0;
        self.drop_silent_callers(sink);
        for count in 0..CALLERS_PER_LOOK {
            if self.board.refusals >= REFUSALS_PER_LOOK {
                return count;
            }
            match self.board.listener.accept() {
                Ok(Some(socket)) => self.let_in(socket, sink),
                Ok(None) => return count,
                Err(error) => {
                    self.close_door(&error);
                    return count;
                }
            }
        }
        CALLERS_PER_LOOK
    }

    /// Judges who called, before anything that it says is read.
    fn let_in(&mut self, socket: Socket, sink: &mut impl Sink) {
        let who = match socket.credentials() {
            Ok(who) => who,
            Err(error) => return self.close_door(&error),
        };
        if let Err(refuse) = handshake::check_owner(who, process::user(), &self.params.users) {
            return self.turn_away(&socket, refuse);
        }
        if !self.has_room_for(&socket, sink) {
            let refuse = Refuse {
                cause: Cause::Limit,
                text: "this process has no descriptors to spare".into(),
            };
            return self.turn_away(&socket, refuse);
        }
        let index = match self.board.add(&socket) {
            Ok(index) => index,
            Err(error) => return self.close_door(&error),
        };
        let newcomer = Newcomer {
            socket,
            who,
            deadline: self.now.after(SILENCE),
        };
        self.board.set(index, Conn::Stranger(newcomer));
        self.board.silent.push_back(index);
        // The hello usually came with the connection.
        self.read_conn(index, sink);
    }

    /// Stops to let callers in until the system may have descriptors again.
    fn close_door(&mut self, error: &io::Error) {
        log::warn!(NAME, EpCtrl, "a caller cannot be let in: {error}");
        let until = self.now.after(WITHOUT_DESCRIPTORS);
        self.board.close_door(until);
    }

    /// Drops callers that never said hello, so that they do not pile up. What they have said by now counts: it may be
    /// this side that was late.
    fn drop_silent_callers(&mut self, sink: &mut impl Sink) {
        while let Some(&oldest) = self.board.silent.front() {
            let overdue = matches!(self.board.conns.get(oldest),
                Some(Conn::Stranger(newcomer)) if newcomer.deadline <= self.now);
            if !overdue {
                return;
            }
            self.drop_silent(oldest, sink);
        }
    }

    /// Where many are silent, or descriptors are scarce, the oldest silent one goes, unless it has said hello by now. Returns
    /// whether there is room for another caller.
    fn has_room_for(&mut self, socket: &Socket, sink: &mut impl Sink) -> bool {
        // The lowest free number was given out: it says how many descriptors there are. As long as a silent caller has a high one, those
        // that others gave back are not more.
        let highest = self.board.highest_silent().max(socket.number());
        let scarce = highest + SPARE_DESCRIPTORS >= identity::most_descriptors();
        match self.board.too_silent(scarce) {
            Some(oldest) => self.drop_silent(oldest, sink),
            None => return !scarce,
        }
        true
    }

    fn drop_silent(&mut self, index: usize, sink: &mut impl Sink) {
        self.read_conn(index, sink);
        if self.board.silent.contains(&index) {
            self.board.forget(index, None);
            self.regret();
        }
    }

    /// A caller was let in for nothing: after some of them none is for a moment.
    pub(super) fn regret(&mut self) {
        self.board.refusals += 1;
        let until = self.now.after(AFTER_REFUSAL);
        self.board.close_door(until);
    }

    /// Says no to a caller.
    pub(super) fn turn_away(&mut self, socket: &Socket, refuse: Refuse) {
        // The text may have words of the caller's, which are not for the log: it could be filled with them.
        let why = handshake::reason_of(refuse.cause);
        log::warn!(NAME, EpCtrl, "a caller was refused: {why}");
        log::info!(NAME, EpCtrl, "it is told: {:?}", refuse.text);
        let _ = socket.send(&Greeting::Refuse(refuse).emit(), None);
        self.regret();
    }
}
