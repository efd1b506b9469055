//! Deferred work: a task that runs soon, in a thread of the kernel that may sleep.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::mutex::Mutex;
use crate::signal::Signal;
use crate::system::RawWork;

/// Place of the lock of a work among the kernel's: the first.
const LOCK_LEVEL: u32 = 0;
/// Place of the lock of what a work passes through: the last.
const THROUGH_LEVEL: u32 = 7;

/// What is run.
pub trait Task: Send + Sync + 'static {
    /// Does what there is to do. Runs again if it was asked for meanwhile. A worker and a thread that does the work in its place may run it at once: it
    /// takes a lock of its own.
    fn run(self: Arc<Self>);
}

/// A task that can be asked to run, from any thread and any number of times.
///
/// It does not keep the task's owner alive: after [`Work::stop`], and after the owner is gone, asking does nothing.
pub struct Work {
    /// Before what it points to, so that it goes first.
    raw: RawWork,
    job: Box<Job>,
    /// Held by a thread that runs the task in place of the worker.
    attending: Mutex<()>,
    /// What it passes through.
    through: Mutex<Option<Arc<Work>>>,
}

/// What the worker calls.
pub(crate) struct Job {
    stopped: AtomicBool,
    task: Weak<dyn Task>,
}

impl Job {
    /// Runs the task, unless it was stopped.
    pub(crate) fn run(&self) {
        if self.stopped.load(Ordering::Acquire) {
            return;
        }
        if let Some(task) = self.task.upgrade() {
            task.run();
        }
    }
}

impl Work {
    /// Makes the work of a task; `None` when there is not enough memory.
    pub fn new(task: Weak<dyn Task>) -> Option<Arc<Self>> {
        let stopped = AtomicBool::new(false);
        let job = Box::new(Job { stopped, task });
        let attending = Mutex::new(LOCK_LEVEL, ())?;
        let through = Mutex::new(THROUGH_LEVEL, None)?;
        Some(Arc::new(Self {
            attending,
            through,
            // SAFETY: the job stays where it is, in its box, until the raw work is gone.
            raw: unsafe { RawWork::new(&raw const *job) }?,
            job,
        }))
    }

    /// Lets the task run soon. Never sleeps.
    pub fn queue(&self) {
        if !self.job.stopped.load(Ordering::Acquire) {
            self.raw.queue();
        }
    }

    /// As [`Work::queue`], but also during [`Work::hold`] by a worker: what is asked for is not to be done at once.
    pub fn queue_later(&self) {
        if !self.job.stopped.load(Ordering::Acquire) {
            self.raw.queue_later();
        }
    }

    /// Lets no worker run the task until [`Work::release`], since the calling thread is about to do its work. One thread
    /// at a time holds a work: it has the lock under which its task runs.
    pub fn hold(&self) {
        self.raw.hold();
    }

    /// Ends [`Work::hold`]; returns whether the work was queued meanwhile, and the calling thread is to do it.
    #[must_use]
    pub fn release(&self) -> bool {
        self.raw.release()
    }

    /// Returns whether the calling thread is the one that runs the task now.
    pub fn is_current(&self) -> bool {
        self.raw.is_current()
    }

    /// Waits until the task neither runs nor is queued. Not for the task itself, nor for a work that passes through another one.
    pub fn finish(&self) {
        self.raw.cancel();
    }

    /// Has the task of another work run this one's from here on, by [`Work::serve`]: one worker does both. While the other work is busy,
    /// a worker of its own runs the task.
    pub fn pass_through(&self, other: &Arc<Self>) {
        let mut through = self.through.lock();
        // SAFETY: it is kept, and the raw work goes before what keeps it.
        unsafe { self.raw.pass(Some(&other.raw)) };
        *through = Some(Arc::clone(other));
    }

    /// Marks the work busy, or not any more: while it is, works that pass through it run on workers of their own.
    pub fn set_busy(&self, is_busy: bool) {
        self.raw.set_busy(is_busy);
    }

    /// Runs the task if the work was queued while a thread attends it, or while it passes through another work. Called by that thread, or by the other
    /// work's task.
    pub fn serve(&self) {
        if self.raw.asked() {
            let _alone = self.attending.lock();
            self.job.run();
        }
    }

    /// Stops it for good, and waits until it does not run any more. Not for the task itself.
    pub fn stop(&self) {
        self.job.stopped.store(true, Ordering::Release);
        let through = {
            let mut through = self.through.lock();
            // SAFETY: it passes through none.
            unsafe { self.raw.pass(None) };
            through.take()
        };
        drop(through);
        self.raw.cancel();
        drop(self.attending.lock());
    }

    /// Has the calling thread attend works while it does something: those that are asked to run meanwhile are not run by workers, but raise
    /// the signal, and [`Attended::serve`] runs them. A work that has an attendant already keeps it.
    /// So do those beyond the first few.
    pub fn attend<R>(works: Few, signal: &Signal, body: impl FnOnce(&Attended) -> R) -> R {
        let mut attended = Attended(works);
        for place in &mut attended.0 {
            // SAFETY: the signal is borrowed until `attended` is dropped below, which leaves the works.
            place.take_if(|work| unsafe { !work.raw.attend(signal.raw()) });
        }
        body(&attended)
    }
}

