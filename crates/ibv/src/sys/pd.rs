//! Protection domains, and what belongs to them: regions and address handles.

use std::ptr::NonNull;
use std::sync::Arc;

use oxifabric_mem::Iov;
use oxifabric_types::Errno;

use super::device::Context;
use super::structures::*;
use super::{done, made};
use crate::{Access, Gid};

/// Which members of an `efadv_mr_attr` are set: `EFADV_MR_ATTR_VALIDITY_*` of efadv.h.
pub(super) const RECV_IC_ID: u16 = 1 << 0;
pub(super) const RDMA_READ_IC_ID: u16 = 1 << 1;
pub(super) const RDMA_RECV_IC_ID: u16 = 1 << 2;

/// A protection domain: a queue pair can use the regions and address handles of its own one only.
#[derive(Debug)]
pub struct Pd {
    pub(super) pd: NonNull<ibv_pd>,
    pub(super) context: Arc<Context>,
}

// SAFETY: the library's functions on a domain may be called by any thread, several at once.
unsafe impl Send for Pd {}
// SAFETY: as above.
unsafe impl Sync for Pd {}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: all that was made from the domain holds it, so nothing is left.
        unsafe { (self.context.verbs.functions.ibv_dealloc_pd)(self.pd.as_ptr()) };
    }
}

/// A piece of registered memory, as requests name it: a `struct ibv_sge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Piece {
    pub(super) addr: u64,
    pub(super) len: u32,
    pub(super) lkey: u32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Piece>() == size_of::<ibv_sge>());
    assert!(align_of::<Piece>() == align_of::<ibv_sge>());
    assert!(offset_of!(Piece, addr) == offset_of!(ibv_sge, addr));
    assert!(offset_of!(Piece, len) == offset_of!(ibv_sge, length));
    assert!(offset_of!(Piece, lkey) == offset_of!(ibv_sge, lkey));
};

impl Piece {
    /// The piece of no memory, for elements of an array that are not filled.
    pub const NONE: Self = Self {
        addr: 0,
        len: 0,
        lkey: 0,
    };

    /// Returns the address of its first byte.
    pub const fn address(&self) -> u64 {
        self.addr
    }

    /// Describes some of its bytes; `None` if they are not all in it.
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        let (offset, len) = (u32::try_from(offset).ok()?, u32::try_from(len).ok()?);
        let is_within = offset.checked_add(len)? <= self.len;
        is_within.then_some(Self {
            addr: self.addr + u64::from(offset),
            len,
            lkey: self.lkey,
        })
    }
}

/// By which interconnects, in the device's numbers, it reaches a region, as far as it says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interconnects {
    /// For messages that are received.
    pub receives: Option<u16>,
    /// For what this side reads of peers.
    pub reads: Option<u16>,
    /// For what peers write and read.
    pub accesses_of_peers: Option<u16>,
}

/// A region: memory that is registered with the device (ibv_reg_mr(3)).
#[derive(Debug)]
pub struct Mr {
    mr: NonNull<ibv_mr>,
    /// Outlives the registration, since a drop of this structure deregisters first.
    memory: Iov,
    address: u64,
    access: Access,
    pd: Arc<Pd>,
}

// SAFETY: the library's functions on a region may be called by any thread; the description of memory may be used by any.
unsafe impl Send for Mr {}
// SAFETY: bytes are copied in and out as the memory's own rules say, whatever the device does meanwhile.
unsafe impl Sync for Mr {}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: the region is the library's and is given back once. The memory is dropped afterwards.
        unsafe { (self.pd.context.verbs.functions.ibv_dereg_mr)(self.mr.as_ptr()) };
    }
}

impl Mr {
    /// Returns the key by which peers name the region.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region lives as long as this structure.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// Returns the address by which peers name the first byte of the region.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Returns how many bytes the region has.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns whether the region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns by which interconnects the device reaches the region, efadv_query_mr(3).
    ///
    /// # Errors
    /// `NOSYS` with a libefa before rdma-core 50; what the kernel says, of which some do not know the question.
    pub fn interconnects(&self) -> Result<Interconnects, Errno> {
        let functions = self.pd.context.verbs.efa_regions.as_ref();
        let query = functions.map_err(|_| Errno::NOSYS)?.efadv_query_mr;
        let mut attributes = efadv_mr_attr::default();
        let len = size_of::<efadv_mr_attr>() as u32;
        // SAFETY: the region is the library's; the structure lives through the call and has the length.
        done(unsafe { query(self.mr.as_ptr(), &raw mut attributes, len) })?;
        let known = |bit: u16, id| (attributes.ic_id_validity & bit != 0).then_some(id);
        Ok(Interconnects {
            receives: known(RECV_IC_ID, attributes.recv_ic_id),
            reads: known(RDMA_READ_IC_ID, attributes.rdma_read_ic_id),
            accesses_of_peers: known(RDMA_RECV_IC_ID, attributes.rdma_recv_ic_id),
        })
    }

    /// Returns what it was registered for.
    pub const fn access(&self) -> Access {
        self.access
    }

    /// Returns the memory.
    pub fn memory(&self) -> &Iov {
        &self.memory
    }

    /// Describes some bytes of the region; `None` if they are not all in it.
    pub fn piece(&self, offset: usize, len: usize) -> Option<Piece> {
        let end = offset.checked_add(len)?;
        if end > self.len() {
            return None;
        }
        Some(Piece {
            addr: self.address + offset as u64,
            len: u32::try_from(len).ok()?,
            // SAFETY: the region lives as long as this structure.
            lkey: unsafe { (*self.mr.as_ptr()).lkey },
        })
    }
}

