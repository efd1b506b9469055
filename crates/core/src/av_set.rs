//! Sets of addresses of an address vector: fi_av_set(3). A set is a list; nothing leaves this process.
//!
//! Path class: setup.

use core::ffi::{c_int, c_void};
use std::sync::Mutex;

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, FI_ALLGATHER_SET, FI_ALLREDUCE_SET, FI_ALLTOALL_SET, FI_BARRIER_SET,
    FI_BROADCAST_SET, FI_CLASS_AV_SET, FI_GATHER_SET, FI_REDUCE_SCATTER_SET, FI_REDUCE_SET,
    FI_SCATTER_SET, FI_UNIVERSE, fi_addr_t, fi_av_set_attr, fi_ops, fi_ops_av_set, fid, fid_av,
    fid_av_set,
};
use oxifabric_types::Errno;

use crate::absent;
use crate::av::Av;
use crate::handle::{
    self, Fid, Object, Ref, Uses, checked, hand_out, object, publish, status, table,
};
use crate::lock::lock;

/// Which collectives a set is for; all work on every set.
const COLLECTIVES: u64 = FI_BARRIER_SET
    | FI_BROADCAST_SET
    | FI_ALLTOALL_SET
    | FI_ALLREDUCE_SET
    | FI_ALLGATHER_SET
    | FI_REDUCE_SCATTER_SET
    | FI_REDUCE_SET
    | FI_SCATTER_SET
    | FI_GATHER_SET;

/// A set of addresses.
#[repr(C)]
pub(crate) struct AvSet {
    fid: Fid<fid_av_set>,
    uses: Uses,
    av: Ref<Av>,
    members: Mutex<Vec<fi_addr_t>>,
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for AvSet {
    type Handle = fid_av_set;
    const CLASS: usize = FI_CLASS_AV_SET;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl AvSet {
    fn open(
        av: &Av,
        attr: Option<&fi_av_set_attr>,
        context: *mut c_void,
    ) -> Result<*mut fid_av_set, Errno> {
        let attr = attr.ok_or(Errno::INVAL)?;
        if attr.flags & !(FI_UNIVERSE | COLLECTIVES) != 0 {
            return Err(Errno::BADFLAGS);
        }
        if attr.comm_key_size != 0 {
            // There is no fabric manager that could have given one out.
            return Err(Errno::NOSYS);
        }
        let members = match attr.flags & FI_UNIVERSE {
            0 => range(av, attr)?,
            _ => av.indices(),
        };
        let fid = fid_av_set {
            fid: handle::new_fid::<Self>(context),
            ops: table(&OPS),
        };
        Ok(publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            av: Ref::to(av),
            members: Mutex::new(members),
        }))
    }

    /// Returns whether the set is of that vector.
    pub(crate) fn is_of(&self, av: &Av) -> bool {
        core::ptr::eq(&*self.av, av)
    }

    /// Returns the members, in order.
    pub(crate) fn members(&self) -> Vec<fi_addr_t> {
        lock(&self.members).clone()
    }

    /// Returns the collective address of the set; those of groups are larger.
    pub(crate) fn address(&self) -> fi_addr_t {
        core::ptr::from_ref(self).addr() as u64
    }

    fn insert(&self, addr: fi_addr_t) -> Result<(), Errno> {
        self.av.address(addr)?;
        let mut members = lock(&self.members);
        if members.contains(&addr) {
            return Err(Errno::INVAL);
        }
        members.push(addr);
        Ok(())
    }

    fn remove(&self, addr: fi_addr_t) -> Result<(), Errno> {
        let mut members = lock(&self.members);
        let at = members.iter().position(|&member| member == addr);
        members.remove(at.ok_or(Errno::INVAL)?);
        Ok(())
    }

    /// Changes the set by another set of the same vector.
    fn merge(
        &self,
        other: &Self,
        change: impl FnOnce(&mut Vec<fi_addr_t>, &[fi_addr_t]),
    ) -> Result<(), Errno> {
        if !other.is_of(&self.av) {
            return Err(Errno::INVAL);
        }
        // A copy, because a set may meet itself.
        let others = other.members();
        change(&mut lock(&self.members), &others);
        Ok(())
    }
}

