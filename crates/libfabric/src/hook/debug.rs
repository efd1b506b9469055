//! The hook debug: calls that fail, and objects that a program forgets. Source: fi_hook(7).

use std::sync::atomic::{AtomicU64, Ordering};

use oxifabric_provider::log;
use oxifabric_types::{Errno, strerror_c};

use super::{Call, Hook};

#[derive(Debug)]
pub(super) struct Debug {
    provider: String,
    calls: AtomicU64,
    failed: AtomicU64,
}

impl Debug {
    pub(super) fn start(provider: &str) -> Option<Box<dyn Hook>> {
        Some(Box::new(Self {
            provider: provider.to_owned(),
            calls: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }))
    }
}

impl Hook for Debug {
    fn after(&self, call: &Call<'_>, _token: u64, result: i64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        // "Try again" and "timed out" are no failures, and counters may have any value.
        let usual = [
            Errno::TOOSMALL.raw(),
            Errno::AGAIN.raw(),
            Errno::TIMEDOUT.raw(),
            Errno::AVAIL.raw(),
        ];
        let is_usual = usual.iter().any(|&code| result == -i64::from(code));
        if result >= 0 || is_usual || call.table == "fi_ops_cntr" {
            return;
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        let text = strerror_c(result as i32).to_string_lossy();
        let Call {
            table,
            op,
            arguments,
            ..
        } = call;
        log::warn!(
            &self.provider,
            Core,
            "{table}.{op}({arguments}) failed: {result} ({text})"
        );
    }

    fn finish(&self, open: usize) {
        let calls = self.calls.load(Ordering::Relaxed);
        let failed = self.failed.load(Ordering::Relaxed);
        log::trace!(
            &self.provider,
            Core,
            "{calls} calls, {failed} failed, {open} objects still open"
        );
    }
}
