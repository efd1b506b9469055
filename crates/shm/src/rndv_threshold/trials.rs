//! Trials: messages of one class of lengths come the other way for a moment, and the way on which each byte took less time stays
//! (docs/adr/0063, 0068, 0073).
//!
//! Nothing here looks at a clock: the samples come from the connection, and say how long each byte of 128 KiB or a little more took from the end of one message
//! to the end of another.

use super::Path;

/// Samples that count of the way on which messages come: the last ones.
const RECENT: usize = 8;
/// Samples before the first trial of a class.
const FIRST_INTERVAL: u32 = 4;
/// Factor by which the interval grows whenever a trial changes nothing, and the longest one.
const GROWTH: u32 = 8;
const LONGEST_INTERVAL: u32 = 2048;
/// Samples before the next trial of a class, if one of another class has shown the same.
const KNOWN_INTERVAL: u32 = 256;
/// Samples of a trial that do not count: messages that were on their way are among them.
const WARM_UP: u32 = 1;
/// Samples of a trial that count.
const TRIAL_SAMPLES: u32 = 5;
/// Samples on the old way after which a trial ends, since the sender does not do as it was asked.
const MISSES_MAX: u32 = 32;

/// Changes of the class or way after which a trial ends: its messages do not come in a row.
const INTERRUPTIONS: u32 = 64;

/// Classes of lengths: two from each power of two to the next, from this one on.
pub(crate) const SHORTEST: u64 = 4096;
pub(super) const CLASSES: usize = 13;

/// Which classes come through the ring: the shorter ones, up to a limit that trials move.
#[derive(Debug)]
pub(super) struct Trials {
    /// Classes below this one come through the ring, the others are pulled.
    limit: usize,
    classes: [Class; CLASSES],
    trial: Option<Trial>,
}

/// What is known of one class, on the way on which its messages come.
#[derive(Clone, Copy, Debug)]
struct Class {
    pace: Recent,
    /// Samples until the next trial, and how many there were at its beginning.
    left: u32,
    interval: u32,
}

/// A trial that is under way.
#[derive(Clone, Copy, Debug)]
struct Trial {
    class: usize,
    /// The limit without the trial.
    before: usize,
    warm_up: u32,
    left: u32,
    misses_left: u32,
    interruptions: u32,
    pace: Recent,
}

/// The last samples, in picoseconds a byte. Their median counts: others are of interruptions by other processes, or of bytes that the sender had in the ring before.
#[derive(Clone, Copy, Debug)]
struct Recent {
    samples: [u32; RECENT],
    /// How many there are, and where the next one goes.
    count: u8,
    next: u8,
}

impl Recent {
    const NONE: Self = Self {
        samples: [0; RECENT],
        count: 0,
        next: 0,
    };

    fn add(&mut self, sample: u64) {
        let at = usize::from(self.next) % RECENT;
        self.samples[at] = u32::try_from(sample).unwrap_or(u32::MAX);
        self.next = (at + 1) as u8;
        self.count = (self.count + 1).min(RECENT as u8);
    }

    /// Returns the median, or the lower of the two in the middle; the longest time if there is no sample.
    fn median(&self) -> u64 {
        let mut samples = self.samples;
        let samples = &mut samples[..usize::from(self.count)];
        samples.sort_unstable();
        let middle = samples.len().saturating_sub(1) / 2;
        samples
            .get(middle)
            .map_or(u64::MAX, |&sample| sample.into())
    }

    const fn is_none(&self) -> bool {
        self.count == 0
    }
}

impl Class {
    const NEW: Self = Self {
        pace: Recent::NONE,
        left: FIRST_INTERVAL,
        interval: FIRST_INTERVAL,
    };

    /// Begins another interval.
    fn wait(&mut self, interval: u32) {
        self.interval = interval;
        self.left = interval;
    }
}

