//! An endpoint: a connection of rdma_cm with the two queues of a device.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use oxifabric_kernel_objects::{ConnectionEvent, Device, Queued};
use oxifabric_kernel_sync::Work;
use oxifabric_types::{Address, EpType, Errno, Info, PeerId};

use crate::domain::VerbsDomain;
use crate::ledger::Ledger;
use crate::offer::queue_size;
use crate::parts::{DeviceFacts, Done, FLUSHED, MOST_PIECES, RawEvent};
use crate::private::Private;
use crate::stage::{Stage, Step};
use crate::system::{self, RawLink};
use crate::unsignaled::{MOST_IN_A_ROW, Unsignaled};
use crate::{address, place};

/// What moves the messages of an endpoint.
pub struct VerbsDevice {
    /// Before the work that it names.
    pub(crate) link: RawLink,
    pub(crate) work: Arc<Work>,
    pub(crate) domain: Arc<VerbsDomain>,
    stage: Stage,
    /// What goes with our request.
    request: Option<Private>,
    events: VecDeque<ConnectionEvent>,
    pub(crate) sends: Ledger,
    pub(crate) unsignaled: Unsignaled,
    pub(crate) receives: Ledger,
    pub(crate) has_queues: bool,
}

impl fmt::Debug for VerbsDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsDevice")
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl VerbsDevice {
    pub(crate) fn new(
        info: &Info,
        domain: &Arc<VerbsDomain>,
        work: &Arc<Work>,
    ) -> Result<Self, Errno> {
        if info.ep.kind != EpType::Msg {
            return Err(Errno::INVAL);
        }
        let link = bound(info, work)?;
        Self::over(link, Stage::Fresh, domain, work)
    }

    /// Makes the device of the endpoint that accepts a request.
    pub(crate) fn invited(
        link: RawLink,
        domain: &Arc<VerbsDomain>,
        work: &Arc<Work>,
    ) -> Result<Self, Errno> {
        let device = Self::over(link, Stage::Invited, domain, work)?;
        // SAFETY: the device keeps the work as long as the link.
        unsafe { device.link.set_owner(Arc::as_ptr(&device.work)) };
        Ok(device)
    }

    fn over(
        link: RawLink,
        stage: Stage,
        domain: &Arc<VerbsDomain>,
        work: &Arc<Work>,
    ) -> Result<Self, Errno> {
        let depth = queue_size(domain.facts());
        let send_depth = depth + MOST_IN_A_ROW;
        Ok(Self {
            link,
            work: Arc::clone(work),
            domain: Arc::clone(domain),
            stage,
            request: None,
            events: VecDeque::new(),
            sends: Ledger::new(send_depth, false)?,
            unsignaled: Unsignaled::new(send_depth)?,
            receives: Ledger::new(depth, true)?,
            has_queues: false,
        })
    }

    pub(crate) fn facts(&self) -> &DeviceFacts {
        self.domain.facts()
    }

    /// Does what an event of the connection asks for.
    pub(crate) fn step(&mut self, event: &RawEvent) {
        let done = match self.stage.take(event) {
            Step::Wait => Ok(()),
            Step::Route => self.link.route(),
            Step::Ask => {
                let request = self.request.take();
                self.link
                    .connect(request.as_ref().map_or(&[0], Private::bytes))
            }
            Step::Tell(told, is_over) => {
                self.tell(told, is_over);
                Ok(())
            }
        };
        if let Err(errno) = done
            && let Step::Tell(told, is_over) = self.stage.fail(errno, Vec::new())
        {
            self.tell(told, is_over);
        }
    }

    fn tell(&mut self, told: ConnectionEvent, is_over: bool) {
        if let ConnectionEvent::Refused(why, _) = &told {
            system::warn(&format!("connect to {}: {why}", self.link.ends().peer));
        }
        if is_over {
            self.link.disconnect();
        }
        self.events.push_back(told);
    }

    /// Takes the connection as made when a message has come over it: it may overtake the peer's last word on that, which may also be lost.
    pub(crate) fn heard(&mut self) {
        let step = self.stage.heard();
        if let Step::Tell(told, is_over) = step {
            self.link.established();
            self.tell(told, is_over);
        }
    }

    /// Ends the connection after an error of the device, which does nothing over it any more.
    pub(crate) fn lose(&mut self, done: &Done) {
        // What ended since the connection did says nothing of it.
        if self.stage == Stage::Accepting && done.status != FLUSHED {
            self.heard();
        }
        if self.stage != Stage::Connected {
            return;
        }
        let peer = self.link.ends().peer;
        let status = done.status;
        system::warn(&format!(
            "connection with {peer} lost: status {status} of the device"
        ));
        self.stage = Stage::Over;
        self.tell(ConnectionEvent::Shutdown, true);
    }
}

