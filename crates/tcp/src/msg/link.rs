//! The connection of one endpoint as the link under its engine. Hot path.

use oxifabric_engine::{Frame, Limits, Link, PostError, Posted, RemoteIov, RxToken, Sink, TxToken};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

use super::connection::{Stage, TcpConnection};
use crate::conns::Conns;
use crate::driver::{ConnDriver, ConnState};
use crate::poll::Connected;

impl Link for TcpConnection {
    fn limits(&self, _: PeerId) -> &Limits {
        &self.driver.limits
    }

    #[inline]
    fn post(&mut self, id: PeerId, frame: Frame<'_>, token: TxToken) -> Result<Posted, PostError> {
        self.post_to(id, &frame, token)
    }

    fn pull(&mut self, _: PeerId, _: &RemoteIov, _: Iov, _: RxToken) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    fn flush(&mut self) {
        self.flush_held();
    }

    #[inline]
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize {
        let events = self.progress(now, sink);
        self.note_end();
        events
    }

    fn resume(&mut self, id: PeerId) {
        self.resume_from(id);
    }

    fn disconnect(&mut self, id: PeerId, why: &'static str) -> bool {
        self.disconnect_from(id, why)
    }
}

impl Connected for TcpConnection {
    #[inline]
    fn conns(&mut self) -> &mut Conns {
        &mut self.conns
    }

    #[inline]
    fn driver(&mut self, _: PeerId) -> Option<(&mut ConnDriver, &mut Conns)> {
        Some((&mut self.driver, &mut self.conns))
    }

    /// Waits for a connection that the application has begun to make.
    #[cold]
    fn post_unconnected(&mut self, _: PeerId) -> PostError {
        let may_come = matches!(self.stage, Stage::Connecting | Stage::Invited(_));
        if may_come || matches!(self.driver.state, ConnState::Failed(..)) {
            self.driver.want();
            return PostError::Again;
        }
        PostError::Down(Errno::NOTCONN)
    }

    fn dial_on(&mut self, _: PeerId) {
        match self.driver.dial_on(&mut self.conns) {
            Ok(None) => {}
            Ok(Some(answer)) => self.answered(answer),
            Err(why) => self.give_up(why, Box::default()),
        }
    }

    fn dial_failed(&mut self, _: PeerId, why: Errno) {
        self.give_up(why, Box::default());
    }
}
