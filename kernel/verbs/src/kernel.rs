//! The kernel's side: functions of `verbs_core.h`.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ptr::NonNull;

use oxifabric_kernel_sync::Work as Task;
use oxifabric_types::Errno;

use crate::parts::{DeviceFacts, Done, Ends, Piece, RawEvent, Work};

/// Most devices that are offered.
const MOST_DEVICES: usize = 16;

unsafe extern "C" {
    fn kv_devices(to: *mut DeviceFacts, space: usize) -> usize;
    fn kv_domain_open(name: *const u8, len: usize, status: *mut c_int) -> *mut c_void;
    fn kv_domain_close(domain: *mut c_void);
    fn kv_region_new(
        domain: *mut c_void,
        base: *mut u8,
        len: usize,
        is_read: bool,
        is_written: bool,
        key: *mut u32,
        status: *mut c_int,
    ) -> *mut c_void;
    fn kv_region_free(region: *mut c_void);
    fn kv_map(
        domain: *mut c_void,
        base: *mut u8,
        len: usize,
        is_written: bool,
        to: *mut Piece,
        space: u32,
    ) -> c_int;
    fn kv_unmap(domain: *mut c_void, is_written: bool, list: *const Piece, count: u32);
    fn kv_link_open(owner: *const c_void, status: *mut c_int) -> *mut c_void;
    fn kv_link_close(link: *mut c_void);
    fn kv_link_set_owner(link: *mut c_void, owner: *const c_void);
    fn kv_link_bind(link: *mut c_void, host: u32, port: u16) -> c_int;
    fn kv_link_listen(link: *mut c_void, backlog: c_int) -> c_int;
    fn kv_link_name(link: *mut c_void, host: *mut u32, port: *mut u16);
    fn kv_link_peer(link: *mut c_void, host: *mut u32, port: *mut u16);
    fn kv_link_resolve(link: *mut c_void, host: u32, port: u16) -> c_int;
    fn kv_link_route(link: *mut c_void) -> c_int;
    fn kv_link_connect(link: *mut c_void, data: *const u8, len: u8) -> c_int;
    fn kv_link_accept(link: *mut c_void, data: *const u8, len: u8) -> c_int;
    fn kv_link_reject(link: *mut c_void, data: *const u8, len: u8) -> c_int;
    fn kv_link_established(link: *mut c_void);
    fn kv_link_disconnect(link: *mut c_void);
    fn kv_link_arrival(link: *mut c_void, event: *mut RawEvent) -> *mut c_void;
    fn kv_link_event(link: *mut c_void, event: *mut RawEvent) -> bool;
    fn kv_queues_open(link: *mut c_void, domain: *mut c_void, depth: u32, pieces: u32) -> c_int;
    fn kv_queues_close(link: *mut c_void);
    fn kv_post(link: *mut c_void, work: *const Work) -> c_int;
    fn kv_post_receive(link: *mut c_void, id: u64, list: *const Piece, count: u32) -> c_int;
    fn kv_poll(link: *mut c_void, to: *mut Done, space: c_int) -> c_int;
    fn kv_arm(link: *mut c_void) -> bool;
    fn kv_warn(text: *const u8, len: usize);
}

fn check(status: c_int) -> Result<c_int, Errno> {
    match status {
        0.. => Ok(status),
        _ => Err(Errno::from_raw(status.saturating_neg())),
    }
}

/// An object of the kernel, which has locks of its own.
#[derive(Debug)]
struct Handle(NonNull<c_void>);

// SAFETY: the kernel's functions take it from any thread.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`.
unsafe impl Sync for Handle {}

impl Handle {
    fn new(of: *mut c_void, status: c_int) -> Result<Self, Errno> {
        check(status)?;
        NonNull::new(of).map(Self).ok_or(Errno::NOMEM)
    }

    fn get(&self) -> *mut c_void {
        self.0.as_ptr()
    }
}

/// Returns the devices of the host that have an address.
pub(crate) fn devices() -> Vec<DeviceFacts> {
    let mut list = Vec::new();
    if list.try_reserve_exact(MOST_DEVICES).is_ok() {
        list.resize(MOST_DEVICES, DeviceFacts::NONE);
        // SAFETY: the list has that many places.
        let count = unsafe { kv_devices(list.as_mut_ptr(), list.len()) };
        list.truncate(count);
    }
    list
}

