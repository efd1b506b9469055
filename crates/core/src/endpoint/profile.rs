//! Counters and events of an endpoint for profilers: fi_profile(3). Setup path.

pub(super) mod events;
mod variables;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use oxifabric_abi::{
    FI_CLASS_PROFILE, FI_VAR_UNEXP_MSG_CNT, FI_VAR_UNEXP_MSG_QUEUE, fi_ops, fi_profile_callback,
    fi_profile_desc, fi_profile_ops, fid, fid_profile,
};
use oxifabric_engine::{WaitEvent, Waiting};
use oxifabric_provider::device::{Connections, Device, Provider};
use oxifabric_types::Errno;

use super::Endpoint;
use super::dispatch::CompletionDispatch;
use crate::absent;
use crate::handle::{count, failed, status, table};
use crate::lock::lock;
use crate::named_ops;
use events::{EVENTS, Inside, Watcher};
use variables::{Value, Values, variables};

/// The name under which `fi_profile_open` asks for the operations.
const NAME: &CStr = c"fi_profile_ops";

/// An opened profile. The endpoint stays open while it is.
#[repr(C)]
struct Profile<P: Provider> {
    fid: fid_profile,
    endpoint: NonNull<Endpoint<P>>,
    /// What is read between fi_profile_start_reads and fi_profile_end_reads.
    snapshot: Mutex<Option<Values>>,
    /// What connections are counted from.
    since: Mutex<Connections>,
    inside: Arc<Inside>,
}

impl<P: Provider> Endpoint<P> {
    const PROFILE_BASE: fi_ops = fi_ops {
        close: Some(Profile::<P>::close),
        ..absent::BASE
    };

    const PROFILE: fi_profile_ops = fi_profile_ops {
        reset: Some(Profile::<P>::reset),
        query_vars: Some(Profile::<P>::query_vars),
        query_events: Some(Profile::<P>::query_events),
        read_var: Some(Profile::<P>::read_var),
        reg_callback: Some(Profile::<P>::reg_callback),
        start_reads: Some(Profile::<P>::start_reads),
        end_reads: Some(Profile::<P>::end_reads),
        ..fi_profile_ops::NONE
    };

    /// Opens operations by name: those of the provider, or of a profile. Source: fi_fabric(3) "fi_open_ops", fi_profile(3).
    pub(super) unsafe extern "C" fn ops_open(
        fid: *mut fid,
        name: *const c_char,
        flags: u64,
        ops: *mut *mut c_void,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in the handles of this type; the application passes a name and a place.
        unsafe {
            named_ops::open(name, flags, ops, |name| {
                let own = P::ops(name);
                if own.is_none() && name != NAME {
                    return Err(Errno::NOSYS);
                }
                Ok(move || own.unwrap_or_else(|| Self::of(fid.cast()).open_profile(context)))
            })
        }
    }

    /// Opens a profile, and returns the field that points to its operations: the header finds the profile around it.
    fn open_profile(&self, context: *mut c_void) -> NonNull<c_void> {
        self.aliases.fetch_add(1, Ordering::Relaxed);
        let profile = Box::leak(Box::new(Profile::<P> {
            fid: fid_profile {
                fid: oxifabric_abi::fid {
                    fclass: FI_CLASS_PROFILE,
                    context,
                    ops: table(const { &Self::PROFILE_BASE }),
                },
                ops: table(const { &Self::PROFILE }),
            },
            endpoint: NonNull::from(self),
            snapshot: Mutex::default(),
            since: Mutex::default(),
            inside: Arc::default(),
        }));
        let profile: *mut Profile<P> = profile;
        // SAFETY: the profile was boxed and is given back by its close; the pointer to the field is made from that to all of it.
        unsafe { NonNull::new_unchecked(&raw mut (*profile).fid.ops).cast() }
    }
}

impl<P: Provider> Profile<P> {
    /// Returns the profile that a handle belongs to.
    ///
    /// # Safety
    /// The handle is one of [`Endpoint::ops_open`], and open.
    unsafe fn of<'a>(profile: *mut fid_profile) -> &'a Self {
        // SAFETY: the handle is at the beginning of what was boxed.
        unsafe { &*profile.cast::<Self>() }
    }

    fn endpoint(&self) -> &Endpoint<P> {
        // SAFETY: the endpoint cannot be closed while its aliases are counted.
        unsafe { self.endpoint.as_ref() }
    }

    /// Takes the values of this moment, with the messages that wait or without.
    fn values(&self, listed: bool) -> Values {
        let since = *lock(&self.since);
        Values::of(&mut self.endpoint().state.lock(), listed, &since)
    }

