//! A domain: what endpoints share. Source: fi_domain(3).

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::ffi::{c_int, c_void};

use oxifabric_abi::{FI_CLASS_DOMAIN, fi_info, fi_ops, fi_ops_domain, fid, fid_domain, fid_fabric};
use oxifabric_kernel_sync::Mutex;
use oxifabric_types::{Errno, Info};

use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::ep::{self, Ep};
use crate::fabric::Fabric;
use crate::handle::{Fid, Object, Ref, Uses, close, new_fid, publish, status, table};
use crate::level;
use crate::mr::{self, Regions};
use crate::provider::{Provider, ProviderDomain};

/// An open domain.
#[repr(C)]
pub(crate) struct Domain {
    fid: Fid<fid_domain>,
    uses: Uses,
    pub(crate) fabric: Ref<Fabric>,
    /// What it was opened for.
    pub(crate) info: Box<Info>,
    pub(crate) regions: Mutex<Regions>,
    /// The provider's part.
    pub(crate) provided: Arc<dyn ProviderDomain>,
    /// Its endpoints, which may be about to read or write a region.
    members: Mutex<Vec<Weak<dyn Member>>>,
}

/// An endpoint as its domain sees it.
pub(crate) trait Member: Send + Sync {
    /// Returns whether a peer's access to the region with this key is under way.
    fn uses_region(&self, key: u64) -> bool;
}

// SAFETY: it begins with the handle, and only `open` makes one, of this type.
unsafe impl Object for Domain {
    type Handle = fid_domain;
    const CLASS: usize = FI_CLASS_DOMAIN;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

static OPS: fi_ops = fi_ops {
    close: Some(close_domain),
    ..fi_ops::NONE
};

struct Tables<P>(core::marker::PhantomData<P>);

impl<P: Provider> Tables<P> {
    const DOMAIN: &'static fi_ops_domain = &fi_ops_domain {
        av_open: Some(Av::open),
        cq_open: Some(Cq::open),
        endpoint: Some(Ep::<P>::open),
        cntr_open: Some(Cntr::open),
        query_atomic: Some(ep::query_atomic),
        ..fi_ops_domain::NONE
    };
}

impl Domain {
    pub(crate) unsafe extern "C" fn open<P: Provider>(
        fabric: *mut fid_fabric,
        info: *mut fi_info,
        place: *mut *mut fid_domain,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in handles of fabrics; the consumer passes an entry of fi_getinfo.
        let (fabric, info) = unsafe {
            (
                Ref::<Fabric>::of(fabric),
                oxifabric_info::boxed_from_c(info),
            )
        };
        let opened = info.and_then(|info| Self::new::<P>(fabric, info, context));
        // SAFETY: the consumer passes a place for the handle.
        status(opened.map(|domain| unsafe { publish(domain, place) }))
    }

    fn new<P: Provider>(
        fabric: Ref<Fabric>,
        mut info: Box<Info>,
        context: *mut c_void,
    ) -> Result<Arc<Self>, Errno> {
        if !info.fabric.prov_name.is_empty() && info.fabric.prov_name != P::NAME {
            return Err(Errno::INVAL);
        }
        info.fabric.api_version = fabric.api_version;
        let handle = fid_domain {
            fid: new_fid::<Self>(context, &OPS),
            ops: table(Tables::<P>::DOMAIN),
            mr: table(&mr::TABLE),
        };
        Ok(Arc::new(Self {
            fid: Fid::new(handle),
            uses: Uses::default(),
            fabric,
            regions: Mutex::new(level::TABLE, Regions::new(info.domain.mr_mode))
                .ok_or(Errno::NOMEM)?,
            members: Mutex::new(level::TABLE, Vec::new()).ok_or(Errno::NOMEM)?,
            provided: Arc::new(P::domain(&info)?),
            info,
        }))
    }

    /// Returns the provider's part.
    ///
    /// # Errors
    /// `INVAL` if it is of another provider.
    pub(crate) fn shared<P: Provider>(&self) -> Result<Arc<P::Domain>, Errno> {
        let provided: Arc<dyn Any + Send + Sync> = self.provided.clone();
        provided.downcast().map_err(|_| Errno::INVAL)
    }

    /// Adds an endpoint; those that are gone make room.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(crate) fn join(&self, member: Weak<dyn Member>) -> Result<(), Errno> {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.try_reserve(1).map_err(|_| Errno::NOMEM)?;
        members.push(member);
        Ok(())
    }

    /// Returns whether a peer's access to the region with this key is under way, at any endpoint.
    pub(crate) fn uses_region(&self, key: u64) -> bool {
        // The endpoints' locks come before that of the list.
        let members = self.members.lock().clone();
        let mut open = members.iter().filter_map(Weak::upgrade);
        open.any(|member| member.uses_region(key))
    }
}

unsafe extern "C" fn close_domain(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in handles of domains.
    unsafe { close::<Domain>(fid, |_| Ok(())) }
}
