//! Passive endpoints: fi_passive_ep(3), fi_listen(3), fi_reject(3). Path class: setup.
//!
//! A passive endpoint is driven by its event queue. Each request becomes an FI_CONNREQ event, whose description of an
//! endpoint has the request as its handle.

mod cm;
mod request;

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxifabric_abi::{FI_BACKLOG, FI_CLASS_EQ, FI_CLASS_PEP, FI_CONNREQ, fi_ops, fid, fid_pep};
use oxifabric_provider::clock;
use oxifabric_provider::connection::{Incoming, Listener, MsgProvider};
use oxifabric_provider::descriptors;
use oxifabric_provider::log;
use oxifabric_types::{Errno, Info, Instant};

use crate::absent;
use crate::drive::Drive;
use crate::eq::{Cm, Eq};
use crate::fabric::Fabric;
use crate::handle::{Fid, Ref, checked, status, table};
use crate::info;
use crate::lock::lock;
use request::Waiting;
pub(crate) use request::{Request, Taken, device_of};

/// How many requests may wait for the application, unless it says so with FI_BACKLOG; more wait in the operating system. A program
/// may want to see all its peers before it accepts the first.
const BACKLOG: usize = 1024;

/// The share of the process's descriptors that they may have, each of which has one.
const SHARE: usize = 2;

/// A passive endpoint.
#[repr(C)]
pub(crate) struct PassiveEndpoint<P: MsgProvider> {
    fid: Fid<fid_pep>,
    state: Mutex<State<P::Listener>>,
    eq: Mutex<Option<Ref<Eq>>>,
    /// Counts the requests that the application has not answered.
    waiting: Waiting,
    /// How many of them there may be.
    backlog: AtomicUsize,
    info: Info,
    fabric: Ref<Fabric>,
}

/// How far it is.
enum State<L> {
    /// It has an address.
    Bound(L),
    /// It takes requests.
    Listening(L),
    /// An active endpoint has taken over its address.
    Gone,
}

impl<P: MsgProvider> PassiveEndpoint<P> {
    const BASE: fi_ops = fi_ops {
        close: Some(Self::close),
        bind: Some(Self::bind),
        control: Some(Self::control),
        ..absent::BASE
    };

    /// Opens a passive endpoint of a fabric.
    ///
    /// # Errors
    /// What the listener says.
    pub(crate) fn open(
        fabric: &Fabric,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep, Errno> {
        let listener = P::Listener::open(&info)?;
        let fid = fid_pep {
            fid: fid {
                fclass: FI_CLASS_PEP,
                context,
                ops: table(const { &Self::BASE }),
            },
            ops: table(const { &Self::EP }),
            cm: table(const { &Self::CM }),
        };
        let endpoint = Box::new(Self {
            fid: Fid::new(fid),
            state: Mutex::new(State::Bound(listener)),
            eq: Mutex::default(),
            waiting: Waiting::default(),
            backlog: AtomicUsize::new(BACKLOG.min(descriptors::limit() / SHARE).max(1)),
            info,
            fabric: Ref::to(fabric),
        });
        Ok(Box::into_raw(endpoint).cast())
    }

    /// Returns the endpoint of a handle.
    ///
    /// # Safety
    /// The handle was made by [`PassiveEndpoint::open`] of this very type and is open.
    unsafe fn of<'a>(handle: *mut fid_pep) -> &'a Self {
        // SAFETY: the caller's contract; the type is `repr(C)` and begins with its handle.
        unsafe { &*handle.cast::<Self>() }
    }

    fn address(&self) -> usize {
        self.fid.as_ptr().expose_provenance()
    }

    fn driven(&self) -> NonNull<dyn Drive> {
        NonNull::from(self)
    }

    /// Gives up the address, for an active endpoint to take over.
    ///
    /// # Errors
    /// `INVAL` when it listens, or has been taken over already.
    pub(crate) fn release(&self) -> Result<P::Listener, Errno> {
        let mut state = lock(&self.state);
        match core::mem::replace(&mut *state, State::Gone) {
            State::Bound(listener) => Ok(listener),
            other => {
                *state = other;
                Err(Errno::INVAL)
            }
        }
    }

    unsafe extern "C" fn close(fid: *mut fid) -> c_int {
        let handle = fid.cast::<Self>();
        {
            // SAFETY: the table is only in the handles of this type.
            let endpoint = unsafe { &*handle };
            // The queue drives the endpoint under its own lock: let go of ours first.
            let eq = lock(&endpoint.eq).clone();
            if let Some(eq) = eq {
                eq.leave(endpoint.driven(), endpoint.address());
            }
        }
        // SAFETY: `open` boxed it; no queue drives it any more, and the application gives it up.
        drop(unsafe { Box::from_raw(handle) });
        0
    }

    unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, _flags: u64) -> c_int {
        // SAFETY: the table is only in the handles of this type; the application binds an open object.
        let (endpoint, eq) = unsafe { (Self::of(fid.cast()), queue(bfid)) };
        status(eq.and_then(|eq| endpoint.bind_eq(eq)))
    }

