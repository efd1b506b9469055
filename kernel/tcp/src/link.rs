//! The frames of an endpoint: posted to connections, and read from them.

use oxifabric_engine::{Frame, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken};
use oxifabric_mem::Iov;
use oxifabric_tcp_stream::limits::UNKNOWN;
use oxifabric_types::{EpType, Errno, Instant, PeerId};

use crate::conn::State;
use crate::connection::Stage;
use crate::device::TcpDevice;
use crate::socket::now;

impl Link for TcpDevice {
    fn limits(&self, peer: PeerId) -> &Limits {
        let peer = self.peers.get(peer);
        peer.map_or(&UNKNOWN, |peer| &peer.conn.limits)
    }

    fn post(&mut self, id: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        // Whatever a poll gives rise to leaves when the poll ends.
        let more = frame.more || self.is_polling;
        let Some(conn) = self.peers.conn(id) else {
            return Err(PostError::Down(Errno::INVAL));
        };
        match conn.post(&frame, token, more) {
            Some(posted) => {
                if !self.is_polling {
                    if !conn.is_ready() {
                        self.work.queue();
                    } else if conn.holds_back() {
                        self.work.queue_later();
                    }
                }
                posted
            }
            None => Err(self.post_unconnected(id)),
        }
    }

    fn pull(&mut self, _: PeerId, _: &RemoteIov, _: Iov, _: RxToken) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    fn flush(&mut self) {
        for at in 0..self.peers.live.len() {
            let id = self.peers.live.get(at).copied();
            if let Some(conn) = id.and_then(|id| self.peers.conn(id)) {
                conn.flush();
            }
        }
    }

    fn poll(&mut self, _: Instant, sink: &mut impl Sink) -> usize {
        // A connection in use has no time limits, and its endpoint no other one.
        let is_timed = !matches!(*self.stage, Stage::Connected);
        if is_timed {
            self.now = now();
        }
        self.polls += 1;
        self.is_polling = true;
        let (mut events, mut at) = (0, 0);
        while let Some(&id) = self.peers.live.get(at) {
            events += self.turn(id, sink);
            at += 1;
        }
        // After the connections in use, so that the endpoint knows those peers before it hears of messages of theirs.
        events += self.admit_waiting(sink);
        self.is_polling = false;
        self.flush();
        self.peers.bury(self.polls);
        if is_timed {
            self.set_timer();
        }
        self.note_end();
        events
    }

    fn resume(&mut self, id: PeerId) {
        if let Some(conn) = self.peers.conn(id) {
            conn.resume();
            self.work.queue();
        }
    }

    fn disconnect(&mut self, id: PeerId, why: &'static str) -> bool {
        let Some(conn) = self.peers.conn(id).filter(|conn| conn.is_ready()) else {
            return false;
        };
        conn.lose(Errno::CONNRESET, why);
        self.work.queue();
        true
    }
}

impl TcpDevice {
    /// Answers a post to a peer without a connection.
    fn post_unconnected(&mut self, id: PeerId) -> PostError {
        let Some(conn) = self.peers.conn(id) else {
            return PostError::Down(Errno::INVAL);
        };
        if self.kind == EpType::Msg && conn.is_idle() {
            return PostError::Down(Errno::NOTCONN);
        }
        conn.want();
        if conn.is_idle() {
            self.dial(id, Default::default());
        }
        PostError::Again
    }

    /// Does what there is to do for a peer; returns how many events there were.
    fn turn(&mut self, id: PeerId, sink: &mut impl Sink) -> usize {
        let now = self.now;
        let Some(conn) = self.peers.conn(id) else {
            return 0;
        };
        match conn.state {
            State::Dialing(_) => match conn.dial_on(now) {
                Ok(None) => return 0,
                Ok(Some(answer)) if self.kind == EpType::Msg => self.answered_once(answer),
                Ok(Some(answer)) => self.answered(id, &answer),
                Err(why) if self.kind == EpType::Msg => self.give_up(why, &[]),
                Err(why) => self.dial_failed(id, why),
            },
            State::Paused(_) => match conn.paused_until(now) {
                Some(retry) => self.dial(id, retry),
                None => return 0,
            },
            _ => {}
        }
        let Some(conn) = self.peers.conn(id) else {
            return 0;
        };
        let (events, has_more) = conn.turn(sink);
        if has_more {
            self.work.queue();
        }
        events
    }
}
