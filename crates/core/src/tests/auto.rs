//! Automatic progress: fi_domain(3) "FI_PROGRESS_AUTO".

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxifabric_abi::*;
use oxifabric_types::{Progress, Threading};

use super::world::{End, World, c};

const TAGGED: fi_cq_format = FI_CQ_FORMAT_TAGGED;

fn automatic() -> World {
    World::with(FI_VERSION(2, 6), |info| {
        info.domain.data_progress = Progress::Auto;
        // Locks are on all the same.
        info.domain.threading = Threading::Domain;
    })
}

/// Waits until memory that only the peer writes has a value. The compiler must not assume that it never changes.
fn becomes(byte: &u8, value: u8) -> bool {
    let byte = core::ptr::from_ref(byte);
    for _ in 0..100_000_000u64 {
        // SAFETY: the byte is borrowed; it is written by another thread, one byte at a time.
        if unsafe { byte.read_volatile() } == value {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn messages_arrive_without_a_look_at_the_queue() {
    let world = automatic();
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_NONE),
    );
    let to_b = a.knows(&b);
    for round in 1..100u8 {
        let mut into = [0u8; 1];
        b.recv(&mut into, 1);
        assert_eq!(a.send(to_b, &[round], 0), 0);
        assert!(becomes(&into[0], round));
        assert_eq!(b.next().0.len, 1);
        a.next();
    }
}

#[test]
fn a_polling_application_and_the_thread_lose_nothing() {
    let world = automatic();
    let (a, b) = (world.end(TAGGED, FI_WAIT_FD), world.end(TAGGED, FI_WAIT_FD));
    let to_b = a.knows(&b);
    let mut into = [0u8; 8];
    for round in 0..20_000u64 {
        b.recv(&mut into, 1);
        assert_eq!(a.send(to_b, &round.to_ne_bytes(), 0), 0);
        b.next();
        assert_eq!(u64::from_ne_bytes(into), round);
        a.next();
    }
}

#[test]
fn endpoints_come_and_go_while_the_thread_runs() {
    let world = automatic();
    let stays = world.end(TAGGED, FI_WAIT_NONE);
    let mut into = [0u8; 1];
    for round in 1..100u8 {
        let goes = world.end(TAGGED, FI_WAIT_NONE);
        let to = goes.knows(&stays);
        stays.recv(&mut into, 1);
        assert_eq!(goes.send(to, &[round], 0), 0);
        drop(goes);
        assert!(becomes(&into[0], round));
        stays.next();
    }
}

/// Counts the threads of this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Other tests have threads of their own, so it runs in a process that has none.
#[test]
fn there_is_a_thread_only_where_one_was_asked_for() {
    if std::env::var_os("OXI_ALONE").is_none() {
        return alone("there_is_a_thread_only_where_one_was_asked_for");
    }
    let before = threads();
    let manual = World::new();
    let _end = manual.end(TAGGED, FI_WAIT_FD);
    assert_eq!(threads(), before);
    let world = automatic();
    assert_eq!(threads(), before, "there is nothing to drive yet");
    let end = world.end(TAGGED, FI_WAIT_NONE);
    let second = world.end(TAGGED, FI_WAIT_NONE);
    assert_eq!(threads(), before + 1);
    drop((end, second, world));
    assert_eq!(threads(), before);
}

/// Runs a test of this file in a process of its own.
fn alone(test: &str) {
    let me = std::env::current_exe().expect("a test is a program");
    let alone = std::process::Command::new(me)
        .args(["--exact", &format!("tests::auto::{test}")])
        .env("OXI_ALONE", "1")
        .output()
        .expect("it runs");
    assert!(
        alone.status.success(),
        "{}",
        String::from_utf8_lossy(&alone.stdout)
    );
}

/// Returns how often each thread of automatic progress of this process went to sleep.
fn sleeps() -> BTreeMap<u32, u64> {
    let tasks = fs::read_dir("/proc/self/task").expect("a process has threads");
    tasks
        .filter_map(|task| {
            let task = task.ok()?;
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            let is_ours = status.starts_with("Name:\toxi-progress");
            let thread = task.file_name().to_str()?.parse().ok()?;
            is_ours.then_some((thread, line.trim().parse().ok()?))
        })
        .collect()
}

/// Polls all queues until one of the threads has slept `times` times, and returns how often each of them did, the oldest first.
fn poll_until_slept(ends: &[&End], times: u64) -> Vec<u64> {
    let before = sleeps();
    for _ in 0..200_000 {
        let now = sleeps();
        let slept = now
            .iter()
            .map(|(thread, now)| now - before.get(thread).unwrap_or(&0));
        if slept.clone().max() >= Some(times) {
            return slept.collect();
        }
        for end in ends {
            for _ in 0..100 {
                assert!(end.read().is_err(), "no message was sent");
            }
        }
    }
    panic!("no thread drives the endpoint any more");
}

/// Other tests have threads of their own, so it runs in a process that has none.
#[test]
fn one_thread_looks_after_all_domains_whose_applications_poll() {
    if std::env::var_os("OXI_ALONE").is_none() {
        return alone("one_thread_looks_after_all_domains_whose_applications_poll");
    }
    let worlds: [World; 8] = std::array::from_fn(|_| automatic());
    let ends = worlds
        .each_ref()
        .map(|world| world.end(TAGGED, FI_WAIT_NONE));
    // Where this thread has to wait for a processor, the others think that the application stopped polling: then once
    // again.
    let all_alike = (0..50).all(|_| {
        let slept = poll_until_slept(&ends.each_ref(), 50);
        assert_eq!(slept.len(), worlds.len());
        slept.iter().sum::<u64>() >= 2 * 50
    });
    assert!(!all_alike, "each looks after its own");
}

/// The thread that drives all domains may be that of the domain that closes, or whose application stops polling.
#[test]
fn another_thread_drives_the_domains_that_are_left() {
    if std::env::var_os("OXI_ALONE").is_none() {
        return alone("another_thread_drives_the_domains_that_are_left");
    }
    for driver_closes in [true, false] {
        let (first, second) = (automatic(), automatic());
        let ends = [&first, &second].map(|world| {
            (
                world.end(TAGGED, FI_WAIT_NONE),
                world.end(TAGGED, FI_WAIT_NONE),
            )
        });
        let slept = poll_until_slept(&[&ends[0].1, &ends[1].1], 50);
        let driver_is_first = slept[0] > slept[1];
        let [one, two] = ends;
        let (a, b) = if driver_is_first == driver_closes {
            drop((one, first));
            two
        } else {
            drop((two, second));
            one
        };
        poll_until_slept(&[&b], 50);
        let to_b = a.knows(&b);
        let mut into = [0u8; 1];
        b.recv(&mut into, 1);
        assert_eq!(a.send(to_b, &[1], 0), 0);
        assert!(becomes(&into[0], 1), "no thread drives the domain any more");
        assert_eq!(b.next().0.len, 1);
        a.next();
    }
}

#[test]
fn completions_wake_threads_that_sleep_on_the_queue() {
    let world = automatic();
    let (a, b) = (
        world.end(TAGGED, FI_WAIT_NONE),
        world.end(TAGGED, FI_WAIT_FD),
    );
    let to_b = a.knows(&b);
    let slept = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..200usize {
                while slept.load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
                assert_eq!(a.send(to_b, b"x", 0), 0);
                a.next();
            }
        });
        for round in 1..200usize {
            let mut into = [0u8; 1];
            b.recv(&mut into, 1);
            slept.store(round, Ordering::Release);
            let mut entry = fi_cq_tagged_entry::ZERO;
            let into_entry = (&raw mut entry).cast();
            let read = c!(fi_cq_sread(b.cq, into_entry, 1, core::ptr::null(), 60_000));
            assert_eq!(read, 1);
        }
    });
}
