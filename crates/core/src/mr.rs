//! Memory regions: fi_mr(3). Any memory of the process can be used as it is, so that registering only gives it a key.

mod regions;

use core::ffi::{c_int, c_void};

use libc::iovec;
use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CLASS_EP, FI_CLASS_MR, FI_COLLECTIVE, FI_ENABLE, FI_MR_COMPLETE,
    FI_MR_DMABUF, FI_READ, FI_RECV, FI_REFRESH, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE,
    fi_eq_entry, fi_mr_attr, fi_ops, fi_ops_mr, fid, fid_domain, fid_mr,
};
use oxifabric_mem::{IovSegment, MAX_SEGMENTS};
use oxifabric_types::{Errno, Flags};

pub(crate) use regions::{Region, Regions};

use crate::absent;
use crate::cntr::Cntr;
use crate::domain::Domain;
use crate::handle::{self, Fid, Object, Ref, Uses, checked, hand_out, object, publish, status};

/// What a region may be used for.
const ACCESS: u64 =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE;

/// A registered region.
#[repr(C)]
pub(crate) struct Mr {
    fid: Fid<fid_mr>,
    uses: Uses,
    domain: Ref<Domain>,
    key: u64,
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Mr {
    type Handle = fid_mr;
    const CLASS: usize = FI_CLASS_MR;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        self.domain.regions().remove(self.key);
    }
}

impl Mr {
    /// Registers memory under a key.
    fn register(
        domain: &Domain,
        region: Region,
        requested_key: u64,
        context: *mut c_void,
    ) -> Result<*mut fid_mr, Errno> {
        let key = domain.regions().insert(region, requested_key)?;
        let fid = fid_mr {
            fid: handle::new_fid::<Self>(context),
            mem_desc: core::ptr::null_mut(),
            key,
        };
        let mr = publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            domain: Ref::to(domain),
            key,
        });
        // SAFETY: the handle is new, nobody else has it. Applications pass the descriptor back; it stands for itself.
        unsafe { (*mr).mem_desc = mr.cast() };
        report(domain, mr, context);
        Ok(mr)
    }

    fn bind(&self, counter: &Cntr, flags: u64) -> Result<(), Errno> {
        if flags & !(FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
            return Err(Errno::BADFLAGS);
        }
        let access = Flags::from_bits_retain(flags);
        self.domain
            .regions()
            .count(self.key, access, Ref::to(counter));
        Ok(())
    }
}

/// Tells the event queue of a domain that was bound with `FI_REG_MR`.
fn report(domain: &Domain, mr: *mut fid_mr, context: *mut c_void) {
    if let Some(events) = domain.events().filter(|events| events.registrations) {
        let entry = fi_eq_entry {
            fid: mr.cast(),
            context,
            data: 0,
        };
        events.eq.post(FI_MR_COMPLETE, &entry);
    }
}

/// Registration calls of a domain.
pub(crate) static OPS: fi_ops_mr = fi_ops_mr {
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
    ..fi_ops_mr::NONE
};

static BASE: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    ..absent::BASE
};

unsafe extern "C" fn reg(
    domain: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let piece = iovec {
        iov_base: buf.cast_mut(),
        iov_len: len,
    };
    // SAFETY: one piece, alive during the call; the rest is the application's.
    unsafe {
        regv(
            domain,
            &piece,
            1,
            access,
            offset,
            requested_key,
            flags,
            mr,
            context,
        )
    }
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let attr = fi_mr_attr {
        mr_iov: iov,
        iov_count: count,
        access,
        offset,
        requested_key,
        context,
        ..fi_mr_attr::ZERO
    };
    // SAFETY: the attributes are alive during the call; the rest is the application's.
    unsafe { regattr(domain, &attr, flags, mr) }
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain.cast::<fid_domain>()) };
    let register = || {
        // SAFETY: the application passes attributes with a list of pieces, or null.
        let region = unsafe { read_attr(attr, flags) }?;
        // SAFETY: checked by `read_attr`; these fields are in the structure of every version.
        let (key, context) = unsafe { ((*attr).requested_key, (*attr).context) };
        Mr::register(domain, region, key, context)
    };
    // SAFETY: the application passes a place for the handle.
    unsafe { hand_out(mr, register) }
}

/// Reads what is to be registered. Only the fields that the first version had: the later ones describe device memory.
///
/// # Safety
/// `attr` is null or attributes whose list has `iov_count` pieces.
unsafe fn read_attr(attr: *const fi_mr_attr, flags: u64) -> Result<Region, Errno> {
    if attr.is_null() {
        return Err(Errno::INVAL);
    }
    if flags & FI_MR_DMABUF != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    // SAFETY: the caller's contract.
    let (iov, count, access) = unsafe { ((*attr).mr_iov, (*attr).iov_count, (*attr).access) };
    if iov.is_null() || count == 0 || count > MAX_SEGMENTS || access & !ACCESS != 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller says that there are so many pieces.
    let pieces = (0..count).map(|at| unsafe { *iov.add(at) });
    Ok(Region {
        pieces: pieces
            .map(|piece| IovSegment::new(piece.iov_base.cast(), piece.iov_len))
            .collect(),
        access: Flags::from_bits_retain(access),
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of regions, and the application gives this one up.
    status(unsafe { handle::close::<Mr>(fid) })
}

/// fi_mr(3) "fi_mr_bind": a counter of remote accesses, or the endpoint that may be accessed.
unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    if bfid.is_null() {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in the handles of regions; the application binds an open object.
    let (mr, class) = unsafe { (object::<Mr>(fid.cast()), (*bfid).fclass) };
    status(match class {
        // SAFETY: as above.
        FI_CLASS_CNTR => unsafe { checked::<Cntr>(bfid) }.and_then(|cntr| mr.bind(cntr, flags)),
        // Without FI_MR_ENDPOINT regions belong to the whole domain.
        FI_CLASS_EP => Ok(()),
        _ => Err(Errno::INVAL),
    })
}

/// Regions are enabled and up to date from the beginning.
unsafe extern "C" fn control(_fid: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    match command {
        FI_ENABLE | FI_REFRESH => 0,
        _ => -Errno::NOSYS.raw(),
    }
}
