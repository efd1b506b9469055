//! Completion queues. Source: fi_cq(3).
//!
//! A post reserves the place of its completion and is refused when there is none, so a completion is never lost. What peers cause, writes
//! with data, has no reservation: while the queue is full, their accesses wait.

mod calls;
mod ring;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use oxifabric_abi::{
    FI_CLASS_CQ, FI_CQ_COND_NONE, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_UNSPEC,
    FI_WAIT_NONE, FI_WAIT_UNSPEC, fi_cq_attr, fi_cq_format, fid_cq, fid_domain,
};
use oxifabric_kernel_sync::{Attended, Ended, Few, Mutex, Signal, Task, Timeout, Work};
use oxifabric_types::Errno;

use crate::domain::Domain;
use crate::handle::{Fid, Object, Ref, Uses, new_fid, publish, status, table};
use crate::level;

pub(crate) use ring::Entry;
use ring::Ring;

/// Size of a queue whose attributes do not say one.
const DEFAULT_SIZE: usize = 1024;
/// How often a worker calls a consumer before others get their turn.
const CALLS: usize = 16;
/// Largest size.
const LARGEST: usize = 1 << 16;

/// A consumer's function.
type Call = unsafe extern "C" fn(*mut fid_cq, *mut c_void);

/// What a consumer has called when there are completions: `void (*call)(struct fid_cq *cq, void *arg)`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    call: Option<Call>,
    arg: *mut c_void,
}

// SAFETY: the consumer says that the function may be called with the argument from any thread.
unsafe impl Send for Callback {}

/// An open completion queue.
#[repr(C)]
pub(crate) struct Cq {
    fid: Fid<fid_cq>,
    uses: Uses,
    _domain: Ref<Domain>,
    format: fi_cq_format,
    may_wait: bool,
    state: Mutex<State>,
    added: Signal,
    /// Calls the consumer.
    work: Option<Arc<Work>>,
}

struct State {
    ring: Ring,
    callback: Option<Callback>,
    /// A thread that waits is to return, fi_cq_signal.
    is_signalled: bool,
    /// The endpoints whose completions come here, to be polled again when there is room. The work of the first few passes through that of the queue.
    feeders: Vec<Weak<Work>>,
    /// The queue's work runs, and calls the consumer for what is added meanwhile; and whether something was.
    is_running: bool,
    is_added: bool,
}

// SAFETY: it begins with the handle, and only `open` makes one, of this type.
unsafe impl Object for Cq {
    type Handle = fid_cq;
    const CLASS: usize = FI_CLASS_CQ;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Task for Cq {
    /// Does the work of the endpoints that have some, and calls the consumer, if it wants to be called and there is something to read: for what
    /// endpoints bring, no second worker is needed.
    fn run(self: Arc<Self>) {
        self.state.lock().is_running = true;
        self.serve_feeders();
        for _ in 0..CALLS {
            let Some((call, arg)) = self.state.lock().next_call() else {
                return;
            };
            self.set_busy(true);
            // What was asked of this work before it was busy is not left until the function returns, which may wait for it; also of an
            // endpoint that was bound meanwhile.
            self.serve_feeders();
            // SAFETY: the consumer's function, with its argument; the queue is open, as closing it waits for this work.
            unsafe { call(self.fid.as_ptr(), arg) }
            self.set_busy(false);
        }
        self.state.lock().is_running = false;
        self.queue();
    }
}

impl Cq {
    pub(crate) unsafe extern "C" fn open(
        domain: *mut fid_domain,
        attr: *mut fi_cq_attr,
        place: *mut *mut fid_cq,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in handles of domains; the consumer passes attributes, or null.
        let (domain, attr) = unsafe { (Ref::<Domain>::of(domain), attr.as_ref()) };
        let attr = attr.copied().unwrap_or(fi_cq_attr::ZERO);
        let opened = Self::new(domain, &attr, context);
        // SAFETY: the consumer passes a place for the handle.
        status(opened.map(|cq| unsafe { publish(cq, place) }))
    }

