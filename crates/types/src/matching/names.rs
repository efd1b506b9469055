//! The C names of bits and numbers, for reasons; and the rules for names of providers.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bitflags::Flags;
use core::fmt::LowerHex;

/// Returns whether `asked`, a provider name as hints give it, means the provider `name`.
///
/// Names are compared without regard to case. `a;b` asks for a stack in which both are, in any order, and one name for
/// the provider itself or a stack that it is in; names behind a `^` at the end are excluded, and so are stacks that they
/// are in. Source: fi_provider(7), fi_fabric(3).
pub fn provider_is_named(asked: &str, name: &str) -> bool {
    let mut parts: Vec<&str> = asked.split(';').collect();
    while let Some(excluded) = parts.last().and_then(|part| part.strip_prefix('^')) {
        if stack_has_all(name, excluded) {
            return false;
        }
        parts.pop();
    }
    parts.iter().all(|part| stack_has_all(name, part))
}

/// Returns whether each of the names in `asked` is one of `stack`, both with semicolons between names. Case does not matter.
pub fn stack_has_all(stack: &str, asked: &str) -> bool {
    let has = |name: &str| {
        stack
            .split(';')
            .any(|layer| layer.eq_ignore_ascii_case(name))
    };
    asked.split(';').all(has)
}

/// Formats of addresses with their C names.
const FORMATS: [(u32, &str); 18] = [
    (0, "FI_FORMAT_UNSPEC"),
    (1, "FI_SOCKADDR"),
    (2, "FI_SOCKADDR_IN"),
    (3, "FI_SOCKADDR_IN6"),
    (4, "FI_SOCKADDR_IB"),
    (5, "FI_ADDR_PSMX"),
    (6, "FI_ADDR_GNI"),
    (7, "FI_ADDR_BGQ"),
    (8, "FI_ADDR_MLX"),
    (9, "FI_ADDR_STR"),
    (10, "FI_ADDR_PSMX2"),
    (11, "FI_ADDR_IB_UD"),
    (12, "FI_ADDR_EFA"),
    (13, "FI_ADDR_PSMX3"),
    (14, "FI_ADDR_OPX"),
    (15, "FI_ADDR_CXI"),
    (16, "FI_ADDR_UCX"),
    (17, "FI_SOCKADDR_IP"),
];

/// Returns the C name of an address format.
pub fn format_name(format: u32) -> String {
    match FORMATS.iter().find(|(number, _)| *number == format) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("address format {format}"),
    }
}

/// Returns the address format of a C name; case does not matter.
pub fn format_of_name(name: &str) -> Option<u32> {
    let is_named = |(_, known): &&(u32, &str)| known.eq_ignore_ascii_case(name);
    FORMATS.iter().find(is_named).map(|(number, _)| *number)
}

/// Lists bits by the names of their C constants.
pub(super) fn flag_names<F: Flags<Bits: LowerHex>>(prefix: &str, flags: F) -> String {
    let mut iter = flags.iter_names();
    let names: Vec<String> = iter
        .by_ref()
        .map(|(name, _)| format!("{prefix}{name}"))
        .collect();
    let unnamed = iter.remaining();
    listed(
        names,
        (!unnamed.is_empty()).then(|| format!("{:#x}", unnamed.bits())),
    )
}

/// Lists mode bits by the names of their C constants.
pub(super) fn mode_names(mode: u64) -> String {
    const MODES: [(u64, &str); 6] = [
        (1 << 59, "FI_CONTEXT"),
        (1 << 58, "FI_MSG_PREFIX"),
        (1 << 57, "FI_ASYNC_IOV"),
        (1 << 56, "FI_RX_CQ_DATA"),
        (1 << 55, "FI_LOCAL_MR"),
        (1 << 52, "FI_CONTEXT2"),
    ];
    let known = MODES.iter().fold(0, |bits, (bit, _)| bits | bit);
    let names = MODES
        .iter()
        .filter(|(bit, _)| mode & bit != 0)
        .map(|&(_, name)| name.to_owned())
        .collect();
    let unnamed = mode & !known;
    listed(names, (unnamed != 0).then(|| format!("{unnamed:#x}")))
}

fn listed(mut names: Vec<String>, unnamed: Option<String>) -> String {
    names.extend(unnamed);
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
