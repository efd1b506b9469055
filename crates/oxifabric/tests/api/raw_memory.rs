//! Memory that belongs to C, here a mapping that other processes could share.

use core::ptr::NonNull;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use oxifabric::{Access, Backend, Buffer, Caps, DmaBuf, Endpoint, Errno, Info, Payload, Region};

use crate::WATCHDOG;
use crate::memory::{Loop, with};

const LEN: usize = 4096;

/// A page that is shared with processes forked from this one.
struct Mapping(NonNull<u8>);

impl Mapping {
    fn new() -> Self {
        let (rights, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the kernel chooses a free address.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), LEN, rights, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self(NonNull::new(start.cast()).unwrap())
    }

    /// Returns the bytes, while no operation uses them.
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the page is there as long as `self`, and nothing else uses it.
        unsafe { core::slice::from_raw_parts_mut(self.0.as_ptr(), LEN) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the page is the mapping's.
        unsafe { libc::munmap(self.0.as_ptr().cast(), LEN) };
    }
}

fn operations_take_pointers(info: &Info) {
    let here = Loop::open(info, None);
    let (mut ours, mut theirs) = (Mapping::new(), Mapping::new());
    ours.bytes()[..8].copy_from_slice(b"unowned!");
    // SAFETY: the mapping is not touched before the completions were read.
    let into = unsafe { Payload::from_raw(theirs.0, LEN) };
    let receive = here.endpoint.receive_tagged(3, 0, into).unwrap();
    let start = Instant::now();
    let send = loop {
        // SAFETY: as above.
        let out = unsafe { Payload::from_raw(ours.0, 8) };
        match here.endpoint.send_tagged(here.me, 3, out) {
            Ok(op) => break op,
            Err(refused) => {
                assert!(refused.is_again() && refused.buffer.is_empty(), "{refused}");
            }
        }
        assert!(start.elapsed() < WATCHDOG, "the post stays refused");
        assert!(here.queue.poll().unwrap().is_none());
    };
    let mut open = vec![receive, send];
    while !open.is_empty() {
        assert!(start.elapsed() < WATCHDOG, "no completion came");
        if let Some(done) = here.queue.poll().unwrap() {
            open.retain(|op| *op != done.op);
            let (buffer, transfer) = done.ok().unwrap();
            assert!(buffer.is_empty());
            assert_eq!(transfer.len, 8);
        }
    }
    assert_eq!(&theirs.bytes()[..9], b"unowned!\0");
}

/// Sends a message to itself; this thread reads the completions.
fn send_to_itself(here: &Loop) {
    let (start, mut out) = (Instant::now(), Buffer::from(b"me"));
    here.endpoint
        .receive_tagged(4, 0, Buffer::zeroed(2))
        .unwrap();
    while let Err(refused) = here.endpoint.send_tagged(here.me, 4, out) {
        assert!(
            refused.is_again() && start.elapsed() < WATCHDOG,
            "{refused}"
        );
        out = refused.buffer;
        assert!(here.queue.poll().unwrap().is_none());
    }
    let mut missing = 2;
    while missing > 0 {
        assert!(start.elapsed() < WATCHDOG, "no completion came");
        missing -= usize::from(here.queue.poll().unwrap().is_some());
    }
}

fn an_endpoint_closed_elsewhere_frees_its_buffers_where_the_queue_is_read(info: &Info) {
    let here = Loop::open(info, None);
    send_to_itself(&here);
    let (mut page, released) = (Mapping::new(), Arc::new(AtomicBool::new(false)));
    let told = released.clone();
    // SAFETY: the mapping is not touched before it is released.
    let buffer =
        unsafe { Buffer::from_raw(page.0, LEN, move || told.store(true, Ordering::Relaxed)) };
    here.endpoint.receive_tagged(5, 0, buffer).unwrap();
    let Loop {
        endpoint, queue, ..
    } = here;
    std::thread::spawn(move || drop(endpoint)).join().unwrap();
    assert!(!released.load(Ordering::Relaxed));
    let start = Instant::now();
    while !released.load(Ordering::Relaxed) {
        assert!(start.elapsed() < WATCHDOG, "the buffer is kept");
        assert!(
            queue
                .poll()
                .unwrap()
                .is_none_or(|done| done.outcome.is_err())
        );
    }
    page.bytes()[0] = 1;
}

