//! Mirror of `rdma/providers/fi_peer.h`: objects that one provider owns and another, its peer, works for. Source: fi_peer(3).
//!
//! The owner has what the application sees and passes a context to the peer, which reports there. Providers outside of this
//! library are written with these structures; the library itself does not take part.

use crate::system::iovec;
use crate::*;
use core::ffi::{c_int, c_void};

ops_table! {
    /// What the owner of an address vector answers its peers. Source: fi_peer(3).
    fi_ops_av_owner {
        query(av: *mut fid_peer_av, attr: *mut fi_av_attr) -> c_int;
        ep_addr(av: *mut fid_peer_av, ep: *mut fid_ep) -> fi_addr_t;
    }
}

/// An address vector, for peers of its owner. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_peer_av {
    pub fid: fid,
    pub owner_ops: *mut fi_ops_av_owner,
}

/// Context of `fi_av_open` in a peer. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_av_context {
    pub size: usize,
    pub av: *mut fid_peer_av,
}

ops_table! {
    /// What the owner of a set of addresses answers its peers. Source: fi_peer(3).
    fi_ops_av_set_owner {
        members(av: *mut fid_peer_av_set, addr: *mut fi_addr_t, count: *mut usize) -> c_int;
    }
}

/// A set of addresses, for peers of its owner. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_peer_av_set {
    pub fid: fid,
    pub owner_ops: *mut fi_ops_av_set_owner,
}

/// Context of `fi_av_set` in a peer. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_av_set_context {
    pub size: usize,
    pub av_set: *mut fid_peer_av_set,
}

ops_table! {
    /// How a peer reports to the owner of a completion queue. Source: fi_peer(3).
    fi_ops_cq_owner {
        write(
            cq: *mut fid_peer_cq,
            context: *mut c_void,
            flags: u64,
            len: usize,
            buf: *mut c_void,
            data: u64,
            tag: u64,
            src: fi_addr_t,
        ) -> isize;
        writeerr(cq: *mut fid_peer_cq, err_entry: *const fi_cq_err_entry) -> isize;
    }
}

/// A completion queue, for peers of its owner. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_peer_cq {
    pub fid: fid,
    pub owner_ops: *mut fi_ops_cq_owner,
}

/// Context of `fi_cq_open` in a peer. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_cq_context {
    pub size: usize,
    pub cq: *mut fid_peer_cq,
}

ops_table! {
    /// How a peer reports to the owner of a counter. Source: fi_peer(3).
    fi_ops_cntr_owner {
        inc(cntr: *mut fid_peer_cntr);
        incerr(cntr: *mut fid_peer_cntr);
    }
}

/// A counter, for peers of its owner. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_peer_cntr {
    pub fid: fid,
    pub owner_ops: *mut fi_ops_cntr_owner,
}

/// Context of `fi_cntr_open` in a peer. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_cntr_context {
    pub size: usize,
    pub cntr: *mut fid_peer_cntr,
}

/// Context of `fi_domain2` in a peer. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_domain_context {
    pub size: usize,
    pub domain: *mut fid_domain,
}

/// Context of `fi_eq_open` in a peer. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_eq_context {
    pub size: usize,
    pub eq: *mut fid_eq,
}

/// A receive, or a message that waits for one, in a receive context that peers share. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_rx_entry {
    pub srx: *mut fid_peer_srx,
    pub addr: fi_addr_t,
    pub msg_size: usize,
    pub tag: u64,
    pub cq_data: u64,
    pub flags: u64,
    pub context: *mut c_void,
    pub count: usize,
    pub desc: *mut *mut c_void,
    pub peer_context: *mut c_void,
    pub owner_context: *mut c_void,
    pub iov: *mut iovec,
}

/// The message for which a peer asks the owner. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_match_attr {
    pub addr: fi_addr_t,
    pub msg_size: usize,
    pub tag: u64,
}

ops_table! {
    /// How a peer asks the owner of a receive context for receives. Source: fi_peer(3).
    fi_ops_srx_owner {
        get_msg(
            srx: *mut fid_peer_srx,
            attr: *mut fi_peer_match_attr,
            entry: *mut *mut fi_peer_rx_entry,
        ) -> c_int;
        get_tag(
            srx: *mut fid_peer_srx,
            attr: *mut fi_peer_match_attr,
            entry: *mut *mut fi_peer_rx_entry,
        ) -> c_int;
        queue_msg(entry: *mut fi_peer_rx_entry) -> c_int;
        queue_tag(entry: *mut fi_peer_rx_entry) -> c_int;
        foreach_unspec_addr(
            srx: *mut fid_peer_srx,
            get_addr: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> fi_addr_t>,
        );
        free_entry(entry: *mut fi_peer_rx_entry);
    }
}

ops_table! {
    /// How the owner of a receive context hands waiting messages back to the peer. Source: fi_peer(3).
    fi_ops_srx_peer {
        start_msg(entry: *mut fi_peer_rx_entry) -> c_int;
        start_tag(entry: *mut fi_peer_rx_entry) -> c_int;
        discard_msg(entry: *mut fi_peer_rx_entry) -> c_int;
        discard_tag(entry: *mut fi_peer_rx_entry) -> c_int;
    }
}

/// A shared receive context, for peers of its owner. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fid_peer_srx {
    pub ep_fid: fid_ep,
    pub owner_ops: *mut fi_ops_srx_owner,
    pub peer_ops: *mut fi_ops_srx_peer,
}

/// Context of `fi_srx_context` in a peer. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_srx_context {
    pub size: usize,
    pub srx: *mut fid_peer_srx,
}

ops_table! {
    /// How transfers end that one provider has started for another. Source: fi_peer(3).
    fi_ops_transfer_peer {
        complete(ep: *mut fid_ep, buf: *mut fi_cq_tagged_entry, src_addr: fi_addr_t) -> isize;
        comperr(ep: *mut fid_ep, buf: *mut fi_cq_err_entry) -> isize;
    }
}

/// Context of `fi_endpoint2` in a provider whose transfers go through a peer. Source: fi_peer(3).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_peer_transfer_context {
    pub size: usize,
    pub info: *mut fi_info,
    pub ep: *mut fid_ep,
    pub peer_ops: *mut fi_ops_transfer_peer,
}
