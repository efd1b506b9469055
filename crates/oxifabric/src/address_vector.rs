//! Address vectors: the peers of endpoints. Source: fi_av(3).

use core::fmt;
use core::marker::PhantomData;
use std::ffi::CString;
use std::sync::Arc;

use oxifabric_types::Errno;

pub use crate::raw::Peer;
use crate::raw::Peers;
use crate::threading::Marker;
use crate::{Address, AddressFormat, Domain, Error, Shared, Threading};

/// The cause of an error about a peer of another vector.
pub(crate) const FOREIGN_PEER: &str = "the peer is of another address vector; insert its address into this one, or into that of the endpoint, and use the peer that returns";

/// An address vector: the peers that endpoints can reach.
///
/// A [`Peer`] is valid with the vector that returned it, while that is open; with endpoints of another vector it is an error.
/// Clones are the same vector; it is closed when the last clone and all endpoints that use it are dropped.
pub struct AddressVector<T: Threading = Shared> {
    peers: Arc<Peers>,
    format: AddressFormat,
    threading: Marker<T>,
}

impl<T: Threading> AddressVector<T> {
    /// Opens an empty address vector.
    ///
    /// # Errors
    ///
    /// What `fi_av_open` returned.
    pub fn open(domain: &Domain<T>) -> Result<Self, Error> {
        let peers = Peers::open(domain.object().clone()).map_err(Error::call("fi_av_open"))?;
        Ok(Self {
            peers: Arc::new(peers),
            format: domain.info().address_format(),
            threading: PhantomData,
        })
    }

    /// Adds a peer by its address. Nothing is sent: an unreachable peer shows with the first operation.
    ///
    /// # Errors
    ///
    /// `INVAL` for an address that is not of the domain's format; or what `fi_av_insert` returned.
    pub fn insert(&self, address: &Address) -> Result<Peer, Error> {
        self.check(address)?;
        self.peers
            .insert(address.bytes())
            .map_err(Error::call("fi_av_insert"))
    }

    /// Adds peers by their addresses, in one call where the format allows it: a provider can take a thousand addresses at once cheaper than
    /// one at a time. Returns a peer for each address, in their order.
    ///
    /// # Errors
    ///
    /// As [`AddressVector::insert`], for the first address that is not taken. If all are of the domain's format, others may be in the
    /// vector then.
    pub fn insert_all(&self, addresses: &[Address]) -> Result<Vec<Peer>, Error> {
        addresses
            .iter()
            .try_for_each(|address| self.check(address))?;
        let bytes: Vec<&[u8]> = addresses.iter().map(Address::bytes).collect();
        let inserted = if self.format == AddressFormat::NAME {
            // Names are of any length, and not every library takes many of them the same way.
            bytes
                .iter()
                .map(|address| self.peers.insert(address))
                .collect()
        } else {
            self.peers.insert_all(&bytes)
        };
        inserted.map_err(Error::call("fi_av_insert"))
    }

    /// Checks that an address is one of the domain's.
    fn check(&self, address: &Address) -> Result<(), Error> {
        let checked = address.check(self.format);
        checked.map_err(|cause| Error::unmet("fi_av_insert", Errno::INVAL, cause))
    }

    /// Adds a peer by the names of its node and service.
    ///
    /// # Errors
    ///
    /// What `fi_av_insertsvc` returned.
    pub fn insert_service(&self, node: &str, service: &str) -> Result<Peer, Error> {
        let call = Error::call("fi_av_insertsvc");
        let (Ok(node), Ok(service)) = (CString::new(node), CString::new(service)) else {
            return Err(call(Errno::INVAL));
        };
        self.peers.insert_service(&node, &service).map_err(call)
    }

    /// Removes a peer. Operations towards it that are in flight may end with an error.
    ///
    /// # Errors
    ///
    /// `INVAL` for a peer of another vector; or what `fi_av_remove` returned.
    pub fn remove(&self, peer: Peer) -> Result<(), Error> {
        self.own("fi_av_remove", peer)?;
        self.peers.remove(peer).map_err(Error::call("fi_av_remove"))
    }

    /// Returns the address of a peer.
    ///
    /// # Errors
    ///
    /// `INVAL` for a peer of another vector; or what `fi_av_lookup` returned.
    pub fn lookup(&self, peer: Peer) -> Result<Address, Error> {
        self.own("fi_av_lookup", peer)?;
        let bytes = self
            .peers
            .lookup(peer)
            .map_err(Error::call("fi_av_lookup"))?;
        Ok(Address::new(self.format, &bytes))
    }

    /// Checks that a peer is one of this vector's.
    fn own(&self, call: &'static str, peer: Peer) -> Result<(), Error> {
        match self.peers.has(peer) {
            true => Ok(()),
            false => Err(Error::unmet(call, Errno::INVAL, FOREIGN_PEER)),
        }
    }

    pub(crate) fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }
}

impl<T: Threading> Clone for AddressVector<T> {
    fn clone(&self) -> Self {
        Self {
            peers: self.peers.clone(),
            format: self.format,
            threading: PhantomData,
        }
    }
}

impl<T: Threading> fmt::Debug for AddressVector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressVector").finish_non_exhaustive()
    }
}
