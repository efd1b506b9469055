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

/// What is run.
pub trait Task: Send + Sync + 'static {
    /// Does what there is to do. Never runs twice at once; runs again if it was asked for meanwhile.
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
        Some(Arc::new(Self {
            attending,
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

    /// Returns whether the calling thread is the one that runs the task now.
    pub fn is_current(&self) -> bool {
        self.raw.is_current()
    }

    /// Waits until it does not run, and was not asked to. Not for the task itself.
    pub fn finish(&self) {
        self.raw.cancel();
    }

    /// Stops it for good, and waits until it does not run any more. Not for the task itself.
    pub fn stop(&self) {
        self.job.stopped.store(true, Ordering::Release);
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
        for work in self.0.iter().flatten() {
            if work.raw.asked() {
                let _alone = work.attending.lock();
                work.job.run();
            }
        }
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
