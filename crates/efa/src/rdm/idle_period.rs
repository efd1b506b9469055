//! Polls that find nothing: most do, while an application waits, and what they look at besides the device's queue changes only by what the endpoint is called for and by
//! completions. Path class: hot.

use oxifabric_types::Instant;

use super::EfaRdm;
use crate::sys::ReceiveBuffers;

/// Until when a poll has nothing to do unless there is a completion.
#[derive(Debug)]
pub(super) struct IdlePeriod(Instant);

impl Default for IdlePeriod {
    fn default() -> Self {
        Self(NEVER)
    }
}

const NEVER: Instant = Instant::from_nanos(0);

impl IdlePeriod {
    /// Begins one that lasts until then.
    pub(super) const fn begin(&mut self, until: Instant) {
        self.0 = until;
    }

    /// Ends it: there may be something to do now.
    pub(super) const fn end(&mut self) {
        self.0 = NEVER;
    }

    #[inline]
    pub(super) fn lasts(&self, now: Instant) -> bool {
        now < self.0
    }
}

impl EfaRdm {
    /// Returns whether a poll without a completion has nothing to do before peers are to be looked at: nothing is put off, kept or due.
    pub(super) fn has_nothing_to_do(&self) -> bool {
        let puts_nothing_off = self.deferred.is_empty()
            && self.polled.is_empty()
            && self.attention.is_empty()
            && self.doomed.is_empty();
        let nothing_waits = self.waiting.is_empty()
            && self.accesses.ready.is_empty()
            && self.tx.repeats_at().is_none();
        puts_nothing_off
            && nothing_waits
            && !self.rx.as_deref().is_some_and(ReceiveBuffers::is_due)
            && !self.peers.table.is_crowded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_period_lasts_until_its_end_or_until_something_is_to_be_done() {
        let at = Instant::from_nanos;
        let mut period = IdlePeriod::default();
        assert!(!period.lasts(at(1)));
        period.begin(at(10));
        assert!(period.lasts(at(9)) && !period.lasts(at(10)));
        period.end();
        assert!(!period.lasts(at(9)));
    }
}
