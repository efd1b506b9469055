//! What the tests open.

use core::ffi::c_void;
use core::ptr;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use oxifabric_abi::{
    FI_CONNECTED, FI_CONNREQ, FI_CQ_FORMAT_TAGGED, FI_RECV, FI_REMOTE_READ, FI_REMOTE_WRITE,
    FI_SEND, FI_WAIT_UNSPEC, fi_accept, fi_close, fi_cntr_open, fi_cntr_read, fi_connect,
    fi_cq_attr, fi_cq_err_entry, fi_cq_open, fi_cq_readerr, fi_cq_sread, fi_cq_tagged_entry,
    fi_domain, fi_enable, fi_endpoint, fi_ep_bind, fi_eq_attr, fi_eq_cm_entry, fi_eq_open,
    fi_eq_sread, fi_fabric_attr, fi_getname, fi_info, fi_inject, fi_listen, fi_mr_key, fi_mr_reg,
    fi_passive_ep, fi_pep_bind, fi_read, fi_recv, fi_send, fi_write, fi_writedata, fid_cntr,
    fid_cq, fid_domain, fid_ep, fid_eq, fid_fabric, fid_mr, fid_pep,
};
use oxifabric_kernel_objects::{freeinfo, getinfo, open_fabric};

use crate::Verbs;

/// Milliseconds after which something that has to happen is taken not to.
const LONG: i32 = 20_000;

/// A domain of the first device.
pub(super) struct World {
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
}

// SAFETY: the calls may be made from any thread.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    pub(super) fn new() -> Self {
        static INIT: Once = Once::new();
        INIT.call_once(|| assert!(oxifabric_kernel_objects::init(), "there is memory"));
        let null = ptr::null_mut();
        let mut world = Self {
            info: ptr::null_mut(),
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
        };
        // SAFETY: what is opened first stays open; the first offer is that of the first device with access to memory.
        unsafe {
            let status = getinfo::<Verbs>(ptr::null(), 0, 0, ptr::null(), &raw mut world.info);
            assert_eq!(status, 0);
            // What kofi makes of an offer: no flags that were not asked for.
            (
                (*(*world.info).tx_attr).op_flags,
                (*(*world.info).rx_attr).op_flags,
            ) = (0, 0);
            let attr: *mut fi_fabric_attr = (*world.info).fabric_attr;
            assert_eq!(open_fabric::<Verbs>(attr, &raw mut world.fabric, null), 0);
            let (fabric, info) = (world.fabric, world.info);
            assert_eq!(fi_domain(fabric, info, &raw mut world.domain, null), 0);
        }
        world
    }

    /// Returns how many sends an endpoint may have outstanding.
    pub(super) fn tx_size(&self) -> usize {
        // SAFETY: the entry is ours, with all of its attributes.
        unsafe { (*(*self.info).tx_attr).size }
    }

    /// Lets peers read and write memory.
    pub(super) fn register(&self, memory: &mut [u8]) -> Region {
        let (mut mr, null) = (ptr::null_mut(), ptr::null_mut());
        let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
        let (at, len) = (memory.as_ptr().cast(), memory.len());
        // SAFETY: the tests keep the memory longer than the region.
        let status = unsafe { fi_mr_reg(self.domain, at, len, access, 0, 0, 0, &raw mut mr, null) };
        assert_eq!(status, 0);
        Region(mr)
    }

    fn event_queue(&self) -> *mut fid_eq {
        let (mut eq, null) = (ptr::null_mut(), ptr::null_mut());
        let mut attr = fi_eq_attr {
            wait_obj: FI_WAIT_UNSPEC,
            ..fi_eq_attr::ZERO
        };
        // SAFETY: the fabric is open.
        let status = unsafe { fi_eq_open(self.fabric, &mut attr, &raw mut eq, null) };
        assert_eq!(status, 0);
        eq
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: all are open, and nothing is in them.
        unsafe {
            assert_eq!(fi_close(self.domain.cast()), 0);
            assert_eq!(fi_close(self.fabric.cast()), 0);
            freeinfo(self.info);
        }
    }
}

/// Memory that peers reach.
pub(super) struct Region(*mut fid_mr);

impl Region {
    pub(super) fn key(&self) -> u64 {
        // SAFETY: it is open.
        unsafe { fi_mr_key(self.0) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it is open.
        unsafe { assert_eq!(fi_close(self.0.cast()), 0) }
    }
}

/// Reads the next event: its number and what it is about; `None` for an error.
fn next_event(eq: *mut fid_eq, timeout: i32) -> Option<(u32, fi_eq_cm_entry)> {
    #[repr(C)]
    struct Place(fi_eq_cm_entry, [u8; 64]);
    // SAFETY: zeros are an entry without pointers.
    let mut place: Place = unsafe { core::mem::zeroed() };
    let mut kind = u32::MAX;
    let (at, size) = ((&raw mut place).cast(), size_of::<Place>());
    // SAFETY: the queue is open, and there is room for an entry with data.
    let read = unsafe { fi_eq_sread(eq, &mut kind, at, size, timeout, 0) };
    (read > 0).then_some((kind, place.0))
}

/// A passive endpoint.
pub(super) struct Server<'a> {
    world: &'a World,
    pep: *mut fid_pep,
    eq: *mut fid_eq,
    name: [u8; 16],
}

