//! The calls on an endpoint beside data transfer: fi_endpoint(3) "fi_control", "fi_cancel", sizes that are left.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use oxifabric_abi::{
    FI_ALIAS, FI_ENABLE, FI_GET_FD, FI_GETOPSFLAG, FI_RECV, FI_SETOPSFLAG, FI_TRANSMIT, fi_alias,
    fi_ops_ep, fid, fid_ep, fid_t,
};
use oxifabric_provider::connection::Connection;
use oxifabric_provider::device::Provider;
use oxifabric_provider::operations::Operations;
use oxifabric_types::{Errno, Flags};

use super::Endpoint;
use super::alias::{self, AliasAttr};
use super::defaults::DirectionFlags;
use crate::absent::{no3, no5};
use crate::handle::{count, status};

impl<P: Provider> Endpoint<P> {
    pub(super) const EP: fi_ops_ep = fi_ops_ep {
        cancel: Some(Self::cancel),
        getopt: Some(Self::getopt),
        setopt: Some(Self::setopt),
        tx_ctx: Some(no5),
        rx_ctx: Some(no5),
        rx_size_left: Some(Self::rx_size_left),
        tx_size_left: Some(Self::tx_size_left),
        export_xpu: Some(no3),
        ..fi_ops_ep::NONE
    };

    pub(super) unsafe extern "C" fn control(
        fid: *mut fid,
        command: c_int,
        arg: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(fid.cast()) };
        status(match command {
            FI_ENABLE => endpoint.enable(),
            // SAFETY: the application passes what the command takes.
            FI_GETOPSFLAG => unsafe { endpoint.op_flags(arg.cast()) },
            // SAFETY: as above.
            FI_SETOPSFLAG => unsafe { endpoint.set_op_flags(arg.cast()) },
            // SAFETY: as above.
            FI_ALIAS => unsafe { endpoint.alias(arg.cast()) },
            // SAFETY: as above.
            FI_GET_FD => unsafe { endpoint.socket(arg.cast()) },
            // The rest is not offered: there are no named values (fi_get_val) and nothing to export.
            _ => Err(Errno::NOSYS),
        })
    }

    /// Makes a second handle with flags of its own (fi_ep_alias).
    ///
    /// # Safety
    /// `request` is null or what the command takes.
    unsafe fn alias(&self, request: *const fi_alias) -> Result<(), Errno> {
        let attr = AliasAttr {
            endpoint: NonNull::from(self).cast(),
            aliases: NonNull::from(&self.aliases),
            pair: None,
            tx_flags: self.defaults.tx.op_flags().bits(),
            rx_flags: self.defaults.rx.op_flags().bits(),
        };
        // SAFETY: the caller's contract; the endpoint does not close while it has aliases.
        unsafe { alias::alias(request, attr, (*self.fid.as_ptr()).fid.context) }
    }

    /// Returns the socket of a connection.
    ///
    /// # Safety
    /// `arg` is null or may be written.
    unsafe fn socket(&self, arg: *mut c_int) -> Result<(), Errno> {
        // SAFETY: the caller's contract.
        let arg = unsafe { arg.as_mut() }.ok_or(Errno::INVAL)?;
        *arg = self.state.lock().device.socket()?;
        Ok(())
    }

    /// Returns the flags of one direction in place of the flag that names it.
    ///
    /// # Safety
    /// `arg` is null or may be read and written.
    unsafe fn op_flags(&self, arg: *mut u64) -> Result<(), Errno> {
        // SAFETY: the caller's contract.
        let arg = unsafe { arg.as_mut() }.ok_or(Errno::INVAL)?;
        *arg = self.direction(*arg)?.op_flags().bits();
        Ok(())
    }

    /// Sets the flags of one direction, which is named among them.
    ///
    /// # Safety
    /// `arg` is null or may be read.
    unsafe fn set_op_flags(&self, arg: *const u64) -> Result<(), Errno> {
        // SAFETY: the caller's contract.
        let flags = *unsafe { arg.as_ref() }.ok_or(Errno::INVAL)?;
        let direction = self.direction(flags)?;
        direction.set_op_flags(Flags::from_bits_retain(flags & !(FI_TRANSMIT | FI_RECV)));
        Ok(())
    }

    /// Returns the direction that is named by `FI_TRANSMIT` or `FI_RECV`, not both.
    fn direction(&self, flags: u64) -> Result<&DirectionFlags, Errno> {
        match (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0) {
            (true, false) => Ok(&self.defaults.tx),
            (false, true) => Ok(&self.defaults.rx),
            _ => Err(Errno::INVAL),
        }
    }

    unsafe extern "C" fn cancel(fid: fid_t, context: *mut c_void) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(fid.cast()) };
        let cancelled = endpoint.state.lock().cancel(context.addr());
        if cancelled.is_err() && endpoint.cancel_deferred(context) {
            return 0;
        }
        count(cancelled.map(|()| 0))
    }

    unsafe extern "C" fn rx_size_left(ep: *mut fid_ep) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let mut state = unsafe { Self::of(ep) }.state.lock();
        if !state.enabled {
            return count(Err(Errno::OPBADSTATE));
        }
        let posted = state.operations.pending_rx();
        count(Ok(state
            .operations
            .config_mut()
            .rx_size
            .saturating_sub(posted)))
    }

    unsafe extern "C" fn tx_size_left(ep: *mut fid_ep) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let mut state = unsafe { Self::of(ep) }.state.lock();
        if !state.enabled {
            return count(Err(Errno::OPBADSTATE));
        }
        let posted = state.operations.pending_tx();
        count(Ok(state
            .operations
            .config_mut()
            .tx_size
            .saturating_sub(posted)))
    }
}
