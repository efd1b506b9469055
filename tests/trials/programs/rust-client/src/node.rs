//! One reliable datagram endpoint with all that belongs to it.

use crate::check;
use ofi_libfabric_sys::bindgen::*;
use std::ffi::{CStr, CString, c_void};
use std::mem::zeroed;
use std::ptr;
use std::time::{Duration, Instant};

/// Longest address that a provider here has.
const ADDRESS_MAX: usize = 512;

/// How long a peer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Node {
    pub domain: *mut fid_domain,
    pub av: *mut fid_av,
    pub ep: *mut fid_ep,
    pub accesses: *mut fid_cntr,
    pub mr_mode: u32,
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    cq: *mut fid_cq,
}

impl Node {
    pub fn open(provider: &str) -> Self {
        // SAFETY: each call gets objects that the calls before it have opened, and structures that outlive it.
        unsafe {
            let info = offer(provider);
            let mut node: Self = zeroed();
            node.info = info;
            node.mr_mode = (*(*info).domain_attr).mr_mode as u32;
            check(
                "fi_fabric",
                fi_fabric((*info).fabric_attr, &mut node.fabric, ptr::null_mut()),
            );
            check(
                "fi_domain",
                fi_domain(node.fabric, info, &mut node.domain, ptr::null_mut()),
            );
            let mut attr: fi_av_attr = zeroed();
            attr.type_ = fi_av_type_FI_AV_MAP;
            check(
                "fi_av_open",
                fi_av_open(node.domain, &mut attr, &mut node.av, ptr::null_mut()),
            );
            let mut attr: fi_cq_attr = zeroed();
            attr.format = fi_cq_format_FI_CQ_FORMAT_TAGGED;
            check(
                "fi_cq_open",
                fi_cq_open(node.domain, &mut attr, &mut node.cq, ptr::null_mut()),
            );
            let mut attr: fi_cntr_attr = zeroed();
            attr.events = fi_cntr_events_FI_CNTR_EVENTS_COMP;
            check(
                "fi_cntr_open",
                fi_cntr_open(node.domain, &mut attr, &mut node.accesses, ptr::null_mut()),
            );
            check(
                "fi_endpoint",
                fi_endpoint(node.domain, info, &mut node.ep, ptr::null_mut()),
            );
            let queues = u64::from(FI_TRANSMIT | FI_RECV);
            check(
                "fi_ep_bind",
                fi_ep_bind(node.ep, &mut (*node.cq).fid, queues),
            );
            check("fi_ep_bind", fi_ep_bind(node.ep, &mut (*node.av).fid, 0));
            let remote = u64::from(FI_READ | FI_WRITE);
            check(
                "fi_ep_bind",
                fi_ep_bind(node.ep, &mut (*node.accesses).fid, remote),
            );
            check("fi_enable", fi_enable(node.ep));
            node
        }
    }

    /// The address that peers insert.
    pub fn name(&self) -> Vec<u8> {
        let mut name = vec![0; ADDRESS_MAX];
        let mut length = name.len();
        // SAFETY: the endpoint is open, and the buffer has that length.
        let result =
            unsafe { fi_getname(&mut (*self.ep).fid, name.as_mut_ptr().cast(), &mut length) };
        check("fi_getname", result);
        name.truncate(length);
        name
    }

    pub fn insert(&self, name: &[u8]) -> fi_addr_t {
        let mut address = 0;
        // SAFETY: the vector is open, and the buffer holds a whole address.
        let count = unsafe {
            fi_av_insert(
                self.av,
                name.as_ptr().cast(),
                1,
                &mut address,
                0,
                ptr::null_mut(),
            )
        };
        assert_eq!(count, 1, "fi_av_insert");
        address
    }

    /// Sends a message and waits until its buffer is free.
    pub fn send(&self, to: fi_addr_t, tag: u64, data: &[u8]) {
        // SAFETY: the buffer is borrowed until the completion.
        self.start("fi_tsend", |context| unsafe {
            fi_tsend(
                self.ep,
                data.as_ptr().cast(),
                data.len(),
                ptr::null_mut(),
                to,
                tag,
                context,
            )
        });
    }

