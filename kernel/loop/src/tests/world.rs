//! What the tests open.

use core::ffi::c_void;
use core::ptr;
use std::sync::Once;
use std::vec;
use std::vec::Vec;

use core::cell::UnsafeCell;

use oxifabric_abi::{
    FI_ADDR_UNSPEC, FI_CQ_FORMAT_TAGGED, FI_RECV, FI_SEND, FI_WAIT_UNSPEC, fi_av_insert,
    fi_av_open, fi_close, fi_cq_attr, fi_cq_err_entry, fi_cq_open, fi_cq_read, fi_cq_readerr,
    fi_cq_sread, fi_cq_tagged_entry, fi_domain, fi_enable, fi_endpoint, fi_ep_bind, fi_getname,
    fi_info, fi_recv, fi_send, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric,
};
use oxifabric_kernel_objects::{freeinfo, getinfo, open_fabric};

use crate::Loop;

/// Bytes that endpoints read and write while the test looks on.
pub(super) struct Buffer(UnsafeCell<Vec<u8>>);

// SAFETY: the tests look at the bytes after the operation has ended.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(super) fn filled(len: usize, byte: u8) -> Self {
        Self(UnsafeCell::new(vec![byte; len]))
    }

    pub(super) fn as_ptr(&self) -> *const c_void {
        self.as_mut_ptr().cast_const()
    }

    pub(super) fn as_mut_ptr(&self) -> *mut c_void {
        // SAFETY: no reference to the vector is kept.
        unsafe { (*self.0.get()).as_mut_ptr().cast() }
    }

    pub(super) fn len(&self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.0.get()).len() }
    }

    pub(super) fn is_filled(&self, byte: u8) -> bool {
        // SAFETY: the operation has ended.
        unsafe { (*self.0.get()).iter().all(|&found| found == byte) }
    }
}

/// A domain with an address vector.
pub(super) struct World {
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    pub(super) domain: *mut fid_domain,
    av: *mut fid_av,
    queue_size: usize,
}

// SAFETY: the calls may be made from any thread.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    pub(super) fn new(queue_size: usize) -> Self {
        static INIT: Once = Once::new();
        INIT.call_once(|| assert!(crate::init(), "there is memory"));
        let null = ptr::null_mut();
        let mut world = Self {
            info: ptr::null_mut(),
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
            av: ptr::null_mut(),
            queue_size,
        };
        // SAFETY: what is opened first stays open; the first offer is the one of FI_EP_RDM.
        unsafe {
            let status = getinfo::<Loop>(ptr::null(), 0, 0, ptr::null(), &raw mut world.info);
            assert_eq!(status, 0);
            // What kofi makes of an offer: no flags that were not asked for.
            (
                (*(*world.info).tx_attr).op_flags,
                (*(*world.info).rx_attr).op_flags,
            ) = (0, 0);
            let attr = (*world.info).fabric_attr;
            assert_eq!(open_fabric::<Loop>(attr, &raw mut world.fabric, null), 0);
            let (fabric, info) = (world.fabric, world.info);
            assert_eq!(fi_domain(fabric, info, &raw mut world.domain, null), 0);
            let status = fi_av_open(world.domain, ptr::null_mut(), &raw mut world.av, null);
            assert_eq!(status, 0);
        }
        world
    }

    /// Inserts the address of an endpoint, and returns its number.
    pub(super) fn number_of(&self, endpoint: &Endpoint) -> u64 {
        let (mut name, mut len, mut number) = ([0u8; 64], 64, 0);
        // SAFETY: both are open, and the places have the lengths that are said.
        unsafe {
            let status = fi_getname(endpoint.ep.cast(), name.as_mut_ptr().cast(), &mut len);
            assert_eq!(status, 0);
            let (at, null) = (name.as_ptr().cast(), ptr::null_mut());
            assert_eq!(fi_av_insert(self.av, at, 1, &mut number, 0, null), 1);
        }
        number
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: all are open, and nothing is in them.
        unsafe {
            assert_eq!(fi_close(self.av.cast()), 0);
            assert_eq!(fi_close(self.domain.cast()), 0);
            assert_eq!(fi_close(self.fabric.cast()), 0);
            freeinfo(self.info);
        }
    }
}

