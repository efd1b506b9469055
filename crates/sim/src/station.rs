//! An endpoint's place in a network, its name there, and its way to sleep: what devices of any kind have. Path class: hot.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use oxifabric_provider::timer::Timer;
use oxifabric_types::{Address, Errno, Info, Instant};

use crate::name;
use crate::network::{Packet, Place};
use crate::params;
use crate::world::World;

/// A place in a network that an endpoint has taken.
#[derive(Debug)]
pub(crate) struct Station {
    pub(crate) world: Arc<World>,
    pub(crate) place: Place,
    name: Address,
    /// Made when a thread may sleep.
    timer: OnceLock<Arc<Timer>>,
    enabled: bool,
}

impl Station {
    /// Takes a place in a network.
    ///
    /// # Errors
    /// `INVAL` for what is no name, `ADDRINUSE`.
    pub(crate) fn settle(world: &Arc<World>, name: &str) -> Result<Self, Errno> {
        let place = world.with(|network| {
            let place = network.place(name).ok_or(Errno::INVAL)?;
            let settled = network.settle(place).then_some(place);
            settled.ok_or(Errno::ADDRINUSE)
        })?;
        Ok(Self {
            world: Arc::clone(world),
            place,
            name: Address::Name(name.into()),
            timer: OnceLock::new(),
            enabled: false,
        })
    }

    /// Takes the place that an endpoint asks for in the network of this process, or a free one.
    ///
    /// # Errors
    /// As [`Station::settle`].
    pub(crate) fn open(info: &Info) -> Result<Self, Errno> {
        let world = params::world()?;
        match &info.src {
            Some(Address::Name(name)) if &**name != name::PREFIX => Self::settle(world, name),
            Some(Address::Name(_)) | None => loop {
                let name = world.with(|network| network.nodes_mut().free_name());
                match Self::settle(world, &name) {
                    Err(Errno::ADDRINUSE) => {}
                    settled => return settled,
                }
            },
            Some(_) => Err(Errno::INVAL),
        }
    }

    /// Lets packets arrive.
    pub(crate) fn enable(&mut self) {
        self.enabled = true;
        self.world.with(|network| network.open(self.place));
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> Address {
        self.name.clone()
    }

    /// Takes another place.
    ///
    /// # Errors
    /// `OPBADSTATE` once packets may arrive, and as [`Station::settle`].
    pub(crate) fn rename(&mut self, name: &Address) -> Result<(), Errno> {
        if self.enabled {
            return Err(Errno::OPBADSTATE);
        }
        let Address::Name(name) = name else {
            return Err(Errno::INVAL);
        };
        *self = Self::settle(&self.world, name)?;
        Ok(())
    }

    /// Returns the place with an address.
    ///
    /// # Errors
    /// `INVAL` for what is no name.
    pub(crate) fn find(&self, address: &Address) -> Result<Place, Errno> {
        let Address::Name(name) = address else {
            return Err(Errno::INVAL);
        };
        let place = self.world.with(|network| network.place(name));
        place.ok_or(Errno::INVAL)
    }

    /// Begins a poll: takes the packets that have arrived, if all before are dealt with. Returns the time.
    #[inline(always)]
    pub(crate) fn begin(&self, inbox: &mut VecDeque<Packet>) -> Instant {
        self.world.begin(self.place, |network| {
            if inbox.is_empty() {
                network.take(self.place, inbox);
            }
        })
    }

    /// Ends a poll: the endpoint is busy, or wants to be polled again at `due`.
    pub(crate) fn set_due(&self, due: Instant, busy: bool) {
        self.world
            .with(|network| network.set_due(self.place, due, busy));
    }

    /// Notes that a poll had events. It may have been another endpoint's, which drives those of its domain; so the driver of the network,
    /// if there is one, is to give this endpoint a turn, and read what has ended.
    pub(crate) fn note_news(&self) {
        self.world.note_news(self.place);
    }

    /// Returns the descriptor to sleep on.
    pub(crate) fn fd(&self) -> RawFd {
        self.timer().map_or(-1, |timer| timer.fd())
    }

    /// Gets ready for sleep, until the next packet or `due`; false if there is something to do.
    pub(crate) fn arm(&self, due: Option<Duration>) -> bool {
        let Some(nap) = self.world.nap() else {
            return false;
        };
        let Some(timer) = self.timer() else {
            return false;
        };
        // What is due in virtual time is among the events that keep all threads from sleeping.
        let nap = nap.min(due.unwrap_or(Duration::MAX));
        timer.set((nap != Duration::MAX).then_some(nap));
        let place = self.place;
        (self.world).with(|network| network.nodes_mut().sleep(place, timer))
    }

    fn timer(&self) -> Option<&Arc<Timer>> {
        if self.timer.get().is_none() {
            let _ = self.timer.set(Arc::new(Timer::open().ok()?));
        }
        self.timer.get()
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.world.with(|network| network.leave(self.place));
    }
}