/// An address handle: a destination of sends (ibv_create_ah(3)).
#[derive(Debug)]
pub struct Ah {
    pub(super) ah: NonNull<ibv_ah>,
    pub(super) pd: Arc<Pd>,
}

// SAFETY: the library's functions on an address handle may be called by any thread; it never changes.
unsafe impl Send for Ah {}
// SAFETY: as above.
unsafe impl Sync for Ah {}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's and is given back once.
        unsafe { (self.pd.context.verbs.functions.ibv_destroy_ah)(self.ah.as_ptr()) };
    }
}

impl Ah {
    /// Returns the number by which an EFA device names the handle in completions.
    ///
    /// # Errors
    /// `OPNOTSUPP` if the device is another one.
    pub fn efa_number(&self) -> Result<u16, Errno> {
        let mut attributes = efadv_ah_attr::default();
        let query = self.pd.context.efa_functions()?.efadv_query_ah;
        let len = size_of::<efadv_ah_attr>() as u32;
        // SAFETY: the handle lives as long as this structure; the attributes live through the call.
        done(unsafe { query(self.ah.as_ptr(), &raw mut attributes, len) })?;
        Ok(attributes.ahn)
    }
}

impl Pd {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// That of ibv_alloc_pd(3).
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, Errno> {
        // SAFETY: the context is open.
        let pd = unsafe { (context.verbs.functions.ibv_alloc_pd)(context.context.as_ptr()) };
        Ok(Arc::new(Self {
            pd: made(pd)?,
            context: Arc::clone(context),
        }))
    }

    /// Registers memory, which stays lent until the region is dropped.
    ///
    /// # Errors
    /// `INVAL` for memory in several segments; else that of ibv_reg_mr(3).
    pub fn register(self: &Arc<Self>, memory: Iov, access: Access) -> Result<Mr, Errno> {
        if memory.segments().len() > 1 {
            return Err(Errno::INVAL);
        }
        let base = memory.base();
        let register = self.context.verbs.functions.ibv_reg_mr_iova2;
        // SAFETY: the memory stays as it is until the region is dropped: its description is kept for so long.
        let mr = unsafe {
            register(
                self.pd.as_ptr(),
                base.cast(),
                memory.len(),
                base as u64,
                access.0,
            )
        };
        Ok(Mr {
            mr: made(mr)?,
            address: base as u64,
            memory,
            access,
            pd: Arc::clone(self),
        })
    }

    /// Allocates memory of this many zeroes, and registers it. Nothing else lies in its pages, since ibv_fork_init(3) keeps child processes from all of them.
    ///
    /// # Errors
    /// `NOMEM`, or that of ibv_reg_mr(3).
    pub fn allocate(self: &Arc<Self>, len: usize, access: Access) -> Result<Mr, Errno> {
        let memory = whole_pages(len, page_len()).ok_or(Errno::NOMEM)?;
        self.register(memory, access)
    }

    /// Makes the address handle of a GID, which is reached from the first GID of a port.
    ///
    /// # Errors
    /// That of ibv_create_ah(3).
    pub fn destination(self: &Arc<Self>, port: u8, gid: &Gid) -> Result<Ah, Errno> {
        let mut attributes = ibv_ah_attr {
            grh: ibv_global_route {
                dgid: *gid,
                flow_label: 0,
                sgid_index: 0,
                hop_limit: 0xff,
                traffic_class: 0,
                align: [],
            },
            dlid: 0,
            sl: 0,
            src_path_bits: 0,
            static_rate: 0,
            is_global: 1,
            port_num: port,
        };
        let create = self.context.verbs.functions.ibv_create_ah;
        // SAFETY: the domain lives; the attributes live through the call.
        let ah = unsafe { create(self.pd.as_ptr(), &raw mut attributes) };
        Ok(Ah {
            ah: made(ah)?,
            pd: Arc::clone(self),
        })
    }
}

/// Allocates memory of this many zeroes that begins a page, and whose last page is its own; `None` if there is not so much, or it is to have no bytes.
fn whole_pages(len: usize, page: usize) -> Option<Iov> {
    // What is before the first page that begins is left out, and is less than a page.
    let pages = len.checked_next_multiple_of(page)?.checked_add(page)?;
    let memory = Iov::zeroed(pages).filter(|_| len > 0)?;
    let start = memory.base().addr();
    Some(memory.slice(start.next_multiple_of(page) - start, len))
}

fn page_len() -> usize {
    // SAFETY: it only returns a number.
    let len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(len).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_memory_are_its_own() {
        let page = page_len();
        assert!(page.is_power_of_two());
        let all: Vec<Iov> = (0..64)
            .map(|at| whole_pages(at % 3 * page + 1, page).expect("memory"))
            .collect();
        let mut places: Vec<(usize, usize)> = all
            .iter()
            .map(|memory| (memory.base().addr(), memory.len()))
            .collect();
        places.sort_unstable();
        assert!(places.iter().all(|(start, _)| start.is_multiple_of(page)));
        let end = |&(start, len): &(usize, usize)| start + len.next_multiple_of(page);
        assert!(places.windows(2).all(|two| end(&two[0]) <= two[1].0));
        assert!(whole_pages(0, page).is_none() && whole_pages(usize::MAX, page).is_none());
    }
}
