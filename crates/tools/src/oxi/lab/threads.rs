//! What threads pay for each other: locks and cache lines.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{Bar, Stopwatch};

/// Adding one, in four ways.
pub(super) fn locks(stopwatch: Stopwatch) -> Vec<Bar> {
    let (mut plain, exchanged, locked) = (0_u64, AtomicU64::new(0), Mutex::new(0_u64));
    let add_locked = || {
        if let Ok(mut count) = locked.lock() {
            *count += 1;
        }
    };
    let alone = stopwatch.time_ns(|| plain = black_box(plain) + 1);
    let atomic = stopwatch.time_ns(|| {
        exchanged.fetch_add(1, Ordering::Relaxed);
    });
    let free = stopwatch.time_ns(add_locked);
    let contended = beside(add_locked, || stopwatch.time_ns(add_locked));
    vec![
        Bar::new("plain", alone),
        Bar::new("atomic", atomic),
        Bar::new("under an uncontended lock", free),
        Bar::new("under a lock that another thread takes too", contended),
    ]
}

/// As much as processors fetch from each other at once, with room to spare.
#[repr(align(256))]
#[derive(Default)]
struct Line([AtomicU64; 2]);

/// Counting beside another thread that counts, in one cache line and in two.
pub(super) fn sharing(stopwatch: Stopwatch) -> Vec<Bar> {
    let lines = [Line::default(), Line::default()];
    let add = |word: &AtomicU64| {
        word.fetch_add(1, Ordering::Relaxed);
    };
    let time = |ours: &AtomicU64, theirs: &AtomicU64| {
        beside(|| add(theirs), || stopwatch.time_ns(|| add(ours)))
    };
    vec![
        Bar::new("words in two lines", time(&lines[0].0[0], &lines[1].0[0])),
        Bar::new(
            "two words of one line",
            time(&lines[0].0[0], &lines[0].0[1]),
        ),
        Bar::new("one word", time(&lines[0].0[0], &lines[0].0[0])),
    ]
}

/// Does something while another thread does something else all the time.
fn beside<T>(disturb: impl Fn() + Sync, measure: impl FnOnce() -> T) -> T {
    let (begun, end) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            begun.store(true, Ordering::Release);
            while !end.load(Ordering::Relaxed) {
                disturb();
            }
        });
        while !begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let measured = measure();
        end.store(true, Ordering::Relaxed);
        measured
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_thread_works_meanwhile() {
        let count = AtomicU64::new(0);
        let add = || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        beside(add, || {
            while count.load(Ordering::Relaxed) < 3 {
                thread::yield_now();
            }
        });
        assert!(count.into_inner() >= 3);
    }
}
