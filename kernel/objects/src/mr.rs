//! Registered memory. Source: fi_mr(3).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::ffi::{c_int, c_void};
use core::time::Duration;

use oxifabric_abi::{
    FI_CLASS_MR, FI_KEY_NOTAVAIL, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_domain, fid_mr, iovec,
};
use oxifabric_engine::Target;
use oxifabric_kernel_sync::wait_until;
use oxifabric_mem::{Iov, IovSegment, MAX_SEGMENTS};
use oxifabric_types::{Errno, Flags, MrMode};

use crate::domain::Domain;
use crate::handle::{Fid, Object, Ref, Uses, close, new_fid, publish, status};

/// What a region may be registered for.
const ACCESS: Flags = Flags::SEND
    .union(Flags::RECV)
    .union(Flags::READ)
    .union(Flags::WRITE)
    .union(Flags::REMOTE_READ)
    .union(Flags::REMOTE_WRITE);

/// How long closing a region waits for the accesses that are under way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The regions of a domain that peers may name.
pub(crate) struct Regions {
    by_key: BTreeMap<u64, Region>,
    /// Peers name memory by its address; otherwise by its distance from the start of the region.
    is_virtual: bool,
    /// We choose the keys.
    chooses_keys: bool,
    next_key: u64,
}

struct Region {
    memory: Iov,
    base: u64,
    access: Flags,
    /// Peers find it no more, but its key is not free yet.
    is_closing: bool,
}

impl Regions {
    pub(crate) const fn new(mode: MrMode) -> Self {
        Self {
            by_key: BTreeMap::new(),
            is_virtual: mode.intersects(MrMode::BASIC.union(MrMode::VIRT_ADDR)),
            chooses_keys: mode.intersects(MrMode::BASIC.union(MrMode::PROV_KEY)),
            next_key: 1,
        }
    }

    /// Adds a region and returns its key.
    fn add(&mut self, wanted: u64, region: Region) -> Result<u64, Errno> {
        let mut key = wanted;
        if self.chooses_keys {
            while self.by_key.contains_key(&self.next_key) {
                self.next_key += 1;
            }
            key = self.next_key;
            self.next_key += 1;
        }
        if key == FI_KEY_NOTAVAIL {
            return Err(Errno::INVAL);
        }
        if self.by_key.contains_key(&key) {
            return Err(Errno::NOKEY);
        }
        self.by_key.insert(key, region);
        Ok(key)
    }

    /// Hides a region from peers while it is being closed, or shows it again.
    fn set_closing(&mut self, key: u64, is_closing: bool) {
        if let Some(region) = self.by_key.get_mut(&key) {
            region.is_closing = is_closing;
        }
    }

    /// Finds the memory that a peer names.
    ///
    /// # Errors
    /// As [`oxifabric_engine::Completions::region`].
    pub(crate) fn find(&self, targets: &[Target], access: Flags) -> Result<Iov, Errno> {
        if let [target] = targets {
            return self.find_one(target, access);
        }
        let mut pieces = [IovSegment::new(core::ptr::null_mut(), 0); MAX_SEGMENTS];
        let mut count = 0;
        for target in targets {
            for piece in self.find_one(target, access)?.segments() {
                *pieces.get_mut(count).ok_or(Errno::INVAL)? = *piece;
                count += 1;
            }
        }
        // SAFETY: the pieces are of registered memory, which stays valid until no access to it is under way.
        unsafe { Iov::scattered(&pieces[..count]) }.ok_or(Errno::INVAL)
    }

    fn find_one(&self, target: &Target, access: Flags) -> Result<Iov, Errno> {
        let region = self.by_key.get(&target.key);
        let region = region
            .filter(|region| !region.is_closing)
            .ok_or(Errno::NOKEY)?;
        if !region.access.contains(access) {
            return Err(Errno::ACCES);
        }
        let start = match self.is_virtual {
            true => target.addr.checked_sub(region.base).ok_or(Errno::ACCES)?,
            false => target.addr,
        };
        let end = start.checked_add(target.len).ok_or(Errno::ACCES)?;
        if end > region.memory.len() as u64 {
            return Err(Errno::ACCES);
        }
        Ok(region.memory.slice(start as usize, target.len as usize))
    }
}

/// An open registration.
#[repr(C)]
pub(crate) struct Mr {
    fid: Fid<fid_mr>,
    uses: Uses,
    domain: Ref<Domain>,
    key: u64,
    /// The device has given the key, and knows the memory.
    is_on_device: bool,
}

