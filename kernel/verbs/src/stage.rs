//! How an endpoint comes to its connection, and loses it: what is to be done about each event of the connection manager.

use alloc::vec::Vec;

use oxifabric_kernel_objects::ConnectionEvent;
use oxifabric_types::Errno;

use crate::parts::{RawEvent, kind};
use crate::private::unpack;

/// Where an endpoint is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has an address.
    Fresh,
    /// A peer has asked for the connection.
    Invited,
    /// The peer's address is looked up.
    Resolving,
    /// The way to it is.
    Routing,
    /// The peer has been asked.
    Asking,
    /// The peer's request has been accepted.
    Accepting,
    /// The connection stands.
    Connected,
    /// It has ended, or was never made.
    Over,
}

/// What is to be done about an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Wait,
    /// Look up the way to the peer.
    Route,
    /// Ask the peer.
    Ask,
    /// Tell the application; `true`: end the connection at this side, too.
    Tell(ConnectionEvent, bool),
}

impl Stage {
    /// Takes an event. One that does not belong to where the endpoint is changes nothing.
    pub(crate) fn take(&mut self, event: &RawEvent) -> Step {
        match (event.kind, *self) {
            (kind::ADDR_RESOLVED, Self::Resolving) => {
                *self = Self::Routing;
                Step::Route
            }
            (kind::ROUTE_RESOLVED, Self::Routing) => {
                *self = Self::Asking;
                Step::Ask
            }
            (kind::ESTABLISHED, Self::Asking) => {
                *self = Self::Connected;
                let data = unpack(event.data()).to_vec();
                Step::Tell(ConnectionEvent::Connected(data), false)
            }
            (kind::ESTABLISHED, Self::Accepting) => self.heard(),
            (kind::REJECTED, Self::Asking) => {
                let data = unpack(event.data()).to_vec();
                self.fail(Errno::CONNREFUSED, data)
            }
            (
                kind::ADDR_ERROR | kind::ROUTE_ERROR | kind::CONNECT_ERROR | kind::UNREACHABLE,
                Self::Resolving | Self::Routing | Self::Asking | Self::Accepting,
            ) => self.fail(reason(event.status), Vec::new()),
            (kind::DISCONNECTED | kind::REJECTED, Self::Asking | Self::Accepting) => {
                self.fail(Errno::CONNRESET, Vec::new())
            }
            (
                kind::DEVICE_REMOVAL,
                Self::Resolving | Self::Routing | Self::Asking | Self::Accepting,
            ) => self.fail(Errno::NODEV, Vec::new()),
            // A message of the peer may have come before the manager gave up waiting for its last word.
            (
                kind::DISCONNECTED
                | kind::DEVICE_REMOVAL
                | kind::UNREACHABLE
                | kind::REJECTED
                | kind::CONNECT_ERROR,
                Self::Connected,
            ) => {
                *self = Self::Over;
                Step::Tell(ConnectionEvent::Shutdown, true)
            }
            _ => Step::Wait,
        }
    }

    /// Takes a message of the peer: it knows of the connection, so that it stands.
    pub(crate) fn heard(&mut self) -> Step {
        if *self != Self::Accepting {
            return Step::Wait;
        }
        *self = Self::Connected;
        Step::Tell(ConnectionEvent::Connected(Vec::new()), false)
    }

    /// Ends an attempt.
    pub(crate) fn fail(&mut self, why: Errno, data: Vec<u8>) -> Step {
        *self = Self::Over;
        Step::Tell(ConnectionEvent::Refused(why, data), true)
    }
}

/// Returns the error of an attempt: rdma_cm has an error number, or a positive reason of the connection manager.
fn reason(status: i32) -> Errno {
    match status {
        ..0 => Errno::from_raw(status.saturating_neg()),
        _ => Errno::HOSTUNREACH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u32, status: i32, data: &[u8]) -> RawEvent {
        let mut event = RawEvent {
            kind,
            status,
            len: data.len() as u32,
            ..RawEvent::NONE
        };
        event.data[..data.len()].copy_from_slice(data);
        event
    }

    #[test]
    fn a_connection_is_made_step_by_step() {
        let mut stage = Stage::Resolving;
        assert_eq!(stage.take(&event(kind::ADDR_RESOLVED, 0, &[])), Step::Route);
        assert_eq!(stage.take(&event(kind::ROUTE_RESOLVED, 0, &[])), Step::Ask);
        let answer = stage.take(&event(kind::ESTABLISHED, 0, b"\x02ok\0\0"));
        let connected = ConnectionEvent::Connected(b"ok".to_vec());
        assert_eq!(answer, Step::Tell(connected, false));
        let ended = stage.take(&event(kind::DISCONNECTED, 0, &[]));
        assert_eq!(ended, Step::Tell(ConnectionEvent::Shutdown, true));
        assert_eq!(stage.take(&event(kind::DISCONNECTED, 0, &[])), Step::Wait);
    }

    #[test]
    fn a_connection_that_the_manager_gives_up_after_a_message_has_ended() {
        for given_up in [kind::UNREACHABLE, kind::REJECTED, kind::CONNECT_ERROR] {
            let mut stage = Stage::Accepting;
            assert!(matches!(stage.heard(), Step::Tell(..)));
            let ended = stage.take(&event(given_up, 0, &[]));
            assert_eq!(ended, Step::Tell(ConnectionEvent::Shutdown, true));
        }
    }

    #[test]
    fn a_refusal_says_why() {
        let mut stage = Stage::Asking;
        let refused =
            |why, data: &[u8]| Step::Tell(ConnectionEvent::Refused(why, data.to_vec()), true);
        let answer = stage.take(&event(kind::REJECTED, 28, b"\x02no"));
        assert_eq!(answer, refused(Errno::CONNREFUSED, b"no"));
        let mut stage = Stage::Resolving;
        let answer = stage.take(&event(kind::ADDR_ERROR, -Errno::TIMEDOUT.raw(), &[]));
        assert_eq!(answer, refused(Errno::TIMEDOUT, b""));
        let mut stage = Stage::Routing;
        let answer = stage.take(&event(kind::ROUTE_ERROR, i32::MIN, &[]));
        assert!(matches!(
            answer,
            Step::Tell(ConnectionEvent::Refused(..), true)
        ));
    }

    #[test]
    fn an_event_at_the_wrong_time_changes_nothing() {
        for stage in [Stage::Fresh, Stage::Invited, Stage::Over] {
            for kind in 0..16 {
                let mut is = stage;
                assert_eq!((is.take(&event(kind, 0, &[])), is), (Step::Wait, stage));
            }
        }
        let mut stage = Stage::Resolving;
        assert_eq!(stage.take(&event(kind::ESTABLISHED, 0, &[])), Step::Wait);
        assert_eq!(stage, Stage::Resolving);
    }
}