// SAFETY: the calls may be made from any thread.
unsafe impl Sync for Server<'_> {}

impl<'a> Server<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        let (mut pep, eq) = (ptr::null_mut(), world.event_queue());
        let (mut name, mut len, null) = ([0; 16], 16, ptr::null_mut());
        // SAFETY: what is opened first stays open.
        unsafe {
            let status = fi_passive_ep(world.fabric, world.info, &raw mut pep, null);
            assert_eq!(status, 0);
            assert_eq!(fi_pep_bind(pep, eq.cast(), 0), 0);
            assert_eq!(fi_listen(pep), 0);
            let status = fi_getname(pep.cast(), name.as_mut_ptr().cast(), &mut len);
            assert_eq!((status, len), (0, 16));
        }
        Self {
            world,
            pep,
            eq,
            name,
        }
    }

    /// Opens an endpoint that asks for a connection.
    pub(super) fn ask(&self, data: &[u8]) -> Endpoint {
        let endpoint = Endpoint::new(self.world, self.world.info);
        let (name, data, len) = (self.name.as_ptr().cast(), data.as_ptr().cast(), data.len());
        // SAFETY: the endpoint is open, and the data valid for the call.
        let status = unsafe { fi_connect(endpoint.ep, name, data, len) };
        assert_eq!(status, 0);
        endpoint
    }

    /// Accepts the next request, if one comes in that time and its endpoint is not gone.
    pub(super) fn accept(&self, timeout: i32) -> Option<Endpoint> {
        let (kind, entry) = next_event(self.eq, timeout)?;
        assert_eq!(kind, FI_CONNREQ);
        let endpoint = Endpoint::new(self.world, entry.info);
        // SAFETY: the endpoint is open; the entry is ours.
        let status = unsafe {
            freeinfo(entry.info);
            fi_accept(endpoint.ep, ptr::null(), 0)
        };
        (status == 0).then_some(endpoint)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // SAFETY: both are open.
        unsafe {
            assert_eq!(fi_close(self.pep.cast()), 0);
            assert_eq!(fi_close(self.eq.cast()), 0);
        }
    }
}

/// Two endpoints with a connection.
pub(super) struct Pair {
    pub(super) left: Endpoint,
    pub(super) right: Endpoint,
}

impl Pair {
    pub(super) fn new(world: &World, data: &[u8]) -> Self {
        let pair = Self::answered(world, data);
        assert_eq!(pair.right.event(), Some(FI_CONNECTED));
        pair
    }

    /// Returns a pair of which the right side, which was asked, may not know yet that the connection stands; with "deaf" it is never told.
    pub(super) fn answered(world: &World, data: &[u8]) -> Self {
        let server = Server::new(world);
        let left = server.ask(data);
        let right = server.accept(LONG).expect("a request");
        assert_eq!(left.event(), Some(FI_CONNECTED));
        Self { left, right }
    }
}

/// An endpoint with its queues.
pub(super) struct Endpoint {
    ep: *mut fid_ep,
    cq: *mut fid_cq,
    eq: *mut fid_eq,
    /// Counts its sends.
    sent: *mut fid_cntr,
}

// SAFETY: the calls may be made from any thread.
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

impl Endpoint {
    fn new(world: &World, info: *mut fi_info) -> Self {
        let (mut ep, mut cq, null) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let (eq, mut sent) = (world.event_queue(), ptr::null_mut());
        let mut attr = fi_cq_attr {
            format: FI_CQ_FORMAT_TAGGED,
            wait_obj: FI_WAIT_UNSPEC,
            ..fi_cq_attr::ZERO
        };
        // SAFETY: the domain is open, and stays so.
        unsafe {
            assert_eq!(fi_cq_open(world.domain, &mut attr, &mut cq, null), 0);
            assert_eq!(fi_endpoint(world.domain, info, &mut ep, null), 0);
            assert_eq!(fi_ep_bind(ep, cq.cast(), FI_SEND | FI_RECV), 0);
            assert_eq!(fi_ep_bind(ep, eq.cast(), 0), 0);
            let status = fi_cntr_open(world.domain, null.cast(), &raw mut sent, null);
            assert_eq!(status, 0);
            assert_eq!(fi_ep_bind(ep, sent.cast(), FI_SEND), 0);
            assert_eq!(fi_enable(ep), 0);
        }
        Self { ep, cq, eq, sent }
    }

    /// Sends a copy of the bytes, which is never released.
    pub(super) fn send(&self, bytes: &[u8], context: usize) {
        let (kept, null) = (bytes.to_vec().leak(), ptr::null_mut());
        let (kept, context) = (kept.as_ptr().cast(), context as *mut c_void);
        // SAFETY: the endpoint is open, and the memory is never released.
        let status = unsafe { fi_send(self.ep, kept, bytes.len(), null, 0, context) };
        assert_eq!(status, 0);
    }