/// A few works, without an allocation.
pub type Few = [Option<Arc<Work>>; 4];

/// The works that a thread attends.
pub struct Attended(Few);

impl Attended {
    /// Runs those that were asked to run.
    pub fn serve(&self) {
        self.0.iter().flatten().for_each(|work| work.serve());
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.iter().flatten().for_each(|work| work.raw.leave());
    }
}

impl fmt::Debug for Attended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attended")
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicUsize;

    use super::*;
    use crate::{Ended, Timeout};

    /// Counts its runs, and raises a signal.
    struct Counter {
        runs: AtomicUsize,
        ran: Signal,
    }

    impl Task for Counter {
        fn run(self: Arc<Self>) {
            self.runs.fetch_add(1, Ordering::SeqCst);
            self.ran.raise();
        }
    }

    impl Counter {
        fn with_work() -> (Arc<Self>, Arc<Work>) {
            let counter = Arc::new(Self {
                runs: AtomicUsize::new(0),
                ran: Signal::new().unwrap(),
            });
            let task: Weak<dyn Task> = Arc::downgrade(&counter) as _;
            let work = Work::new(task).unwrap();
            (counter, work)
        }

        /// Waits until it has run so often.
        fn wait_for(&self, runs: usize) {
            loop {
                let number = self.ran.number();
                if self.runs.load(Ordering::SeqCst) >= runs {
                    return;
                }
                let (ended, _) = self.ran.wait(number, Timeout::from_ms(60_000));
                assert_eq!(ended, Ended::Raised, "the task was not run");
            }
        }
    }

    #[test]
    fn what_is_asked_for_while_a_work_is_held_is_its_holders() {
        let (counter, work) = Counter::with_work();
        work.hold();
        assert!(!work.release(), "nothing was asked for");
        work.hold();
        work.queue();
        work.queue();
        // Had a worker been asked, it would have run before the next request is served.
        assert!(work.release());
        assert_eq!(counter.runs.load(Ordering::SeqCst), 0);
        work.queue();
        counter.wait_for(1);
        work.finish();
        assert_eq!(counter.runs.load(Ordering::SeqCst), 1, "asked for once");
        work.hold();
        assert!(!work.release(), "and told once");
    }

    #[test]
    fn what_is_to_be_done_later_is_done_by_a_worker_although_the_work_is_held() {
        let (counter, work) = Counter::with_work();
        work.hold();
        work.queue_later();
        counter.wait_for(1);
        assert!(!work.release());
    }

    #[test]
    fn what_an_attendant_leaves_while_the_work_is_held_is_the_holders() {
        let (counter, work) = Counter::with_work();
        let signal = Signal::new().unwrap();
        let mut works = Few::default();
        works[0] = Some(Arc::clone(&work));
        work.hold();
        Work::attend(works, &signal, |_| {
            work.queue();
            assert_eq!(signal.number(), 1, "the attendant is asked");
        });
        assert!(work.release());
        assert_eq!(counter.runs.load(Ordering::SeqCst), 0);
    }

    /// Serves another work whenever it runs.
    struct Server {
        other: Arc<Work>,
        served: Signal,
    }

    impl Task for Server {
        fn run(self: Arc<Self>) {
            self.other.serve();
            self.served.raise();
        }
    }

    #[test]
    fn a_work_that_passes_through_another_one_is_done_by_it_unless_that_is_busy_or_it_has_stopped()
    {
        let (counter, work) = Counter::with_work();
        let server = Arc::new(Server {
            other: Arc::clone(&work),
            served: Signal::new().unwrap(),
        });
        let task: Weak<dyn Task> = Arc::downgrade(&server) as _;
        let other = Work::new(task).unwrap();
        work.pass_through(&other);
        work.queue();
        counter.wait_for(1);
        let (ended, _) = server.served.wait(0, Timeout::from_ms(60_000));
        assert_eq!(ended, Ended::Raised, "the other one ran");
        other.set_busy(true);
        work.queue();
        counter.wait_for(2);
        other.finish();
        assert_eq!(server.served.number(), 1, "and not while it was busy");
        other.set_busy(false);
        work.stop();
        work.queue();
        other.finish();
        assert_eq!(
            (counter.runs.load(Ordering::SeqCst), server.served.number()),
            (2, 1)
        );
    }

    #[test]
    fn an_attendant_does_what_was_asked_for_while_the_work_was_held() {
        let (counter, work) = Counter::with_work();
        let signal = Signal::new().unwrap();
        let mut works = Few::default();
        works[0] = Some(Arc::clone(&work));
        work.hold();
        work.queue();
        Work::attend(works, &signal, |attended| {
            assert!(!work.release(), "it has an attendant");
            attended.serve();
        });
        assert_eq!(counter.runs.load(Ordering::SeqCst), 1);
    }
}