// SAFETY: it begins with the handle, and only `register` makes one, of this type.
unsafe impl Object for Mr {
    type Handle = fid_mr;
    const CLASS: usize = FI_CLASS_MR;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

static OPS: fi_ops = fi_ops {
    close: Some(close_mr),
    ..fi_ops::NONE
};

/// The calls of a domain that register memory.
pub(crate) static TABLE: fi_ops_mr = fi_ops_mr {
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
    ..fi_ops_mr::NONE
};

unsafe extern "C" fn reg(
    fid: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let piece = iovec {
        iov_base: buf.cast_mut(),
        iov_len: len,
    };
    let wanted = Wanted {
        access,
        requested_key,
        flags,
        context,
    };
    // SAFETY: a list of one piece; the rest is the caller's.
    unsafe { register(fid, &piece, 1, &wanted, mr) }
}

unsafe extern "C" fn regv(
    fid: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let wanted = Wanted {
        access,
        requested_key,
        flags,
        context,
    };
    // SAFETY: the consumer passes a list of that length.
    unsafe { register(fid, iov, count, &wanted, mr) }
}

unsafe extern "C" fn regattr(
    fid: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the consumer passes a description, or null.
    let Some(attr) = (unsafe { attr.as_ref() }) else {
        return -Errno::INVAL.raw();
    };
    let wanted = Wanted {
        access: attr.access,
        requested_key: attr.requested_key,
        flags,
        context: attr.context,
    };
    // SAFETY: the list of the description is as long as it says.
    unsafe { register(fid, attr.mr_iov, attr.iov_count, &wanted, mr) }
}

/// What a registration is asked for.
struct Wanted {
    access: u64,
    requested_key: u64,
    flags: u64,
    context: *mut c_void,
}

/// Registers memory, and stores the handle.
///
/// # Safety
/// `fid` is that of a domain, the list has `count` pieces of memory that stays valid until the registration is closed, and `place` may be
/// written.
unsafe fn register(
    fid: *mut fid,
    iov: *const iovec,
    count: usize,
    wanted: &Wanted,
    place: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the caller's contract.
    let (domain, memory) = unsafe {
        (
            Ref::<Domain>::of(fid.cast::<fid_domain>()),
            lend(iov, count),
        )
    };
    // SAFETY: the caller's contract.
    let registered = memory.and_then(|memory| unsafe { Mr::new(domain, memory, wanted) });
    // SAFETY: the caller's contract.
    status(registered.map(|mr| unsafe { publish(mr, place) }))
}

/// Describes a list of pieces.
///
/// # Safety
/// As [`register`].
pub(crate) unsafe fn lend(iov: *const iovec, count: usize) -> Result<Iov, Errno> {
    if count > MAX_SEGMENTS || (iov.is_null() && count != 0) {
        return Err(Errno::INVAL);
    }
    let mut pieces = [IovSegment::new(core::ptr::null_mut(), 0); MAX_SEGMENTS];
    for (at, to) in pieces.iter_mut().enumerate().take(count) {
        // SAFETY: the caller says that the list has `count` entries.
        let piece = unsafe { *iov.add(at) };
        if piece.iov_len > isize::MAX as usize || (piece.iov_base.is_null() && piece.iov_len != 0) {
            return Err(Errno::INVAL);
        }
        *to = IovSegment::new(piece.iov_base.cast(), piece.iov_len);
    }
    // SAFETY: the caller's contract.
    unsafe { Iov::scattered(&pieces[..count]) }.ok_or(Errno::INVAL)
}

impl Mr {
    /// Registers memory of a domain.
    ///
    /// # Safety
    /// As [`register`].
    unsafe fn new(domain: Ref<Domain>, memory: Iov, wanted: &Wanted) -> Result<Arc<Self>, Errno> {
        let access = Flags::from_bits_retain(wanted.access);
        if wanted.flags != 0 {
            return Err(Errno::BADFLAGS);
        }
        if !ACCESS.contains(access) || memory.is_empty() {
            return Err(Errno::INVAL);
        }
        let base = memory.base() as u64;
        let region = Region {
            memory,
            base,
            access,
            is_closing: false,
        };
        // SAFETY: the caller's contract.
        let given = unsafe { domain.provided.register(&region.memory, access) }?;
        let key = match given {
            Some(key) => key,
            None => domain.regions.lock().add(wanted.requested_key, region)?,
        };
        let handle = fid_mr {
            fid: new_fid::<Self>(wanted.context, &OPS),
            mem_desc: core::ptr::null_mut(),
            key,
        };
        let mr = Arc::new(Self {
            fid: Fid::new(handle),
            uses: Uses::default(),
            domain,
            key,
            is_on_device: given.is_some(),
        });
        // SAFETY: it was not handed out yet.
        unsafe { (*mr.fid.as_ptr()).mem_desc = Arc::as_ptr(&mr).cast_mut().cast() };
        Ok(mr)
    }

    /// Lets no peer find the region any more, and waits until the accesses that did have ended.
    ///
    /// # Errors
    /// `BUSY` when an access does not end: peers have the region as before then.
    fn end(&self) -> Result<(), Errno> {
        if self.is_on_device {
            self.domain.provided.deregister(self.key);
            return Ok(());
        }
        let regions = &self.domain.regions;
        regions.lock().set_closing(self.key, true);
        if !wait_until(CLOSE_TIMEOUT, || !self.domain.uses_region(self.key)) {
            regions.lock().set_closing(self.key, false);
            return Err(Errno::BUSY);
        }
        regions.lock().by_key.remove(&self.key);
        Ok(())
    }
}

unsafe extern "C" fn close_mr(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in handles of registrations.
    unsafe { close::<Mr>(fid, Mr::end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: [Target; 1] = [Target {
        addr: 0,
        len: 8,
        key: 5,
    }];

    fn region(bytes: &mut [u8]) -> Region {
        let piece = IovSegment::new(bytes.as_mut_ptr(), bytes.len());
        Region {
            // SAFETY: the bytes are there as long as the test.
            memory: unsafe { Iov::scattered(&[piece]) }.expect("one piece"),
            base: bytes.as_ptr() as u64,
            access: Flags::REMOTE_READ,
            is_closing: false,
        }
    }

    #[test]
    fn a_region_that_is_being_closed_keeps_its_key_and_no_peer_finds_it() {
        let (mut first, mut second) = ([0; 8], [0; 8]);
        let mut regions = Regions::new(MrMode::empty());
        assert_eq!(regions.add(5, region(&mut first)), Ok(5));
        regions.set_closing(5, true);
        let found = regions.find(&TARGET, Flags::REMOTE_READ);
        assert_eq!(found.err(), Some(Errno::NOKEY));
        assert_eq!(regions.add(5, region(&mut second)), Err(Errno::NOKEY));
        regions.set_closing(5, false);
        let found = regions.find(&TARGET, Flags::REMOTE_READ);
        assert_eq!(found.expect("it is open again").base(), first.as_mut_ptr());
    }
}
