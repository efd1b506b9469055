//! Random operations on queues, endpoints and scopes against a naive model: a list of what is in flight.
//!
//! Of each completion the model knows which operation it may be; of each buffer, whether it has come back; and of memory, that closed
//! endpoints leave none behind.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use oxifabric::{
    AddressVector, Backend, Buffer, Caps, Completion, CompletionQueue, Domain, Endpoint, Errno,
    Error, Fabric, Hints, Op, Operation, Peer, SendOptions,
};
use proptest::prelude::*;
use proptest::test_runner::Config;

const ENDPOINTS: usize = 3;
const QUEUES: usize = 2;
/// Size of each queue: more than is ever in flight.
const QUEUE: usize = 1 << 15;
/// The tag of plain messages; each scope has one of its own above it.
const PLAIN: u64 = 1;
/// How long a test case may take. A bound on a hang, not an expectation.
const WATCHDOG: Duration = Duration::from_secs(60);
/// Bytes of the heap that endpoints may leave behind when they come and go: less than a slot for each of their receives.
const LEFT_BEHIND: isize = 64 << 10;

/// One random operation. Endpoints and queues are named by their indices.
#[derive(Clone, Debug)]
enum Step {
    Open {
        at: usize,
        tx: usize,
        rx: usize,
    },
    Close {
        at: usize,
    },
    Send {
        from: usize,
        to: usize,
        count: usize,
    },
    Receive {
        at: usize,
        count: usize,
    },
    /// Receives that are cancelled at once, so that the queue has as many completions.
    Cancel {
        at: usize,
        count: usize,
    },
    Poll {
        queue: usize,
        count: usize,
    },
    /// Messages from an endpoint to itself in a scope, which fails in the end or waits for all of them.
    Scope {
        at: usize,
        count: usize,
        fails: bool,
    },
    /// Endpoints that are opened and closed with receives in flight.
    Churn {
        rx: usize,
        count: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (at, queue) = (0..ENDPOINTS, 0..QUEUES);
    prop_oneof![
        4 => (at.clone(), queue.clone(), queue.clone()).prop_map(|(at, tx, rx)| Step::Open { at, tx, rx }),
        2 => at.clone().prop_map(|at| Step::Close { at }),
        4 => (at.clone(), at.clone(), 1..40_usize).prop_map(|(from, to, count)| Step::Send { from, to, count }),
        4 => (at.clone(), 1..40_usize).prop_map(|(at, count)| Step::Receive { at, count }),
        1 => (at.clone(), 1..10_000_usize).prop_map(|(at, count)| Step::Cancel { at, count }),
        4 => (queue.clone(), 1..100_usize).prop_map(|(queue, count)| Step::Poll { queue, count }),
        4 => (at, 1..4_usize, any::<bool>()).prop_map(|(at, count, fails)| Step::Scope { at, count, fails }),
        1 => (queue, 50..80_usize).prop_map(|(rx, count)| Step::Churn { rx, count }),
    ]
}

/// The model of an operation in flight.
struct Flight {
    queue: usize,
    endpoint: usize,
    operation: Operation,
}

struct Open {
    endpoint: Endpoint,
    peer: Peer,
    tx: usize,
    rx: usize,
}

struct World {
    domain: Domain,
    peers: AddressVector,
    queues: Vec<CompletionQueue>,
    endpoints: [Option<Open>; ENDPOINTS],
    in_flight: HashMap<Op, Flight>,
    /// Operations whose endpoint was closed. They complete only if a thread had read the completion before, for a scope for example.
    departed: HashMap<Op, Flight>,
    /// Number of buffers that have not come back.
    lent: Arc<AtomicUsize>,
    scopes: u64,
}

impl World {
    fn new() -> Self {
        let info = Hints::new()
            .caps(Caps::MSG | Caps::TAGGED)
            .provider("shm")
            .best(Backend::builtin());
        let info = info.expect("shm is built in");
        let fabric = Fabric::open(&info).expect("a fabric");
        let domain = Domain::open(&fabric, &info).expect("a domain");
        let queue = |_| CompletionQueue::polled(&domain, QUEUE).expect("a queue");
        Self {
            peers: AddressVector::open(&domain).expect("a vector"),
            queues: (0..QUEUES).map(queue).collect(),
            endpoints: [const { None }; ENDPOINTS],
            in_flight: HashMap::new(),
            departed: HashMap::new(),
            lent: Arc::default(),
            scopes: 0,
            domain,
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Open { at, tx, rx } if self.endpoints[at].is_none() => {
                self.endpoints[at] = Some(self.open(tx, rx));
            }
            Step::Close { at } => self.close(at),
            Step::Send { from, to, count } => self.send(from, to, count),
            Step::Receive { at, count } => drop(self.receive(at, count)),
            Step::Cancel { at, count } => self.cancel(at, count),
            Step::Poll { queue, count } => {
                (0..count).for_each(|_| {
                    self.poll(queue);
                });
            }
            Step::Scope { at, count, fails } => self.scope(at, count, fails),
            Step::Churn { rx, count } => self.churn(rx, count),
            Step::Open { .. } => {}
        }
        let lent = self.lent.load(Ordering::Relaxed);
        let (least, room) = (self.in_flight.len(), self.departed.len());
        let expected = least..=least + room;
        assert!(
            expected.contains(&lent),
            "{lent} buffers, not {expected:?} after {step:?}"
        );
    }

