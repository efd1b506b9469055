//! The pace of honest peers beside an attacker, compared with their pace without it in the same run. It is that of the processor time of
//! their process, which attackers and other programs of the machine do not take from: a process that has the processor to itself has this
//! pace by the clock. What is left of disturbance (caches, interrupts) is why medians count, and why a measurement may be repeated.

use std::thread;
use std::time::{Duration, Instant};

use oxifabric_trials::Process;

use crate::players::Players;
use crate::processor;

/// How much processor time a turn takes in which rounds are counted, and how many rounds it has at least.
const TURN: Duration = Duration::from_millis(300);
const ROUNDS: u64 = 500;
/// How often a turn is looked at that is only watched.
const GLANCE: Duration = Duration::from_millis(2);
/// How many turns there are of each kind, and how often it is tried.
const TURNS: usize = 5;
const ATTEMPTS: usize = 4;
/// A bound on a hang, not an expectation.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How many times as long as undisturbed a round may take.
const FAIR: f64 = 2.0;
/// How many processes of attackers end while they are compared with what they cost.
const GENERATIONS: usize = 30;

impl Players {
    /// Returns how many rounds are done in a second of processor time of one turn, in which `meanwhile` is repeated.
    pub(crate) fn pace(&self, mut meanwhile: impl FnMut()) -> f64 {
        let used = || processor::time_of_process(self.id());
        let (start, before, used_before) = (Instant::now(), self.recorded(), used());
        loop {
            meanwhile();
            let (played, used) = (self.recorded() - before, used() - used_before);
            if used >= TURN && played >= ROUNDS {
                return played as f64 / used.as_secs_f64();
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "{played} rounds\n{}",
                self.said()
            );
        }
    }

    /// Returns the rounds in a second of one turn without `meanwhile`.
    pub(crate) fn watched_pace(&self) -> f64 {
        self.pace(|| thread::sleep(GLANCE))
    }

    /// Returns the median of several turns that are only watched.
    pub(crate) fn usual_pace(&self) -> f64 {
        median((0..TURNS).map(|_| self.watched_pace()).collect())
    }

    /// Requires that a round takes less than twice as long beside an attack as it takes alone. `beside` returns the pace of one turn.
    #[track_caller]
    pub(crate) fn expect_fair(&mut self, beside: impl FnMut(&mut Self) -> f64) {
        self.expect_fair_to(|players| players.watched_pace(), beside);
    }

    #[track_caller]
    fn expect_fair_to(
        &mut self,
        mut alone: impl FnMut(&mut Self) -> f64,
        mut beside: impl FnMut(&mut Self) -> f64,
    ) {
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS {
            let (mut quiet, mut loud) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                quiet.push(alone(self));
                loud.push(beside(self));
            }
            let (quiet, loud) = (median(quiet), median(loud));
            if quiet < loud * FAIR {
                return;
            }
            seen.push((quiet, loud));
        }
        panic!("rounds a second alone and beside the attack: {seen:?}");
    }

    /// Requires that attackers spend more processor time than they cost the players: no peer can be kept from sending, but what is sent must not
    /// be dearer to take than to send. `attack` starts the attackers; their processes end one after the other, each of which `ended` counts.
    #[track_caller]
    pub(crate) fn expect_cheaper_than(
        &mut self,
        mut attack: impl FnMut() -> Process,
        ended: impl Fn(&Process) -> usize,
    ) {
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS {
            let alone = self.usual_pace();
            let mut attackers = attack();
            // From the end of one process to that of another one, so that their time is all that was spent.
            let mut wait_for = |count| {
                let over = attackers.until(|process| ended(process) >= count);
                assert_eq!(over, Ok(()), "{}", attackers.stderr());
                let spent = processor::time_of_ended_children(attackers.id());
                (
                    ended(&attackers),
                    spent.as_secs_f64(),
                    self.recorded(),
                    processor::time_of_process(self.id()),
                )
            };
            let (first, spent_before, played_before, used_before) = wait_for(1);
            let (_, spent, played, used) = wait_for(first + GENERATIONS);
            let spent = spent - spent_before;
            let used = (used - used_before).as_secs_f64();
            let cost = used - (played - played_before) as f64 / alone;
            assert!(spent > 0.0, "the attackers did nothing");
            if cost < spent {
                return;
            }
            seen.push((cost, spent));
        }
        panic!("seconds that the attack cost the players and the attackers: {seen:?}");
    }

    /// Requires a fair pace beside an attack that a call makes and that is repeated.
    #[track_caller]
    pub(crate) fn expect_fair_while(&mut self, mut attack: impl FnMut()) {
        self.expect_fair(|players| players.pace(&mut attack));
    }

    /// Requires a fair pace beside an attack that goes on, or whose remains last, since they were `undisturbed`.
    #[track_caller]
    pub(crate) fn expect_fair_since(&mut self, undisturbed: f64) {
        self.expect_fair_to(|_| undisturbed, |players| players.watched_pace());
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