impl Default for Trials {
    /// All classes are pulled.
    fn default() -> Self {
        Self {
            limit: 0,
            classes: [Class::NEW; CLASSES],
            trial: None,
        }
    }
}

impl Trials {
    /// Returns how many classes, from the shortest on, are to come through the ring.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// Takes a sample of a class: how many picoseconds each byte took on this way. The limit may be another one then.
    pub(super) fn add(&mut self, class: usize, path: Path, sample: u64) {
        if class >= CLASSES {
            return;
        }
        let is_wanted = path == self.path(class);
        match self.trial {
            Some(trial) if trial.class != class => self.end(&trial),
            Some(trial) => self.add_to_trial(trial, is_wanted, sample),
            None if is_wanted => self.add_to_class(class, sample),
            None => {}
        }
    }

    /// Takes note that messages of one class and way have not come in a row for long enough to be timed; returns whether that has ended a trial.
    pub(super) fn interrupted(&mut self) -> bool {
        let Some(trial) = &mut self.trial else {
            return false;
        };
        trial.interruptions -= 1;
        let trial = *trial;
        if trial.interruptions == 0 {
            self.end(&trial);
        }
        trial.interruptions == 0
    }

    const fn path(&self, class: usize) -> Path {
        if class < self.limit {
            Path::Ring
        } else {
            Path::Pull
        }
    }

    fn add_to_class(&mut self, class: usize, sample: u64) {
        let known = &mut self.classes[class];
        known.pace.add(sample);
        known.left -= 1;
        if known.left > 0 {
            return;
        }
        self.trial = Some(Trial {
            class,
            before: self.limit,
            warm_up: WARM_UP,
            left: TRIAL_SAMPLES,
            misses_left: MISSES_MAX,
            interruptions: INTERRUPTIONS,
            pace: Recent::NONE,
        });
        self.limit = match self.path(class) {
            Path::Ring => class,
            Path::Pull => class + 1,
        };
    }

    fn add_to_trial(&mut self, mut trial: Trial, is_wanted: bool, sample: u64) {
        if !is_wanted {
            trial.misses_left -= 1;
        } else if trial.warm_up > 0 {
            trial.warm_up -= 1;
        } else {
            trial.pace.add(sample);
            trial.left -= 1;
        }
        let old = self.classes[trial.class].pace.median();
        let is_hopeless =
            !trial.pace.is_none() && trial.pace.median() > old.saturating_add(old / 4);
        if trial.left == 0 || trial.misses_left == 0 || is_hopeless {
            self.end(&trial);
        } else {
            self.trial = Some(trial);
        }
    }

    /// Ends a trial: the new limit stays if each byte takes less time by more than what two equal runs differ by.
    fn end(&mut self, trial: &Trial) {
        self.trial = None;
        let old = self.classes[trial.class].pace.median();
        if trial.left == 0 && trial.pace.median() < old - old / 32 {
            self.adopt(trial);
        } else {
            self.go_back(trial);
        }
    }

    fn adopt(&mut self, trial: &Trial) {
        let (from, to) = (trial.before.min(self.limit), trial.before.max(self.limit));
        self.classes[from..to].fill(Class::NEW);
        let class = &mut self.classes[trial.class];
        class.pace = trial.pace;
        class.wait(FIRST_INTERVAL * GROWTH);
        self.take_longer_half_along();
    }

    /// Lets the longer half of the lengths from one power of two to the next begin on the ring, where the shorter half has been found to be faster there and nothing is
    /// known of the longer one.
    fn take_longer_half_along(&mut self) {
        let is_shorter = self.limit % 2 == 1;
        let longer = self.classes.get_mut(self.limit);
        if let Some(longer) = longer.filter(|class| is_shorter && class.pace.is_none()) {
            longer.wait(FIRST_INTERVAL * GROWTH);
            self.limit += 1;
        }
    }

