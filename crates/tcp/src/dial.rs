//! Outgoing connections: the sockets of attempts ([`crate::cm::Attempt`]), for endpoints of either kind. Set-up path.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use oxifabric_types::{Errno, Instant};

use crate::cm::{Answer, Attempt, CmMessage, Negotiated, Retry, read_cm, send_cm};
use crate::conns::Conns;
use crate::driver::{ConnDriver, ConnState};
use crate::sys::{self, Connecting, Interest, Socket};

/// An attempt to connect, with its socket.
#[derive(Debug)]
pub(crate) struct Dial {
    pub(crate) socket: Socket,
    attempt: Attempt,
    retry: Retry,
}

impl ConnDriver {
    /// Starts to connect a socket to a peer that will be sent this request.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn dial(
        &mut self,
        conns: &mut Conns,
        socket: Socket,
        to: &SocketAddr,
        request: CmMessage,
        retry: Retry,
    ) -> Result<(), Errno> {
        self.replace(ConnState::Idle);
        conns.remove(self.id);
        let (poller, key) = (&conns.reactor.poller, self.key());
        let started = socket.connect(to).and_then(|connecting| {
            poller.add(socket.fd(), key, Interest::WRITE)?;
            Ok(connecting)
        });
        let connecting = started.map_err(|error| sys::errno_of(&error))?;
        self.state = ConnState::Dialing(Dial {
            socket,
            attempt: Attempt::new(request),
            retry,
        });
        conns.dialing.push(self.id);
        conns.undated = true;
        match connecting {
            Connecting::Done => self.request(conns),
            Connecting::InProgress => Ok(()),
        }
    }

    /// Continues an attempt after an event of its socket; returns the answer once it is here.
    ///
    /// # Errors
    /// Why the attempt failed.
    pub(crate) fn dial_on(&mut self, conns: &mut Conns) -> Result<Option<Answer>, Errno> {
        let ConnState::Dialing(dial) = &mut self.state else {
            return Ok(None);
        };
        match dial.attempt.reader() {
            Some(reader) => read_cm(&dial.socket, reader)
                .map(Attempt::answered)
                .transpose(),
            None => {
                let taken = dial.socket.take_error();
                taken.map_err(|error| sys::errno_of(&error))?;
                self.request(conns).map(|()| None)
            }
        }
    }

    /// Sends our request over a fresh connection.
    fn request(&mut self, conns: &mut Conns) -> Result<(), Errno> {
        let key = self.key();
        let ConnState::Dialing(dial) = &mut self.state else {
            return Ok(());
        };
        conns.undated = true;
        // Without the bound the kernel alone decides when a host counts as gone.
        let timeout = conns.reactor.params.user_timeout;
        let _ = dial.socket.set_user_timeout(timeout);
        let poller = &conns.reactor.poller;
        send_cm(&dial.socket, dial.attempt.connected())?;
        let watched = poller.change(dial.socket.fd(), key, Interest::READ);
        watched.map_err(|error| sys::errno_of(&error))?;
        conns.counts.requested += 1;
        Ok(())
    }

    /// Takes the connection into use that the peer has agreed to.
    pub(crate) fn agreed(&mut self, conns: &mut Conns, negotiated: Negotiated) {
        if let ConnState::Dialing(dial) = self.replace(ConnState::Idle) {
            // From here on a peer that does not read for a while does not count as down.
            let _ = dial.socket.set_user_timeout(Duration::ZERO);
            self.establish(conns, dial.socket, negotiated, true);
        }
    }

    /// Waits for the peer's own connection, which is why it refused ours; false if there were refusals for too long.
    pub(crate) fn pause(&mut self, conns: &mut Conns) -> bool {
        let ConnState::Dialing(Dial { retry, .. }) = &self.state else {
            return true;
        };
        let reactor = &mut conns.reactor;
        let Some(retry) = retry.refused(reactor.now, reactor.params.connect_timeout) else {
            return false;
        };
        reactor.expect(retry.at);
        self.replace(ConnState::Paused(retry));
        true
    }

    /// Ends an attempt from this address of ours; the next poll reports it.
    pub(crate) fn dial_failed(&mut self, conns: &mut Conns, from: IpAddr, why: Errno) {
        let (at, cause) = (self.at, why.text().to_lowercase());
        let advice = advice(why);
        let reason = format!("connect to {at} from {from}: {cause}; {advice}");
        conns.directory.explain(self.id, Some(reason));
        self.fail(conns, why);
    }

    /// Sets the deadline of an attempt that has come a step further since the last poll.
    pub(crate) fn set_deadline(&mut self, conns: &mut Conns) {
        if let ConnState::Dialing(dial) = &mut self.state {
            let reactor = &mut conns.reactor;
            let (reached, answered) = (
                reactor.params.connect_timeout,
                reactor.params.answer_timeout,
            );
            let deadline = dial.attempt.set_deadline(reactor.now, reached, answered);
            reactor.expect(Some(deadline));
        }
    }

    /// Returns when something is to be done about an attempt.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            ConnState::Dialing(dial) => dial.attempt.deadline(),
            ConnState::Paused(retry) => retry.at,
            _ => None,
        }
    }

    /// Returns whether an attempt has not been answered in time.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        let is_dialing = matches!(self.state, ConnState::Dialing(_));
        is_dialing && self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Returns the refusals of an attempt whose pause is over.
    pub(crate) fn paused_until(&self, now: Instant) -> Option<Retry> {
        match self.state {
            ConnState::Paused(retry) if retry.at.is_some_and(|at| at <= now) => Some(retry),
            _ => None,
        }
    }
}

/// Returns a hint for the person that reads the message: what to check.
fn advice(why: Errno) -> &'static str {
    match why {
        Errno::CONNREFUSED => "no endpoint listens there (any more), or it rejected the request",
        Errno::TIMEDOUT => "the host or the endpoint's process does not answer",
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::INVAL | Errno::ADDRNOTAVAIL => {
            "that address cannot be reached from this one: FI_TCP_IFACE chooses the interface"
        }
        Errno::MFILE => "raise the limit of open files (ulimit -n)",
        Errno::PROTO => "something else than an endpoint of this provider answers there",
        Errno::CONNRESET => "the endpoint went away while it was being connected to",
        _ => "the system refuses it",
    }
}

/// Puts this host's scope into a link-local address: the peer's means nothing here.
pub(crate) fn reachable(to: SocketAddr, from: &SocketAddr) -> SocketAddr {
    match (to, from) {
        (SocketAddr::V6(mut to), SocketAddr::V6(from))
            if to.ip().is_unicast_link_local() && from.scope_id() != 0 =>
        {
            to.set_scope_id(from.scope_id());
            to.into()
        }
        (to, _) => to,
    }
}
