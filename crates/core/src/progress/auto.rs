//! Automatic progress, fi_domain(3) "FI_PROGRESS_AUTO": one thread for each domain that asked for it, no thread otherwise.
//!
//! The thread has three states. It *drives* while there is something to move. It is *parked* on the descriptors of the
//! devices while there is nothing. And it *waits* while the application polls by itself: then it does not wake up for
//! what the application finds anyway, and drives only now and then what the application leaves alone.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use oxifabric_provider::quiet_thread;
use oxifabric_types::Errno;

use super::domain_endpoints::DomainEndpoints;
use super::shared_driver::wait_while_polled;
use super::{DomainProgress, NOTICE};
use crate::drive::Drive;
use crate::lock::lock;

/// How long it is parked at a time. Nothing depends on it, since what needs attention makes a descriptor readable.
const PARKED: Duration = Duration::from_secs(1);

/// How often it looks again at devices that are neither quiet nor get anywhere, before it takes a break.
const LOOKS: u32 = 64;
const BREAK: Duration = Duration::from_micros(500);

/// The thread of a domain.
pub(super) struct Auto {
    wanted: bool,
    thread: Mutex<Option<Worker>>,
    /// The domain closes.
    stopping: AtomicBool,
    /// The application polled since the thread asked.
    polled: AtomicBool,
}

struct Worker {
    handle: JoinHandle<()>,
    /// The process that it runs in: a forked child has no such thread.
    pid: u32,
}

impl Auto {
    pub(super) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            thread: Mutex::default(),
            stopping: AtomicBool::new(false),
            polled: AtomicBool::new(false),
        }
    }

    /// Returns whether the domain asked for automatic progress.
    pub(super) const fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Starts the thread if the domain asked for it and it does not run yet.
    ///
    /// # Errors
    /// `MFILE`, `AGAIN` when the system has no room for a thread.
    pub(super) fn start(progress: &Arc<DomainProgress>) -> Result<(), Errno> {
        let auto = &progress.auto;
        if !auto.wanted {
            return Ok(());
        }
        let mut thread = lock(&auto.thread);
        if thread.is_none() {
            progress.endpoints.bell()?;
            let shared = Arc::clone(progress);
            let handle = quiet_thread::spawn("oxi-progress", move || run(&shared))
                .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
            *thread = Some(Worker {
                handle,
                pid: std::process::id(),
            });
        }
        Ok(())
    }

    /// Asks the thread, which may sleep, to stop because the domain closes.
    pub(super) fn say_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Returns whether the domain closes.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Returns whether the application polled since the last call.
    pub(super) fn take_polled(&self) -> bool {
        self.polled.swap(false, Ordering::SeqCst)
    }

    /// Notes that the application polls, for which the thread asked.
    pub(super) fn notice(&self, endpoints: &DomainEndpoints) {
        self.polled.store(true, Ordering::SeqCst);
        // Polling unarms the devices, so the thread must not rely on them.
        endpoints.ring();
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(&self, endpoints: &DomainEndpoints) {
        let Some(worker) = lock(&self.thread).take() else {
            return;
        };
        if worker.pid != std::process::id() {
            // The thread is the parent's, and waiting for it here would never end.
            mem::forget(worker.handle);
            return;
        }
        self.say_stop();
        endpoints.wake();
        worker.handle.thread().unpark();
        // A panic was reported where it happened, and there is nothing to save.
        let _ = worker.handle.join();
    }
}

fn run(progress: &Arc<DomainProgress>) {
    let (auto, endpoints) = (&progress.auto, &progress.endpoints);
    let Ok(bell) = endpoints.bell() else {
        return;
    };
    let mut looks = 0;
    while !auto.is_stopping() {
        // Asked before the devices are armed: a thread that polls after that unarms them, and says so.
        progress.word.fetch_or(NOTICE, Ordering::SeqCst);
        let (events, is_one_left) = progress.drive_unattended();
        if auto.polled.load(Ordering::SeqCst) {
            wait_while_polled(progress);
            looks = 0;
        } else if events > 0 {
            looks = 0;
        } else if is_one_left {
            // Its device is readable all the time. The application that reads the queue drives it.
            thread::park_timeout(BREAK);
        } else if endpoints.arm() {
            looks = 0;
            if !auto.polled.load(Ordering::SeqCst) && !auto.is_stopping() {
                bell.sleep(PARKED);
            }
        } else {
            looks += 1;
            if looks > LOOKS {
                thread::park_timeout(BREAK);
            }
        }
    }
}
