//! Closing: fi_close(3) on an endpoint. What was handed to it for sending gets a chance to leave first.

use core::ffi::c_int;
use std::sync::atomic::Ordering;

use oxifabric_abi::fid;
use oxifabric_provider::device::{Device, Provider};
use oxifabric_provider::operations::Operations;
use oxifabric_types::Errno;

use super::Endpoint;
use super::context_pair::Direction;
use crate::lock::lock;
use crate::patience::Patience;

impl<P: Provider> Endpoint<P> {
    pub(super) unsafe extern "C" fn close(fid: *mut fid) -> c_int {
        let handle = fid.cast::<Self>();
        {
            // SAFETY: the table is only in the handles of this type.
            let endpoint = unsafe { &*handle };
            let others = [&endpoint.aliases, &endpoint.groups];
            if others
                .iter()
                .any(|count| count.load(Ordering::Acquire) != 0)
            {
                return -Errno::BUSY.raw();
            }
            endpoint.leave(&lock(&endpoint.bindings));
            endpoint.drain();
            let work = endpoint.domain.progress().deferred_work();
            work.forget(endpoint.fid.as_ptr().cast());
        }
        // SAFETY: `open` boxed it; no queue drives it any more, and the application gives it up.
        drop(unsafe { Box::from_raw(handle) });
        0
    }

    /// Ends what goes on in one direction: cancels receives and waits a bounded time for what is under way. Nothing of it is
    /// reported.
    ///
    /// # Errors
    /// `BUSY` when transfers stand still in the middle, or do not end in time; their buffers are still in use.
    pub(super) fn quiesce(&self, direction: Direction) -> Result<(), Errno> {
        let mut patience = Patience::begin();
        let state = &mut *self.state.lock();
        loop {
            let quiet = match direction {
                Direction::Transmit => state.operations.is_idle() && state.device.idle(),
                Direction::Receive => {
                    state
                        .operations
                        .cancel_receives(&mut state.device, &mut state.out);
                    state.note_posted();
                    state.operations.pending_rx() == 0
                }
            };
            if quiet || !state.enabled {
                return Ok(());
            }
            if !patience.lasts() {
                return Err(Errno::BUSY);
            }
            patience.moved(state.progress());
        }
    }

    /// Drops what the device drops ([`Device::discards`]), sends what else can be sent, for a bounded time, drops the rest without completions, and announces the close to all peers.
    fn drain(&self) {
        let mut patience = Patience::begin();
        let mut state = self.state.lock();
        if state.enabled && state.device.discards() {
            state.operations.discard_lent();
        }
        while state.enabled && !(state.operations.is_idle() && state.device.idle()) {
            if !patience.lasts() {
                break;
            }
            patience.moved(state.progress());
        }
        let state = &mut *state;
        state.operations.abandon(&mut state.out);
        state.device.close();
    }
}
