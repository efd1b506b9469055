//! Futures, under an executor of twenty lines and under tokio.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use oxifabric::{
    Access, AddressVector, AsyncEndpoint, AsyncQueue, Buffer, CompletionQueue, Domain, Endpoint,
    Fabric, InFlight, Info, Operation, Peer, Rdm, Readiness, Region,
};

use crate::WATCHDOG;

/// The simplest executor: it parks its thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Opens an endpoint whose queue the given source of readiness polls; none if the provider's queues have no descriptor.
fn open(
    info: &Info,
    watch: impl FnOnce(CompletionQueue) -> Result<AsyncQueue, oxifabric::Error>,
) -> Option<(AsyncEndpoint, AddressVector, AsyncQueue, Domain)> {
    let fabric = Fabric::open(info).unwrap();
    let domain = Domain::open(&fabric, info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    let queue = CompletionQueue::open(&domain, 256).unwrap();
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let endpoint = builder.queue(&queue).enable().unwrap();
    match watch(queue) {
        Ok(queue) => {
            let endpoint = AsyncEndpoint::new(endpoint, &queue, &queue).unwrap();
            Some((endpoint, peers, queue, domain))
        }
        Err(error) => {
            eprintln!("SKIP: {}: {error}", info.provider());
            None
        }
    }
}

async fn echo(endpoint: &AsyncEndpoint, to: Peer, count: usize) {
    for _ in 0..count {
        let got = endpoint.receive_tagged(1, 0, Buffer::zeroed(64)).await;
        let (buffer, _) = got.ok().unwrap();
        endpoint.send_tagged(to, 2, buffer).await.ok().unwrap();
    }
}

async fn ask(endpoint: &AsyncEndpoint, to: Peer, count: usize) {
    for at in 0..count {
        let answer = endpoint
            .start_receive(|endpoint| endpoint.receive_tagged(2, 0, Buffer::zeroed(64)))
            .unwrap();
        let question = Buffer::from(at.to_string().as_str());
        let (question, _) = endpoint.send_tagged(to, 1, question).await.ok().unwrap();
        let (answer, transfer) = answer.await.ok().unwrap();
        assert_eq!(transfer.operation, Operation::Receive);
        assert_eq!(&answer[..], &question[..]);
    }
}

fn futures_need_no_runtime(info: &Info) {
    let (Some(left), Some(right)) = (open(info, AsyncQueue::new), open(info, AsyncQueue::new))
    else {
        return;
    };
    let to_right = right.0.endpoint().address().unwrap();
    let to_left = left.0.endpoint().address().unwrap();
    let (to_right, to_left) = (
        left.1.insert(&to_right).unwrap(),
        right.1.insert(&to_left).unwrap(),
    );
    thread::scope(|scope| {
        scope.spawn(|| block_on(echo(&right.0, to_left, 100)));
        block_on(ask(&left.0, to_right, 100));
    });
}

fn dropping_a_future_drops_its_buffer_with_the_completion(info: &Info) {
    let Some((endpoint, peers, queue, _)) = open(info, AsyncQueue::new) else {
        return;
    };
    let me = endpoint.endpoint().address().unwrap();
    let me = peers.insert(&me).unwrap();
    let receive = |tag| {
        let post = |endpoint: &Endpoint| endpoint.receive_tagged(tag, 0, Buffer::zeroed(8));
        endpoint.start_receive(post).unwrap()
    };
    let (dropped, kept) = (receive(1), receive(2));
    drop(dropped);
    block_on(async {
        endpoint
            .send_tagged(me, 1, Buffer::from("1"))
            .await
            .ok()
            .unwrap();
        endpoint
            .send_tagged(me, 2, Buffer::from("2"))
            .await
            .ok()
            .unwrap();
        let (buffer, _) = kept.await.ok().unwrap();
        assert_eq!(&buffer[..], b"2");
        // A completion that no future waits for goes to the future of `next`.
        endpoint
            .endpoint()
            .receive_tagged(3, 0, Buffer::zeroed(8))
            .unwrap();
        endpoint
            .send_tagged(me, 3, Buffer::from("3"))
            .await
            .ok()
            .unwrap();
        let (buffer, _) = queue.next().await.unwrap().ok().unwrap();
        assert_eq!(&buffer[..], b"3");
    });
}

fn completions_that_no_future_takes_are_bounded(info: &Info) {
    const KEPT: usize = 16_384;
    let Some((endpoint, peers, queue, _)) = open(info, AsyncQueue::new) else {
        return;
    };
    let me = endpoint.endpoint().address().unwrap();
    let me = peers.insert(&me).unwrap();
    let exchange = async || {
        let receive = endpoint.endpoint();
        receive.receive_tagged(1, 0, Buffer::zeroed(8)).unwrap();
        endpoint.send_tagged(me, 1, Buffer::from("1")).await
    };
    let receive = |endpoint: &Endpoint| endpoint.receive_tagged(9, 0, Buffer::zeroed(8));
    let mut pending = pin!(endpoint.start_receive(receive).unwrap());
    let count = Arc::new(Count(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut poll_pending = || pending.as_mut().poll(&mut Context::from_waker(&waker));
    block_on(async {
        let mut sent = 0;
        // Whichever future is the first to learn that the list is full, the other one learns it, too.
        while poll_pending().is_pending() {
            let woken = count.1.load(Ordering::Relaxed);
            if exchange().await.outcome.is_err() {
                assert!(count.1.load(Ordering::Relaxed) > woken);
                assert!(poll_pending().is_ready());
                break;
            }
            sent += 1;
            assert!(sent <= 2 * KEPT, "nothing bounds what is kept");
        }
        assert!(exchange().await.outcome.is_err());
        assert!(sent >= KEPT - 1, "{sent} are few");
        // All are there, and once they are taken the queue goes on.
        for _ in 0..KEPT {
            queue.next().await.unwrap().ok().unwrap();
        }
        exchange().await.ok().unwrap();
        // What the operation of the future that failed receives later is not lost.
        let late = endpoint.send_tagged(me, 9, Buffer::from("9")).await;
        late.ok().unwrap();
        let mut received = Vec::new();
        while received != b"9\0\0\0\0\0\0\0" && received != b"9" {
            let (buffer, _) = queue.next().await.unwrap().ok().unwrap();
            received = buffer.to_vec();
        }
    });
}

/// Counts how often it is woken, and unparks its thread.
struct Count(Thread, AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.unpark();
    }
}

/// A source of readiness that a test wakes by hand.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<Option<Waker>>>);

impl ByHand {
    fn wake(&self) {
        let waker = self.0.lock().unwrap().take();
        waker.expect("a future waits").wake();
    }
}

impl Readiness for ByHand {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        *self.0.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn a_dropped_future_of_next_leaves_no_waker_and_another_one_drives_the_queue(info: &Info) {
    let by_hand = ByHand::default();
    let source = by_hand.clone();
    let watch = |queue| AsyncQueue::with(queue, |_| Ok(source));
    let Some((_endpoint, _, queue, _)) = open(info, watch) else {
        return;
    };
    let count = || Arc::new(Count(thread::current(), AtomicUsize::new(0)));
    let (of_dropped, of_kept) = (count(), count());
    let (mut dropped, mut kept) = (queue.next(), queue.next());
    for (next, count) in [(&mut dropped, &of_dropped), (&mut kept, &of_kept)] {
        // Polled twice, as by an executor that polls several futures of a task: the last waker counts.
        for _ in 0..2 {
            let waker = Waker::from(Arc::clone(count));
            let polled = pin!(&mut *next).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
    }
    let woken = || [&of_dropped, &of_kept].map(|count| count.1.load(Ordering::Relaxed));
    by_hand.wake();
    assert_eq!(woken(), [1, 0], "one drives the queue");
    drop(dropped);
    assert_eq!(woken(), [1, 1]);
    assert_eq!(Arc::strong_count(&of_dropped), 1);
    drop(kept);
    assert_eq!(Arc::strong_count(&of_kept), 1);
}

/// Posts long messages until there is no room for more; returns false if there always is.
fn fill(endpoint: &AsyncEndpoint, to: Peer, region: &Region, open: &mut Vec<InFlight>) -> bool {
    const MANY: usize = 10_000;
    for _ in 0..MANY {
        let long = || region.slice(0..region.len()).unwrap();
        match endpoint.start(|endpoint| endpoint.send_tagged(to, 9, long())) {
            Ok(flying) => open.push(flying),
            Err(refused) => return refused.is_again(),
        }
    }
    false
}

fn a_send_that_finds_no_room_sleeps_between_its_tries(info: &Info) {
    const WAKES: usize = 200;
    /// Polls that completions of earlier messages may add.
    const SPARE: usize = 10;
    /// Polls that events on the path to the peer add: acknowledgements, and timers of the endpoint.
    const NEWS_PER_MS: usize = 10;
    let (Some(left), Some(right)) = (open(info, AsyncQueue::new), open(info, AsyncQueue::new))
    else {
        return;
    };
    let silent = left.1.insert(&right.0.endpoint().address().unwrap());
    let (silent, mut open) = (silent.unwrap(), Vec::new());
    let region = Region::register(&left.3, Buffer::zeroed(1 << 18), Access::NONE).unwrap();
    if !fill(&left.0, silent, &region, &mut open) {
        eprintln!("SKIP: {} has room for all", info.provider());
        return;
    }
    let count = Arc::new(Count(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let mut send = pin!(left.0.send_tagged(silent, 9, Buffer::zeroed(8)));
    let start = Instant::now();
    while count.1.load(Ordering::Relaxed) < WAKES {
        if send
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            eprintln!("SKIP: {} makes room by itself", info.provider());
            return;
        }
        thread::park_timeout(WATCHDOG);
        assert!(start.elapsed() < WATCHDOG, "the task is not woken");
    }
    // The task may be woken later than it should, but not by itself and at once.
    let elapsed_ms = start.elapsed().as_millis() as usize;
    assert!(WAKES <= SPARE + NEWS_PER_MS * elapsed_ms, "{elapsed_ms} ms");
}

#[cfg(feature = "tokio")]
fn tokio_watches(info: &Info) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (Some(left), Some(right)) =
            (open(info, AsyncQueue::tokio), open(info, AsyncQueue::tokio))
        else {
            return;
        };
        let to_right = right.0.endpoint().address().unwrap();
        let to_left = left.0.endpoint().address().unwrap();
        let (to_right, to_left) = (
            left.1.insert(&to_right).unwrap(),
            right.1.insert(&to_left).unwrap(),
        );
        tokio::join!(ask(&left.0, to_right, 100), echo(&right.0, to_left, 100));
    });
}

#[cfg(not(feature = "tokio"))]
fn tokio_watches(_: &Info) {
    eprintln!("SKIP: the feature tokio is off");
}

worlds! {
    futures_need_no_runtime
    dropping_a_future_drops_its_buffer_with_the_completion
    completions_that_no_future_takes_are_bounded
    a_dropped_future_of_next_leaves_no_waker_and_another_one_drives_the_queue
    a_send_that_finds_no_room_sleeps_between_its_tries
    tokio_watches
}
