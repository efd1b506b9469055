//! Many threads on one endpoint and on many, at every threading level that lets them: fi_domain(3) "Threading Models".
//!
//! Every message carries its sender and its number, and its receiver checks both.

use core::ffi::CStr;
use core::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use oxifabric_abi::*;

use crate::world::{End, PROVIDERS, World, c, number, patiently};

const THREADS: usize = 6;
const MESSAGES: usize = 300;

/// Short, in pieces, and offered first.
const LENGTHS: [usize; 5] = [8, 64, 5_000, 40_000, 300_000];

/// What is in byte `at` of a message.
const fn byte(thread: usize, message: usize, at: usize) -> u8 {
    (thread * 31 + message * 7 + at) as u8
}

/// Ends of operations, by their contexts.
#[derive(Default)]
struct Ends([AtomicUsize; 2 * THREADS]);

impl Ends {
    /// Reads a queue of all threads, and notes whose operation ended.
    fn note(&self, end: &End) {
        if let Some(entry) = end.read() {
            self.0[entry.op_context.addr()].fetch_add(1, Ordering::AcqRel);
        }
    }

    fn of(&self, context: usize) -> usize {
        self.0[context].load(Ordering::Acquire)
    }
}

/// Sends messages from `a` to `b` and receives them, as one of the threads that do so.
fn exchange(a: &End, b: &End, to: fi_addr_t, me: usize, ends: &Ends) {
    let drive = |_: &End| {
        ends.note(a);
        ends.note(b);
    };
    for message in 0..MESSAGES {
        let len = LENGTHS[(me + message) % LENGTHS.len()];
        let sent: Vec<u8> = (0..len).map(|at| byte(me, message, at)).collect();
        let mut got = vec![0u8; len];
        let (from, into) = (sent.as_ptr().cast(), got.as_mut_ptr().cast());
        let tag = me as u64;
        let recv = || {
            c!(fi_trecv(
                b.ep,
                into,
                len,
                null_mut(),
                FI_ADDR_UNSPEC,
                tag,
                0,
                number(me)
            ))
        };
        let send = || {
            c!(fi_tsend(
                a.ep,
                from,
                len,
                null_mut(),
                to,
                tag,
                number(THREADS + me)
            ))
        };
        // Half of the messages are unexpected.
        if message % 2 == 0 {
            patiently(b, recv, drive);
            patiently(a, send, drive);
        } else {
            patiently(a, send, drive);
            patiently(b, recv, drive);
        }
        while ends.of(me) <= message || ends.of(THREADS + me) <= message {
            drive(a);
        }
        let wrong = got
            .iter()
            .enumerate()
            .find(|&(at, &got)| got != byte(me, message, at));
        assert_eq!(wrong, None, "message {message} of thread {me}");
    }
}

fn on_one_endpoint(provider: &CStr, threading: fi_threading, progress: fi_progress) {
    let world = World::open(provider, threading, progress);
    let (a, b) = (world.end(), world.end());
    let to = a.knows(&b);
    let ends = Ends::default();
    thread::scope(|scope| {
        let (a, b, ends) = (&a, &b, &ends);
        for me in 0..THREADS {
            scope.spawn(move || exchange(a, b, to, me, ends));
        }
    });
    drop((a, b));
}

fn on_many_endpoints(provider: &CStr, threading: fi_threading, progress: fi_progress) {
    let shared = World::open(provider, threading, progress);
    thread::scope(|scope| {
        for me in 0..THREADS {
            let shared = &shared;
            scope.spawn(move || {
                // At this level a domain belongs to one thread at a time.
                let own = (threading == FI_THREAD_DOMAIN)
                    .then(|| World::open(provider, threading, progress));
                let world = own.as_ref().unwrap_or(shared);
                let (a, b) = (world.end(), world.end());
                let to = a.knows(&b);
                exchange(&a, &b, to, me, &Ends::default());
                drop((a, b));
            });
        }
    });
}

#[test]
fn threads_share_an_endpoint() {
    for provider in PROVIDERS {
        on_one_endpoint(provider, FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
        on_one_endpoint(provider, FI_THREAD_UNSPEC, FI_PROGRESS_MANUAL);
    }
}

#[test]
fn threads_share_an_endpoint_with_the_thread_of_automatic_progress() {
    for provider in PROVIDERS {
        on_one_endpoint(provider, FI_THREAD_SAFE, FI_PROGRESS_AUTO);
    }
}

#[test]
fn threads_have_endpoints_of_their_own_at_every_level() {
    for provider in PROVIDERS {
        for threading in [
            FI_THREAD_SAFE,
            FI_THREAD_FID,
            FI_THREAD_ENDPOINT,
            FI_THREAD_COMPLETION,
            FI_THREAD_DOMAIN,
        ] {
            on_many_endpoints(provider, threading, FI_PROGRESS_MANUAL);
        }
    }
}

#[test]
fn threads_have_endpoints_of_their_own_beside_automatic_progress() {
    for provider in PROVIDERS {
        on_many_endpoints(provider, FI_THREAD_DOMAIN, FI_PROGRESS_AUTO);
        on_many_endpoints(provider, FI_THREAD_COMPLETION, FI_PROGRESS_AUTO);
    }
}

#[test]
fn one_thread_uses_a_domain_that_unifies_control_and_data() {
    for provider in PROVIDERS {
        let world = World::open(provider, FI_THREAD_DOMAIN, FI_PROGRESS_CONTROL_UNIFIED);
        let (a, b) = (world.end(), world.end());
        let to = a.knows(&b);
        exchange(&a, &b, to, 0, &Ends::default());
        drop((a, b));
    }
}
