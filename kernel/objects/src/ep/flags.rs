//! Which flags an operation has: fi_endpoint(3) "OPERATION FLAGS" and FI_SELECTIVE_COMPLETION.

use core::sync::atomic::{AtomicBool, Ordering};

use oxifabric_types::Flags;

/// What the engine wants to know of a send or an access.
const TX: Flags = Flags::REMOTE_CQ_DATA
    .union(Flags::COMPLETION)
    .union(Flags::INJECT)
    .union(Flags::MORE)
    .union(Flags::INJECT_COMPLETE)
    .union(Flags::TRANSMIT_COMPLETE)
    .union(Flags::DELIVERY_COMPLETE)
    .union(Flags::MATCH_COMPLETE)
    .union(Flags::FENCE);

/// What the engine wants to know of a receive.
const RX: Flags = Flags::COMPLETION
    .union(Flags::PEEK)
    .union(Flags::CLAIM)
    .union(Flags::DISCARD)
    .union(Flags::MORE);

/// The flags of one direction.
pub(super) struct Direction {
    mask: Flags,
    /// Of calls without flags.
    own: Flags,
    /// Completions are written only for operations that ask for one.
    is_selective: AtomicBool,
}

impl Direction {
    /// Returns the flags of a call without flags.
    pub(super) fn plain(&self) -> Flags {
        self.own.union(self.always()).intersection(self.mask)
    }

    /// Returns the flags of a call that brings its own.
    pub(super) fn given(&self, flags: u64) -> Flags {
        Flags::from_bits_retain(flags)
            .union(self.always())
            .intersection(self.mask)
    }

    /// Returns the flags of a call that never has a completion.
    pub(super) fn inject(&self) -> Flags {
        self.plain()
            .difference(Flags::COMPLETION)
            .union(Flags::INJECT)
    }

    /// Returns the flags of all calls.
    fn always(&self) -> Flags {
        match self.is_selective.load(Ordering::Relaxed) {
            true => Flags::empty(),
            false => Flags::COMPLETION,
        }
    }
}

/// The flags of both directions. They are read without the endpoint's lock, and change only when it is enabled.
pub(super) struct Defaults {
    pub(super) tx: Direction,
    pub(super) rx: Direction,
}

impl Defaults {
    pub(super) const fn new(tx: Flags, rx: Flags) -> Self {
        Self {
            tx: Direction {
                mask: TX,
                own: tx,
                is_selective: AtomicBool::new(false),
            },
            rx: Direction {
                mask: RX,
                own: rx,
                is_selective: AtomicBool::new(false),
            },
        }
    }

    /// Makes completions selective: written only for operations that ask for one.
    pub(super) fn select(&self, (tx, rx): (bool, bool)) {
        self.tx.is_selective.store(tx, Ordering::Relaxed);
        self.rx.is_selective.store(rx, Ordering::Relaxed);
    }
}

/// Adds delivery to a write that is to be over when the target has it: only the target's answer tells (fi_cq(3)).
pub(super) const fn placed(flags: Flags) -> Flags {
    match flags.contains(Flags::TRANSMIT_COMPLETE) {
        true => flags.union(Flags::DELIVERY_COMPLETE),
        false => flags,
    }
}