    /// Restores the limit. Classes for which the way that was tried is worse still are not tried soon either.
    fn go_back(&mut self, trial: &Trial) {
        let was_ring = self.limit > trial.before;
        self.limit = trial.before;
        let class = &mut self.classes[trial.class];
        if trial.left == TRIAL_SAMPLES {
            // Nothing was learned.
            class.wait((class.interval * 2).min(LONGEST_INTERVAL));
            return;
        }
        class.wait((class.interval * GROWTH).min(LONGEST_INTERVAL));
        let (below, above) = self.classes.split_at_mut(trial.class);
        let others = if was_ring { &mut above[1..] } else { below };
        for other in others {
            let interval = other.interval.max(KNOWN_INTERVAL);
            other.wait(interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets so many samples of a class come on the way that is asked for; returns how many came through the ring.
    fn run(trials: &mut Trials, class: usize, samples: u32, pace: impl Fn(Path) -> u64) -> u32 {
        let mut through_ring = 0;
        for _ in 0..samples {
            let path = trials.path(class);
            through_ring += u32::from(path == Path::Ring);
            trials.add(class, path, pace(path));
        }
        through_ring
    }

    fn ring_takes(percent: u64) -> impl Fn(Path) -> u64 {
        move |path| match path {
            Path::Ring => percent,
            Path::Pull => 100,
        }
    }

    #[test]
    fn a_slower_ring_is_tried_seldom() {
        let mut trials = Trials::default();
        let tried = run(&mut trials, 2, 100, ring_takes(300));
        assert!((1..=6).contains(&tried), "{tried} of 100");
        let tried = run(&mut trials, 2, 20_000, ring_takes(300));
        assert!((1..=40).contains(&tried), "{tried} of 20,000");
        assert_eq!(trials.limit(), 0);
    }

    #[test]
    fn a_faster_ring_is_adopted_for_its_class_and_shorter_ones() {
        let mut trials = Trials::default();
        run(&mut trials, 3, 12, ring_takes(80));
        assert_eq!(trials.limit(), 4);
        let through_ring = run(&mut trials, 3, 20_000, ring_takes(80));
        assert!(through_ring > 19_900, "{through_ring} of 20,000");
        run(&mut trials, 0, 40, ring_takes(50));
        assert_eq!(trials.limit(), 4);
    }

    #[test]
    fn the_longer_half_up_to_a_power_of_two_begins_as_the_shorter_half_goes() {
        let mut trials = Trials::default();
        run(&mut trials, 2, 12, ring_takes(80));
        assert_eq!(trials.limit(), 4);
        let through_ring = run(&mut trials, 3, 1_000, ring_takes(120));
        let soon = FIRST_INTERVAL * GROWTH + 20;
        assert!(
            (1..=soon).contains(&through_ring),
            "{through_ring} of 1,000"
        );
        assert_eq!(trials.limit(), 3);
        // Now it is known, and is not taken along again.
        run(&mut trials, 2, 2 * LONGEST_INTERVAL, ring_takes(150));
        run(&mut trials, 2, 2 * LONGEST_INTERVAL, ring_takes(50));
        assert_eq!(trials.limit(), 3);
    }

    #[test]
    fn neither_way_is_left_for_one_that_is_as_fast() {
        let mut trials = Trials::default();
        run(&mut trials, 1, 5_000, ring_takes(98));
        assert_eq!(trials.limit(), 0);
        run(&mut trials, 1, 5_000, ring_takes(50));
        assert_eq!(trials.limit(), 2);
        run(&mut trials, 1, 5_000, ring_takes(102));
        assert_eq!(trials.limit(), 2);
    }

    #[test]
    fn a_machine_that_changes_is_followed() {
        let mut trials = Trials::default();
        for (percent, limit) in [(80, 4), (150, 3), (70, 4)] {
            run(&mut trials, 3, 2 * LONGEST_INTERVAL, ring_takes(percent));
            assert_eq!(trials.limit(), limit, "{percent} %");
        }
    }

    #[test]
    fn a_shorter_class_that_is_better_pulled_takes_the_longer_ones_along() {
        let mut trials = Trials::default();
        run(&mut trials, 3, 20, ring_takes(80));
        assert_eq!(trials.limit(), 4);
        run(&mut trials, 1, 2 * KNOWN_INTERVAL, ring_takes(200));
        assert_eq!(trials.limit(), 1, "class 0 was not tried");
    }

    #[test]
    fn longer_classes_are_not_tried_soon_where_a_shorter_one_is_better_pulled() {
        let mut trials = Trials::default();
        assert!(run(&mut trials, 0, 20, ring_takes(200)) > 0);
        for class in 1..CLASSES {
            let tried = run(&mut trials, class, KNOWN_INTERVAL - 1, ring_takes(200));
            assert_eq!(tried, 0, "class {class}");
            assert!(run(&mut trials, class, 10, ring_takes(200)) > 0);
        }
    }

    #[test]
    fn other_messages_end_a_trial() {
        let mut trials = Trials::default();
        run(&mut trials, 2, FIRST_INTERVAL, ring_takes(50));
        assert_eq!(trials.limit(), 3);
        trials.add(0, Path::Pull, 100);
        assert_eq!(trials.limit(), 0);
        run(&mut trials, 0, FIRST_INTERVAL - 1, ring_takes(300));
        assert_eq!(trials.limit(), 0, "nothing is known of the ring yet");
    }

    #[test]
    fn a_sender_that_does_not_do_as_asked_ends_a_trial() {
        let mut trials = Trials::default();
        for _ in 0..FIRST_INTERVAL + MISSES_MAX {
            trials.add(2, Path::Pull, 100);
        }
        assert_eq!(trials.limit(), 0);
    }

    #[test]
    fn messages_that_do_not_come_in_a_row_end_a_trial() {
        let mut trials = Trials::default();
        assert!(!trials.interrupted(), "there is none");
        run(&mut trials, 2, FIRST_INTERVAL, ring_takes(50));
        assert_eq!(trials.limit(), 3);
        let ended: Vec<bool> = (0..INTERRUPTIONS).map(|_| trials.interrupted()).collect();
        assert_eq!(ended.iter().filter(|&&ended| ended).count(), 1);
        assert_eq!(trials.limit(), 0);
        assert!(
            run(&mut trials, 2, 2 * FIRST_INTERVAL + 1, ring_takes(50)) > 0,
            "soon again"
        );
    }

    #[test]
    fn a_sample_in_three_may_be_disturbed() {
        for (percent, limit) in [(130, 0), (80, 2)] {
            let mut trials = Trials::default();
            for at in 0..1_000 {
                let path = trials.path(1);
                let disturbance = if at % 3 == 0 { 10_000 } else { 0 };
                trials.add(1, path, ring_takes(percent)(path) + disturbance);
            }
            assert_eq!(trials.limit(), limit, "{percent} %");
        }
    }

    /// What the sender had in the ring before comes out of it faster than it can go in.
    #[test]
    fn a_ring_that_is_fast_now_and_then_is_left() {
        let mut trials = Trials::default();
        run(&mut trials, 3, 12, ring_takes(80));
        assert_eq!(trials.limit(), 4);
        for at in 0..2 * LONGEST_INTERVAL {
            let path = trials.path(3);
            let percent = if at % 4 == 0 { 60 } else { 140 };
            trials.add(3, path, ring_takes(percent)(path));
        }
        assert_eq!(trials.limit(), 3);
    }

    #[test]
    fn samples_without_bounds_are_taken() {
        let mut trials = Trials::default();
        for sample in [0, u64::MAX, 1, u64::MAX - 1].into_iter().cycle().take(999) {
            for class in 0..=CLASSES {
                trials.add(class, trials.path(class), sample);
            }
        }
        assert!(trials.limit() <= CLASSES);
    }
}