    /// Receives a message of exactly that length.
    pub fn receive(&self, from: fi_addr_t, tag: u64, length: usize) -> Vec<u8> {
        let mut data = vec![0; length + 1];
        // SAFETY: the buffer lives until the completion.
        let entry = self.start("fi_trecv", |context| unsafe {
            fi_trecv(
                self.ep,
                data.as_mut_ptr().cast(),
                data.len(),
                ptr::null_mut(),
                from,
                tag,
                0,
                context,
            )
        });
        assert_eq!(
            (entry.len, entry.tag),
            (length, tag),
            "length and tag of a message"
        );
        data.truncate(length);
        data
    }

    /// Starts an operation, again and again while the queues are full, and waits for its completion.
    pub fn start(&self, name: &str, mut post: impl FnMut(*mut c_void) -> isize) -> fi_cq_tagged_entry {
        let deadline = Instant::now() + TIMEOUT;
        // SAFETY: a context is room for the provider.
        let mut context: fi_context2 = unsafe { zeroed() };
        let context: *mut c_void = (&raw mut context).cast();
        loop {
            match post(context) {
                0 => break,
                again if again == -(FI_EAGAIN as isize) => {
                    assert!(self.poll().is_none(), "a stray completion")
                }
                error => check(name, error as i32),
            }
            assert!(Instant::now() < deadline, "{name} cannot start");
        }
        loop {
            if let Some(entry) = self.poll() {
                assert_eq!(entry.op_context, context, "context of {name}");
                return entry;
            }
            assert!(Instant::now() < deadline, "{name} does not complete");
        }
    }

    /// Takes a completion if there is one; one in error ends the program.
    fn poll(&self) -> Option<fi_cq_tagged_entry> {
        // SAFETY: the queue is open, and was opened for entries of this format.
        unsafe {
            let mut entry: fi_cq_tagged_entry = zeroed();
            let count = fi_cq_read(self.cq, (&raw mut entry).cast(), 1);
            if count == -(FI_EAVAIL as isize) {
                let mut error: fi_cq_err_entry = zeroed();
                assert_eq!(fi_cq_readerr(self.cq, &mut error, 0), 1, "fi_cq_readerr");
                check("completion", -error.err);
            }
            if count == -(FI_EAGAIN as isize) {
                std::thread::yield_now();
                return None;
            }
            assert_eq!(count, 1, "fi_cq_read");
            Some(entry)
        }
    }

    pub fn close(self) {
        // SAFETY: all are open, and none is used after this; each goes before what it was opened from.
        unsafe {
            check("fi_close", fi_close(&mut (*self.ep).fid));
            check("fi_close", fi_close(&mut (*self.accesses).fid));
            check("fi_close", fi_close(&mut (*self.cq).fid));
            check("fi_close", fi_close(&mut (*self.av).fid));
            check("fi_close", fi_close(&mut (*self.domain).fid));
            check("fi_close", fi_close(&mut (*self.fabric).fid));
            fi_freeinfo(self.info);
        }
    }
}

/// The first offer of the provider.
fn offer(provider: &str) -> *mut fi_info {
    let name = CString::new(provider).expect("the name of a provider has no zero byte");
    // SAFETY: the hints come from the library, which releases them with the copied name in them.
    unsafe {
        let hints = fi_allocinfo();
        (*hints).caps = u64::from(FI_TAGGED | FI_RMA);
        (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*hints).ep_attr).type_ = fi_ep_type_FI_EP_RDM;
        let mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        (*(*hints).domain_attr).mr_mode = mr_mode as i32;
        (*(*hints).fabric_attr).prov_name = strdup(&name);
        let mut info = ptr::null_mut();
        let result = fi_getinfo(fi_version(), ptr::null(), ptr::null(), 0, hints, &mut info);
        check("fi_getinfo", result);
        fi_freeinfo(hints);
        let offered = CStr::from_ptr((*(*info).fabric_attr).prov_name);
        assert_eq!(offered, name.as_c_str(), "the provider of the offer");
        info
    }
}

/// Copies a string into memory of C's allocator, from which the library releases it.
fn strdup(text: &CStr) -> *mut std::ffi::c_char {
    unsafe extern "C" {
        fn strdup(text: *const std::ffi::c_char) -> *mut std::ffi::c_char;
    }
    // SAFETY: the string ends with a zero byte.
    unsafe { strdup(text.as_ptr()) }
}
