//! How much an endpoint keeps of messages that no receive matches (docs/adr/0035).

use std::sync::OnceLock;

use oxifabric_provider::params::{Parameter, ParameterKind};

/// Bytes of messages that no receive matches yet, when the application has no opinion.
pub(crate) const UNEXPECTED_BYTES: usize = 64 << 20;

/// The parameters of all endpoints.
pub(crate) static PARAMETERS: [Parameter; 1] = [Parameter {
    name: "oxi_unexpected_max",
    kind: ParameterKind::Size,
    help: "Bytes of messages without a receive that an endpoint keeps at most, while it waits for what may be behind them",
    // A program is free to receive last what was sent first, and its peers send before they know: a gibibyte that one process
    // has not received yet is more than any program has been seen to rely on.
    default: "1073741824",
}];

/// Returns how many bytes of messages an endpoint keeps at most that buffers `unexpected_bytes` in any case.
pub(crate) fn ceiling(unexpected_bytes: usize) -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    let max = *MAX.get_or_init(|| PARAMETERS[0].size(""));
    max.max(unexpected_bytes)
}
