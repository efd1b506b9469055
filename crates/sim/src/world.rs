//! A network that ports share, and how time passes in it.
//!
//! Real time passes by itself. Virtual time stands still while any endpoint has something to do, and goes on to the next event
//! on an empty poll; so it passes as fast as the program runs, and the same program sees the same. An endpoint that has
//! something to do and is not polled for long counts as absent: from then on virtual time passes no faster than the clock's,
//! as in a network that does not wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oxifabric_provider::clock;
use oxifabric_types::Instant;

use crate::network::{BEGIN, Count, Network, Place};
use crate::plan::{Plan, Time};

/// Empty polls, and time of the clock, after which an endpoint that holds time up counts as absent.
const EMPTY_POLLS: u32 = 1000;
const GRACE: Duration = Duration::from_millis(20);

/// A network and its time.
#[derive(Debug)]
pub struct World {
    time: Time,
    /// The present time, for threads that do not hold the lock.
    now: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) network: Network,
    /// Whether a driver lets time pass; then polls do not.
    driven: bool,
    /// Whether the driver asks for turns.
    has_turns: bool,
    /// When, by the clock, empty polls became frequent: time may be held up.
    held_since: Option<Instant>,
    /// When an endpoint became absent, in the network's time and in the clock's.
    pace: Option<(Instant, Instant)>,
}

impl World {
    /// Creates an empty network.
    pub fn new(plan: Plan) -> Self {
        let time = plan.time;
        let begin = match time {
            Time::Virtual => BEGIN,
            Time::Real => clock::exact(),
        };
        Self {
            time,
            now: AtomicU64::new(begin.as_nanos()),
            state: Mutex::new(State {
                network: Network::new(plan, begin),
                driven: false,
                has_turns: false,
                held_since: None,
                pace: None,
            }),
        }
    }

    /// Returns the time of the network.
    pub fn now(&self) -> Instant {
        match self.time {
            Time::Virtual => Instant::from_nanos(self.now.load(Ordering::Relaxed)),
            Time::Real => clock::exact(),
        }
    }

