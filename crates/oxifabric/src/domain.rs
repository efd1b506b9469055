//! Fabrics and domains. Source: fi_fabric(3), fi_domain(3).

use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

use oxifabric_abi::FI_THREAD_SAFE;

use crate::raw::{DomainObject, FabricObject};
use crate::threading::Marker;
use crate::{Error, Info, Local, Shared, Threading};

/// A fabric: the network that connects endpoints.
///
/// Clones are the same fabric; it is closed when the last clone and all objects opened from it are dropped.
#[derive(Clone)]
pub struct Fabric(Arc<FabricObject>);

impl Fabric {
    /// Opens the fabric of an offer.
    ///
    /// # Errors
    ///
    /// What `fi_fabric` returned.
    pub fn open(info: &Info) -> Result<Self, Error> {
        let fabric = FabricObject::open(info.handle()).map_err(Error::call("fi_fabric"))?;
        Ok(Self(Arc::new(fabric)))
    }

    pub(crate) fn object(&self) -> &Arc<FabricObject> {
        &self.0
    }
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").finish_non_exhaustive()
    }
}

/// A domain: a device, or what stands for one, and the parent of the objects that are opened on it.
///
/// Its threading level, [`Shared`] by default, is that of all objects that are opened on it. Clones are the same domain; it is
/// closed when the last clone and all objects opened from it are dropped.
pub struct Domain<T: Threading = Shared> {
    object: Arc<DomainObject>,
    info: Info,
    threading: Marker<T>,
}

impl Domain<Shared> {
    /// Opens the domain of an offer, which must be one of the fabric's, for all threads.
    ///
    /// # Errors
    ///
    /// [`Error::Unsuitable`] for an offer with requirements that this crate cannot meet, or one that is not for all threads; or what
    /// `fi_domain` returned.
    pub fn open(fabric: &Fabric, info: &Info) -> Result<Self, Error> {
        if info.handle().threading() != FI_THREAD_SAFE {
            return Err(Error::unsuitable(
                info.provider(),
                "its objects may not be shared between threads (it is not FI_THREAD_SAFE), so it opens with `Domain::open_local` only",
            ));
        }
        Self::of_offer(fabric, info)
    }
}

impl Domain<Local> {
    /// Opens the domain of an offer, which must be one of the fabric's, for this thread alone.
    ///
    /// To avoid the provider's locks, ask for the offer with [`Hints::one_thread`](crate::Hints::one_thread).
    ///
    /// # Errors
    ///
    /// [`Error::Unsuitable`] for an offer with requirements that this crate cannot meet; or what `fi_domain` returned.
    pub fn open_local(fabric: &Fabric, info: &Info) -> Result<Self, Error> {
        Self::of_offer(fabric, info)
    }
}

impl<T: Threading> Domain<T> {
    fn of_offer(fabric: &Fabric, info: &Info) -> Result<Self, Error> {
        if let Some(obstacle) = info.obstacle() {
            return Err(Error::unsuitable(info.provider(), obstacle));
        }
        let object = DomainObject::open(fabric.0.clone(), info.handle().clone())
            .map_err(Error::call("fi_domain"))?;
        Ok(Self {
            object: Arc::new(object),
            info: info.clone(),
            threading: PhantomData,
        })
    }

    /// Returns the offer that the domain was opened with.
    pub fn info(&self) -> &Info {
        &self.info
    }

    pub(crate) fn object(&self) -> &Arc<DomainObject> {
        &self.object
    }
}

impl<T: Threading> Clone for Domain<T> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            info: self.info.clone(),
            threading: PhantomData,
        }
    }
}

impl<T: Threading> fmt::Debug for Domain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Domain").field(&self.info).finish()
    }
}
