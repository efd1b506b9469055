//! Poll sets: fi_poll(3). Path class: hot, for applications that poll many queues by one call.

use core::ffi::{c_int, c_void};
use std::sync::Mutex;

use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_POLL, fi_ops, fi_ops_poll, fi_poll_attr, fid, fid_poll,
};
use oxifabric_types::Errno;

use crate::absent;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::handle::{self, Fid, Object, Ref, Uses, checked, object, publish, status, table};
use crate::lock::lock;

/// A poll set.
#[repr(C)]
pub(crate) struct PollSet {
    fid: Fid<fid_poll>,
    uses: Uses,
    domain: Ref<Domain>,
    members: Mutex<Vec<Member>>,
}

/// What is polled.
enum Member {
    Cq(Ref<Cq>),
    Cntr(Ref<Cntr>),
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for PollSet {
    type Handle = fid_poll;
    const CLASS: usize = FI_CLASS_POLL;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl PollSet {
    /// Opens an empty set in a domain.
    ///
    /// # Errors
    /// `INVAL` for flags, which are reserved.
    pub(crate) fn open(
        domain: &Domain,
        attr: Option<&fi_poll_attr>,
    ) -> Result<*mut fid_poll, Errno> {
        if attr.is_some_and(|attr| attr.flags != 0) {
            return Err(Errno::INVAL);
        }
        let fid = fid_poll {
            fid: handle::new_fid::<Self>(core::ptr::null_mut()),
            ops: table(&OPS),
        };
        Ok(publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            domain: Ref::to(domain),
            members: Mutex::default(),
        }))
    }

    /// Adds a queue or counter of the same domain, once however often it is added.
    ///
    /// # Safety
    /// `fid` is null or an open object.
    unsafe fn add(&self, fid: *mut fid, flags: u64) -> Result<(), Errno> {
        if fid.is_null() {
            return Err(Errno::INVAL);
        }
        if flags != 0 {
            return Err(Errno::BADFLAGS);
        }
        // SAFETY: every open object begins with a `fid`; `checked` has the same contract.
        let member = unsafe {
            match (*fid).fclass {
                FI_CLASS_CQ => Member::Cq(Ref::to(checked::<Cq>(fid)?)),
                FI_CLASS_CNTR => Member::Cntr(Ref::to(checked::<Cntr>(fid)?)),
                _ => return Err(Errno::INVAL),
            }
        };
        if !core::ptr::eq(member.domain(), &*self.domain) {
            return Err(Errno::DOMAIN);
        }
        let mut members = lock(&self.members);
        if !members.iter().any(|other| other.handle() == fid) {
            members.push(member);
        }
        Ok(())
    }

    fn remove(&self, fid: *mut fid, flags: u64) -> Result<(), Errno> {
        if flags != 0 {
            return Err(Errno::BADFLAGS);
        }
        let mut members = lock(&self.members);
        let at = members.iter().position(|member| member.handle() == fid);
        members.swap_remove(at.ok_or(Errno::INVAL)?);
        Ok(())
    }

    /// Drives all members and gives `found` the contexts of those with unread events, at most `room` of them.
    fn poll(&self, room: usize, mut found: impl FnMut(usize, *mut c_void)) -> usize {
        let mut count = 0;
        for member in lock(&self.members).iter() {
            // Every member is driven, those too whose context finds no room.
            if member.drive() && count < room && member.take_news() {
                // SAFETY: the object is open, since it is referred to; its `fid` may be read.
                found(count, unsafe { (*member.handle()).context });
                count += 1;
            }
        }
        count
    }
}

impl Member {
    fn domain(&self) -> &Domain {
        match self {
            Self::Cq(cq) => cq.domain(),
            Self::Cntr(cntr) => cntr.domain(),
        }
    }

    fn handle(&self) -> *mut fid {
        match self {
            Self::Cq(cq) => core::ptr::from_ref::<Cq>(cq).cast_mut().cast(),
            Self::Cntr(cntr) => core::ptr::from_ref::<Cntr>(cntr).cast_mut().cast(),
        }
    }

    /// Moves what can be moved; returns whether there are unread events.
    fn drive(&self) -> bool {
        match self {
            Self::Cq(cq) => cq.drive() != Err(Errno::AGAIN),
            Self::Cntr(cntr) => cntr.drive(),
        }
    }

    /// Returns whether events are still unread, and marks them as reported: those of a counter are reported once.
    fn take_news(&self) -> bool {
        match self {
            Self::Cq(_) => true,
            Self::Cntr(cntr) => cntr.take_news(),
        }
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    ..absent::BASE
};

static OPS: fi_ops_poll = fi_ops_poll {
    poll: Some(poll),
    poll_add: Some(poll_add),
    poll_del: Some(poll_del),
    ..fi_ops_poll::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of poll sets, and the application gives this one up.
    status(unsafe { handle::close::<PollSet>(fid) })
}

unsafe extern "C" fn poll(set: *mut fid_poll, contexts: *mut *mut c_void, count: c_int) -> c_int {
    let Ok(room) = usize::try_from(count) else {
        return -Errno::INVAL.raw();
    };
    if contexts.is_null() && room != 0 {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in the handles of poll sets.
    let set: &PollSet = unsafe { object(set) };
    // SAFETY: the application has room for `count` contexts.
    set.poll(room, |at, context| unsafe { *contexts.add(at) = context }) as c_int
}

unsafe extern "C" fn poll_add(set: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the table is only in the handles of poll sets; the application adds an open object.
    status(unsafe { object::<PollSet>(set).add(event_fid, flags) })
}

unsafe extern "C" fn poll_del(set: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the table is only in the handles of poll sets.
    status(unsafe { object::<PollSet>(set) }.remove(event_fid, flags))
}
