//! The functions of a simulated network. Source: docs/sim.md section 5, fi_open_ops(3).

use core::mem::offset_of;
use core::ptr;

use oxifabric_abi::fi_open_ops;
use oxifabric_provider::simulation::{SIM_OPS, SimOps};
use oxifabric_types::Errno;

use super::{EndpointObject, check};

/// The functions of an endpoint's simulated network. No argument of theirs can be wrong, and they live as long as the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimulationOps(SimOps);

impl SimulationOps {
    /// Returns the functions for the network of an endpoint.
    pub(crate) fn of(endpoint: &EndpointObject) -> Result<Self, Errno> {
        let mut ops = ptr::null_mut();
        // SAFETY: the endpoint is open, and the name ends with a zero byte.
        let opened = unsafe {
            let name = SIM_OPS.as_ptr();
            fi_open_ops(endpoint.fid(), name, 0, &mut ops, ptr::null_mut())
        };
        check(opened)?;
        let ops = ops.cast::<SimOps>();
        // SAFETY: functions of this name are this structure, which begins with its size and never moves.
        let size = unsafe {
            ops.cast::<u8>()
                .add(offset_of!(SimOps, size))
                .cast::<usize>()
                .read()
        };
        if size < size_of::<SimOps>() {
            return Err(Errno::NOSYS);
        }
        // SAFETY: as above; it has all functions that are known here.
        Ok(Self(unsafe { ops.read() }))
    }

    pub(crate) fn now(&self) -> u64 {
        (self.0.now)()
    }

    pub(crate) fn turn(&self, until: u64) -> u64 {
        (self.0.turn)(until)
    }

    pub(crate) fn count(&self, what: u32) -> u64 {
        (self.0.count)(what)
    }
}
