//! Memory whose release callback panics, or uses the queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxifabric::{AddressVector, Buffer, CompletionQueue, Domain, Endpoint, Fabric, Info, Refused};

/// An endpoint and its queue.
fn open(info: &Info) -> (Endpoint, CompletionQueue) {
    let fabric = Fabric::open(info).unwrap();
    let domain = Domain::open(&fabric, info).unwrap();
    let peers = AddressVector::open(&domain).unwrap();
    let queue = CompletionQueue::polled(&domain, 64).unwrap();
    let builder = Endpoint::builder(&domain).address_vector(&peers);
    (builder.queue(&queue).enable().unwrap(), queue)
}

/// Returns a buffer of a leaked byte with a release callback.
fn foreign(release: impl FnOnce() + Send + 'static) -> Buffer {
    let byte = NonNull::from(Box::leak(Box::new(0_u8)));
    // SAFETY: nothing else uses the byte.
    unsafe { Buffer::from_raw(byte, 1, release) }
}

fn a_release_that_panics_leaves_the_queue_whole(info: &Info) {
    let (endpoint, queue) = open(info);
    let released = Arc::new(AtomicUsize::new(0));
    let post = |panics: bool| -> Result<_, Refused> {
        let released = released.clone();
        endpoint.receive(foreign(move || {
            released.fetch_add(1, Ordering::Relaxed);
            assert!(!panics, "injected failure");
        }))
    };
    for panics in [false, true, false, true, false] {
        post(panics).unwrap();
    }
    let (survivor, _) = (queue.clone(), queue.poll().unwrap());
    let closed = catch_unwind(AssertUnwindSafe(|| drop(endpoint)));
    assert!(
        closed.is_err(),
        "the panic is that of the thread that closed"
    );
    assert_eq!(released.load(Ordering::Relaxed), 5);
    // The completions of closed endpoints find no operation any more, and the queue goes on.
    assert!(survivor.poll().unwrap().is_none());
}

fn a_release_may_use_the_queue_that_gives_the_memory_back(info: &Info) {
    let (endpoint, queue) = open(info);
    // This thread reads the queue, so that buffers of endpoints that another thread closes are released here.
    let first = endpoint.receive(Buffer::zeroed(1)).unwrap();
    endpoint.cancel(first).unwrap();
    while queue.poll().unwrap().is_none() {}
    let (calls, used) = (Arc::new(AtomicUsize::new(0)), queue.clone());
    let counted = calls.clone();
    let memory = foreign(move || {
        assert!(used.poll().unwrap().is_none());
        counted.fetch_add(1, Ordering::Relaxed);
    });
    endpoint.receive(memory).unwrap();
    std::thread::scope(|scope| scope.spawn(|| drop(endpoint)).join().unwrap());
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert!(queue.poll().unwrap().is_none());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

worlds! {
    a_release_that_panics_leaves_the_queue_whole
    a_release_may_use_the_queue_that_gives_the_memory_back
}
