//! Names and connections: fi_cm(3).

use core::ffi::{c_int, c_void};

use oxifabric_abi::{fi_ops_cm, fid_ep, fid_t};
use oxifabric_info::address_from_c;
use oxifabric_types::{Errno, PeerId};

use super::Ep;
use super::state::{Phase, State};
use crate::av::copy_address;
use crate::handle::{object, status};
use crate::pep::data;
use crate::provider::{Device, Provider};

impl<P: Provider> Ep<P> {
    pub(super) const CM: &'static fi_ops_cm = &fi_ops_cm {
        setname: Some(Self::setname),
        getname: Some(Self::getname),
        getpeer: Some(Self::getpeer),
        connect: Some(Self::connect),
        accept: Some(Self::accept),
        shutdown: Some(Self::shutdown),
        ..fi_ops_cm::NONE
    };

    /// Calls the device.
    fn with_device<R>(
        &self,
        call: impl FnOnce(&mut P::Device) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut state = self.state.lock();
        call(state.device.as_mut().ok_or(Errno::OPBADSTATE)?)
    }

    /// Begins a connection; an endpoint that is not enabled is.
    fn join(
        &self,
        from: Phase,
        call: impl FnOnce(&mut P::Device) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let state: &mut State<P> = &mut state;
        match state.phase {
            Phase::Disabled | Phase::Asked => state.enable(&self.info)?,
            Phase::Enabled => {}
            Phase::Connecting | Phase::Connected => return Err(Errno::ISCONN),
            Phase::Down => return Err(Errno::OPBADSTATE),
        }
        if state.phase != from {
            return Err(Errno::OPBADSTATE);
        }
        call(state.device.as_mut().ok_or(Errno::OPBADSTATE)?)?;
        state.phase = Phase::Connecting;
        self.poll_soon();
        Ok(())
    }

    unsafe extern "C" fn setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int {
        // SAFETY: the table is only in handles of this type; the consumer passes an address.
        let (ep, address) = unsafe {
            let ep = object::<Self>(fid.cast());
            (ep, address_from_c(addr, addrlen, ep.info.addr_format))
        };
        let address = address.and_then(|address| address.ok_or(Errno::INVAL));
        status(address.and_then(|address| ep.with_device(|device| device.set_address(&address))))
    }

    unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(fid.cast()) };
        let address = ep.with_device(|device| Ok(device.address()));
        // SAFETY: the consumer passes room for `addrlen` bytes.
        status(address.and_then(|address| unsafe { copy_address(&address, addr, addrlen) }))
    }

    unsafe extern "C" fn getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let address = ep.with_device(|device| device.address_of(PeerId(0)).ok_or(Errno::NOTCONN));
        // SAFETY: the consumer passes room for `addrlen` bytes.
        status(address.and_then(|address| unsafe { copy_address(&address, addr, addrlen) }))
    }

    unsafe extern "C" fn connect(
        ep: *mut fid_ep,
        addr: *const c_void,
        param: *const c_void,
        paramlen: usize,
    ) -> c_int {
        // SAFETY: the table is only in handles of this type; the consumer passes an address of the format, which is a string, and data of
        // that length.
        let (ep, address, data) = unsafe {
            let ep = object::<Self>(ep);
            (ep, ep.read_address(addr), data::<P>(param, paramlen))
        };
        status(address.and_then(|address| {
            let data = data?;
            ep.join(Phase::Enabled, |device| device.connect(&address, data))
        }))
    }

    /// Reads the address that fi_connect names; null stands for that of the entry which the endpoint was opened with.
    ///
    /// # Safety
    /// `addr` is null or an address of the endpoint's format.
    unsafe fn read_address(&self, addr: *const c_void) -> Result<oxifabric_types::Address, Errno> {
        if addr.is_null() {
            return self.info.dest.clone().ok_or(Errno::INVAL);
        }
        // SAFETY: the caller's contract.
        let found = unsafe { crate::av::read_address(self.info.addr_format, addr.cast()) };
        found.map(|(address, _)| address).ok_or(Errno::INVAL)
    }

    unsafe extern "C" fn accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int {
        // SAFETY: the table is only in handles of this type; the consumer passes data of that length.
        let (ep, data) = unsafe { (object::<Self>(ep), data::<P>(param, paramlen)) };
        status(data.and_then(|data| ep.join(Phase::Asked, |device| device.accept(data))))
    }

    unsafe extern "C" fn shutdown(ep: *mut fid_ep, _flags: u64) -> c_int {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(ep) };
        let ended = ep.with_device(Device::shutdown);
        ep.poll_soon();
        status(ended)
    }
}