fn memory_of_peers_goes_to_pointers(info: &Info) {
    let Some(info) = with(info, Caps::RMA) else {
        return;
    };
    let here = Loop::open(&info, None);
    let mut page = Mapping::new();
    let region = Region::register(&here.domain, Buffer::from(b"far away"), Access::READ_WRITE);
    let region = region.unwrap();
    let far = region.remote().bytes();
    let read = |endpoint: &Endpoint, me| {
        // SAFETY: the mapping is not touched before the completion was read.
        let into = unsafe { Payload::from_raw(page.0, 8) };
        endpoint
            .read(me, far, into)
            .map_err(|refused| refused.error)
    };
    here.run(read).ok().unwrap();
    assert_eq!(&page.bytes()[..8], b"far away");
    page.bytes()[..4].copy_from_slice(b"near");
    let write = |endpoint: &Endpoint, me| {
        // SAFETY: as above.
        let from = unsafe { Payload::from_raw(page.0, 8) };
        endpoint
            .write(me, far, from)
            .map_err(|refused| refused.error)
    };
    here.run(write).ok().unwrap();
    assert_eq!(&region.into_buffer().unwrap()[..], b"nearaway");
}

fn a_region_lies_over_memory_of_others(info: &Info) {
    let Some(info) = with(info, Caps::RMA) else {
        return;
    };
    let here = Loop::open(&info, None);
    let mut page = Mapping::new();
    let released = Arc::new(AtomicBool::new(false));
    let told = released.clone();
    let release = move || assert!(!told.swap(true, Ordering::Release));
    // SAFETY: the mapping is not touched while operations are in flight, and it outlives the region.
    let region = unsafe {
        Region::from_raw(&here.domain, page.0, LEN, Access::READ_WRITE, release).unwrap()
    };
    let at = region.remote().slice::<u8>(8, 8).unwrap();
    let write = |endpoint: &Endpoint, me| {
        let posted = endpoint.write(me, at, Buffer::from(b"by peers"));
        posted.map_err(|refused| refused.error)
    };
    here.run(write).ok().unwrap();
    assert_eq!(&page.bytes()[8..16], b"by peers");
    let mut copy = [0; 8];
    region.read(8, &mut copy).unwrap();
    assert_eq!(&copy, b"by peers");

    let part = region.slice(0..8).unwrap();
    let region = region.into_buffer().unwrap_err();
    drop(part);
    assert!(!released.load(Ordering::Acquire));
    // The bytes belong to the mapping, so they are not in the buffer.
    assert!(region.into_buffer().unwrap().is_empty());
    assert!(released.load(Ordering::Acquire));
}

/// Returns a descriptor of memory that is mapped. It is no dma-buf, which only drivers make, but providers cannot tell.
fn shared_page() -> (OwnedFd, NonNull<u8>) {
    // SAFETY: the name is a string, and the descriptor has no other owner.
    let fd =
        unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC)) };
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses a free address.
    let start = unsafe {
        assert_eq!(libc::ftruncate(fd.as_raw_fd(), LEN as libc::off_t), 0);
        libc::mmap(
            core::ptr::null_mut(),
            LEN,
            rights,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    (fd, NonNull::new(start.cast()).unwrap())
}

fn a_dma_buf_is_registered_or_refused_and_released_once(info: &Info) {
    let Some(info) = with(info, Caps::RMA) else {
        return;
    };
    let here = Loop::open(&info, None);
    let (fd, start) = shared_page();
    let memory = DmaBuf {
        fd,
        offset: 16,
        // SAFETY: the page is longer.
        start: unsafe { start.add(16) },
        len: LEN - 16,
    };
    let released = Arc::new(AtomicBool::new(false));
    let told = released.clone();
    let address = start.as_ptr().expose_provenance();
    let release = move || {
        assert!(!told.swap(true, Ordering::Release));
        // SAFETY: the page is the mapping's, and is not used any more.
        unsafe { libc::munmap(core::ptr::with_exposed_provenance_mut(address), LEN) };
    };
    // SAFETY: the part is mapped at that address, and nothing else uses it.
    match unsafe { Region::from_dmabuf(&here.domain, memory, Access::READ_WRITE, release) } {
        Ok(region) => {
            assert_ne!(info.backend(), Backend::builtin());
            drop(region);
        }
        Err(error) => assert_eq!(error.errno(), Errno::OPNOTSUPP, "{error}"),
    }
    assert!(released.load(Ordering::Acquire));
}

worlds! {
    operations_take_pointers
    an_endpoint_closed_elsewhere_frees_its_buffers_where_the_queue_is_read
    memory_of_peers_goes_to_pointers
    a_region_lies_over_memory_of_others
    a_dma_buf_is_registered_or_refused_and_released_once
}
