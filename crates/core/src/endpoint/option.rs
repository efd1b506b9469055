//! Options of an endpoint: fi_endpoint(3) "fi_getopt / fi_setopt".

use core::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use oxifabric_abi::{
    FI_OPT_CM_DATA_SIZE, FI_OPT_ENDPOINT, FI_OPT_FIREWALL_ADDR, FI_OPT_INJECT_ATOMIC_SIZE,
    FI_OPT_INJECT_MSG_SIZE, FI_OPT_INJECT_RMA_SIZE, FI_OPT_INJECT_TAGGED_SIZE,
    FI_OPT_MAX_ATOMIC_SIZE, FI_OPT_MAX_MSG_SIZE, FI_OPT_MAX_RMA_SIZE, FI_OPT_MAX_TAGGED_SIZE,
    FI_OPT_MIN_MULTI_RECV, FI_OPT_RX_SIZE, FI_OPT_SHARED_MEMORY_PERMITTED, FI_OPT_TX_SIZE, fid_t,
};
use oxifabric_engine::MAX_ATOMIC_BYTES;
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::{Device, Provider};
use oxifabric_provider::operations::Operations;
use oxifabric_types::{Caps, Errno, Info};

use super::Endpoint;
use super::config::MAX_OPERATIONS;
use super::option_value::{read, read_bool, read_own, write, write_own};
use crate::handle::status;

impl<P: Provider> Endpoint<P> {
    pub(super) unsafe extern "C" fn getopt(
        fid: fid_t,
        level: c_int,
        optname: c_int,
        optval: *mut c_void,
        optlen: *mut usize,
    ) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(fid.cast()) };
        if (level, optname) == (FI_OPT_ENDPOINT, FI_OPT_FIREWALL_ADDR) {
            let firewalled = endpoint.state.lock().device.is_behind_firewall();
            let firewalled = firewalled.map(c_int::from).ok_or(Errno::NOPROTOOPT);
            // SAFETY: the application passes a buffer and its length.
            return status(
                firewalled.and_then(|firewalled| unsafe { write(firewalled, optval, optlen) }),
            );
        }
        if level == FI_OPT_ENDPOINT && P::Device::OWN_OPTIONS.contains(&optname) {
            let value = endpoint.state.lock().device.own_option(optname);
            // SAFETY: the application passes a buffer and its length.
            return status(value.and_then(|value| unsafe { write_own(value, optval, optlen) }));
        }
        let value = match level {
            FI_OPT_ENDPOINT => endpoint.option(optname),
            _ => Err(Errno::NOPROTOOPT),
        };
        // SAFETY: the application passes a buffer and its length.
        status(value.and_then(|value| unsafe { write(value, optval, optlen) }))
    }

    pub(super) unsafe extern "C" fn setopt(
        fid: fid_t,
        level: c_int,
        optname: c_int,
        optval: *const c_void,
        optlen: usize,
    ) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(fid.cast()) };
        if level != FI_OPT_ENDPOINT {
            return -Errno::NOPROTOOPT.raw();
        }
        if optname == FI_OPT_SHARED_MEMORY_PERMITTED {
            // SAFETY: the application passes a buffer and its length.
            return status(
                unsafe { read_bool(optval, optlen) }.and_then(permit_shared_memory::<P>),
            );
        }
        if P::Device::OWN_OPTIONS.contains(&optname) {
            // SAFETY: the application passes a buffer and its length.
            let value = unsafe { read_own(optval, optlen) };
            let mut state = endpoint.state.lock();
            return status(value.and_then(|value| state.device.set_own_option(optname, value)));
        }
        // Whether the option exists comes first, whatever its value is like.
        let known = endpoint.option(optname);
        // SAFETY: the application passes a buffer and its length.
        let value = known.and_then(|_| unsafe { read(optval, optlen) });
        status(value.and_then(|value| endpoint.set_option(optname, value)))
    }

    /// Returns the value of an option that has a size for a value, and that may be changed.
    fn option(&self, name: c_int) -> Result<usize, Errno> {
        if let Some((size, _)) = self.size(name) {
            return Ok(size.load(Ordering::Relaxed));
        }
        let mut state = self.state.lock();
        let config = state.operations.config_mut();
        match name {
            FI_OPT_MIN_MULTI_RECV if Self::MATCHES => Ok(config.min_multi_recv),
            FI_OPT_TX_SIZE => Ok(config.tx_size),
            FI_OPT_RX_SIZE => Ok(config.rx_size),
            FI_OPT_CM_DATA_SIZE if P::Device::CONNECTED => Ok(P::Device::CM_DATA_SIZE),
            // There is no device memory, and no other way than the provider's own.
            _ => Err(Errno::NOPROTOOPT),
        }
    }

    fn set_option(&self, name: c_int, value: usize) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if name == FI_OPT_MIN_MULTI_RECV {
            state.operations.config_mut().min_multi_recv = value;
            return Ok(());
        }
        if state.enabled {
            return Err(Errno::OPBADSTATE);
        }
        if let Some((size, largest)) = self.size(name) {
            if value > largest {
                return Err(Errno::INVAL);
            }
            size.store(value, Ordering::Relaxed);
            return Ok(());
        }
        if value == 0 || value > MAX_OPERATIONS {
            return Err(Errno::INVAL);
        }
        let config = state.operations.config_mut();
        match name {
            FI_OPT_TX_SIZE => config.tx_size = value,
            FI_OPT_RX_SIZE => config.rx_size = value,
            _ => return Err(Errno::NOPROTOOPT),
        }
        Ok(())
    }

    /// Returns how many bytes of a write may be injected at most.
    pub(super) fn inject_rma(info: &Info) -> usize {
        match P::Device::INJECTS_ACCESSES {
            true => info.tx.inject_size,
            false => 0,
        }
    }

    /// Returns a length of messages and what it may be at most.
    fn size(&self, name: c_int) -> Option<(&AtomicUsize, usize)> {
        let sizes = &self.sizes;
        let inject = self.info.tx.inject_size;
        match name {
            FI_OPT_MAX_MSG_SIZE => Some((&sizes.max_msg, sizes.limit)),
            FI_OPT_MAX_TAGGED_SIZE => Some((&sizes.max_tagged, sizes.limit)),
            FI_OPT_MAX_RMA_SIZE if self.has(Caps::RMA) => Some((&sizes.max_rma, sizes.limit)),
            FI_OPT_INJECT_RMA_SIZE if self.has(Caps::RMA) => {
                Some((&sizes.inject_rma, Self::inject_rma(&self.info)))
            }
            FI_OPT_MAX_ATOMIC_SIZE if self.has(Caps::ATOMIC) => {
                Some((&sizes.max_atomic, MAX_ATOMIC_BYTES))
            }
            FI_OPT_INJECT_ATOMIC_SIZE if self.has(Caps::ATOMIC) => {
                Some((&sizes.inject_atomic, inject.min(MAX_ATOMIC_BYTES)))
            }
            FI_OPT_INJECT_MSG_SIZE => Some((&sizes.inject_msg, inject)),
            FI_OPT_INJECT_TAGGED_SIZE => Some((&sizes.inject_tagged, inject)),
            _ => None,
        }
    }
}

/// Keeps to shared memory, or goes without it, where the provider can.
fn permit_shared_memory<P: Provider>(permitted: bool) -> Result<(), Errno> {
    if P::IS_SHARED_MEMORY && !permitted {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}