    /// Sends a copy of the bytes if the connection still stands and takes it; returns what the call returns.
    pub(super) fn inject(&self, bytes: &[u8]) -> isize {
        let (at, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the endpoint is open; the bytes are copied.
        unsafe { fi_inject(self.ep, at, len, 0) }
    }

    /// Sends a copy of the bytes as soon as the queue takes it: a place that a message has left is free when the endpoint's worker has run.
    pub(super) fn inject_when_there_is_room(&self, bytes: &[u8]) {
        let end = Instant::now() + Duration::from_millis(LONG as u64);
        while self.inject(bytes) != 0 {
            assert!(Instant::now() < end, "no place is given back");
            thread::yield_now();
        }
    }

    /// Returns how many of its sends have completed.
    pub(super) fn sent(&self) -> u64 {
        // SAFETY: the counter is open.
        unsafe { fi_cntr_read(self.sent) }
    }

    pub(super) fn receive(&self, into: &mut [u8], context: usize) {
        assert_eq!(self.post_receive(into, context), 0);
    }

    pub(super) fn try_receive(&self, into: &mut [u8]) {
        self.post_receive(into, 0);
    }

    fn post_receive(&self, into: &mut [u8], context: usize) -> isize {
        let (at, null) = (into.as_mut_ptr().cast(), ptr::null_mut());
        let context = context as *mut c_void;
        // SAFETY: the endpoint is open; the tests keep the memory until the receive has ended.
        unsafe { fi_recv(self.ep, at, into.len(), null, 0, context) }
    }

    pub(super) fn write(&self, bytes: &[u8], to: u64, key: u64) {
        let (kept, null) = (bytes.to_vec().leak(), ptr::null_mut());
        let (at, len) = (kept.as_ptr().cast(), kept.len());
        // SAFETY: as in `send`.
        let status = unsafe { fi_write(self.ep, at, len, null, 0, to, key, null) };
        assert_eq!(status, 0);
    }

    pub(super) fn write_with_data(&self, bytes: &[u8], to: u64, key: u64, data: u64) {
        let (kept, null) = (bytes.to_vec().leak(), ptr::null_mut());
        let (at, len) = (kept.as_ptr().cast(), kept.len());
        // SAFETY: as in `send`.
        let status = unsafe { fi_writedata(self.ep, at, len, null, data, 0, to, key, null) };
        assert_eq!(status, 0);
    }

    pub(super) fn read(&self, into: &mut [u8], from: u64, key: u64) {
        let (at, null) = (into.as_mut_ptr().cast(), ptr::null_mut());
        // SAFETY: as in `receive`.
        let status = unsafe { fi_read(self.ep, at, into.len(), null, 0, from, key, null) };
        assert_eq!(status, 0);
    }

    /// Waits for a completion.
    pub(super) fn entry(&self) -> fi_cq_tagged_entry {
        let mut entry = fi_cq_tagged_entry::ZERO;
        let at = (&raw mut entry).cast();
        // SAFETY: the queue is open, and there is room for an entry.
        let read = unsafe { fi_cq_sread(self.cq, at, 1, ptr::null(), LONG) };
        assert_eq!(read, 1);
        entry
    }

    /// Waits for a completion, and returns its context and length.
    pub(super) fn done(&self) -> (usize, usize) {
        let entry = self.entry();
        (entry.op_context.addr(), entry.len)
    }

    /// Waits for an operation that fails, and returns its error.
    pub(super) fn error(&self) -> i32 {
        let (mut entry, mut error) = (fi_cq_tagged_entry::ZERO, fi_cq_err_entry::ZERO);
        let at = (&raw mut entry).cast();
        // SAFETY: the queue is open, and there is room for an entry of each kind.
        unsafe {
            assert!(fi_cq_sread(self.cq, at, 1, ptr::null(), LONG) < 0);
            assert_eq!(fi_cq_readerr(self.cq, &mut error, 0), 1);
        }
        error.err
    }

    /// Reads all that is there, and returns how much it was.
    pub(super) fn drain(&self) -> usize {
        let mut count = 0;
        let (mut entry, mut error) = (fi_cq_tagged_entry::ZERO, fi_cq_err_entry::ZERO);
        let at = (&raw mut entry).cast();
        // SAFETY: as above.
        unsafe {
            while fi_cq_sread(self.cq, at, 1, ptr::null(), 0) == 1
                || fi_cq_readerr(self.cq, &mut error, 0) == 1
            {
                count += 1;
            }
        }
        count
    }

    /// Waits for an event, and returns its number; `None` for an error.
    pub(super) fn event(&self) -> Option<u32> {
        next_event(self.eq, LONG).map(|(kind, _)| kind)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: all are open.
        unsafe {
            assert_eq!(fi_close(self.ep.cast()), 0);
            assert_eq!(fi_close(self.cq.cast()), 0);
            assert_eq!(fi_close(self.eq.cast()), 0);
            assert_eq!(fi_close(self.sent.cast()), 0);
        }
    }
}
