//! Rounds of endpoints that count their visits.

use std::sync::atomic::AtomicU32;

use super::*;

/// An endpoint that counts its visits, and has a number of events left.
struct RoundEndpoint {
    visits: AtomicU32,
    events: AtomicU32,
    is_waiting: AtomicBool,
    descriptor: Doorbell,
}

impl RoundEndpoint {
    fn new() -> Self {
        Self {
            visits: AtomicU32::new(0),
            events: AtomicU32::new(0),
            is_waiting: AtomicBool::new(false),
            descriptor: Doorbell::open(FI_WAIT_FD).expect("descriptors are available"),
        }
    }

    fn visits(&self) -> u32 {
        self.visits.load(Ordering::Relaxed)
    }
}

impl Drive for RoundEndpoint {
    fn progress(&self) -> usize {
        0
    }

    fn arm(&self) -> bool {
        true
    }

    fn fd(&self) -> RawFd {
        self.descriptor.fd().expect("it has one")
    }

    fn visit(&self, _turn: &mut u32) -> Visit {
        self.visits.fetch_add(1, Ordering::Relaxed);
        let left = self.events.load(Ordering::Relaxed);
        self.events.store(left.saturating_sub(1), Ordering::Relaxed);
        match (left, self.is_waiting.load(Ordering::Relaxed)) {
            (1.., _) => Visit::Moved,
            (0, true) => Visit::Waiting,
            (0, false) => Visit::Quiet,
        }
    }

    fn prepare_to_sleep(&self, _turn: &mut u32) -> SleepState {
        SleepState::Armed
    }
}

/// Returns `count` endpoints, and rounds of them.
fn rounds(count: usize) -> (Vec<RoundEndpoint>, Rounds) {
    let endpoints: Vec<_> = (0..count).map(|_| RoundEndpoint::new()).collect();
    let rounds = Rounds::default();
    for endpoint in &endpoints {
        // SAFETY: the endpoints stay in their vector, and outlive the use of the rounds.
        unsafe { rounds.add(NonNull::from(endpoint)) };
    }
    (endpoints, rounds)
}

#[test]
fn all_have_their_turn_a_few_at_a_time() {
    let (endpoints, rounds) = rounds(10);
    assert!(!rounds.walk());
    let driven = |times| endpoints.iter().filter(|e| e.visits() == times).count();
    assert_eq!(
        (driven(1), driven(0)),
        (ENDPOINTS_AT_ONCE, 10 - ENDPOINTS_AT_ONCE)
    );
    for _ in 1..5 {
        assert!(!rounds.walk());
    }
    assert_eq!(driven(2), 10);
}

#[test]
fn where_something_moves_every_poll_helps_for_a_while() {
    let (endpoints, rounds) = rounds(3);
    endpoints[1].events.store(5, Ordering::Relaxed);
    assert!(rounds.walk());
    assert_eq!(rounds.drive_active(), ActiveDriven::Moves);
    let before = endpoints[1].visits();
    let polls = (0..1000)
        .take_while(|_| rounds.drive_active() != ActiveDriven::Over)
        .count() as u32;
    assert!(endpoints[1].visits() - before >= ACTIVE_VISITS);
    assert!(polls < ACTIVE_VISITS + 5);
    assert_eq!(endpoints[0].visits(), 1, "others wait for their turn");
}

#[test]
fn an_endpoint_that_waits_is_driven_for_a_while_when_it_is_its_turn() {
    let (endpoints, rounds) = rounds(2);
    endpoints[1].is_waiting.store(true, Ordering::Relaxed);
    for turn in 1..=2 {
        assert!(rounds.walk());
        assert!(
            (0..1000).any(|_| rounds.drive_active() == ActiveDriven::Over),
            "it has an end"
        );
        assert!(endpoints[1].visits() >= turn * ACTIVE_VISITS);
    }
    assert!(endpoints[0].visits() < ACTIVE_VISITS);
}

#[test]
fn the_only_endpoint_is_left_to_its_own_queues() {
    let (endpoints, rounds) = rounds(2);
    endpoints[0].events.store(1, Ordering::Relaxed);
    assert!(rounds.walk());
    rounds.remove(NonNull::from(&endpoints[1]));
    let visits = endpoints[0].visits();
    assert_eq!(
        (rounds.drive_active(), rounds.walk()),
        (ActiveDriven::Over, false)
    );
    assert_eq!(endpoints[0].visits(), visits);
}

#[test]
fn few_sleepers_watch_the_endpoints_of_others() {
    let (_endpoints, rounds) = rounds(2);
    let sleepers: Vec<_> = (0..WATCHERS_MAX + 2)
        .map(|_| {
            let bell = Doorbell::open(FI_WAIT_FD).expect("descriptors are available");
            (bell, AtomicBool::new(false))
        })
        .collect();
    let prepare = || {
        for (bell, is_watching) in &sleepers {
            assert!(rounds.prepare_to_sleep(bell, is_watching));
        }
        let watching = |(_, is_watching): &&(_, AtomicBool)| is_watching.load(Ordering::Relaxed);
        sleepers.iter().filter(watching).count()
    };
    assert_eq!((prepare(), prepare()), (WATCHERS_MAX, WATCHERS_MAX));
    rounds.remove_watcher();
    assert_eq!(prepare(), WATCHERS_MAX + 1);
}
