//! The fate of an endpoint's connection, on its way to the event queue. Path class: setup.

use oxifabric_abi::{FI_CONNECTED, FI_SHUTDOWN};
use oxifabric_provider::connection::ConnectionEvent;
use oxifabric_provider::device::Device;
use oxifabric_provider::operations::Operations;
use oxifabric_types::Errno;

use super::state::EndpointState;
use crate::eq::{Cm, Eq, EqFailure};
use crate::handle::Ref;

/// Where events of a connection go.
#[derive(Default)]
pub(super) struct Reports {
    pub(super) eq: Option<Ref<Eq>>,
    /// The endpoint's handle.
    pub(super) fid: usize,
    /// The context of its opener.
    pub(super) context: usize,
    /// The connection is no more: receives end at once unless a message waits for them.
    pub(super) ended: bool,
}

impl<D: Device> EndpointState<D> {
    /// Reports what became of the connection; returns how many events there were.
    pub(super) fn report(&mut self) -> usize {
        let mut events = 0;
        while let Some(event) = self.device.next_event() {
            events += 1;
            match event {
                ConnectionEvent::Connected(data) => self.reports.post(FI_CONNECTED, data),
                ConnectionEvent::Ended => {
                    self.end();
                    self.reports.post(FI_SHUTDOWN, Box::default());
                }
                ConnectionEvent::Failed(errno, data) => {
                    self.end();
                    self.reports.post_failure(errno, data);
                }
            }
        }
        events
    }

    /// Nothing more will come: receives that still wait are given back.
    fn end(&mut self) {
        self.reports.ended = true;
        self.operations
            .cancel_receives(&mut self.device, &mut self.out);
        self.note_posted();
    }
}

impl Reports {
    fn post(&self, event: u32, data: Box<[u8]>) {
        if let Some(eq) = &self.eq {
            eq.post_cm(Cm {
                event,
                fid: self.fid,
                info: None,
                data,
            });
        }
    }

    fn post_failure(&self, errno: Errno, detail: Box<[u8]>) {
        if let Some(eq) = &self.eq {
            eq.post_failure(EqFailure {
                fid: self.fid,
                context: self.context,
                data: 0,
                errno,
                detail,
            });
        }
    }
}
