//! Event queues: what becomes of connections. Source: fi_eq(3).

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};

use oxifabric_abi::{
    FI_CLASS_EQ, FI_PEEK, FI_WAIT_NONE, FI_WAIT_UNSPEC, fi_eq_attr, fi_eq_cm_entry,
    fi_eq_err_entry, fi_info, fi_ops, fi_ops_eq, fid, fid_eq, fid_fabric, fid_t,
};
use oxifabric_kernel_sync::{Ended, Mutex, Signal, Timeout};
use oxifabric_types::{Errno, strerror_c};

use crate::fabric::Fabric;
use crate::handle::{Fid, Object, Ref, Uses, close, count, failed, new_fid, object, publish};
use crate::handle::{status, table};
use crate::level;

/// How many events a queue holds whose attributes do not say it; at most.
const DEFAULT_SIZE: usize = 256;
const LARGEST: usize = 1 << 16;

/// What happened.
pub(crate) struct Event {
    /// FI_CONNREQ, FI_CONNECTED, FI_SHUTDOWN; of an error, what was tried.
    pub(crate) kind: u32,
    /// The endpoint that it happened to.
    pub(crate) fid: fid_t,
    /// Of a request: what to open an endpoint with. Released here until it is read.
    pub(crate) info: *mut fi_info,
    /// The data of the peer.
    pub(crate) data: Vec<u8>,
    pub(crate) errno: Option<Errno>,
}

// SAFETY: the pointers name what the consumer is told about; the entry of a request belongs to the event.
unsafe impl Send for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it came from the crate info, or is null.
        unsafe { oxifabric_info::free(self.info) }
    }
}

/// An open event queue.
#[repr(C)]
pub(crate) struct Eq {
    fid: Fid<fid_eq>,
    uses: Uses,
    _fabric: Ref<Fabric>,
    may_wait: bool,
    size: usize,
    state: Mutex<State>,
    added: Signal,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// The data of the error that was read last; the consumer may look at it until the next one is read.
    last: Vec<u8>,
    is_overrun: bool,
}

// SAFETY: it begins with the handle, and only `open` makes one, of this type.
unsafe impl Object for Eq {
    type Handle = fid_eq;
    const CLASS: usize = FI_CLASS_EQ;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

static OPS: fi_ops = fi_ops {
    close: Some(close_eq),
    ..fi_ops::NONE
};

static TABLE: fi_ops_eq = fi_ops_eq {
    read: Some(read),
    readerr: Some(readerr),
    sread: Some(sread),
    strerror: Some(strerror),
    ..fi_ops_eq::NONE
};

impl Eq {
    pub(crate) unsafe extern "C" fn open(
        fabric: *mut fid_fabric,
        attr: *mut fi_eq_attr,
        place: *mut *mut fid_eq,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in handles of fabrics; the consumer passes attributes, or null.
        let (fabric, attr) = unsafe { (Ref::<Fabric>::of(fabric), attr.as_ref()) };
        let attr = attr.copied().unwrap_or(fi_eq_attr::ZERO);
        let opened = Self::new(fabric, &attr, context);
        // SAFETY: the consumer passes a place for the handle.
        status(opened.map(|eq| unsafe { publish(eq, place) }))
    }

    fn new(
        fabric: Ref<Fabric>,
        attr: &fi_eq_attr,
        context: *mut c_void,
    ) -> Result<Arc<Self>, Errno> {
        if !matches!(attr.wait_obj, FI_WAIT_NONE | FI_WAIT_UNSPEC) {
            return Err(Errno::NOSYS);
        }
        let handle = fid_eq {
            fid: new_fid::<Self>(context, &OPS),
            ops: table(&TABLE),
        };
        Ok(Arc::new(Self {
            fid: Fid::new(handle),
            uses: Uses::default(),
            _fabric: fabric,
            may_wait: attr.wait_obj != FI_WAIT_NONE,
            size: match attr.size {
                0 => DEFAULT_SIZE,
                size => size.min(LARGEST),
            },
            state: Mutex::new(level::QUEUE, State::default()).ok_or(Errno::NOMEM)?,
            added: Signal::new().ok_or(Errno::NOMEM)?,
        }))
    }

    /// Adds an event; returns false when the queue is full or there is no memory, and remembers that.
    pub(crate) fn push(&self, event: Event) -> bool {
        let mut state = self.state.lock();
        let has_room = state.events.len() < self.size && state.events.try_reserve(1).is_ok();
        if has_room {
            state.events.push_back(event);
        } else {
            state.is_overrun = true;
        }
        self.added.raise();
        has_room
    }

