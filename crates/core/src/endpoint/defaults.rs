//! Which flags an operation has: fi_endpoint(3) "OPERATION FLAGS" and FI_SELECTIVE_COMPLETION.
//!
//! Calls without a flags argument take the endpoint's own flags; calls with one take theirs. Either way a completion is
//! wanted unless the queue was bound for selective completions and the call does not ask for one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oxifabric_types::Flags;

/// What the endpoint and its engine want to know of a send.
const TX: Flags = Flags::REMOTE_CQ_DATA
    .union(Flags::COMPLETION)
    .union(Flags::INJECT)
    .union(Flags::MORE)
    .union(Flags::INJECT_COMPLETE)
    .union(Flags::TRANSMIT_COMPLETE)
    .union(Flags::DELIVERY_COMPLETE)
    .union(Flags::MATCH_COMPLETE)
    .union(Flags::TRIGGER)
    .union(Flags::DEFERRED);

/// What completions wait for at the peer.
const BY_PEER: Flags = Flags::DELIVERY_COMPLETE.union(Flags::MATCH_COMPLETE);

/// The levels at which an operation ends later than its call. Where nothing tells of its end, none is waited for.
const AWAITED: Flags = BY_PEER.union(Flags::TRANSMIT_COMPLETE);

/// What only calls with flags of their own can ask of a send.
const TX_CALL: Flags = TX.union(Flags::FENCE);

/// What the endpoint and its engine want to know of a receive.
const RX: Flags = Flags::COMPLETION
    .union(Flags::MULTI_RECV)
    .union(Flags::PEEK)
    .union(Flags::CLAIM)
    .union(Flags::DISCARD)
    .union(Flags::MORE)
    .union(Flags::TRIGGER)
    .union(Flags::DEFERRED);

/// The flags of one direction.
pub(super) struct DirectionFlags {
    /// What the engine wants to know.
    mask: Flags,
    /// What the engine wants to know of calls that bring their own flags.
    call_mask: Flags,
    /// The flags of calls without flags, as the application set and gets them.
    op_flags: AtomicU64,
    /// Flags that are added to all calls: `COMPLETION`, unless completions are selective.
    always: AtomicU64,
    /// The flags of calls without flags for the engine: the sum of both.
    plain: AtomicU64,
    /// A counter counts messages: it may say when one has been delivered.
    counted: AtomicBool,
    /// The flags of messages that never write a completion.
    injected: AtomicU64,
    /// A counter counts writes: it says when the target has them.
    counts_writes: AtomicBool,
    /// The flags of writes by calls without flags.
    plain_write: AtomicU64,
    /// The flags of writes that never have a completion.
    injected_write: AtomicU64,
}

/// The flags of both directions.
pub(super) struct Defaults {
    pub(super) tx: DirectionFlags,
    pub(super) rx: DirectionFlags,
}

impl Defaults {
    /// Takes over the attributes of a new endpoint.
    pub(super) fn new(tx: Flags, rx: Flags) -> Self {
        Self {
            tx: DirectionFlags::new(TX, TX_CALL, tx),
            rx: DirectionFlags::new(RX, RX, rx),
        }
    }
}

impl DirectionFlags {
    fn new(mask: Flags, call_mask: Flags, op_flags: Flags) -> Self {
        let flags = Self {
            mask,
            call_mask,
            op_flags: AtomicU64::new(0),
            always: AtomicU64::new(Flags::COMPLETION.bits()),
            plain: AtomicU64::new(0),
            counted: AtomicBool::new(false),
            injected: AtomicU64::new(0),
            counts_writes: AtomicBool::new(false),
            plain_write: AtomicU64::new(0),
            injected_write: AtomicU64::new(0),
        };
        flags.set_op_flags(op_flags);
        flags
    }

    /// Returns the flags of calls without flags (`FI_GETOPSFLAG`).
    pub(super) fn op_flags(&self) -> Flags {
        Flags::from_bits_retain(self.op_flags.load(Ordering::Relaxed))
    }

    /// Sets the flags of calls without flags (`FI_SETOPSFLAG`).
    pub(super) fn set_op_flags(&self, flags: Flags) {
        self.op_flags.store(flags.bits(), Ordering::Relaxed);
        self.update();
    }

    /// Makes completions selective: written only for operations that ask for one.
    pub(super) fn select(&self) {
        self.always.store(0, Ordering::Relaxed);
        self.update();
    }

    /// Notes that a counter counts messages.
    pub(super) fn count(&self) {
        self.counted.store(true, Ordering::Relaxed);
        self.update();
    }

