//! Collective groups as C programs hold them, and what can be done in them: fi_collective(3). Path class: setup.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use oxifabric_abi::*;
use oxifabric_collectives::arithmetic::{Datatype, Operation};
use oxifabric_collectives::{Arithmetic, Collective};
use oxifabric_engine::{GroupId, MAX_MEMBERS};
use oxifabric_types::Errno;

use crate::absent;
use crate::handle::{self, Fid, Object, Uses, publish, status};

/// Addresses of groups begin here: no object in memory is there.
const GROUPS: fi_addr_t = 1 << 62;

/// A group that an endpoint has joined, or is joining.
#[repr(C)]
pub(crate) struct Group {
    fid: Fid<fid_mc>,
    uses: Uses,
    endpoint: NonNull<dyn Member>,
    id: AtomicU32,
}

/// An endpoint, as its groups see it.
pub(crate) trait Member: Sync {
    /// Leaves the group, which closes; `handle` is its address.
    fn leave_group(&self, id: GroupId, handle: usize);
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Group {
    type Handle = fid_mc;
    const CLASS: usize = FI_CLASS_MC;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Group {
    /// Makes the handle of a group of an endpoint.
    ///
    /// # Safety
    /// The endpoint stays where it is until the group has closed.
    pub(crate) unsafe fn open(endpoint: NonNull<dyn Member>, context: *mut c_void) -> *mut fid_mc {
        let fid = fid_mc {
            fid: handle::new_fid::<Self>(context),
            fi_addr: FI_ADDR_NOTAVAIL,
        };
        publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            endpoint,
            id: AtomicU32::new(u32::MAX),
        })
    }

    /// Sets the number by which the engine names the group.
    pub(crate) fn name(&self, id: GroupId) {
        self.id.store(id.0, Ordering::Relaxed);
        // SAFETY: the handle is ours, and the application has not got it yet.
        unsafe { (*self.fid.as_ptr()).fi_addr = GROUPS | u64::from(id.0) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let id = GroupId(self.id.load(Ordering::Relaxed));
        let handle = self.fid.as_ptr().addr();
        // SAFETY: the endpoint closes after its groups (contract of `open`).
        unsafe { self.endpoint.as_ref() }.leave_group(id, handle);
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    ..absent::BASE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of groups, and the application gives this one up.
    status(unsafe { handle::close::<Group>(fid) })
}

/// Returns the group of an address.
///
/// # Errors
/// `INVAL` when it is none of a group.
pub(crate) fn group(address: fi_addr_t) -> Result<GroupId, Errno> {
    let number = address.checked_sub(GROUPS).ok_or(Errno::INVAL)?;
    let number = u32::try_from(number).map_err(|_| Errno::INVAL)?;
    Ok(GroupId(number))
}

/// Reads how data is combined.
///
/// # Errors
/// `OPNOTSUPP` when such numbers cannot be reduced so.
pub(crate) fn arithmetic(datatype: fi_datatype, op: fi_op) -> Result<Arithmetic, Errno> {
    let operation = Operation::from_raw(op.into()).ok_or(Errno::OPNOTSUPP)?;
    let datatype = self::datatype(datatype)?;
    let arithmetic = Arithmetic {
        datatype,
        operation,
    };
    match arithmetic.is_valid() {
        true => Ok(arithmetic),
        false => Err(Errno::OPNOTSUPP),
    }
}

/// Reads what the elements are.
///
/// # Errors
/// `OPNOTSUPP` when it is not known.
pub(crate) fn datatype(datatype: fi_datatype) -> Result<Datatype, Errno> {
    Datatype::from_raw(datatype.into()).ok_or(Errno::OPNOTSUPP)
}

/// Reports what the domains can do with a collective: fi_query_collective.
///
/// # Safety
/// `attr` is null or may be read and written.
pub(crate) unsafe extern "C" fn query(
    _domain: *mut fid_domain,
    collective: fi_collective_op,
    attr: *mut fi_collective_attr,
    flags: u64,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(attr) = (unsafe { attr.as_mut() }) else {
        return -Errno::INVAL.raw();
    };
    status(limits(collective, attr, flags).map(|size| {
        attr.datatype_attr = fi_atomic_attr {
            count: isize::MAX as usize / size.max(1),
            size,
        };
        attr.max_members = MAX_MEMBERS;
    }))
}

/// Returns the size of an element.
fn limits(
    collective: fi_collective_op,
    attr: &fi_collective_attr,
    flags: u64,
) -> Result<usize, Errno> {
    // The flag asks about the reduction that is scattered.
    let collective = match flags {
        0 => collective,
        flags if flags == u64::from(FI_SCATTER) => FI_REDUCE_SCATTER,
        _ => return Err(Errno::BADFLAGS),
    };
    if attr.mode != 0 {
        return Err(Errno::INVAL);
    }
    let what = named(collective).ok_or(Errno::OPNOTSUPP)?;
    if what == Collective::Barrier {
        return match (attr.op, attr.datatype) {
            (FI_NOOP, FI_VOID) => Ok(0),
            _ => Err(Errno::OPNOTSUPP),
        };
    }
    if what.reduces() {
        return arithmetic(attr.datatype, attr.op).map(|how| how.datatype.size());
    }
    datatype(attr.datatype).map(Datatype::size)
}

/// Returns the collective that has a number, if one has it.
pub(crate) const fn named(collective: fi_collective_op) -> Option<Collective> {
    Some(match collective {
        FI_BARRIER => Collective::Barrier,
        FI_BROADCAST => Collective::Broadcast,
        FI_ALLTOALL => Collective::Alltoall,
        FI_ALLREDUCE => Collective::Allreduce,
        FI_ALLGATHER => Collective::Allgather,
        FI_REDUCE_SCATTER => Collective::ReduceScatter,
        FI_REDUCE => Collective::Reduce,
        FI_SCATTER => Collective::Scatter,
        FI_GATHER => Collective::Gather,
        _ => return None,
    })
}