/// Lists the addresses that the attributes name: those of the range that are in the vector.
fn range(av: &Av, attr: &fi_av_set_attr) -> Result<Vec<fi_addr_t>, Errno> {
    let (start, end) = (attr.start_addr, attr.end_addr);
    match (start == FI_ADDR_NOTAVAIL, end == FI_ADDR_NOTAVAIL) {
        (true, true) => return Ok(Vec::new()),
        (false, false) if start <= end => {}
        _ => return Err(Errno::INVAL),
    }
    let stride = attr.stride.max(1);
    let all = av.indices();
    let is_in = |&at: &fi_addr_t| (start..=end).contains(&at) && (at - start) % stride == 0;
    let members: Vec<_> = all.into_iter().filter(is_in).collect();
    if attr.count != 0 && members.len() > attr.count {
        return Err(Errno::INVAL);
    }
    Ok(members)
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    ..absent::BASE
};

static OPS: fi_ops_av_set = fi_ops_av_set {
    set_union: Some(union),
    intersect: Some(intersect),
    diff: Some(diff),
    insert: Some(insert),
    remove: Some(remove),
    addr: Some(addr),
    ..fi_ops_av_set::NONE
};

/// Opens a set: the call of the vector's table.
///
/// # Safety
/// The vector is open, the attributes are those of the C header or null, and `set` is null or may be written.
pub(crate) unsafe extern "C" fn open(
    av: *mut fid_av,
    attr: *mut fi_av_set_attr,
    set: *mut *mut fid_av_set,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let (av, attr) = unsafe { (object::<Av>(av), attr.as_ref()) };
    // SAFETY: as above.
    unsafe { hand_out(set, || AvSet::open(av, attr, context)) }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of sets, and the application gives this one up.
    status(unsafe { handle::close::<AvSet>(fid) })
}

unsafe extern "C" fn union(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: the table is only in the handles of sets; the application passes another set.
    let (dst, src) = unsafe { (object::<AvSet>(dst), other(src)) };
    status(src.and_then(|src| {
        dst.merge(src, |members, others| {
            for other in others {
                if !members.contains(other) {
                    members.push(*other);
                }
            }
        })
    }))
}

unsafe extern "C" fn intersect(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: as for `union`.
    let (dst, src) = unsafe { (object::<AvSet>(dst), other(src)) };
    status(src.and_then(|src| {
        dst.merge(src, |members, others| {
            members.retain(|member| others.contains(member));
        })
    }))
}

unsafe extern "C" fn diff(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: as for `union`.
    let (dst, src) = unsafe { (object::<AvSet>(dst), other(src)) };
    status(src.and_then(|src| {
        dst.merge(src, |members, others| {
            members.retain(|member| !others.contains(member));
        })
    }))
}

unsafe extern "C" fn insert(set: *mut fid_av_set, addr: fi_addr_t) -> c_int {
    // SAFETY: the table is only in the handles of sets.
    status(unsafe { object::<AvSet>(set) }.insert(addr))
}

unsafe extern "C" fn remove(set: *mut fid_av_set, addr: fi_addr_t) -> c_int {
    // SAFETY: the table is only in the handles of sets.
    status(unsafe { object::<AvSet>(set) }.remove(addr))
}

unsafe extern "C" fn addr(set: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int {
    if coll_addr.is_null() {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in the handles of sets; the application passes a place for the address.
    unsafe { *coll_addr = object::<AvSet>(set).address() };
    0
}

/// Returns the set that an application passes beside the one whose table was called.
///
/// # Safety
/// It is null or open.
unsafe fn other<'a>(set: *const fid_av_set) -> Result<&'a AvSet, Errno> {
    // SAFETY: the caller's contract.
    unsafe { checked::<AvSet>(set.cast_mut().cast()) }
}
