//! How often a thread yields, counted on a processor of the tests' own: a poll takes a microsecond there.

use std::cell::Cell;

use super::*;

const LIMIT: Option<Duration> = Some(Duration::from_micros(100));

/// A processor whose other threads keep it for `others_us` at each yield.
#[derive(Default)]
struct Rehearsal {
    now_us: Cell<u64>,
    others_us: Cell<u64>,
    yields: Cell<u32>,
    losses: Cell<u64>,
    noted: Cell<(u64, u64)>,
}

impl Rehearsal {
    fn new(others_us: u64) -> Self {
        let new = Self::default();
        new.now_us.set(1);
        new.others_us.set(others_us);
        new
    }

    fn pass(&self, us: u64) {
        self.now_us.set(self.now_us.get() + us);
    }

    /// Others have the processor, because the thread yields or because its program does.
    fn lose(&self) {
        let others_us = self.others_us.get();
        self.pass(others_us);
        self.losses
            .set(self.losses.get() + u64::from(others_us > OTHERS_RAN_US));
    }
}

impl Processor for &Rehearsal {
    fn now_us(&self) -> u64 {
        self.now_us.get()
    }

    fn give_way(&self) {
        self.yields.set(self.yields.get() + 1);
        self.lose();
    }

    fn note_losses(&self, since_us: u64) {
        self.noted.set((since_us, self.losses.get()));
    }

    fn has_lost_it(&self, since_us: u64) -> bool {
        let (noted_us, losses) = self.noted.get();
        noted_us == since_us && losses != self.losses.get()
    }
}

struct Stage {
    processor: Rehearsal,
    progress: DomainProgress,
    backoff: YieldBackoff,
}

impl Stage {
    fn new(others_us: u64) -> Self {
        Self {
            processor: Rehearsal::new(others_us),
            progress: DomainProgress::new(true, false),
            backoff: YieldBackoff::default(),
        }
    }

    fn poll(&self, events: usize) {
        self.processor.pass(1);
        self.backoff
            .polled_on(&self.processor, events, &self.progress);
    }

    /// Returns how many of so many empty polls yield.
    fn yields_in(&self, polls: u32) -> u32 {
        let before = self.processor.yields.get();
        (0..polls).for_each(|_| self.poll(0));
        self.processor.yields.get() - before
    }

    /// Polls until a poll yields; returns how many that takes.
    fn polls_until_yield(&self) -> u32 {
        (1..10_000)
            .find(|_| self.yields_in(1) == 1)
            .expect("a yield")
    }
}

#[test]
fn a_thread_yields_when_nothing_happens_for_long() {
    let stage = Stage::new(0);
    assert_eq!(stage.yields_in(POLLS_PER_LOOK), 0, "the wait begins");
    assert_eq!(stage.polls_until_yield(), 2 * POLLS_PER_LOOK);
    assert_eq!(stage.polls_until_yield(), POLLS_PER_LOOK, "and stays so");
    stage.poll(1);
    assert_eq!(stage.yields_in(2 * POLLS_PER_LOOK), 0, "the wait is new");
    assert_eq!(stage.polls_until_yield(), POLLS_PER_LOOK);
}

#[test]
fn a_thread_without_limit_never_yields() {
    let backoff = YieldBackoff::default();
    assert!(!backoff.is_over(u64::MAX, None));
    backoff.set_shared(true);
    assert!(!backoff.is_over(u64::MAX, None));
}

#[test]
fn where_the_others_yield_too_each_empty_poll_yields() {
    let stage = Stage::new(OTHERS_YIELDED_US);
    stage.polls_until_yield();
    assert_eq!(stage.yields_in(1000), 1000);
    stage.poll(1);
    let begun = POLLS_WHERE_SHARED + 1;
    assert_eq!(stage.polls_until_yield(), begun, "soon after an event, too");
}

#[test]
fn yields_in_which_no_other_thread_ran_end_that_only_when_they_are_many() {
    let stage = Stage::new(OTHERS_RAN_US + 1);
    stage.polls_until_yield();
    stage.processor.others_us.set(0);
    assert_eq!(stage.yields_in(VAIN_YIELDS), VAIN_YIELDS);
    assert_eq!(
        stage.yields_in(POLLS_PER_LOOK - 1),
        0,
        "no other thread is there"
    );
    stage.processor.others_us.set(OTHERS_RAN_US + 1);
    stage.polls_until_yield();
    stage.processor.others_us.set(0);
    assert_eq!(
        stage.yields_in(VAIN_YIELDS),
        VAIN_YIELDS,
        "others were there again"
    );
}

#[test]
fn where_another_thread_computes_one_yields_as_seldom_as_ever() {
    let stage = Stage::new(OTHERS_YIELDED_US + 1);
    stage.polls_until_yield();
    assert_eq!(stage.yields_in(10), 10, "until all others have polled");
    stage.poll(1);
    assert_eq!(stage.yields_in(2 * POLLS_PER_LOOK), 0);
}

#[test]
fn a_thread_whose_program_yields_between_its_polls_is_left_alone() {
    let stage = Stage::new(20);
    for _ in 0..10_000 {
        stage.poll(0);
        stage.processor.lose();
    }
    assert_eq!(stage.processor.yields.get(), 0);
    assert_ne!(stage.polls_until_yield(), 0, "the program has stopped");
}

#[test]
fn losses_of_another_wait_do_not_count() {
    let stage = Stage::new(OTHERS_RAN_US + 1);
    stage.polls_until_yield();
    stage.processor.lose();
    stage.poll(1);
    assert_eq!(stage.polls_until_yield(), POLLS_WHERE_SHARED + 1);
}

#[test]
fn the_domain_is_told_of_events() {
    let stage = Stage::new(0);
    stage.poll(0);
    assert!(!stage.progress.take_activity());
    stage.poll(1);
    assert!(stage.progress.take_activity());
    assert!(!stage.progress.take_activity());
    assert!(stage.backoff.is_over(101, LIMIT));
    assert!(!stage.backoff.is_over(99, LIMIT));
}
