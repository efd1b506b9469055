//! FI_ADDR_FORMAT: the one format of addresses that endpoints may have. Source: fi_getinfo(3), "Addressing formats".

use std::sync::OnceLock;

use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_types::{Info, Reason, format_name, format_of_name};

pub(super) const ADDR_FORMAT: Parameter = Parameter {
    name: "addr_format",
    kind: ParameterKind::Text,
    help: "Return only endpoints whose addresses have this format, such as FI_SOCKADDR_IN6",
    default: "all",
};

/// Lets an endpoint in, if its addresses have the format that FI_ADDR_FORMAT names.
///
/// # Errors
/// The reason why it stays out.
pub(super) fn admitted(info: Info) -> Result<Info, Vec<Reason>> {
    match wanted() {
        Some(format) if info.addr_format != format => Err(vec![Reason::Failed {
            field: "addr_format",
            why: format!("FI_ADDR_FORMAT={} leaves it out", format_name(format)),
        }]),
        _ => Ok(info),
    }
}

/// Returns whether FI_ADDR_FORMAT admits endpoints whose addresses have this format.
pub fn admits_format(format: u32) -> bool {
    wanted().is_none_or(|wanted| wanted == format)
}

/// Returns the format that the environment names, read once.
fn wanted() -> Option<u32> {
    static WANTED: OnceLock<Option<u32>> = OnceLock::new();
    *WANTED.get_or_init(|| parse(&ADDR_FORMAT.words("")?))
}

/// Reads the variable; an unknown name admits everything.
fn parse(text: &str) -> Option<u32> {
    let format = format_of_name(text.trim());
    format.filter(|&format| format != oxifabric_abi::FI_FORMAT_UNSPEC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxifabric_abi::FI_SOCKADDR_IN;

    #[test]
    fn only_names_of_formats_restrict_anything() {
        assert_eq!(parse(" fi_sockaddr_in"), Some(FI_SOCKADDR_IN));
        assert_eq!(parse("FI_FORMAT_UNSPEC"), None);
        assert_eq!(parse("ipv4"), None);
    }
}
