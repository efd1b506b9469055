//! The interface as a program uses it, over every provider of every library that is installed.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use oxifabric::{
    AddressVector, Backend, Buffer, Caps, Completion, CompletionQueue, Domain, Endpoint, Error,
    Fabric, Hints, Info, Op, Peer, Rdm, Refused,
};

/// How long anything may take before the test fails.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Two endpoints with each other's address, each with a queue of its own.
pub(crate) struct Pair {
    pub(crate) left: Side,
    pub(crate) right: Side,
}

pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    pub(crate) queue: CompletionQueue,
    pub(crate) peer: Peer,
    /// Completions that were read while a post was tried again.
    early: Mutex<VecDeque<Completion>>,
}

impl Pair {
    fn open(info: &Info) -> Self {
        let fabric = Fabric::open(info).unwrap();
        let domain = Domain::open(&fabric, info).unwrap();
        let peers = AddressVector::open(&domain).unwrap();
        let [left, right] = [(); 2].map(|()| {
            let queue = CompletionQueue::open(&domain, 256).unwrap();
            let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
            (builder.queue(&queue).enable().unwrap(), queue)
        });
        let [to_right, to_left] = [&right, &left]
            .map(|(endpoint, _)| peers.insert(&endpoint.address().unwrap()).unwrap());
        Self {
            left: Side::new(left, to_right),
            right: Side::new(right, to_left),
        }
    }

    /// Posts from the left endpoint until it is not refused with AGAIN; a provider may refuse while it connects.
    fn post(&self, buffer: Buffer, post: impl Fn(&Endpoint, Buffer) -> Result<Op, Refused>) -> Op {
        let (start, mut buffer) = (Instant::now(), buffer);
        loop {
            match post(&self.left.endpoint, buffer) {
                Ok(op) => return op,
                Err(refused) => {
                    assert!(refused.is_again(), "{refused}");
                    buffer = refused.buffer;
                }
            }
            self.progress(start);
        }
    }

    fn send(&self, bytes: &[u8]) -> Op {
        self.post(bytes.into(), |left, buffer| {
            left.send(self.left.peer, buffer)
        })
    }

    /// Injects from the left endpoint until it is not refused with AGAIN.
    fn inject(&self, inject: impl Fn(&Endpoint) -> Result<(), Error>) {
        let start = Instant::now();
        while let Err(error) = inject(&self.left.endpoint) {
            assert!(error.is_again(), "{error}");
            self.progress(start);
        }
    }

    fn progress(&self, start: Instant) {
        assert!(start.elapsed() < WATCHDOG, "the post stays refused");
        self.left.progress();
        self.right.progress();
    }

    /// Reads both queues until each has had its number of completions.
    fn drive(
        &self,
        (left, mut on_left): (usize, impl FnMut(Completion)),
        (right, mut on_right): (usize, impl FnMut(Completion)),
    ) {
        let start = Instant::now();
        let (mut left, mut right) = (left, right);
        while left + right > 0 {
            assert!(start.elapsed() < WATCHDOG, "no completion came");
            if let Some(completion) = self.left.next() {
                left = left
                    .checked_sub(1)
                    .expect("no more completions on the left");
                on_left(completion);
            }
            if let Some(completion) = self.right.next() {
                right = right
                    .checked_sub(1)
                    .expect("no more completions on the right");
                on_right(completion);
            }
        }
    }
}

impl Side {
    fn new((endpoint, queue): (Endpoint, CompletionQueue), peer: Peer) -> Self {
        Self {
            endpoint,
            queue,
            peer,
            early: Mutex::default(),
        }
    }

    fn next(&self) -> Option<Completion> {
        let early = self.early.lock().unwrap().pop_front();
        early.or_else(|| self.queue.poll().unwrap())
    }

    fn progress(&self) {
        let read = self.queue.poll().unwrap();
        self.early.lock().unwrap().extend(read);
    }
}

/// Returns another libfabric.so.1, if there is one.
fn system() -> Option<Backend> {
    let path = std::env::var("SYSTEM_LIBFABRIC");
    let path = path
        .as_deref()
        .unwrap_or("/usr/lib/x86_64-linux-gnu/libfabric.so.1");
    match Backend::system(path) {
        Ok(backend) => Some(backend),
        Err(error) => {
            eprintln!("SKIP: {error}");
            None
        }
    }
}

/// Asks for endpoints that reach each other within this host. A node named to shm or sim would be the name of one endpoint.
pub(crate) fn within_this_host(hints: Hints, provider: &str) -> Hints {
    match provider {
        "shm" | "sim" => hints,
        _ => hints.local(Some("127.0.0.1"), None),
    }
}

/// Returns the first offer of a provider whose endpoints reach each other within this host.
fn offer(backend: Backend, provider: &str) -> Option<Info> {
    let hints = Hints::new()
        .caps(Caps::MSG | Caps::TAGGED)
        .provider(provider);
    match within_this_host(hints, provider).offers(backend) {
        Ok(offers) => offers.into_iter().next(),
        Err(why) => {
            eprintln!("SKIP: {provider}: {why}");
            None
        }
    }
}

/// Runs cases over one provider of one library.
macro_rules! worlds {
    ($($case:ident)*) => {
        worlds! { @world $($case)*; builtin_tcp: Some(crate::builtin("tcp")) }
        worlds! { @world $($case)*; builtin_shm: Some(crate::builtin("shm")) }
        worlds! { @world $($case)*; builtin_udp_rxd: Some(crate::builtin("udp;ofi_rxd")) }
        worlds! { @world $($case)*; builtin_sim: Some(crate::builtin("sim")) }
        worlds! { @world $($case)*; system_tcp: crate::system().and_then(|backend| crate::offer(backend, "tcp")) }
        worlds! { @world $($case)*; system_shm: crate::system().and_then(|backend| crate::offer(backend, "shm")) }
    };
    (@world $($case:ident)*; $world:ident: $info:expr) => {
        mod $world {
            $(
                #[test]
                fn $case() {
                    if let Some(info) = $info {
                        super::$case(&info);
                    }
                }
            )*
        }
    };
}

/// Returns the offer of a provider that must exist.
fn builtin(provider: &str) -> Info {
    offer(Backend::builtin(), provider).expect("the library has the provider")
}

mod answers;
mod asynchronous;
mod connections;
mod datagrams;
mod hints;
mod memory;
mod messages;
mod raw_memory;
mod releases;
