//! The link of a datagram endpoint: sends and receives datagrams, by one system call each or one for many. Path class: hot.

use oxifabric_engine::{
    Body, Frame, Header, HeaderFlags, Kind, Limits, Link, Placement, PostError, Posted, RemoteIov,
    RxToken, Sink, TxToken,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Instant, PeerId};

use crate::peer::UNKNOWN_PEER;
use crate::port::UdpPort;
use crate::sys::{Interest, errno_of};
use crate::tx_queue::is_full;

impl Link for UdpPort {
    const CARRIES_OUT: bool = false;

    #[inline]
    fn limits(&self, _peer: PeerId) -> &Limits {
        &self.limits
    }

    #[inline]
    fn post(
        &mut self,
        peer: PeerId,
        frame: Frame<'_>,
        _token: TxToken,
    ) -> Result<Posted, PostError> {
        if frame.header.kind != Kind::Msg || !frame.header.flags.is_empty() {
            return Err(PostError::Down(Errno::OPNOTSUPP));
        }
        if frame.more || self.tx_queue.takes_next() {
            return self.hold(peer, &frame);
        }
        let to = self.peers.destination(peer);
        let to = to.ok_or(PostError::Down(Errno::INVAL))?;
        match self.socket.send(to, frame.body, frame.offset, frame.len) {
            Ok(()) => Ok(Posted::Done),
            Err(error) if is_full(&error) => self.block(peer),
            Err(error) => Err(PostError::Down(errno_of(error))),
        }
    }

    fn pull(
        &mut self,
        _peer: PeerId,
        _remote: &RemoteIov,
        _into: Iov,
        _token: RxToken,
    ) -> Result<Posted, PostError> {
        Err(PostError::Down(Errno::OPNOTSUPP))
    }

    #[inline]
    fn flush(&mut self) {
        if !self.tx_queue.is_empty() {
            self.tx_queue.flush(&self.socket, &self.peers);
        }
    }

    #[inline]
    fn poll(&mut self, _now: Instant, sink: &mut impl Sink) -> usize {
        let mut events = 0;
        if !self.blocked.is_empty() {
            events += self.unblock(sink);
        }
        if self.stalled {
            return events;
        }
        let mut found = 0;
        if !self.rx_queue.is_empty() {
            found += self.deliver(sink);
            if self.stalled {
                return events + found;
            }
        }
        if self.rx_queue.fill(&self.socket, self.sources) {
            found += self.deliver(sink);
        }
        if !self.groups.is_empty() {
            found += self.receive_groups(sink);
        }
        self.rx_queue.note(found);
        events + found
    }

    fn resume(&mut self, _peer: PeerId) {
        self.stalled = false;
        // A thread that sleeps since the stall has to be woken for what has arrived. A UDP socket is nearly always
        // writable: that wakes the thread if something is here already.
        let write = self.watch.interest.write || !self.rx_queue.is_empty();
        if self.watch.interest != Interest::default() || write {
            self.watch_for(Interest { read: true, write });
        }
    }
}

impl UdpPort {
    /// Delivers what was received; returns how many datagrams were taken.
    #[inline]
    fn deliver(&mut self, sink: &mut impl Sink) -> usize {
        let mut taken = 0;
        while let Some((datagram, body)) = self.rx_queue.front() {
            let from = match self.sources {
                false => UNKNOWN_PEER,
                true => self.peers.number_or_add(&datagram.from, |oldest| {
                    let may_go = !sink.holds(oldest);
                    if may_go {
                        sink.forget_peer(oldest);
                    }
                    may_go
                }),
            };
            let header = Header {
                kind: Kind::Msg,
                flags: HeaderFlags::empty(),
                id: 0,
                tag: 0,
                data: 0,
                len: body.len() as u64,
            };
            let placement = sink.arrival(from, &header, Body::Whole(body));
            // A datagram that no receive takes, while receives for other sources wait, is lost: it must not keep back
            // what is behind it.
            if matches!(placement, Placement::Stall) && !sink.is_waiting() {
                self.stalled = true;
                break;
            }
            self.rx_queue.pop();
            taken += 1;
        }
        taken
    }

