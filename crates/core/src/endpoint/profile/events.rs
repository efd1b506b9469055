//! Calls of the application when a message begins or ceases to wait: fi_profile(3) "Events". While there are none, it
//! costs a look at messages that wait, and nothing at others.
//!
//! A call is made inside of the endpoint's lock, by the thread that holds it: in it the number of messages that wait can be
//! read, and nothing else of the endpoint can be called.

use core::ffi::c_void;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use oxifabric_abi::{
    FI_EVENT_UNEXP_MSG_MATCHED, FI_EVENT_UNEXP_MSG_RECVD, fi_cq_err_entry, fi_profile_callback,
    fi_profile_desc, fid_profile,
};
use oxifabric_engine::WaitEvent;

use super::variables::messages;
use crate::lock::lock;

/// The events; each comes with the entry of its message.
pub(super) const EVENTS: [fi_profile_desc; 2] = [
    messages(
        FI_EVENT_UNEXP_MSG_RECVD,
        c"FI_EVENT_UNEXP_MSG_RECVD",
        c"A message arrived that no receive was posted for",
    ),
    messages(
        FI_EVENT_UNEXP_MSG_MATCHED,
        c"FI_EVENT_UNEXP_MSG_MATCHED",
        c"A message that waited was taken",
    ),
];

/// The calls that an endpoint makes.
#[derive(Default)]
pub(in crate::endpoint) struct Watchers(Vec<Watcher>);

/// One registration.
pub(super) struct Watcher {
    pub(super) event: u32,
    pub(super) callback: fi_profile_callback,
    pub(super) context: *mut c_void,
    pub(super) profile: *mut fid_profile,
    pub(super) inside: Arc<Inside>,
}

// SAFETY: the application's function, context and profile are what it gave to fi_profile_register_callback(3): they are
// passed on in calls, by whichever thread drives the endpoint.
unsafe impl Send for Watcher {}

/// Which thread is in a call of a profile, and how many messages wait meanwhile.
#[derive(Debug, Default)]
pub(super) struct Inside(Mutex<Option<(ThreadId, u64)>>);

impl Inside {
    /// Returns how many messages wait, if the calling thread is in a call of the profile.
    pub(super) fn waiting(&self) -> Option<u64> {
        let (thread, waiting) = (*lock(&self.0))?;
        (thread == thread::current().id()).then_some(waiting)
    }
}

impl Watchers {
    /// Returns whether there are none.
    #[inline]
    pub(in crate::endpoint) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Registers a call, in place of an earlier one of the profile for that event.
    pub(super) fn add(&mut self, watcher: Watcher) {
        self.remove(watcher.profile, Some(watcher.event));
        self.0.push(watcher);
    }

    /// Ends the calls of a profile, for one event or for all.
    pub(super) fn remove(&mut self, profile: *mut fid_profile, event: Option<u32>) {
        let is_meant = |watcher: &Watcher| {
            watcher.profile == profile && event.is_none_or(|event| watcher.event == event)
        };
        self.0.retain(|watcher| !is_meant(watcher));
    }

    /// Makes the calls for an event, after which `count` messages wait.
    #[cold]
    pub(in crate::endpoint) fn call(
        &self,
        event: WaitEvent,
        message: &fi_cq_err_entry,
        count: usize,
    ) {
        let desc = &EVENTS[event as usize];
        for watcher in self.0.iter().filter(|watcher| watcher.event == desc.id) {
            let (mut desc, mut message) = (*desc, *message);
            *lock(&watcher.inside.0) = Some((thread::current().id(), count as u64));
            // SAFETY: the function is of this type; description and entry are valid during the call.
            unsafe {
                (watcher.callback)(
                    watcher.profile,
                    &mut desc,
                    (&raw mut message).cast(),
                    size_of::<fi_cq_err_entry>(),
                    watcher.context,
                )
            };
            *lock(&watcher.inside.0) = None;
        }
    }
}

// The events of the engine are numbered as those of the header.
const _: () = {
    assert!(EVENTS[WaitEvent::Begun as usize].id == FI_EVENT_UNEXP_MSG_RECVD);
    assert!(EVENTS[WaitEvent::Over as usize].id == FI_EVENT_UNEXP_MSG_MATCHED);
};