    /// Notes that a counter counts writes.
    pub(super) fn count_writes(&self) {
        self.counts_writes.store(true, Ordering::Relaxed);
        self.update();
    }

    fn update(&self) {
        let always = self.always.load(Ordering::Relaxed);
        let flags = delivered(self.op_flags.load(Ordering::Relaxed));
        let plain = (flags | always) & self.mask.bits();
        self.plain.store(plain, Ordering::Relaxed);
        let injected = match self.counted.load(Ordering::Relaxed) {
            true => self.inject(),
            false => self.inject().difference(AWAITED),
        };
        self.injected.store(injected.bits(), Ordering::Relaxed);
        let counted = self.counts_writes.load(Ordering::Relaxed);
        let plain = placed(self.plain(), counted);
        self.plain_write.store(plain.bits(), Ordering::Relaxed);
        let injected = match counted {
            true => placed(self.inject(), counted),
            false => self.inject(),
        };
        self.injected_write
            .store(injected.bits(), Ordering::Relaxed);
    }

    /// Returns the flags of a call without flags.
    #[inline]
    pub(super) fn plain(&self) -> Flags {
        Flags::from_bits_retain(self.plain.load(Ordering::Relaxed))
    }

    /// Returns the flags of a call that brings its own.
    #[inline]
    pub(super) fn given(&self, flags: u64) -> Flags {
        let always = self.always.load(Ordering::Relaxed);
        Flags::from_bits_retain((delivered(flags) | always) & self.call_mask.bits())
    }

    /// Returns the flags of a call that never writes a completion (fi_inject_write). It has no context that could say what
    /// it waits for, so it is never triggered.
    #[inline]
    pub(super) fn inject(&self) -> Flags {
        self.plain()
            .difference(Flags::COMPLETION.union(Flags::TRIGGER))
            .union(Flags::INJECT)
    }

    /// Returns the flags of a write, or of an atomic that fetches nothing, by a call without flags.
    #[inline]
    pub(super) fn write(&self) -> Flags {
        Flags::from_bits_retain(self.plain_write.load(Ordering::Relaxed))
    }

    /// Returns the flags of a write, or of an atomic that fetches nothing, by a call with flags.
    #[inline]
    pub(super) fn given_write(&self, flags: u64) -> Flags {
        let flags = self.given(flags);
        let counted = self.counts_writes.load(Ordering::Relaxed);
        placed(flags, counted || flags.contains(Flags::DEFERRED))
    }

    /// Returns the flags of a write that never has a completion (fi_inject_write, fi_inject_atomic).
    #[inline]
    pub(super) fn inject_write(&self) -> Flags {
        Flags::from_bits_retain(self.injected_write.load(Ordering::Relaxed))
    }

    /// Returns the flags of a message that never has a completion (fi_inject). Where no counter counts messages, the
    /// application cannot see when it has been delivered, so that the peer need not say so: an acknowledgement of each
    /// message costs as much as the message.
    #[inline]
    pub(super) fn inject_message(&self) -> Flags {
        Flags::from_bits_retain(self.injected.load(Ordering::Relaxed))
    }
}

/// Adds delivery to the flags of an operation that is to be durable: a target makes writes to persistent memory durable before
/// it says that they have arrived, so that is when it is (fi_rma(3) "FI_COMMIT_COMPLETE").
#[inline]
const fn delivered(flags: u64) -> u64 {
    const COMMIT: u64 = Flags::COMMIT_COMPLETE.bits();
    const SHIFT: u32 = COMMIT.trailing_zeros() - Flags::DELIVERY_COMPLETE.bits().trailing_zeros();
    flags | (flags & COMMIT) >> SHIFT
}