    fn new(
        domain: Ref<Domain>,
        attr: &fi_cq_attr,
        context: *mut c_void,
    ) -> Result<Arc<Self>, Errno> {
        if !matches!(attr.wait_obj, FI_WAIT_NONE | FI_WAIT_UNSPEC)
            || attr.wait_cond != FI_CQ_COND_NONE
            || attr.format > FI_CQ_FORMAT_TAGGED
        {
            return Err(Errno::NOSYS);
        }
        let size = if attr.size == 0 {
            DEFAULT_SIZE
        } else {
            attr.size
        };
        if size > LARGEST {
            return Err(Errno::INVAL);
        }
        let state = State {
            ring: Ring::new(size).ok_or(Errno::NOMEM)?,
            callback: None,
            is_signalled: false,
            feeders: Vec::new(),
            is_running: false,
            is_added: false,
        };
        let state = Mutex::new(level::QUEUE, state).ok_or(Errno::NOMEM)?;
        let added = Signal::new().ok_or(Errno::NOMEM)?;
        let handle = fid_cq {
            fid: new_fid::<Self>(context, &calls::OPS),
            ops: table(&calls::TABLE),
        };
        let late = Arc::new_cyclic(|weak: &Weak<Self>| Self {
            fid: Fid::new(handle),
            uses: Uses::default(),
            _domain: domain,
            format: match attr.format {
                FI_CQ_FORMAT_UNSPEC => FI_CQ_FORMAT_CONTEXT,
                format => format,
            },
            may_wait: attr.wait_obj != FI_WAIT_NONE,
            state,
            added,
            work: Work::new(weak.clone()),
        });
        match late.work {
            Some(_) => Ok(late),
            None => Err(Errno::NOMEM),
        }
    }

    /// Reserves the place of a completion.
    ///
    /// # Errors
    /// `AGAIN` when there is none: the consumer has to read the queue.
    pub(crate) fn reserve(&self) -> Result<(), Errno> {
        self.state.lock().ring.reserve()
    }

    /// Gives up reservations of operations that will not end.
    pub(crate) fn release(&self, count: usize) {
        self.state.lock().ring.release(count);
    }

    /// Takes an operation that ended; with its reservation, unless a peer caused it. Without a completion only the reservation is given up.
    pub(crate) fn push(&self, entry: Option<Entry>, is_reserved: bool) {
        let mut state = self.state.lock();
        if is_reserved {
            state.ring.release(1);
        }
        let Some(entry) = entry else { return };
        state.ring.push(entry);
        state.is_added = true;
        self.added.raise();
        if state.callback.is_some() && !state.is_running {
            self.queue();
        }
    }

    /// Returns whether peers have to wait until the consumer reads.
    pub(crate) fn is_full(&self) -> bool {
        self.state.lock().ring.is_full()
    }

    /// Notes an endpoint to be polled again when there is room.
    ///
    /// # Errors
    /// `NOMEM`.
    pub(crate) fn feed_from(&self, work: &Arc<Work>) -> Result<(), Errno> {
        let feeders = &mut self.state.lock().feeders;
        feeders.retain(|feeder| feeder.strong_count() > 0);
        let feeder = Arc::downgrade(work);
        // An endpoint may be bound for sends and for receives.
        if !feeders.iter().any(|known| known.ptr_eq(&feeder)) {
            feeders.try_reserve(1).map_err(|_| Errno::NOMEM)?;
            feeders.push(feeder);
            if let Some(through) = &self.work
                && feeders.len() <= Few::default().len()
            {
                work.pass_through(through);
            }
        }
        Ok(())
    }

    /// Takes up to `count` completions out and gives each to `take`, with its place.
    ///
    /// # Errors
    /// `AGAIN` when there is none; `AVAIL` when the next one is an error; `OVERRUN` when some were lost.
    fn read(&self, count: usize, take: &mut impl FnMut(usize, &Entry)) -> Result<usize, Errno> {
        self.state.lock().read(count, take)
    }