    /// Gives `give` the value of a variable: that of the snapshot, if there is one.
    ///
    /// # Errors
    /// `INVAL` for a variable that is not in the list; `BUSY` for one that cannot be read in a call for an event.
    fn read<R>(
        &self,
        id: u32,
        give: impl FnOnce(Value<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        if !variables::<P::Device>().iter().any(|known| known.id == id) {
            return Err(Errno::INVAL);
        }
        if let Some(waiting) = self.inside.waiting() {
            return match id {
                FI_VAR_UNEXP_MSG_CNT => give(Value::Number(waiting)),
                _ => Err(Errno::BUSY),
            };
        }
        if let Some(values) = &*lock(&self.snapshot) {
            return give(values.get(id)?);
        }
        give(self.values(id == FI_VAR_UNEXP_MSG_QUEUE).get(id)?)
    }

    /// Registers a call for an event, or ends it.
    fn register(
        &self,
        event: u32,
        callback: Option<fi_profile_callback>,
        context: *mut c_void,
    ) -> Result<(), Errno> {
        if !EVENTS.iter().any(|known| known.id == event) {
            return Err(Errno::INVAL);
        }
        if self.inside.waiting().is_some() {
            return Err(Errno::BUSY);
        }
        let profile = ptr::from_ref(self).cast_mut().cast::<fid_profile>();
        let watchers = &mut self.endpoint().state.lock().out.watchers;
        match callback {
            None => watchers.remove(profile, Some(event)),
            Some(callback) => watchers.add(Watcher {
                event,
                callback,
                context,
                profile,
                inside: Arc::clone(&self.inside),
            }),
        }
        Ok(())
    }

    /// Fails with `-FI_EBUSY` in a call for an event.
    unsafe extern "C" fn close(fid: *mut fid) -> c_int {
        // SAFETY: the table is only in the handles of profiles, which `ops_open` boxed; the endpoint is still open.
        unsafe {
            let profile = fid.cast::<fid_profile>();
            if Self::of(profile).inside.waiting().is_some() {
                return -Errno::BUSY.raw();
            }
            let boxed = Box::from_raw(profile.cast::<Self>());
            let endpoint = boxed.endpoint();
            endpoint.state.lock().out.watchers.remove(profile, None);
            endpoint.aliases.fetch_sub(1, Ordering::Release);
        }
        0
    }

    /// Connections are counted from here on. Other variables say how things are now.
    unsafe extern "C" fn reset(profile: *mut fid_profile, _flags: u64) {
        // SAFETY: the table is only in the handles of profiles.
        let profile = unsafe { Self::of(profile) };
        if P::Device::COUNTS_CONNECTIONS && profile.inside.waiting().is_none() {
            let now = profile.endpoint().state.lock().device.connections();
            *lock(&profile.since) = now;
        }
    }

    unsafe extern "C" fn start_reads(profile: *mut fid_profile, _flags: u64) {
        // SAFETY: the table is only in the handles of profiles.
        let profile = unsafe { Self::of(profile) };
        if profile.inside.waiting().is_none() {
            let values = profile.values(true);
            *lock(&profile.snapshot) = Some(values);
        }
    }

    unsafe extern "C" fn end_reads(profile: *mut fid_profile, _flags: u64) {
        // SAFETY: the table is only in the handles of profiles.
        *lock(&unsafe { Self::of(profile) }.snapshot) = None;
    }

    unsafe extern "C" fn query_vars(
        _profile: *mut fid_profile,
        list: *mut fi_profile_desc,
        length: *mut usize,
    ) -> isize {
        // SAFETY: the application passes a list of that length, or none.
        unsafe { hand_out(variables::<P::Device>(), list, length) }
    }

    unsafe extern "C" fn query_events(
        _profile: *mut fid_profile,
        list: *mut fi_profile_desc,
        length: *mut usize,
    ) -> isize {
        // SAFETY: the application passes a list of that length, or none.
        unsafe { hand_out(&EVENTS, list, length) }
    }

    /// Reads a variable; returns how many bytes it has.
    unsafe extern "C" fn read_var(
        profile: *mut fid_profile,
        id: u32,
        data: *mut c_void,
        size: *mut usize,
    ) -> isize {
        // SAFETY: the table is only in the handles of profiles; the application passes room and its size.
        unsafe {
            let Some(size) = size.as_mut().filter(|_| !data.is_null()) else {
                return failed(Errno::INVAL);
            };
            let written = Self::of(profile).read(id, |value| {
                let (from, bytes) = match &value {
                    Value::Number(number) => (ptr::from_ref(number).cast(), size_of::<u64>()),
                    Value::Messages(all) => (all.as_ptr().cast::<u8>(), size_of_val(*all)),
                };
                let room = core::mem::replace(size, bytes);
                if room < bytes {
                    return Err(Errno::TOOSMALL);
                }
                data.cast::<u8>().copy_from_nonoverlapping(from, bytes);
                Ok(bytes)
            });
            count(written)
        }
    }

    unsafe extern "C" fn reg_callback(
        profile: *mut fid_profile,
        id: u32,
        callback: Option<fi_profile_callback>,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in the handles of profiles.
        let profile = unsafe { Self::of(profile) };
        status(profile.register(id, callback, context))
    }
}

/// Copies as many descriptions as there is room for, and says how many there are. Source: fi_profile(3).
///
/// # Safety
/// `list` is null or has room for `*length` descriptions.
unsafe fn hand_out(
    all: &[fi_profile_desc],
    list: *mut fi_profile_desc,
    length: *mut usize,
) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(length) = length.as_mut() else {
            return failed(Errno::INVAL);
        };
        let mut copied = 0;
        if !list.is_null() {
            copied = all.len().min(*length);
            list.copy_from_nonoverlapping(all.as_ptr(), copied);
        }
        *length = all.len();
        count(Ok(copied))
    }
}

impl CompletionDispatch {
    /// Makes the calls for a message that begins or ceases to wait.
    #[cold]
    pub(super) fn call_watchers(&mut self, event: WaitEvent, message: &Waiting, count: usize) {
        let source = self.name_or_none(&variables::completion(message));
        self.watchers
            .call(event, &variables::entry(message, source.0), count);
    }
}
