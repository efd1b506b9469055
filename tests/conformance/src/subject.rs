//! A library and one of its providers.

use core::ffi::CStr;
use core::ptr::{null, null_mut};
use std::ffi::CString;

use oxifabric_abi::*;
use oxifabric_libfabric::EntryPoints;

use crate::c;

/// The subject of the requirements: one provider of one library.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The library.
    pub library: &'static EntryPoints,
    /// The name of the provider.
    pub provider: &'static str,
}

/// A list of fi_getinfo(3); released at the end.
#[derive(Debug)]
pub struct InfoList {
    library: &'static EntryPoints,
    first: *mut fi_info,
}

/// What the endpoints of most requirements can do.
pub const CAPS: u64 = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV;

impl Subject {
    /// Returns hints for this provider's endpoints: reliable datagram ones with [`CAPS`], if it has some.
    #[must_use]
    pub fn hints(&self) -> InfoList {
        let hints = self.empty_hints();
        let name = CString::new(self.provider).expect("a name of a provider");
        c!({
            (*hints.first).caps = self.caps();
            (*hints.first).mode = !FI_MSG_PREFIX;
            (*(*hints.first).ep_attr).type_ = self.endpoint();
            (*(*hints.first).domain_attr).mr_mode = MR_MODES;
            (*(*hints.first).fabric_attr).prov_name = libc::strdup(name.as_ptr());
        });
        hints
    }

    /// Returns whether the endpoints are those of [`crate::RELIABLE`] providers.
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        crate::RELIABLE.contains(&self.provider)
    }

    fn caps(&self) -> u64 {
        match self.is_reliable() {
            true => CAPS,
            false => CAPS & !FI_TAGGED,
        }
    }

    fn endpoint(&self) -> fi_ep_type {
        match self.is_reliable() {
            true => FI_EP_RDM,
            false => FI_EP_DGRAM,
        }
    }

    /// Returns hints without a requirement.
    #[must_use]
    pub fn empty_hints(&self) -> InfoList {
        let first = c!((self.library.dupinfo)(null()));
        assert!(!first.is_null());
        InfoList {
            library: self.library,
            first,
        }
    }

    /// Returns the offers that meet the hints.
    ///
    /// # Errors
    /// The return value of fi_getinfo.
    pub fn try_query(
        &self,
        hints: &InfoList,
        node: Option<&CStr>,
        flags: u64,
    ) -> Result<InfoList, i32> {
        let mut first = null_mut();
        let node = node.map_or(null(), CStr::as_ptr);
        let code = c!((self.library.getinfo)(
            VERSION,
            node,
            null(),
            flags,
            hints.first,
            &mut first
        ));
        match code {
            0 => Ok(InfoList {
                library: self.library,
                first,
            }),
            code => Err(code),
        }
    }

    /// Returns the offers that meet the hints; there is at least one.
    #[must_use]
    pub fn query(&self, hints: &InfoList) -> InfoList {
        self.try_query(hints, None, 0)
            .expect("an endpoint that fits the hints")
    }
}

/// The API version of the structures that are used.
pub const VERSION: u32 = FI_VERSION(2, 0);

/// The registration modes that programs of the common kind are ready for.
pub const MR_MODES: i32 = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;

impl InfoList {
    /// Returns the first entry.
    #[must_use]
    pub fn first(&self) -> &fi_info {
        c!(&*self.first)
    }

    /// Returns the first entry, to be changed.
    pub fn first_mut(&mut self) -> &mut fi_info {
        c!(&mut *self.first)
    }

    /// Returns the first entry as C functions take it.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut fi_info {
        self.first
    }

    /// Wraps a list that another call returned, to be released with the same library.
    #[must_use]
    pub const fn like(&self, first: *mut fi_info) -> Self {
        Self {
            library: self.library,
            first,
        }
    }

    /// Iterates over all entries.
    pub fn entries(&self) -> impl Iterator<Item = &fi_info> {
        let mut next = self.first;
        core::iter::from_fn(move || {
            let entry = c!(next.as_ref())?;
            next = entry.next;
            Some(entry)
        })
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        c!((self.library.freeinfo)(self.first));
    }
}