    /// Receives datagrams that were sent to multicast groups.
    #[cold]
    fn receive_groups(&mut self, sink: &mut impl Sink) -> usize {
        let mut taken = 0;
        for at in 0..self.groups.len() {
            if self.stalled || !self.rx_queue.is_empty() {
                break;
            }
            if self.rx_queue.fill(&self.groups[at].socket, self.sources) {
                taken += self.deliver(sink);
            }
        }
        taken
    }

    /// Coalesces a datagram, or sends it with those that were held back; order is kept as long as it costs nothing.
    #[cold]
    fn hold(&mut self, peer: PeerId, frame: &Frame<'_>) -> Result<Posted, PostError> {
        if self.peers.destination(peer).is_none() {
            return Err(PostError::Down(Errno::INVAL));
        }
        if self.tx_queue.is_full() {
            self.flush();
        }
        if self.tx_queue.is_full() {
            return self.block(peer);
        }
        self.tx_queue.push(peer, frame);
        if !frame.more {
            self.flush();
        }
        Ok(Posted::Done)
    }

    #[cold]
    fn block(&mut self, peer: PeerId) -> Result<Posted, PostError> {
        self.blocked.push(peer);
        Err(PostError::Again)
    }

    /// Resumes sends if the socket takes something again; returns how many peers they are for.
    #[cold]
    fn unblock(&mut self, sink: &mut impl Sink) -> usize {
        if !self.socket.is_writable() {
            return 0;
        }
        self.flush();
        let blocked = std::mem::take(&mut self.blocked);
        for peer in &blocked {
            sink.writable(*peer);
        }
        blocked.len()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::Arc;
    use std::time::{Duration, Instant as Clock};

    use oxifabric_provider::device::Device;
    use oxifabric_types::{Address, Caps, Info};

    use super::*;

    /// A sink whose receives take nothing: they are for another source, or there are none.
    #[derive(Default)]
    struct Full {
        is_waiting: bool,
        offered: usize,
    }

    impl Sink for Full {
        fn arrival(&mut self, _: PeerId, _: &Header, _: Body<'_>) -> Placement {
            self.offered += 1;
            Placement::Stall
        }

        fn placed(&mut self, _: RxToken, _: Result<(), Errno>) {}

        fn sent(&mut self, _: TxToken, _: Result<(), Errno>) {}

        fn pulled(&mut self, _: RxToken, _: Result<(), Errno>) {}

        fn writable(&mut self, _: PeerId) {}

        fn is_waiting(&self) -> bool {
            self.is_waiting
        }

        fn peer_down(&mut self, _: PeerId, _: Errno) {}
    }

    #[test]
    fn what_no_receive_takes_is_dropped_while_one_is_posted_and_waits_otherwise() {
        const COUNT: usize = 50;
        let mut port = UdpPort::open(
            &Info {
                src: Some(Address::Inet(SocketAddr::from(([127, 0, 0, 1], 0)))),
                caps: Caps::MSG | Caps::RECV | Caps::DIRECTED_RECV,
                ..Info::default()
            },
            &Arc::new(()),
        )
        .expect("loopback has ports");
        let Address::Inet(at) = port.name() else {
            panic!("it is a socket");
        };
        let sender = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        for _ in 0..COUNT {
            sender.send_to(b"unexpected", at).expect("a datagram sent");
        }
        let mut sink = Full::default();
        for _ in 0..COUNT {
            port.poll(Instant::default(), &mut sink);
        }
        assert_eq!(sink.offered, 1, "the rest waits behind it");
        // A receive is posted, for another source.
        sink = Full {
            is_waiting: true,
            offered: 0,
        };
        port.resume(PeerId(0));
        let start = Clock::now();
        while sink.offered < COUNT {
            port.poll(Instant::default(), &mut sink);
            let is_early = start.elapsed() < Duration::from_secs(30);
            assert!(is_early, "{} were offered", sink.offered);
        }
        assert!(port.rx_queue.is_empty(), "they are gone");
        assert_eq!(port.poll(Instant::default(), &mut sink), 0);
    }
}
