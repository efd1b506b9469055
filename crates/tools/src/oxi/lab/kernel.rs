//! What the kernel is asked for: calls, and waking.

use std::hint::{black_box, spin_loop};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nix::unistd::getppid;

use super::{Bar, Stopwatch};
use crate::oxi::Trouble;

/// Calls of functions and of the kernel.
pub(super) fn calls(stopwatch: Stopwatch) -> Result<Vec<Bar>, Trouble> {
    let mut null = std::fs::File::create("/dev/null")?;
    let mut written = Ok(());
    let function = stopwatch.time_ns(|| {
        black_box(identity(black_box(1)));
    });
    let asked = stopwatch.time_ns(|| {
        black_box(getppid());
    });
    let wrote = stopwatch.time_ns(|| {
        if let Err(error) = null.write_all(b"8 bytes!") {
            written = Err(error);
        }
    });
    written?;
    Ok(vec![
        Bar::new("call of a function", function),
        Bar::new("getppid(2)", asked),
        Bar::new("write(2) of 8 bytes to /dev/null", wrote),
    ])
}

#[inline(never)]
fn identity(value: u64) -> u64 {
    value
}

/// Messages between two threads, one way.
pub(super) fn wakeups(stopwatch: Stopwatch) -> Result<Vec<Bar>, Trouble> {
    Ok(vec![
        Bar::new("to a thread that spins", spinning(stopwatch)),
        Bar::new("to a thread that sleeps in read(2)", sleeping(stopwatch)?),
    ])
}

/// The number that ends the game.
const END: usize = usize::MAX;

/// Two threads count in turns and look all the time: a message is a number in memory.
fn spinning(stopwatch: Stopwatch) -> f64 {
    let (there, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let alone = thread::available_parallelism().is_ok_and(|count| count.get() == 1);
    let until = |word: &AtomicUsize, last: usize| {
        loop {
            match word.load(Ordering::Acquire) {
                now if now != last => return now,
                _ if alone => thread::yield_now(),
                _ => spin_loop(),
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            while last != END {
                last = until(&there, last);
                back.store(last, Ordering::Release);
            }
        });
        let mut round = 0;
        let time = stopwatch.time_ns(|| {
            there.store(round + 1, Ordering::Release);
            round = until(&back, round);
        });
        there.store(END, Ordering::Release);
        time / 2.0
    })
}

/// Two threads send each other bytes through pipes, and sleep until one comes.
fn sleeping(stopwatch: Stopwatch) -> io::Result<f64> {
    let ((mut there, mut to), (mut from, mut back)) = (io::pipe()?, io::pipe()?);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            // The end of the other thread's pipe is the end of the game.
            while there.read_exact(&mut byte).is_ok() && back.write_all(&byte).is_ok() {}
        });
        let mut played = Ok(());
        let time = stopwatch.time_ns(|| {
            let thrown = to.write_all(b"x").and_then(|()| from.read_exact(&mut [0]));
            if thrown.is_err() {
                played = thrown;
            }
        });
        drop(to);
        played.map(|()| time / 2.0)
    })
}