    /// Looks at the network, or changes it.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut Network) -> R) -> R {
        look(&mut self.lock().network)
    }

    /// Begins a poll of the endpoint at a place: lets time pass, if it may, and has the packets that have arrived taken. Returns the time.
    pub(crate) fn begin(&self, place: Place, take: impl FnOnce(&mut Network)) -> Instant {
        let mut state = self.lock();
        let due = state.network.nodes_mut().is_due(place);
        match self.time {
            Time::Real => state.network.pass(clock::exact()),
            Time::Virtual if due || state.driven => {}
            Time::Virtual => state.pass(place),
        }
        take(&mut state.network);
        self.publish(&state)
    }

    /// Waits until an endpoint has something to do, at most until a time; returns the node whose turn it is. From the first
    /// call on, time passes that way only: polls do not let it pass.
    pub(crate) fn turn(&self, until: Instant) -> Option<u32> {
        let mut state = self.lock();
        (state.driven, state.has_turns) = (true, true);
        let turn = state.turn(until);
        self.publish(&state);
        turn
    }

    /// Notes that an endpoint has something to do: it gets a turn, if a driver asks for turns.
    pub(crate) fn note_news(&self, place: Place) {
        let mut state = self.lock();
        if state.has_turns {
            state.network.nodes_mut().note_news(place);
        }
    }

    /// Lets this much time pass, even if endpoints have something to do. From then on polls do not let time pass.
    pub fn pass(&self, by: Duration) {
        let mut state = self.lock();
        state.driven = true;
        let until = state.network.now().after(by);
        state.network.pass(until);
        self.publish(&state);
    }

    /// Returns the time until something happens; `None` if nothing does. Zero while packets wait to be taken: the driver
    /// of the network would otherwise let a timer expire before the packet that makes it needless is seen.
    pub fn until_next(&self) -> Option<Duration> {
        let state = self.lock();
        if state.network.nodes().has_packets() {
            return Some(Duration::ZERO);
        }
        let next = state.network.next_event()?;
        Some(next.since(state.network.now()))
    }

    /// Returns how often something has happened to packets.
    pub fn count(&self, what: Count) -> u64 {
        self.lock().network.stats().of(what)
    }

    /// Returns how long an idle endpoint may sleep at most; `None` if it must not sleep at all. It is woken when a packet
    /// is sent to it.
    pub(crate) fn nap(&self) -> Option<Duration> {
        let state = self.lock();
        let next = state.network.next_event();
        let (_, busy) = state.network.nodes().readiness();
        match self.time {
            Time::Real => Some(next.map_or(Duration::MAX, |at| at.since(clock::exact()))),
            // Virtual time waits for other endpoints.
            Time::Virtual if busy > 0 => Some(Duration::from_millis(1)),
            // An endpoint has to be polled, or time would stand still for ever.
            Time::Virtual if next.is_some() => None,
            Time::Virtual => Some(Duration::MAX),
        }
    }

    /// Returns whether nothing goes on unless an absent endpoint is polled, or the driver of the network lets time pass.
    pub(crate) fn is_quiescent(&self) -> bool {
        let state = self.lock();
        let (absent, busy) = state.network.nodes().readiness();
        self.time == Time::Virtual && (state.driven || (absent && busy > 0))
    }

    fn publish(&self, state: &State) -> Instant {
        let now = state.network.now();
        self.now.store(now.as_nanos(), Ordering::Relaxed);
        now
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets virtual time pass after an empty poll.
    fn pass(&mut self, place: Place) {
        let (all_absent, busy) = self.network.nodes().readiness();
        if busy == 0 {
            self.pace = None;
            if let Some(next) = self.network.next_event() {
                self.network.pass(next);
            }
        } else if all_absent {
            let clock = clock::exact();
            let (from, since) = *self.pace.get_or_insert((self.network.now(), clock));
            self.network.pass(from.after(clock.since(since)));
        } else {
            self.pace = None;
            self.wait(place);
        }
    }

    /// Counts an empty poll while another endpoint has something to do; time does not wait for that one without end.
    fn wait(&mut self, place: Place) {
        let empty_polls = self.network.nodes_mut().count_empty_poll(place);
        if empty_polls == EMPTY_POLLS / 2 {
            self.held_since = Some(clock::exact());
        }
        if empty_polls >= EMPTY_POLLS
            && let Some(since) = self.held_since
            && clock::exact().since(since) >= GRACE
        {
            self.network.nodes_mut().give_up_waiting();
        }
    }

    fn turn(&mut self, until: Instant) -> Option<u32> {
        loop {
            let nodes = self.network.nodes_mut();
            if let Some(place) = nodes.turn() {
                return Some(nodes.node(place));
            }
            match self.network.next_event() {
                Some(next) if next <= until => self.network.pass(next),
                _ => {
                    self.network.pass(until);
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "fi_sim://0";
    const B: &str = "fi_sim://1";

    /// Returns two places, and sends a packet from the first to the second that takes its time.
    fn start() -> (World, [Place; 2]) {
        let world = World::new(Plan::default());
        let places = world.with(|network| {
            [A, B].map(|name| {
                let place = network.place(name).expect("a name");
                assert!(network.settle(place));
                network.open(place);
                place
            })
        });
        world.with(|network| network.send(places[0], places[1], vec![0; 100]));
        (world, places)
    }

    /// Begins a poll of an endpoint that leaves what has arrived. Returns the time.
    fn begin(world: &World, place: Place) -> Instant {
        world.begin(place, |_| {})
    }

    /// Lets an endpoint take what has arrived, and be idle until `due`.
    fn set_due(world: &World, place: Place, due: Instant) {
        world.with(|network| {
            network.take(place, &mut std::collections::VecDeque::new());
            network.set_due(place, due, false);
        });
    }

    #[test]
    fn virtual_time_passes_when_no_endpoint_has_anything_to_do() {
        let (world, [a, b]) = start();
        let hops: Vec<_> = (0..4)
            .map(|_| begin(&world, a).since(BEGIN).as_nanos())
            .collect();
        // Two links of 8 + 1000 ns; then the other has something to do.
        assert_eq!(hops, [1008, 2016, 2016, 2016]);
        assert_eq!(begin(&world, b).since(BEGIN).as_nanos(), 2016);
        set_due(&world, b, BEGIN.after(Duration::from_secs(5)));
        assert_eq!(begin(&world, a).since(BEGIN), Duration::from_secs(5));
        assert!(
            world.nap().is_some(),
            "another endpoint has something to do"
        );
    }

    #[test]
    fn time_goes_on_without_absent_endpoints() {
        let (world, [a, b]) = start();
        let arrived = (0..3).map(|_| begin(&world, a)).max();
        set_due(&world, a, BEGIN.after(Duration::from_millis(1)));
        while !world.is_quiescent() {
            assert_eq!(Some(begin(&world, a)), arrived, "it is waited for");
        }
        while Some(begin(&world, a)) == arrived {}
        begin(&world, b);
        assert!(!world.is_quiescent());
        let back = begin(&world, a);
        assert_eq!(begin(&world, a), back, "it is waited for again");
    }

    #[test]
    fn a_driver_that_asks_for_turns_lets_time_pass() {
        let (world, [a, b]) = start();
        assert_eq!(world.turn(BEGIN), None);
        assert_eq!(begin(&world, a), BEGIN, "polls let no time pass any more");
        let end = BEGIN.after(Duration::from_secs(1));
        assert_eq!(world.turn(end), Some(1));
        assert_eq!(world.now().since(BEGIN).as_nanos(), 2016);
        begin(&world, b);
        set_due(&world, b, Instant::END);
        assert_eq!((world.turn(end), world.now()), (None, end));
    }

    #[test]
    fn what_has_ended_in_the_poll_of_another_endpoint_is_worth_a_turn() {
        let (world, [a, b]) = start();
        world.note_news(a);
        let end = BEGIN.after(Duration::from_secs(1));
        assert_eq!(world.turn(end), Some(1), "there was no driver before");
        set_due(&world, b, Instant::END);
        world.note_news(b);
        set_due(&world, b, Instant::END);
        assert_eq!(world.turn(end), Some(1));
        set_due(&world, b, Instant::END);
        assert_eq!(world.turn(end), None);
    }

    #[test]
    fn when_a_node_may_sleep() {
        let (world, [a, b]) = start();
        assert_eq!(world.nap(), None, "a packet is under way");
        while world.with(|network| network.next_event()).is_some() {
            begin(&world, a);
        }
        assert!(
            world.nap().is_some_and(|nap| nap < GRACE),
            "one has it to be polled"
        );
        set_due(&world, b, Instant::END);
        assert_eq!(world.nap(), Some(Duration::MAX));
    }
}