/// Adds delivery to the flags of a write that is to be over when the target has it: at transmit complete, of which only the
/// target's answer tells (fi_cq(3)), and where a counter counts it that was asked for no level (docs/adr/0029).
#[inline]
const fn placed(flags: Flags, counted: bool) -> Flags {
    const LEVELS: Flags = BY_PEER
        .union(Flags::INJECT_COMPLETE)
        .union(Flags::TRANSMIT_COMPLETE);
    let is_default = counted && !flags.intersects(LEVELS);
    if is_default || flags.contains(Flags::TRANSMIT_COMPLETE) {
        return flags.union(Flags::DELIVERY_COMPLETE);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_completes_by_default() {
        let defaults = Defaults::new(Flags::DELIVERY_COMPLETE, Flags::MULTI_RECV);
        let tx = &defaults.tx;
        assert_eq!(tx.plain(), Flags::DELIVERY_COMPLETE | Flags::COMPLETION);
        assert_eq!(tx.given(0), Flags::COMPLETION);
        assert_eq!(tx.inject(), Flags::DELIVERY_COMPLETE | Flags::INJECT);
        assert_eq!(defaults.rx.plain(), Flags::MULTI_RECV | Flags::COMPLETION);
    }

    #[test]
    fn injected_messages_are_awaited_only_where_a_counter_counts() {
        for by_peer in [Flags::DELIVERY_COMPLETE, Flags::MATCH_COMPLETE] {
            let tx = Defaults::new(by_peer | Flags::TRIGGER, Flags::empty()).tx;
            assert_eq!(tx.inject_message(), Flags::INJECT);
            assert_eq!(tx.inject(), by_peer | Flags::INJECT);
            tx.set_op_flags(Flags::TRANSMIT_COMPLETE);
            assert_eq!(tx.inject_message(), Flags::INJECT);
            tx.count();
            for awaited in [Flags::TRANSMIT_COMPLETE, by_peer] {
                tx.set_op_flags(awaited);
                assert_eq!(tx.inject_message(), awaited | Flags::INJECT);
            }
        }
    }

    #[test]
    fn writes_are_counted_when_the_target_has_them() {
        let tx = Defaults::new(Flags::empty(), Flags::empty()).tx;
        assert_eq!(tx.write(), Flags::COMPLETION);
        assert_eq!(tx.inject_write(), Flags::INJECT);
        assert_eq!(tx.given_write(0), Flags::COMPLETION);
        let deferred = Flags::DEFERRED | Flags::COMPLETION;
        assert_eq!(
            tx.given_write(Flags::DEFERRED.bits()),
            deferred | Flags::DELIVERY_COMPLETE
        );
        tx.count_writes();
        assert_eq!(tx.write(), Flags::COMPLETION | Flags::DELIVERY_COMPLETE);
        assert_eq!(tx.inject_write(), Flags::INJECT | Flags::DELIVERY_COMPLETE);
        assert_eq!(
            tx.given_write(0),
            Flags::COMPLETION | Flags::DELIVERY_COMPLETE
        );
        assert_eq!(tx.plain(), Flags::COMPLETION, "messages are as they were");
        tx.set_op_flags(Flags::INJECT_COMPLETE);
        assert_eq!(tx.inject_write(), Flags::INJECT | Flags::INJECT_COMPLETE);
        let early = Flags::COMPLETION | Flags::INJECT_COMPLETE;
        assert_eq!(
            tx.given_write(Flags::INJECT_COMPLETE.bits()),
            early,
            "what a program asks for it gets"
        );
    }

    #[test]
    fn a_transmitted_write_is_acknowledged_by_the_target() {
        let tx = Defaults::new(Flags::TRANSMIT_COMPLETE, Flags::empty()).tx;
        assert!(tx.write().contains(Flags::DELIVERY_COMPLETE));
        assert!(!tx.plain().contains(Flags::DELIVERY_COMPLETE));
        assert!(
            !tx.inject_write().contains(Flags::DELIVERY_COMPLETE),
            "neither completion nor counter could tell"
        );
        let asked = Flags::TRANSMIT_COMPLETE.bits();
        assert!(tx.given_write(asked).contains(Flags::DELIVERY_COMPLETE));
    }

    #[test]
    fn selective_completions_must_be_asked_for() {
        let defaults = Defaults::new(Flags::empty(), Flags::COMPLETION);
        defaults.tx.select();
        defaults.rx.select();
        assert_eq!(defaults.tx.plain(), Flags::empty());
        assert_eq!(
            defaults.tx.given(Flags::COMPLETION.bits()),
            Flags::COMPLETION
        );
        assert_eq!(defaults.rx.plain(), Flags::COMPLETION);
        assert_eq!(defaults.rx.given(0), Flags::empty());
    }

    #[test]
    fn flags_that_mean_nothing_here_are_left_out() {
        let defaults = Defaults::new(Flags::MULTI_RECV | Flags::FENCE, Flags::empty());
        assert_eq!(defaults.tx.plain(), Flags::COMPLETION);
        assert!(defaults.tx.op_flags().contains(Flags::FENCE));
    }

    #[test]
    fn fences_and_commits_are_for_single_calls() {
        let tx = Defaults::new(Flags::empty(), Flags::empty()).tx;
        let fenced = tx.given(Flags::FENCE.bits());
        assert_eq!(fenced, Flags::FENCE | Flags::COMPLETION);
        let durable = tx.given(Flags::COMMIT_COMPLETE.bits());
        assert_eq!(durable, Flags::DELIVERY_COMPLETE | Flags::COMPLETION);
    }
}
