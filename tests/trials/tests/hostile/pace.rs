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
/// How many turns attackers have whose own processor time is counted too: that of a generation counts when it has ended.
const LONG: u32 = 5;

/// A turn: the rounds that were done, and the processor time of the players.
struct Turn {
    played: u64,
    used: Duration,
}

impl Turn {
    fn pace(&self) -> f64 {
        self.played as f64 / self.used.as_secs_f64()
    }
}

impl Players {
    /// Returns how many rounds are done in a second of processor time of one turn, in which `meanwhile` is repeated.
    pub(crate) fn pace(&self, meanwhile: impl FnMut()) -> f64 {
        self.turn(TURN, meanwhile).pace()
    }

    /// Lets the players play for some processor time at least, in which `meanwhile` is repeated.
    fn turn(&self, enough: Duration, mut meanwhile: impl FnMut()) -> Turn {
        let used = || processor::time_of_process(self.id());
        let (start, before, used_before) = (Instant::now(), self.recorded(), used());
        loop {
            meanwhile();
            let (played, used) = (self.recorded() - before, used() - used_before);
            if used >= enough && played >= ROUNDS {
                return Turn { played, used };
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

    /// Requires that attackers spend at least as much processor time as they cost the players: no peer can be kept from sending, but what is
    /// sent must not be dearer to take than to send. `attack` starts the attackers, whose processes end one after the other.
    #[track_caller]
    pub(crate) fn expect_cheaper_than(&mut self, mut attack: impl FnMut() -> Process) {
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS {
            let alone = self.usual_pace();
            let attackers = attack();
            let spent = || processor::time_of_ended_children(attackers.id()).as_secs_f64();
            let before = spent();
            let turn = self.turn(TURN * LONG, || thread::sleep(GLANCE));
            let (cost, spent) = (
                turn.used.as_secs_f64() - turn.played as f64 / alone,
                spent() - before,
            );
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