/// Opens a link at the source of an entry.
pub(crate) fn bound(info: &Info, work: &Arc<Work>) -> Result<RawLink, Errno> {
    let at = place(info.src.as_ref().ok_or(Errno::INVAL)?)?;
    // SAFETY: the caller keeps the work longer than the link.
    let link = unsafe { RawLink::open(Arc::as_ptr(work)) }?;
    link.bind(at)?;
    Ok(link)
}

impl Drop for VerbsDevice {
    fn drop(&mut self) {
        // After this the device has no memory of the operations any more.
        self.link.close_queues();
        for operation in self.sends.drain().chain(self.receives.drain()) {
            self.domain.unmap(operation.held);
        }
    }
}

impl Device for VerbsDevice {
    type Operations = Queued;

    fn address(&self) -> Address {
        address(self.link.ends().own)
    }

    fn set_address(&mut self, at: &Address) -> Result<(), Errno> {
        if self.stage != Stage::Fresh || self.has_queues {
            return Err(Errno::OPBADSTATE);
        }
        // SAFETY: the device keeps its work.
        let link = unsafe { RawLink::open(Arc::as_ptr(&self.work)) }?;
        link.bind(place(at)?)?;
        self.link = link;
        Ok(())
    }

    /// Makes the queues, which take receives from then on.
    fn enable(&mut self) -> Result<(), Errno> {
        // An endpoint for a request is enabled once more when it accepts.
        if self.has_queues {
            return Ok(());
        }
        let (depth, pieces) = (
            queue_size(self.facts()) + MOST_IN_A_ROW,
            self.facts().pieces,
        );
        let pieces = pieces.min(MOST_PIECES as u32);
        let domain = self.domain.raw();
        // SAFETY: the device keeps the domain, and drops it after the link.
        unsafe { self.link.open_queues(domain, depth as u32, pieces) }?;
        self.has_queues = true;
        Ok(())
    }

    fn peer(&mut self, _address: &Address) -> Result<PeerId, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    fn address_of(&self, peer: PeerId) -> Option<Address> {
        let is_known = peer == PeerId(0) && self.stage != Stage::Fresh;
        is_known.then(|| address(self.link.ends().peer))
    }

    fn connect(&mut self, to: &Address, data: &[u8]) -> Result<(), Errno> {
        let to = place(to)?;
        let request = Private::pack(data)?;
        if self.stage != Stage::Fresh {
            return Err(Errno::ISCONN);
        }
        if to.port() == 0 {
            return Err(Errno::INVAL);
        }
        self.link.resolve(to)?;
        (self.request, self.stage) = (Some(request), Stage::Resolving);
        Ok(())
    }

    fn accept(&mut self, data: &[u8]) -> Result<(), Errno> {
        if self.stage != Stage::Invited {
            return Err(Errno::NOTCONN);
        }
        self.link.accept(Private::pack(data)?.bytes())?;
        self.stage = Stage::Accepting;
        Ok(())
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        match self.stage {
            Stage::Fresh => return Err(Errno::NOTCONN),
            Stage::Over => return Ok(()),
            _ => self.stage = Stage::Over,
        }
        self.tell(ConnectionEvent::Shutdown, true);
        Ok(())
    }

    fn event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }
}