/// A protection domain.
#[derive(Debug)]
pub(crate) struct RawDomain(Handle);

impl RawDomain {
    pub(crate) fn open(name: &str) -> Result<Self, Errno> {
        let mut status = 0;
        // SAFETY: the name and the place are valid for the call.
        let domain = unsafe { kv_domain_open(name.as_ptr(), name.len(), &raw mut status) };
        Handle::new(domain, status).map(Self)
    }

    /// Maps memory for the device; returns how many pieces it has.
    ///
    /// # Safety
    /// The memory stays valid until it is unmapped.
    pub(crate) unsafe fn map(
        &self,
        base: *mut u8,
        len: usize,
        is_written: bool,
        to: &mut [Piece],
    ) -> Result<usize, Errno> {
        let space = to.len() as u32;
        // SAFETY: the list has that many places; the rest is the caller's contract.
        let count = unsafe { kv_map(self.0.get(), base, len, is_written, to.as_mut_ptr(), space) };
        check(count).map(|count| count as usize)
    }

    pub(crate) fn unmap(&self, is_written: bool, list: &[Piece]) {
        // SAFETY: the list is valid for the call.
        unsafe { kv_unmap(self.0.get(), is_written, list.as_ptr(), list.len() as u32) }
    }
}

impl Drop for RawDomain {
    fn drop(&mut self) {
        // SAFETY: nothing of it is open any more.
        unsafe { kv_domain_close(self.0.get()) }
    }
}

/// Memory that peers reach.
#[derive(Debug)]
pub(crate) struct RawRegion(Handle);

impl RawRegion {
    /// Registers memory for peers; returns it and its key.
    ///
    /// # Safety
    /// The memory stays valid until the region is dropped, which is before its domain is.
    pub(crate) unsafe fn new(
        domain: &RawDomain,
        base: *mut u8,
        len: usize,
        is_read: bool,
        is_written: bool,
    ) -> Result<(Self, u32), Errno> {
        let (mut key, mut status) = (0, 0);
        // SAFETY: the places are valid for the call; the rest is the caller's contract.
        let region = unsafe {
            kv_region_new(
                domain.0.get(),
                base,
                len,
                is_read,
                is_written,
                &raw mut key,
                &raw mut status,
            )
        };
        Ok((Self(Handle::new(region, status)?), key))
    }
}

impl Drop for RawRegion {
    fn drop(&mut self) {
        // SAFETY: it is open.
        unsafe { kv_region_free(self.0.get()) }
    }
}

/// A connection, what listens for some, or what will be one.
#[derive(Debug)]
pub(crate) struct RawLink(Handle);

impl RawLink {
    /// Makes a link, whose events queue the owner.
    ///
    /// # Safety
    /// The owner lives until the link is dropped, or has another owner.
    pub(crate) unsafe fn open(owner: *const Task) -> Result<Self, Errno> {
        let mut status = 0;
        // SAFETY: the caller's contract; the place is valid for the call.
        let link = unsafe { kv_link_open(owner.cast(), &raw mut status) };
        Handle::new(link, status).map(Self)
    }

    /// Gives the link another owner, which its events queue.
    ///
    /// # Safety
    /// As [`RawLink::open`].
    pub(crate) unsafe fn set_owner(&self, owner: *const Task) {
        // SAFETY: the link is open; the rest is the caller's contract.
        unsafe { kv_link_set_owner(self.0.get(), owner.cast()) }
    }

    pub(crate) fn bind(&self, at: SocketAddrV4) -> Result<(), Errno> {
        // SAFETY: the link is open.
        check(unsafe { kv_link_bind(self.0.get(), at.ip().to_bits(), at.port()) }).map(drop)
    }

    pub(crate) fn listen(&self, backlog: i32) -> Result<(), Errno> {
        // SAFETY: the link is open.
        check(unsafe { kv_link_listen(self.0.get(), backlog) }).map(drop)
    }

    pub(crate) fn ends(&self) -> Ends {
        let (mut host, mut port, mut peer_host, mut peer_port) = (0, 0, 0, 0);
        // SAFETY: the link is open, and the places are valid for the calls.
        unsafe {
            kv_link_name(self.0.get(), &raw mut host, &raw mut port);
            kv_link_peer(self.0.get(), &raw mut peer_host, &raw mut peer_port);
        }
        Ends {
            own: SocketAddrV4::new(Ipv4Addr::from_bits(host), port),
            peer: SocketAddrV4::new(Ipv4Addr::from_bits(peer_host), peer_port),
        }
    }