/// An endpoint with a queue.
pub(super) struct Endpoint {
    pub(super) ep: *mut fid_ep,
    cq: *mut fid_cq,
}

// SAFETY: the calls may be made from any thread.
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

impl Endpoint {
    pub(super) fn new(world: &World) -> Self {
        let (mut ep, mut cq, null) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut attr = fi_cq_attr {
            size: world.queue_size,
            format: FI_CQ_FORMAT_TAGGED,
            wait_obj: FI_WAIT_UNSPEC,
            ..fi_cq_attr::ZERO
        };
        // SAFETY: the domain is open, and stays so.
        unsafe {
            assert_eq!(fi_cq_open(world.domain, &mut attr, &mut cq, null), 0);
            assert_eq!(fi_endpoint(world.domain, world.info, &mut ep, null), 0);
            assert_eq!(fi_ep_bind(ep, cq.cast(), FI_SEND | FI_RECV), 0);
            assert_eq!(fi_ep_bind(ep, world.av.cast(), 0), 0);
            assert_eq!(fi_enable(ep), 0);
        }
        Self { ep, cq }
    }

    pub(super) fn send(&self, from: &Buffer, to: u64, context: usize) {
        let null = ptr::null_mut();
        // SAFETY: the endpoint is open; the tests keep the buffer until the operation has ended.
        let status = unsafe {
            fi_send(
                self.ep,
                from.as_ptr(),
                from.len(),
                null,
                to,
                context as *mut c_void,
            )
        };
        assert_eq!(status, 0);
    }

    pub(super) fn receive(&self, into: &Buffer, context: usize) {
        assert_eq!(self.try_receive(into, context), 0);
    }

    pub(super) fn receive_if_there_is_room(&self, into: &Buffer) {
        let status = self.try_receive(into, 0);
        assert!(status == 0 || status == -11, "{status}");
    }

    fn try_receive(&self, into: &Buffer, context: usize) -> isize {
        let (null, any) = (ptr::null_mut(), FI_ADDR_UNSPEC);
        let context = context as *mut c_void;
        // SAFETY: as above.
        unsafe { fi_recv(self.ep, into.as_mut_ptr(), into.len(), null, any, context) }
    }

    /// Waits that long for a completion.
    pub(super) fn try_read(&self, timeout_ms: i32) -> Option<fi_cq_tagged_entry> {
        let mut entry = fi_cq_tagged_entry::ZERO;
        let at = (&raw mut entry).cast();
        // SAFETY: the queue is open, and there is room for an entry.
        let read = unsafe { fi_cq_sread(self.cq, at, 1, ptr::null(), timeout_ms) };
        (read == 1).then_some(entry)
    }

    /// Reads all that is there, errors too, and returns how many there were.
    pub(super) fn drain(&self) -> usize {
        let (mut entry, mut error) = (fi_cq_tagged_entry::ZERO, fi_cq_err_entry::ZERO);
        let mut count = 0;
        loop {
            // SAFETY: the queue is open, and there is room for an entry of each kind.
            let read = unsafe {
                fi_cq_read(self.cq, (&raw mut entry).cast(), 1) == 1
                    || fi_cq_readerr(self.cq, &mut error, 0) == 1
            };
            match read {
                true => count += 1,
                false => return count,
            }
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: both are open.
        unsafe {
            assert_eq!(fi_close(self.ep.cast()), 0);
            assert_eq!(fi_close(self.cq.cast()), 0);
        }
    }
}

/// Waits for a completion, and returns its context and length.
pub(super) fn done(of: &Endpoint) -> (usize, usize) {
    let entry = of.try_read(10_000).expect("a completion");
    (entry.op_context.addr(), entry.len)
}