    /// Takes FI_BACKLOG, fi_endpoint(3): how many requests may wait, of which there is one at least.
    unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
        if command != FI_BACKLOG {
            return -Errno::NOSYS.raw();
        }
        // SAFETY: the table is only in the handles of this type; the argument of this command is an `int`, or null.
        let (endpoint, asked) = unsafe { (Self::of(fid.cast()), arg.cast::<c_int>().as_ref()) };
        status(match asked.map(|&count| usize::try_from(count)) {
            Some(Ok(count)) if count > 0 => {
                endpoint.backlog.store(count, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(Errno::INVAL),
        })
    }

    fn bind_eq(&self, eq: &Eq) -> Result<(), Errno> {
        let mut bound = lock(&self.eq);
        if bound.is_some() {
            return Err(Errno::INVAL);
        }
        *bound = Some(Ref::to(eq));
        Ok(())
    }

    /// Starts to take requests, fi_listen(3).
    fn listen(&self) -> Result<(), Errno> {
        let eq = lock(&self.eq).clone().ok_or(Errno::NOEQ)?;
        {
            let mut state = lock(&self.state);
            let State::Bound(listener) = &mut *state else {
                return Err(Errno::OPBADSTATE);
            };
            listener.listen()?;
            if let State::Bound(listener) = core::mem::replace(&mut *state, State::Gone) {
                *state = State::Listening(listener);
            }
        }
        // SAFETY: the endpoint is boxed, and leaves before it goes (`close`); its state has a lock that is always on.
        unsafe { eq.join(self.driven()) }
    }

    /// Pushes a request to the event queue.
    fn push(&self, eq: &Eq, incoming: Incoming<<P::Listener as Listener>::Request>, now: Instant) {
        let described = Info {
            src: Some(incoming.local),
            dest: Some(incoming.from),
            ..self.info.clone()
        };
        let raw = info::to_c(&described);
        // SAFETY: `to_c` gives null or an entry of its own.
        let Some(entry) = (unsafe { raw.as_mut() }) else {
            log::warn!(P::NAME, EpCtrl, "no memory for a request of a connection");
            return;
        };
        entry.handle = Request::<P>::publish(incoming.request, self.waiting.clone());
        // SAFETY: entry and handle are new and not shared yet.
        let unread = unsafe { Request::<P>::unread(raw, now) };
        eq.post_cm(Cm {
            event: FI_CONNREQ,
            fid: self.address(),
            info: Some(unread),
            data: incoming.data,
        });
    }
}

/// Returns the event queue of a handle.
///
/// # Safety
/// `bfid` is null or an open object.
unsafe fn queue<'a>(bfid: *mut fid) -> Result<&'a Eq, Errno> {
    // SAFETY: every open object begins with a `fid`; `checked` has the same contract.
    unsafe {
        match bfid.as_ref().map(|fid| fid.fclass) {
            Some(FI_CLASS_EQ) => checked(bfid),
            _ => Err(Errno::INVAL),
        }
    }
}

impl<P: MsgProvider> Drive for PassiveEndpoint<P> {
    fn progress(&self) -> usize {
        let Some(eq) = lock(&self.eq).clone() else {
            return 0;
        };
        let backlog = self.backlog.load(Ordering::Relaxed);
        let now = clock::now();
        if self.waiting.count() >= backlog {
            eq.forget_unread(self.address(), now);
        }
        let room = backlog.saturating_sub(self.waiting.count());
        let mut requests = Vec::new();
        let events = match &mut *lock(&self.state) {
            State::Listening(listener) => listener.poll(now, room, &mut requests),
            _ => 0,
        };
        for incoming in requests {
            self.push(&eq, incoming, now);
        }
        events
    }

    fn arm(&self) -> bool {
        match &mut *lock(&self.state) {
            State::Listening(listener) => listener.arm(),
            _ => true,
        }
    }

    fn fd(&self) -> RawFd {
        match &*lock(&self.state) {
            State::Listening(listener) | State::Bound(listener) => listener.fd(),
            State::Gone => -1,
        }
    }
}