    fn open(&self, tx: usize, rx: usize) -> Open {
        let endpoint = Endpoint::builder(&self.domain)
            .address_vector(&self.peers)
            .transmit_queue(&self.queues[tx])
            .receive_queue(&self.queues[rx])
            .enable()
            .expect("an endpoint");
        let address = endpoint.address().expect("it is enabled");
        let peer = self.peers.insert(&address).expect("a new address");
        Open {
            endpoint,
            peer,
            tx,
            rx,
        }
    }

    fn close(&mut self, at: usize) {
        self.endpoints[at] = None;
        let gone = |_: &Op, flight: &mut Flight| flight.endpoint == at;
        self.departed.extend(self.in_flight.extract_if(gone));
    }

    /// Returns a buffer that is counted until it comes back.
    fn buffer(&self) -> Buffer {
        let lent = self.lent.clone();
        lent.fetch_add(1, Ordering::Relaxed);
        let bytes = Box::into_raw(Box::new([0_u8; 16]));
        let start = NonNull::new(bytes.cast()).expect("a box has a place");
        let release = {
            let bytes = bytes as usize;
            move || {
                // SAFETY: it is the box, and its only user is gone.
                drop(unsafe { Box::from_raw(bytes as *mut [u8; 16]) });
                lent.fetch_sub(1, Ordering::Relaxed);
            }
        };
        // SAFETY: the box is leaked until the release.
        unsafe { Buffer::from_raw(start, 16, release) }
    }

    fn takes_off(&mut self, op: Op, flight: Flight) {
        let same = self.in_flight.insert(op, flight);
        assert!(
            same.is_none(),
            "two operations in flight have one name: {op:?}"
        );
    }

    fn send(&mut self, from: usize, to: usize, count: usize) {
        for _ in 0..count {
            let (Some(sender), Some(receiver)) = (&self.endpoints[from], &self.endpoints[to])
            else {
                return;
            };
            let posted = sender
                .endpoint
                .send_tagged(receiver.peer, PLAIN, self.buffer());
            let flight = Flight {
                queue: sender.tx,
                endpoint: from,
                operation: Operation::Send,
            };
            match posted {
                Ok(op) => self.takes_off(op, flight),
                Err(refused) => assert!(refused.is_again(), "{refused}"),
            }
        }
    }

    fn receive(&mut self, at: usize, count: usize) -> Vec<Op> {
        let mut ops = Vec::new();
        for _ in 0..count {
            let Some(open) = &self.endpoints[at] else {
                break;
            };
            let flight = Flight {
                queue: open.rx,
                endpoint: at,
                operation: Operation::Receive,
            };
            match open.endpoint.receive_tagged(PLAIN, 0, self.buffer()) {
                Ok(op) => {
                    self.takes_off(op, flight);
                    ops.push(op);
                }
                Err(refused) => assert!(refused.is_again(), "{refused}"),
            }
        }
        ops
    }

