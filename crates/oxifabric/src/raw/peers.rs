//! Address vectors. Source: fi_av(3).

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, fi_addr_t, fi_av_attr, fi_av_insert, fi_av_insertsvc, fi_av_lookup,
    fi_av_open, fi_av_remove, fid, fid_av,
};
use oxifabric_types::Errno;

use super::handle::Handle;
use super::{Buffer, DomainObject, check, errno};

/// A peer in an address vector, valid while that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    addr: fi_addr_t,
    vector: u32,
}

impl Peer {
    /// Makes the peer with this `fi_addr_t` in that vector; `None` if it is unspecified.
    #[inline]
    pub(super) fn new(addr: fi_addr_t, vector: u32) -> Option<Self> {
        (addr != FI_ADDR_NOTAVAIL).then_some(Self { addr, vector })
    }

    /// Returns the peer's `fi_addr_t`, if the peer is in that vector.
    #[inline]
    pub(super) fn of_vector(self, vector: u32) -> Option<fi_addr_t> {
        (self.vector == vector).then_some(self.addr)
    }
}

/// An open address vector.
pub(crate) struct Peers {
    handle: Handle<fid_av>,
    /// Distinguishes the peers of this vector from those of any other in the process.
    number: u32,
    domain: Arc<DomainObject>,
}

/// Size that suffices for an address of any format.
pub(super) const NAME_LEN: usize = 1024;

static NUMBERS: AtomicU32 = AtomicU32::new(0);

impl Peers {
    pub(crate) fn open(domain: Arc<DomainObject>) -> Result<Self, Errno> {
        let mut attr = fi_av_attr {
            type_: domain.info().av_type(),
            ..fi_av_attr::ZERO
        };
        let parent = domain.as_ptr();
        // SAFETY: the domain is open, and the attributes outlive the call.
        let handle =
            unsafe { Handle::open(|av| fi_av_open(parent, &mut attr, av, ptr::null_mut())) }?;
        Ok(Self {
            handle,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            domain,
        })
    }

    pub(crate) fn domain(&self) -> &Arc<DomainObject> {
        &self.domain
    }

    pub(super) fn fid(&self) -> *mut fid {
        self.handle.fid()
    }

    /// Returns the number of the vector, unique in the process.
    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Inserts an address, which must be complete in the domain's format.
    pub(crate) fn insert(&self, address: &[u8]) -> Result<Peer, Errno> {
        // A zero-padded copy, so that a provider that reads more than the caller gave stays within it.
        let name = Name::holding(address).ok_or(Errno::INVAL)?;
        let (av, mut peer) = (self.handle.as_ptr(), FI_ADDR_NOTAVAIL);
        let name = name.0.as_ptr().cast();
        // SAFETY: the vector is open; address and result outlive the call.
        let ret = unsafe { fi_av_insert(av, name, 1, &mut peer, 0, ptr::null_mut()) };
        self.inserted(ret, peer)
    }

    /// Inserts addresses, which must be complete in the domain's format, and of a format whose addresses have one length.
    pub(crate) fn insert_all(&self, addresses: &[&[u8]]) -> Result<Vec<Peer>, Errno> {
        let len = addresses.iter().map(|address| address.len()).max();
        let Some(len) = len else {
            return Ok(Vec::new());
        };
        // Addresses follow each other at the format's length; a longer or shorter one goes alone.
        if addresses.iter().any(|address| address.len() != len) {
            let each = addresses.iter().map(|address| self.insert(address));
            return each.collect();
        }
        let count = addresses.len();
        // Aligned for any format, and padded as one address is.
        let mut names = Buffer::zeroed(len * count + NAME_LEN);
        let places = names.chunks_exact_mut(len).zip(addresses);
        places.for_each(|(place, address)| place.copy_from_slice(address));
        let mut peers = vec![FI_ADDR_NOTAVAIL; count];
        let (av, names) = (self.handle.as_ptr(), names.as_ptr().cast());
        // SAFETY: the vector is open; addresses and results outlive the call, and there are `count` of both.
        let ret = unsafe { fi_av_insert(av, names, count, peers.as_mut_ptr(), 0, ptr::null_mut()) };
        if ret < 0 {
            return Err(errno(ret as isize));
        }
        let peers = peers.into_iter().map(|addr| Peer::new(addr, self.number));
        peers.map(|peer| peer.ok_or(Errno::INVAL)).collect()
    }

    /// Returns whether a peer is one of this vector's.
    pub(crate) fn has(&self, peer: Peer) -> bool {
        peer.of_vector(self.number).is_some()
    }

    pub(crate) fn insert_service(&self, node: &CStr, service: &CStr) -> Result<Peer, Errno> {
        let (av, mut peer) = (self.handle.as_ptr(), FI_ADDR_NOTAVAIL);
        let (node, service) = (node.as_ptr(), service.as_ptr());
        // SAFETY: the vector is open; strings and result outlive the call.
        let ret = unsafe { fi_av_insertsvc(av, node, service, &mut peer, 0, ptr::null_mut()) };
        self.inserted(ret, peer)
    }

    /// Converts the return value of an insertion of one address.
    fn inserted(&self, ret: i32, addr: fi_addr_t) -> Result<Peer, Errno> {
        match ret {
            0 | 1 => Peer::new(addr, self.number).ok_or(Errno::INVAL),
            _ => Err(errno(ret as isize)),
        }
    }

    /// Removes a peer; operations towards it that are in flight end as if the peer were gone.
    pub(crate) fn remove(&self, peer: Peer) -> Result<(), Errno> {
        let mut addr = peer.of_vector(self.number).ok_or(Errno::INVAL)?;
        // SAFETY: the vector is open, and the address outlives the call.
        check(unsafe { fi_av_remove(self.handle.as_ptr(), &mut addr, 1, 0) })
    }

    pub(crate) fn lookup(&self, peer: Peer) -> Result<Vec<u8>, Errno> {
        let addr = peer.of_vector(self.number).ok_or(Errno::INVAL)?;
        let (mut name, mut len) = (Name::EMPTY, NAME_LEN);
        let to = name.0.as_mut_ptr().cast();
        // SAFETY: the vector is open, and there is room for `len` bytes.
        check(unsafe { fi_av_lookup(self.handle.as_ptr(), addr, to, &mut len) })?;
        Ok(name.0[..len.min(NAME_LEN)].to_vec())
    }
}

/// Memory for an address, with the alignment of any.
#[repr(align(16))]
pub(super) struct Name(pub(super) [u8; NAME_LEN]);

impl Name {
    pub(super) const EMPTY: Self = Self([0; NAME_LEN]);

    /// Copies an address; `None` if it is too long.
    pub(super) fn holding(address: &[u8]) -> Option<Self> {
        let mut name = Self::EMPTY;
        name.0.get_mut(..address.len())?.copy_from_slice(address);
        Some(name)
    }
}
