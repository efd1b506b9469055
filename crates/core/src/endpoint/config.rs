//! What an endpoint is opened for, as its engine takes it. Path class: setup.

use oxifabric_engine::Config;
use oxifabric_types::{Caps, Flags, Info};

use crate::budget;

/// Sends or receives that may be outstanding at most: queues of that length are made beforehand.
pub(super) const MAX_OPERATIONS: usize = 1 << 20;

/// Sends that may be outstanding, when the application has no opinion.
const TX_SIZE: usize = 1024;

/// Receives that are expected, when the application has no opinion.
const RX_SIZE: usize = 1024;

/// Room below which a multi-receive buffer is released, until FI_OPT_MIN_MULTI_RECV says otherwise.
pub(super) const MIN_MULTI_RECV: usize = 16 << 10;

/// Bytes of datagrams that no receive is there for, when the application has no opinion. Beyond it they wait in the
/// network, which drops them sooner or later.
const DATAGRAM_BYTES: usize = 1 << 20;

/// Factor of that limit while a receive is posted that takes none of them: datagrams from other sources are dropped
/// beyond it.
const CEILINGS: usize = 16;

/// Returns the configuration of an engine for messages.
pub(super) fn config(info: &Info) -> Config {
    let or = |size: usize, default: usize| if size == 0 { default } else { size };
    let tx_size = or(info.tx.size, TX_SIZE).min(MAX_OPERATIONS);
    let rx_size = or(info.rx.size, RX_SIZE).min(MAX_OPERATIONS);
    let unexpected_bytes = or(info.rx.total_buffered_recv, budget::UNEXPECTED_BYTES);
    Config {
        tx_size,
        rx_size,
        unexpected_bytes,
        unexpected_ceiling: budget::ceiling(unexpected_bytes),
        min_multi_recv: MIN_MULTI_RECV,
        directed_recv: !directed(info.caps | info.rx.caps).is_empty(),
    }
}

/// Returns which receives may name their source.
pub(super) fn directed(caps: Caps) -> Flags {
    if caps.contains(Caps::DIRECTED_RECV) {
        Flags::MSG | Flags::TAGGED
    } else if caps.contains(Caps::TAGGED_DIRECTED_RECV) {
        Flags::TAGGED
    } else if caps.contains(Caps::EXACT_DIRECTED_RECV) {
        Flags::MSG | Flags::TAGGED
    } else {
        Flags::empty()
    }
}

/// Returns the configuration of an engine for datagrams.
pub(super) fn datagram_config(info: &Info) -> Config {
    let config = config(info);
    let unexpected_bytes = match info.rx.total_buffered_recv {
        0 => DATAGRAM_BYTES,
        size => size,
    };
    Config {
        unexpected_bytes,
        unexpected_ceiling: unexpected_bytes.saturating_mul(CEILINGS),
        ..config
    }
}
