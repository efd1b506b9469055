//! The calls on a fabric, as C programs make them.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EQ, FI_CLASS_FABRIC, FI_CLASS_WAIT, fi_eq_attr,
    fi_fabric_attr, fi_info, fi_ops, fi_ops_fabric, fi_wait_attr, fid, fid_domain, fid_eq,
    fid_fabric, fid_pep, fid_wait,
};
use oxifabric_types::{EpType, Errno};

use super::Fabric;
use crate::absent;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain;
use crate::eq::Eq;
use crate::handle::{self, Fid, Object, Uses, checked, hand_out, object, publish, status, table};
use crate::info;
use crate::named_ops;
use crate::provider_entry::ProviderEntry;
use crate::wait_set::WaitSet;

impl ProviderEntry {
    /// Opens a fabric of this provider (fi_fabric(3)) and stores its handle in `fabric`.
    ///
    /// `api_version` is what the application asked of fi_getinfo(3); it decides how large the structures are that
    /// the application passes later. Returns 0 or a negative error number.
    ///
    /// # Safety
    /// `fabric` is null or may be written.
    pub unsafe fn open_fabric(
        &'static self,
        attr: *const fi_fabric_attr,
        api_version: u32,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int {
        if attr.is_null() {
            return -Errno::INVAL.raw();
        }
        let made = || {
            let fid = fid_fabric {
                fid: handle::new_fid::<Fabric>(context),
                ops: table(&OPS),
                api_version,
            };
            Ok(publish(Fabric {
                fid: Fid::new(fid),
                uses: Uses::none(),
                entry: self,
                api_version,
                driven: Mutex::default(),
            }))
        };
        // SAFETY: the caller's contract.
        unsafe { hand_out(fabric, made) }
    }
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Fabric {
    type Handle = fid_fabric;
    const CLASS: usize = FI_CLASS_FABRIC;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    ops_open: Some(ops_open),
    ..absent::BASE
};

static OPS: fi_ops_fabric = fi_ops_fabric {
    domain: Some(domain),
    passive_ep: Some(passive_ep),
    eq_open: Some(eq_open),
    wait_open: Some(wait_open),
    trywait: Some(trywait),
    domain2: Some(domain2),
    ..fi_ops_fabric::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of fabrics, and the application gives this one up.
    status(unsafe { handle::close::<Fabric>(fid) })
}

unsafe extern "C" fn ops_open(
    fid: *mut fid,
    name: *const c_char,
    flags: u64,
    ops: *mut *mut c_void,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of fabrics; the application passes a name, and a place for the table.
    unsafe {
        let fabric: &Fabric = object(fid.cast());
        named_ops::open(name, flags, ops, |name| {
            let found = (fabric.entry.fabric_ops)(name).ok_or(Errno::NOSYS)?;
            Ok(move || found)
        })
    }
}

unsafe extern "C" fn domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of fabrics.
    let fabric: &Fabric = unsafe { object(fabric) };
    // SAFETY: the application passes an info of fi_getinfo(3) or none, and a place for the handle.
    unsafe { hand_out(domain, || domain::ops::open(fabric, info, context)) }
}

unsafe extern "C" fn passive_ep(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    pep: *mut *mut fid_pep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of fabrics.
    let fabric: &Fabric = unsafe { object(fabric) };
    let open = || {
        // SAFETY: the application passes an info of fi_getinfo(3) or null.
        let info = unsafe { info::from_application(info, fabric.api_version()) }?;
        let msg = fabric.entry().msg.ok_or(Errno::NOSYS)?;
        if info.ep.kind != EpType::Msg {
            return Err(Errno::INVAL);
        }
        (msg.open_passive)(fabric, info, context)
    };
    // SAFETY: the application passes a place for the handle.
    unsafe { hand_out(pep, open) }
}

unsafe extern "C" fn domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    place: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        // FI_PEER: domains under another provider are not offered.
        return -Errno::BADFLAGS.raw();
    }
    // SAFETY: the arguments are those of `domain`.
    unsafe { domain(fabric, info, place, context) }
}

unsafe extern "C" fn eq_open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of fabrics.
    let fabric: &Fabric = unsafe { object(fabric) };
    // SAFETY: the application passes attributes or null, and a place for the handle.
    unsafe { hand_out(eq, || Eq::open(fabric, attr.as_ref(), context)) }
}

unsafe extern "C" fn wait_open(
    fabric: *mut fid_fabric,
    attr: *mut fi_wait_attr,
    set: *mut *mut fid_wait,
) -> c_int {
    // SAFETY: the table is only in the handles of fabrics.
    let fabric: &Fabric = unsafe { object(fabric) };
    // SAFETY: the application passes attributes or null, and a place for the handle.
    unsafe { hand_out(set, || WaitSet::open(fabric, attr.as_ref())) }
}

/// fi_poll(3) "fi_trywait": 0 when the caller may sleep on the wait objects, `-FI_EAGAIN` when it should read.
unsafe extern "C" fn trywait(_fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    let Ok(count) = usize::try_from(count) else {
        return -Errno::INVAL.raw();
    };
    if fids.is_null() && count != 0 {
        return -Errno::INVAL.raw();
    }
    for at in 0..count {
        // SAFETY: the application passes `count` handles of open objects.
        let ready = unsafe { may_sleep(*fids.add(at)) };
        match ready {
            Ok(true) => {}
            Ok(false) => return -Errno::AGAIN.raw(),
            Err(errno) => return -errno.raw(),
        }
    }
    0
}

/// Gets one object ready for sleep.
///
/// # Safety
/// `fid` is null or an open object.
unsafe fn may_sleep(fid: *mut fid) -> Result<bool, Errno> {
    if fid.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: every open object begins with a `fid`; `checked` has the same contract.
    unsafe {
        match (*fid).fclass {
            FI_CLASS_CQ => checked::<Cq>(fid)?.try_sleep(),
            FI_CLASS_EQ => checked::<Eq>(fid)?.try_sleep(),
            FI_CLASS_CNTR => checked::<Cntr>(fid)?.try_sleep(),
            FI_CLASS_WAIT => checked::<WaitSet>(fid)?.try_sleep(),
            _ => Err(Errno::INVAL),
        }
    }
}
