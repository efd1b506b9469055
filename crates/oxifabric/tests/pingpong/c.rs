//! The ping-pong through the C interface. The objects stay open until the process ends.

use core::ffi::c_void;
use core::ptr;
use std::ffi::CString;

use oxifabric_abi::{
    FI_CQ_FORMAT_TAGGED, FI_EAGAIN, FI_EP_RDM, FI_RECV, FI_TAGGED, FI_THREAD_SAFE, FI_TRANSMIT,
    FI_VERSION, fi_addr_t, fi_av_attr, fi_av_insert, fi_av_open, fi_cq_attr, fi_cq_open,
    fi_cq_read, fi_cq_tagged_entry, fi_domain, fi_domain_attr, fi_enable, fi_endpoint, fi_ep_attr,
    fi_ep_bind, fi_fabric_attr, fi_getname, fi_info, fi_rx_attr, fi_trecv, fi_tsend, fi_tx_attr,
    fid_av, fid_cq, fid_domain, fid_ep, fid_fabric,
};

use super::{Done, Side, TAG};

pub(crate) struct C {
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut fid_ep,
    cq: *mut fid_cq,
    av: *mut fid_av,
    peer: fi_addr_t,
    /// The message, and the receive buffer; boxed, so that they stay in place while the side moves.
    out: Box<[u8; 8]>,
    into: Box<[u8; 8]>,
}

/// Asserts that a call returned zero.
fn ok(ret: i32) {
    assert_eq!(ret, 0);
}

impl C {
    /// Returns the offer of a provider, with its fabric and its domain open.
    fn open_domain(provider: &str) -> (*mut fi_info, *mut fid_domain) {
        let functions = oxifabric_libfabric::builtin();
        let provider = CString::new(provider).unwrap();
        let (mut tx, mut rx) = (fi_tx_attr::ZERO, fi_rx_attr::ZERO);
        let mut ep_attr = fi_ep_attr {
            type_: FI_EP_RDM,
            ..fi_ep_attr::ZERO
        };
        let mut domain_attr = fi_domain_attr {
            threading: FI_THREAD_SAFE,
            ..fi_domain_attr::ZERO
        };
        let mut fabric_attr = fi_fabric_attr {
            prov_name: provider.as_ptr().cast_mut(),
            ..fi_fabric_attr::ZERO
        };
        let hints = fi_info {
            caps: FI_TAGGED,
            tx_attr: &mut tx,
            rx_attr: &mut rx,
            ep_attr: &mut ep_attr,
            domain_attr: &mut domain_attr,
            fabric_attr: &mut fabric_attr,
            ..fi_info::ZERO
        };
        let (none, null) = (ptr::null_mut(), ptr::null());
        let mut info: *mut fi_info = ptr::null_mut();
        let mut fabric: *mut fid_fabric = ptr::null_mut();
        let mut domain: *mut fid_domain = ptr::null_mut();
        let version = FI_VERSION(2, 6);
        // SAFETY: the calls of a C program in their order, with arguments that live as long as each needs them.
        unsafe {
            let getinfo = functions.getinfo;
            ok(getinfo(version, null, null, 0, &hints, &mut info));
            ok((functions.fabric)((*info).fabric_attr, &mut fabric, none));
            ok(fi_domain(fabric, info, &mut domain, none));
        }
        (info, domain)
    }

    /// Opens endpoint, queue and address vector.
    fn open_endpoint(&mut self) {
        let mut attr = fi_cq_attr {
            size: 64,
            format: FI_CQ_FORMAT_TAGGED,
            ..fi_cq_attr::ZERO
        };
        let mut av_attr = fi_av_attr::ZERO;
        let none = ptr::null_mut();
        // SAFETY: as for `open_domain`.
        unsafe {
            ok(fi_av_open(self.domain, &mut av_attr, &mut self.av, none));
            ok(fi_cq_open(self.domain, &mut attr, &mut self.cq, none));
            ok(fi_endpoint(self.domain, self.info, &mut self.ep, none));
            ok(fi_ep_bind(self.ep, self.av.cast(), 0));
            ok(fi_ep_bind(self.ep, self.cq.cast(), FI_TRANSMIT | FI_RECV));
            ok(fi_enable(self.ep));
        }
    }
}

impl Side for C {
    fn open(provider: &str) -> Self {
        let (info, domain) = Self::open_domain(provider);
        let mut side = Self {
            domain,
            info,
            ep: ptr::null_mut(),
            cq: ptr::null_mut(),
            av: ptr::null_mut(),
            peer: 0,
            out: Box::new(*b"8 bytes!"),
            into: Box::default(),
        };
        side.open_endpoint();
        side
    }

    fn address(&self) -> Vec<u8> {
        let (mut name, mut len) = (vec![0; 1024], 1024);
        // SAFETY: the endpoint is open, and there is room for `len` bytes.
        ok(unsafe { fi_getname(self.ep.cast(), name.as_mut_ptr().cast(), &mut len) });
        name.truncate(len);
        name
    }

    fn set_peer(&mut self, address: &[u8]) {
        let (name, none) = (address.as_ptr().cast(), ptr::null_mut());
        // SAFETY: the vector is open, and the address is one that `address` gave.
        let inserted = unsafe { fi_av_insert(self.av, name, 1, &mut self.peer, 0, none) };
        assert_eq!(inserted, 1);
    }

    #[inline(always)]
    fn post_receive(&mut self) {
        let buffer = (&raw mut *self.into).cast::<c_void>();
        let none = ptr::null_mut();
        // SAFETY: the endpoint is open, and the buffer stays until the receive is complete.
        let ret = unsafe { fi_trecv(self.ep, buffer, 8, none, u64::MAX, TAG, 0, buffer) };
        assert_eq!(ret, 0);
    }

    #[inline(always)]
    fn send(&mut self, mark: u8) -> bool {
        self.out[0] = mark;
        let bytes = (&raw mut *self.out).cast::<c_void>();
        let none = ptr::null_mut();
        // SAFETY: the endpoint is open, and the message stays until the send is complete.
        let ret = unsafe { fi_tsend(self.ep, bytes, 8, none, self.peer, TAG, bytes) };
        assert!(ret == 0 || ret == -(FI_EAGAIN as isize));
        ret == 0
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Done> {
        let mut entry = fi_cq_tagged_entry::ZERO;
        // SAFETY: the queue is open, and there is room for one entry.
        let ret = unsafe { fi_cq_read(self.cq, (&raw mut entry).cast(), 1) };
        if ret != 1 {
            assert_eq!(ret, -(FI_EAGAIN as isize));
            return None;
        }
        if entry.flags & FI_RECV != 0 {
            assert_eq!(entry.op_context, (&raw mut *self.into).cast());
            Some(Done::Received)
        } else {
            assert_eq!(entry.op_context, (&raw mut *self.out).cast());
            Some(Done::Sent)
        }
    }

    #[inline(always)]
    fn received(&self) -> u8 {
        self.into[0]
    }
}
