//! The C names that options take. Source: fi_getinfo(3).

use oxifabric::{AddressFormat, Caps, EpType};

/// Capabilities, as bit numbers.
const CAPS: &[(&str, u32)] = &[
    ("FI_MSG", 1),
    ("FI_RMA", 2),
    ("FI_TAGGED", 3),
    ("FI_ATOMIC", 4),
    ("FI_MULTICAST", 5),
    ("FI_COLLECTIVE", 6),
    ("FI_READ", 8),
    ("FI_WRITE", 9),
    ("FI_RECV", 10),
    ("FI_SEND", 11),
    ("FI_REMOTE_READ", 12),
    ("FI_REMOTE_WRITE", 13),
    ("FI_MULTI_RECV", 16),
    ("FI_REMOTE_CQ_DATA", 17),
    ("FI_MORE", 18),
    ("FI_PEEK", 19),
    ("FI_TRIGGER", 20),
    ("FI_FENCE", 21),
    ("FI_HMEM", 47),
    ("FI_SOURCE_ERR", 50),
    ("FI_LOCAL_COMM", 51),
    ("FI_REMOTE_COMM", 52),
    ("FI_SHARED_AV", 53),
    ("FI_RMA_EVENT", 56),
    ("FI_SOURCE", 57),
    ("FI_NAMED_RX_CTX", 58),
    ("FI_DIRECTED_RECV", 59),
];

/// Modes, as bit numbers.
const MODES: &[(&str, u32)] = &[
    ("FI_CONTEXT", 59),
    ("FI_MSG_PREFIX", 58),
    ("FI_ASYNC_IOV", 57),
    ("FI_RX_CQ_DATA", 56),
    ("FI_CONTEXT2", 52),
];

const EP_TYPES: &[(&str, EpType)] = &[
    ("FI_EP_UNSPEC", EpType::Unspec),
    ("FI_EP_MSG", EpType::Msg),
    ("FI_EP_DGRAM", EpType::Dgram),
    ("FI_EP_RDM", EpType::Rdm),
];

const ADDRESS_FORMATS: &[(&str, u32)] = &[
    ("FI_FORMAT_UNSPEC", 0),
    ("FI_SOCKADDR", 1),
    ("FI_SOCKADDR_IN", 2),
    ("FI_SOCKADDR_IN6", 3),
    ("FI_SOCKADDR_IB", 4),
    ("FI_ADDR_MLX", 8),
    ("FI_ADDR_STR", 9),
    ("FI_ADDR_PSMX2", 10),
    ("FI_ADDR_EFA", 12),
];

pub(super) fn parse_caps(text: &str) -> Result<Caps, String> {
    parse_bits(text, CAPS, "capability").map(Caps::from_bits_retain)
}

pub(super) fn parse_modes(text: &str) -> Result<u64, String> {
    parse_bits(text, MODES, "mode")
}

pub(super) fn parse_ep_type(text: &str) -> Result<EpType, String> {
    find(text, EP_TYPES, "endpoint type")
}

pub(super) fn parse_address_format(text: &str) -> Result<AddressFormat, String> {
    find(text, ADDRESS_FORMATS, "address format").map(AddressFormat)
}

/// Reads names with bars between them.
fn parse_bits(text: &str, names: &[(&str, u32)], what: &str) -> Result<u64, String> {
    text.split('|')
        .filter(|name| !name.is_empty())
        .try_fold(0, |bits, name| Ok(bits | 1 << find(name, names, what)?))
}

/// Finds a name; case does not matter.
fn find<T: Copy>(name: &str, names: &[(&str, T)], what: &str) -> Result<T, String> {
    names
        .iter()
        .find(|(listed, _)| listed.eq_ignore_ascii_case(name))
        .map(|(_, value)| *value)
        .ok_or_else(|| format!("Unrecognized {what}: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_join_bits_and_case_does_not_matter() {
        assert_eq!(parse_caps("fi_msg|FI_TAGGED"), Ok(Caps::MSG | Caps::TAGGED));
        assert_eq!(parse_caps("|FI_SOURCE|"), Ok(Caps::SOURCE));
        assert_eq!(parse_modes("FI_CONTEXT|FI_CONTEXT2"), Ok(1 << 59 | 1 << 52));
        assert_eq!(parse_ep_type("fi_ep_rdm"), Ok(EpType::Rdm));
        assert_eq!(parse_address_format("FI_ADDR_STR"), Ok(AddressFormat::NAME));
    }

    #[test]
    fn listed_capabilities_have_the_values_of_the_library() {
        for (name, bit) in CAPS {
            if let Some(caps) = Caps::from_name(&name[3..]) {
                assert_eq!(caps.bits(), 1 << bit, "{name}");
            }
        }
    }
}
