//! Nodes and their endpoints: what has arrived for each, and which have something to do.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use oxifabric_provider::timer::Timer;
use oxifabric_types::Instant;

use super::Packet;
use crate::name;

/// The number of an endpoint's name. It stays the name's when another endpoint takes the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(u32);

/// All places.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    numbers: HashMap<Box<str>, Place>,
    rows: Vec<Row>,
    /// The number of the node that the next endpoint gets which asks for none.
    next_free: u32,
    /// Nodes that have words for names, which are numbered from the highest number downwards.
    words: HashMap<Box<str>, u32>,
    /// Number of endpoints that have something to do, and of those among them that count as absent.
    ready: usize,
    absent: usize,
    /// Changes whenever these do.
    changes: u64,
    /// Those that have something to do, in the order in which they got it; some no longer have.
    turns: VecDeque<Place>,
}

#[derive(Debug)]
struct Row {
    name: Box<str>,
    node: u32,
    endpoint: Option<Box<Endpoint>>,
}

/// The endpoint at a place.
#[derive(Debug)]
struct Endpoint {
    inbox: VecDeque<Packet>,
    open: bool,
    /// When it wants to be polled.
    due: Instant,
    /// The earliest event queued for that.
    queued: Instant,
    ready: bool,
    /// Whether it is among [`Nodes::turns`].
    in_turn: bool,
    /// Something has ended since it had its last turn.
    has_news: bool,
    /// Whether it has not been polled for so long that time does not wait for it.
    absent: bool,
    /// Value of [`Nodes::changes`], and number of empty polls since it has had that value.
    empty_polls: (u64, u32),
    /// Wakes it; it sleeps.
    bell: Option<Arc<Timer>>,
}

impl Nodes {
    pub(crate) fn place(&mut self, name: &str) -> Option<Place> {
        if let Some(known) = self.numbers.get(name) {
            return Some(*known);
        }
        let node = match name::node(name)? {
            Ok(number) => number,
            Err(word) => {
                let next = u32::try_from(self.words.len()).ok()?;
                *self
                    .words
                    .entry(word.into())
                    .or_insert(name::NODES - 1 - next)
            }
        };
        let place = Place(u32::try_from(self.rows.len()).ok()?);
        self.rows.push(Row {
            name: name.into(),
            node,
            endpoint: None,
        });
        self.numbers.insert(name.into(), place);
        Some(place)
    }

    /// Returns the name of a place.
    pub(crate) fn name(&self, place: Place) -> Box<str> {
        let row = self.rows.get(place.0 as usize);
        row.map_or_else(Box::default, |row| row.name.clone())
    }

    /// Returns a name for an endpoint that asks for none: a node of its own, unless that is taken.
    pub(crate) fn free_name(&mut self) -> String {
        let node = self.next_free;
        self.next_free = (node + 1) % name::NODES;
        name::of(Some(&node.to_string()), None)
    }

    /// Returns the node of a place.
    pub(crate) fn node(&self, place: Place) -> u32 {
        self.rows.get(place.0 as usize).map_or(0, |row| row.node)
    }

    /// Returns whether only absent endpoints have something to do, and how many endpoints do.
    pub(crate) fn readiness(&self) -> (bool, usize) {
        (self.ready == self.absent, self.ready)
    }

    pub(super) fn settle(&mut self, place: Place) -> bool {
        match self.rows.get_mut(place.0 as usize) {
            Some(row) if row.endpoint.is_none() => {
                row.endpoint = Some(Box::new(Endpoint {
                    inbox: VecDeque::new(),
                    open: false,
                    due: Instant::END,
                    queued: Instant::END,
                    ready: false,
                    in_turn: false,
                    has_news: false,
                    absent: false,
                    empty_polls: (0, 0),
                    bell: None,
                }));
                true
            }
            _ => false,
        }
    }

    pub(super) fn open(&mut self, place: Place) {
        if let Some(endpoint) = self.endpoint(place) {
            endpoint.open = true;
        }
    }

    pub(super) fn is_open(&mut self, place: Place) -> bool {
        self.endpoint(place).is_some_and(|endpoint| endpoint.open)
    }

    pub(super) fn leave(&mut self, place: Place) {
        self.set_ready(place, false);
        if self
            .endpoint(place)
            .is_some_and(|endpoint| endpoint.in_turn)
        {
            self.turns.retain(|known| *known != place);
        }
        if let Some(row) = self.rows.get_mut(place.0 as usize) {
            row.endpoint = None;
        }
    }

    /// Begins a poll: the endpoint is not absent. Returns whether it has something to do.
    pub(crate) fn is_due(&mut self, place: Place) -> bool {
        let Some(endpoint) = self.endpoint(place) else {
            return false;
        };
        endpoint.bell = None;
        let ready = endpoint.ready;
        if std::mem::take(&mut endpoint.absent) {
            self.absent -= 1;
            self.changes += 1;
        }
        ready
    }