    pub(crate) fn resolve(&self, to: SocketAddrV4) -> Result<(), Errno> {
        // SAFETY: the link is open.
        check(unsafe { kv_link_resolve(self.0.get(), to.ip().to_bits(), to.port()) }).map(drop)
    }

    pub(crate) fn route(&self) -> Result<(), Errno> {
        // SAFETY: the link is open.
        check(unsafe { kv_link_route(self.0.get()) }).map(drop)
    }

    pub(crate) fn connect(&self, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: the link is open, and the data valid for the call.
        check(unsafe { kv_link_connect(self.0.get(), data.as_ptr(), data.len() as u8) }).map(drop)
    }

    pub(crate) fn accept(&self, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: the link is open, and the data valid for the call.
        check(unsafe { kv_link_accept(self.0.get(), data.as_ptr(), data.len() as u8) }).map(drop)
    }

    /// Tells the connection manager that a message has come over the connection.
    pub(crate) fn established(&self) {
        // SAFETY: the link is open.
        unsafe { kv_link_established(self.0.get()) };
    }

    pub(crate) fn reject(&self, data: &[u8]) {
        // SAFETY: the link is open, and the data valid for the call.
        unsafe { kv_link_reject(self.0.get(), data.as_ptr(), data.len() as u8) };
    }

    pub(crate) fn disconnect(&self) {
        // SAFETY: the link is open.
        unsafe { kv_link_disconnect(self.0.get()) }
    }

    pub(crate) fn arrival(&self, event: &mut RawEvent) -> Option<Self> {
        // SAFETY: the link is open, and the place valid for the call.
        let link = unsafe { kv_link_arrival(self.0.get(), event) };
        NonNull::new(link).map(|link| Self(Handle(link)))
    }

    pub(crate) fn event(&self, event: &mut RawEvent) -> bool {
        // SAFETY: the link is open, and the place valid for the call.
        unsafe { kv_link_event(self.0.get(), event) }
    }

    /// Makes the queues.
    ///
    /// # Safety
    /// The domain lives longer than the link.
    pub(crate) unsafe fn open_queues(
        &self,
        domain: &RawDomain,
        depth: u32,
        pieces: u32,
    ) -> Result<(), Errno> {
        // SAFETY: both are open; the rest is the caller's contract.
        check(unsafe { kv_queues_open(self.0.get(), domain.0.get(), depth, pieces) }).map(drop)
    }

    pub(crate) fn close_queues(&self) {
        // SAFETY: the link is open.
        unsafe { kv_queues_close(self.0.get()) }
    }

    /// Only while there are queues.
    ///
    /// # Safety
    /// The pieces are of memory that is mapped until the work has ended.
    pub(crate) unsafe fn post(&self, id: u64, list: &[Piece], work: Work) -> Result<(), Errno> {
        let work = Work {
            id,
            list: list.as_ptr(),
            count: list.len() as u32,
            ..work
        };
        // SAFETY: the link is open; the rest is the caller's contract.
        check(unsafe { kv_post(self.0.get(), &raw const work) }).map(drop)
    }

    /// Gives a receive to the device.
    ///
    /// # Safety
    /// As [`RawLink::post`].
    pub(crate) unsafe fn post_receive(&self, id: u64, list: &[Piece]) -> Result<(), Errno> {
        let count = list.len() as u32;
        // SAFETY: the link is open; the rest is the caller's contract.
        check(unsafe { kv_post_receive(self.0.get(), id, list.as_ptr(), count) }).map(drop)
    }

    /// Only while there are queues.
    pub(crate) fn poll(&self, to: &mut [Done]) -> usize {
        // SAFETY: the link is open, and the list has that many places.
        let count = unsafe { kv_poll(self.0.get(), to.as_mut_ptr(), to.len() as c_int) };
        usize::try_from(count).unwrap_or(0).min(to.len())
    }

    /// Only while there are queues.
    pub(crate) fn arm(&self) -> bool {
        // SAFETY: the link is open.
        unsafe { kv_arm(self.0.get()) }
    }
}

impl Drop for RawLink {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        unsafe { kv_link_close(self.0.get()) }
    }
}

pub(crate) fn warn(text: &str) {
    // SAFETY: the text is valid for the call.
    unsafe { kv_warn(text.as_ptr(), text.len()) }
}