    fn cancel(&mut self, at: usize, count: usize) {
        for op in self.receive(at, count) {
            if let Some(open) = &self.endpoints[at] {
                // A message may have come for it.
                let _ = open.endpoint.cancel(op);
            }
        }
    }

    /// Takes a completion; returns whether there was one.
    fn poll(&mut self, queue: usize) -> bool {
        let polled = self.queues[queue].poll().expect("the queue has room");
        polled
            .map(|completion| self.lands(queue, completion))
            .is_some()
    }

    fn lands(&mut self, queue: usize, completion: Completion) {
        let flight = self.in_flight.remove(&completion.op);
        let flight = flight.or_else(|| self.departed.remove(&completion.op));
        let flight = flight.expect("what completes is in flight");
        assert_eq!(flight.queue, queue, "a completion in another queue");
        match completion.outcome {
            Ok(transfer) => assert_eq!(transfer.operation, flight.operation),
            Err(Error::Operation(error)) => assert_eq!(error.operation, flight.operation),
            Err(error) => panic!("{error}"),
        }
    }

    fn scope(&mut self, at: usize, count: usize, fails: bool) {
        self.scopes += 1;
        let tag = PLAIN + self.scopes;
        let Some(Open { endpoint, peer, .. }) = &self.endpoints[at] else {
            return;
        };
        let mut room = vec![[0_u8; 8]; count];
        let outcome = endpoint.scope(|scope| {
            let mut ops = Vec::new();
            for bytes in &mut room {
                let receive = scope.receive_tagged(tag, 0, bytes)?;
                ops.push((Operation::Receive, receive));
            }
            if fails {
                return Err(Error::Call {
                    call: "injected failure",
                    errno: Errno::INTR,
                });
            }
            for _ in 0..count {
                let send = scope.send(*peer, b"to self!", SendOptions::new().tag(tag))?;
                ops.push((Operation::Send, send));
            }
            // In reverse, so that most have completed before they are waited for.
            for (operation, op) in ops.into_iter().rev() {
                assert_eq!(scope.wait(op)?.operation, operation, "the wrong operation");
            }
            Ok(())
        });
        match outcome {
            Ok(()) => assert!(!fails && room.iter().all(|bytes| bytes == b"to self!")),
            Err(error) => assert!(fails, "{error}"),
        }
    }

    fn churn(&mut self, rx: usize, count: usize) {
        const RECEIVES: usize = 64;
        let mut before = None;
        for round in 0..count {
            // Memory that is kept for reuse has been allocated by then.
            if round == count / 5 {
                before = Some(USED.load(Ordering::Relaxed));
            }
            let open = self.open(0, rx);
            for _ in 0..RECEIVES {
                let posted = open.endpoint.receive(self.buffer());
                posted.expect("there is room for a few receives");
            }
            self.peers.remove(open.peer).expect("it is there");
        }
        let grown = USED.load(Ordering::Relaxed) - before.expect("there were rounds");
        assert!(
            grown < LEFT_BEHIND,
            "{count} endpoints left {grown} bytes behind"
        );
    }
}

/// Runs the steps on a thread of its own, with the stack that threads have.
fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (tell, told) = channel();
    let runner = std::thread::spawn(move || {
        let mut world = World::new();
        steps.iter().for_each(|step| world.run(step));
        (0..ENDPOINTS).for_each(|at| world.close(at));
        // Reads what scopes had read for others; after that nothing comes any more.
        (0..QUEUES).for_each(|queue| while world.poll(queue) {});
        assert_eq!(world.lent.load(Ordering::Relaxed), 0, "buffers in the end");
        let _ = tell.send(());
    });
    if told.recv_timeout(WATCHDOG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        return Err(TestCaseError::fail("the steps hang"));
    }
    let ended = runner.join();
    ended.map_err(|_| TestCaseError::fail("a step panicked; see above"))
}

proptest! {
    #![proptest_config(Config { cases: 48, max_shrink_iters: 100, failure_persistence: None, ..Config::default() })]

    #[test]
    fn queues_endpoints_and_scopes_do_what_a_list_of_operations_says(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        run(steps)?;
    }
}

/// Number of bytes of the heap that are in use.
static USED: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: every call is handed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        USED.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
