//! Deferred work: a task that runs soon, in a thread of the kernel that may sleep.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::system::RawWork;

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
        Some(Arc::new(Self {
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
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}