    /// Drops the events of an endpoint that is closed.
    pub(crate) fn forget(&self, fid: fid_t) {
        self.state.lock().events.retain(|event| event.fid != fid);
    }

    /// Waits until there is an event.
    fn wait(&self, mut timeout: Timeout) -> Result<(), Errno> {
        loop {
            let number = self.added.number();
            {
                let state = self.state.lock();
                if !state.events.is_empty() || state.is_overrun {
                    return Ok(());
                }
            }
            let ended;
            (ended, timeout) = self.added.wait(number, timeout);
            match ended {
                Ended::Raised => {}
                Ended::TimedOut => return Err(Errno::AGAIN),
                Ended::Interrupted => return Err(Errno::INTR),
            }
        }
    }

    /// Copies the next event out, and takes it unless it is only looked at.
    ///
    /// # Errors
    /// `AGAIN` without one; `AVAIL` if it is an error; `TOOSMALL` when its fixed part does not fit.
    ///
    /// # Safety
    /// `kind` may be written, and `buf` has room for `len` bytes.
    unsafe fn read(
        &self,
        kind: *mut u32,
        buf: *mut c_void,
        len: usize,
        flags: u64,
    ) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        let Some(event) = state.events.front_mut() else {
            let is_overrun = core::mem::take(&mut state.is_overrun);
            return Err(if is_overrun {
                Errno::OVERRUN
            } else {
                Errno::AGAIN
            });
        };
        if event.errno.is_some() {
            return Err(Errno::AVAIL);
        }
        let fixed = size_of::<fi_eq_cm_entry>();
        let data = len.checked_sub(fixed).ok_or(Errno::TOOSMALL)?;
        let data = data.min(event.data.len());
        let entry = fi_eq_cm_entry {
            fid: event.fid,
            info: event.info,
            data: [],
        };
        // SAFETY: the caller's contract; what is copied fits.
        unsafe {
            kind.write(event.kind);
            buf.cast::<fi_eq_cm_entry>().write_unaligned(entry);
            let to = buf.cast::<u8>().add(fixed);
            to.copy_from_nonoverlapping(event.data.as_ptr(), data);
        }
        if flags & FI_PEEK == 0 {
            // The entry is the consumer's now.
            event.info = core::ptr::null_mut();
            state.events.pop_front();
        }
        Ok(fixed + data)
    }
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the table is only in handles of queues; the rest is the consumer's.
    count(unsafe { object::<Eq>(eq).read(event, buf, len, flags) })
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the table is only in handles of queues.
    let eq = unsafe { object::<Eq>(eq) };
    if !eq.may_wait {
        return failed(Errno::INVAL);
    }
    let waited = eq.wait(Timeout::from_ms(timeout));
    // SAFETY: the rest is the consumer's.
    count(waited.and_then(|()| unsafe { eq.read(event, buf, len, flags) }))
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, _flags: u64) -> isize {
    // SAFETY: the table is only in handles of queues.
    let eq = unsafe { object::<Eq>(eq) };
    let mut state = eq.state.lock();
    let is_error = |event: &mut Event| event.errno.is_some();
    let Some(mut event) = state.events.pop_front_if(is_error) else {
        return failed(Errno::AGAIN);
    };
    let errno = event.errno.map_or(0, Errno::raw);
    state.last = core::mem::take(&mut event.data);
    let entry = fi_eq_err_entry {
        fid: event.fid,
        // SAFETY: events of endpoints that are closed were dropped.
        context: unsafe { (*event.fid).context },
        data: u64::from(event.kind),
        err: errno,
        prov_errno: errno,
        err_data: state.last.as_mut_ptr().cast(),
        err_data_size: state.last.len(),
    };
    // SAFETY: the consumer passes room for an error entry.
    unsafe { buf.write(entry) };
    size_of::<fi_eq_err_entry>() as isize
}

unsafe extern "C" fn strerror(
    _eq: *mut fid_eq,
    prov_errno: c_int,
    _err_data: *const c_void,
    _buf: *mut c_char,
    _len: usize,
) -> *const c_char {
    strerror_c(prov_errno).as_ptr()
}

unsafe extern "C" fn close_eq(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in handles of queues.
    unsafe { close::<Eq>(fid, |_| Ok(())) }
}
