//! A fabric: what domains, event queues and passive endpoints are opened in. Source: fi_fabric(3).

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::ffi::{c_int, c_void};

use oxifabric_abi::{FI_CLASS_FABRIC, fi_fabric_attr, fi_ops, fi_ops_fabric, fid, fid_fabric};
use oxifabric_kernel_sync::Mutex;
use oxifabric_types::Errno;

use crate::domain::Domain;
use crate::eq::Eq;
use crate::handle::{Fid, Object, Uses, close, new_fid, publish, table};
use crate::level;
use crate::pep::Pep;
use crate::provider::Provider;

/// An open fabric.
#[repr(C)]
pub(crate) struct Fabric {
    _fid: Fid<fid_fabric>,
    uses: Uses,
    pub(crate) api_version: u32,
    /// Its passive endpoints, whose requests become endpoints of its domains.
    passive: Mutex<Vec<Weak<dyn Any + Send + Sync>>>,
}

impl Fabric {
    /// Adds a passive endpoint; those that are gone make room.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(crate) fn join(&self, pep: Weak<dyn Any + Send + Sync>) -> Result<(), Errno> {
        let mut passive = self.passive.lock();
        passive.retain(|pep| pep.strong_count() > 0);
        passive.try_reserve(1).map_err(|_| Errno::NOMEM)?;
        passive.push(pep);
        Ok(())
    }

    /// Returns the passive endpoints of provider `P`.
    pub(crate) fn passive<P: Provider>(&self) -> Vec<Arc<Pep<P>>> {
        let passive = self.passive.lock();
        let open = passive.iter().filter_map(Weak::upgrade);
        open.filter_map(|pep| Arc::downcast(pep).ok()).collect()
    }
}

// SAFETY: it begins with the handle, and only `open` makes one, of this type.
unsafe impl Object for Fabric {
    type Handle = fid_fabric;
    const CLASS: usize = FI_CLASS_FABRIC;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

static OPS: fi_ops = fi_ops {
    close: Some(close_fabric),
    ..fi_ops::NONE
};

struct Tables<P>(core::marker::PhantomData<P>);

impl<P: Provider> Tables<P> {
    const FABRIC: &'static fi_ops_fabric = &fi_ops_fabric {
        domain: Some(Domain::open::<P>),
        passive_ep: Some(Pep::<P>::open),
        eq_open: Some(Eq::open),
        ..fi_ops_fabric::NONE
    };
}

/// Opens a fabric of provider `P`; the function `fabric` of its `struct kofi_provider`.
///
/// # Safety
/// `attr` comes from fi_getinfo, `place` may be written.
pub unsafe fn open<P: Provider>(
    attr: *mut fi_fabric_attr,
    place: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(attr) = (unsafe { attr.as_ref() }) else {
        return -Errno::INVAL.raw();
    };
    let Some(passive) = Mutex::new(level::TABLE, Vec::new()) else {
        return -Errno::NOMEM.raw();
    };
    let handle = fid_fabric {
        fid: new_fid::<Fabric>(context, &OPS),
        ops: table(Tables::<P>::FABRIC),
        api_version: attr.api_version,
    };
    let fabric = Arc::new(Fabric {
        _fid: Fid::new(handle),
        uses: Uses::default(),
        api_version: attr.api_version,
        passive,
    });
    // SAFETY: the caller's contract.
    unsafe { publish(fabric, place) };
    0
}

unsafe extern "C" fn close_fabric(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in handles of fabrics.
    unsafe { close::<Fabric>(fid, |_| Ok(())) }
}