    /// As [`Cq::read`], but waits until there is something to read, or a thread is signalled. Meanwhile the thread does the work of the endpoints
    /// whose completions come here: it is woken for that, instead of a worker that would wake it when it has done it.
    fn read_when_there(
        &self,
        count: usize,
        timeout: Timeout,
        take: &mut impl FnMut(usize, &Entry),
    ) -> Result<usize, Errno> {
        if let Some(read) = self.read_news(count, take) {
            return read;
        }
        let works = self.state.lock().first_feeders();
        Work::attend(works, &self.added, |works| {
            self.sleep(works, count, timeout, take)
        })
    }

    fn sleep(
        &self,
        works: &Attended,
        count: usize,
        mut timeout: Timeout,
        take: &mut impl FnMut(usize, &Entry),
    ) -> Result<usize, Errno> {
        loop {
            let number = self.added.number();
            works.serve();
            if let Some(read) = self.read_news(count, take) {
                return read;
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

    /// As [`Cq::read`]; `None` when there is nothing to read, and `AGAIN` when a thread that waits is to return.
    fn read_news(
        &self,
        count: usize,
        take: &mut impl FnMut(usize, &Entry),
    ) -> Option<Result<usize, Errno>> {
        let mut state = self.state.lock();
        if core::mem::take(&mut state.is_signalled) {
            return Some(Err(Errno::AGAIN));
        }
        match state.read(count, take) {
            Err(Errno::AGAIN) => None,
            read => Some(read),
        }
    }

    /// Sets what is called. The one before is not called any more when this returns, unless that is what calls this.
    fn set_callback(&self, callback: Callback) {
        {
            let mut state = self.state.lock();
            state.callback = callback.call.map(|_| callback);
            // It is called for what is there already.
            state.is_added = true;
        }
        if let Some(work) = &self.work
            && !work.is_current()
        {
            work.finish();
        }
        self.queue();
    }

    fn queue(&self) {
        if let Some(work) = &self.work {
            work.queue();
        }
    }

    /// Does the work of the first few endpoints, if some was asked for.
    fn serve_feeders(&self) {
        let works = self.state.lock().first_feeders();
        works.iter().flatten().for_each(|work| work.serve());
    }

    /// Says whether the consumer is called: endpoints do not wait for that.
    fn set_busy(&self, is_busy: bool) {
        if let Some(work) = &self.work {
            work.set_busy(is_busy);
        }
    }

    /// Lets threads that wait return.
    fn signal(&self) {
        self.state.lock().is_signalled = true;
        self.added.raise();
    }

    /// Ends the calls of the consumer.
    fn end(&self) -> Result<(), Errno> {
        match &self.work {
            Some(work) if work.is_current() => Err(Errno::BUSY),
            Some(work) => {
                work.stop();
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl State {
    /// Returns the work of the first few endpoints whose completions come here.
    fn first_feeders(&self) -> Few {
        let mut works = Few::default();
        let open = self.feeders.iter().filter_map(Weak::upgrade);
        works
            .iter_mut()
            .zip(open)
            .for_each(|(place, work)| *place = Some(work));
        works
    }

    /// Returns what is called next, if something was added since the last time and is there; otherwise the queue's work does not run any more.
    fn next_call(&mut self) -> Option<(Call, *mut c_void)> {
        let is_worth_it = core::mem::take(&mut self.is_added) && !self.ring.is_empty();
        let callback = self.callback.filter(|_| is_worth_it);
        self.is_running = callback.is_some();
        callback.and_then(|callback| Some((callback.call?, callback.arg)))
    }

    fn read(&mut self, count: usize, take: &mut impl FnMut(usize, &Entry)) -> Result<usize, Errno> {
        let was_full = self.ring.is_full();
        let mut taken = 0;
        while taken < count {
            match self.ring.first() {
                Ok(entry) => take(taken, entry),
                Err(errno) if taken == 0 => return Err(errno),
                Err(_) => break,
            }
            self.ring.drop_first();
            taken += 1;
        }
        if was_full {
            self.let_in();
        }
        Ok(taken)
    }

    /// Has the endpoints polled again.
    fn let_in(&self) {
        let works = self.feeders.iter().filter_map(Weak::upgrade);
        works.for_each(|work| work.queue());
    }
}