    /// Counts an empty poll while other endpoints have something to do; returns how many were in a row.
    pub(crate) fn count_empty_poll(&mut self, place: Place) -> u32 {
        let changes = self.changes;
        let Some(endpoint) = self.endpoint(place) else {
            return 0;
        };
        if endpoint.empty_polls.0 != changes {
            endpoint.empty_polls = (changes, 0);
        }
        endpoint.empty_polls.1 = endpoint.empty_polls.1.saturating_add(1);
        endpoint.empty_polls.1
    }

    /// Counts the endpoints that have something to do as absent, until they are polled.
    pub(crate) fn give_up_waiting(&mut self) {
        for row in &mut self.rows {
            if let Some(endpoint) = &mut row.endpoint {
                endpoint.absent = endpoint.ready;
            }
        }
        self.absent = self.ready;
        self.changes += 1;
    }

    /// Notes that something has ended that the driver of the network is to read in this endpoint's next turn.
    pub(crate) fn note_news(&mut self, place: Place) {
        if let Some(endpoint) = self.endpoint(place) {
            endpoint.has_news = true;
        }
    }

    /// Returns the endpoint that is next, and takes it off the queue.
    pub(crate) fn turn(&mut self) -> Option<Place> {
        while let Some(place) = self.turns.pop_front() {
            if let Some(endpoint) = self.endpoint(place) {
                endpoint.in_turn = false;
                endpoint.has_news = false;
                if endpoint.ready {
                    return Some(place);
                }
            }
        }
        None
    }

    pub(super) fn take(&mut self, place: Place, into: &mut VecDeque<Packet>) {
        if let Some(endpoint) = self.endpoint(place) {
            std::mem::swap(&mut endpoint.inbox, into);
        }
    }

    /// Returns whether packets wait to be taken.
    pub(crate) fn has_packets(&self) -> bool {
        let mut endpoints = self.rows.iter().filter_map(|row| row.endpoint.as_deref());
        endpoints.any(|endpoint| !endpoint.inbox.is_empty())
    }

    /// Delivers a packet; gives it back when no endpoint is there.
    pub(super) fn deliver(&mut self, packet: Packet) -> Option<Packet> {
        let to = packet.to;
        match self.endpoint(to) {
            Some(endpoint) if endpoint.open => endpoint.inbox.push_back(packet),
            _ => return Some(packet),
        }
        self.set_ready(to, true);
        None
    }

    /// Remembers when an endpoint wants to be polled; returns when an event is due for it.
    pub(super) fn set_due(
        &mut self,
        place: Place,
        due: Instant,
        busy: bool,
        now: Instant,
    ) -> Option<Instant> {
        let endpoint = self.endpoint(place)?;
        endpoint.due = due;
        let has_more = endpoint.has_news || !endpoint.inbox.is_empty();
        let ready = busy || due <= now || has_more;
        let asks = !ready && due < endpoint.queued;
        if asks {
            endpoint.queued = due;
        }
        self.set_ready(place, ready);
        if ready {
            self.line_up(place);
        }
        asks.then_some(due)
    }

    /// Takes the event of an endpoint that may want to be polled; returns when the next one is due.
    pub(super) fn ring(&mut self, place: Place, at: Instant) -> Option<Instant> {
        let endpoint = self.endpoint(place)?;
        if endpoint.queued != at {
            return None;
        }
        endpoint.queued = Instant::END;
        let due = endpoint.due;
        if due <= at {
            self.set_ready(place, true);
            return None;
        }
        if due == Instant::END {
            return None;
        }
        endpoint.queued = due;
        Some(due)
    }

    /// Wakes an endpoint, if it sleeps.
    pub(super) fn wake(&mut self, place: Place) {
        if let Some(bell) = self
            .endpoint(place)
            .and_then(|endpoint| endpoint.bell.take())
        {
            bell.set(Some(std::time::Duration::ZERO));
        }
    }

    /// Lets an endpoint sleep until it is woken; false if it has something to do.
    pub(crate) fn sleep(&mut self, place: Place, bell: &Arc<Timer>) -> bool {
        match self.endpoint(place) {
            Some(endpoint) if !endpoint.ready => {
                endpoint.bell = Some(Arc::clone(bell));
                true
            }
            _ => false,
        }
    }

    fn line_up(&mut self, place: Place) {
        if let Some(endpoint) = self.endpoint(place)
            && !std::mem::replace(&mut endpoint.in_turn, true)
        {
            self.turns.push_back(place);
        }
    }

    fn endpoint(&mut self, place: Place) -> Option<&mut Endpoint> {
        self.rows.get_mut(place.0 as usize)?.endpoint.as_deref_mut()
    }

    fn set_ready(&mut self, place: Place, ready: bool) {
        let Some(endpoint) = self.endpoint(place) else {
            return;
        };
        if endpoint.ready == ready {
            return;
        }
        endpoint.ready = ready;
        let was_absent = std::mem::take(&mut endpoint.absent);
        self.absent -= usize::from(was_absent);
        self.changes += 1;
        match ready {
            true => {
                self.ready += 1;
                self.line_up(place);
                self.wake(place);
            }
            false => self.ready -= 1,
        }
    }
}
