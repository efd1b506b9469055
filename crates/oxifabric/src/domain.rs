//! Fabrics and domains. Source: fi_fabric(3), fi_domain(3).

use std::sync::Arc;

use crate::raw::{DomainObject, FabricObject};
use crate::{Error, Info};

/// A fabric: the network that endpoints of the same name are on.
///
/// Clones are the same fabric; it is closed when the last one and all that was opened from it are dropped.
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
}

/// A domain: a device, or what stands for one, and the objects that are opened on it.
///
/// Clones are the same domain; it is closed when the last one and all that was opened from it are dropped.
#[derive(Clone)]
pub struct Domain {
    object: Arc<DomainObject>,
    info: Info,
}

impl Domain {
    /// Opens the domain of an offer, which must be one of the fabric's.
    ///
    /// # Errors
    ///
    /// [`Error::Unsuitable`] for an offer that asks for what this crate cannot promise; or what `fi_domain` returned.
    pub fn open(fabric: &Fabric, info: &Info) -> Result<Self, Error> {
        if let Some(obstacle) = info.obstacle() {
            return Err(Error::Unsuitable {
                provider: info.provider().to_owned(),
                obstacle,
            });
        }
        let object = DomainObject::open(fabric.0.clone(), info.handle().clone())
            .map_err(Error::call("fi_domain"))?;
        Ok(Self {
            object: Arc::new(object),
            info: info.clone(),
        })
    }

    /// The offer that it was opened with.
    pub fn info(&self) -> &Info {
        &self.info
    }

    pub(crate) fn object(&self) -> &Arc<DomainObject> {
        &self.object
    }
}
