//! The options of `fi_pingpong`. Source: fi_pingpong(1).

use clap::Parser;
use oxifabric::EpType;

use crate::output::LIBRARY_HELP;

/// Play ping-pong: without an address wait as the server, with one connect as the client.
#[derive(Debug, Parser)]
#[command(
    name = "fi_pingpong",
    args_override_self = true,
    after_help = LIBRARY_HELP
)]
pub(crate) struct Options {
    /// Address of the server's control port
    #[arg(value_name = "srv_addr")]
    pub(super) server: Option<String>,
    /// Source control port (server: 47592, client: auto)
    #[arg(
        short = 'B',
        value_name = "src_port",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(super) source_port: u16,
    /// Destination control port (client)
    #[arg(short = 'P', value_name = "dst_port", default_value_t = CONTROL_PORT)]
    pub(super) destination_port: u16,
    /// Domain name
    #[arg(short = 'd', value_name = "domain")]
    pub(super) domain: Option<String>,
    /// Fabric name
    #[arg(short = 'f', value_name = "fabric")]
    pub(super) fabric: Option<String>,
    /// Source address associated with the domain
    #[arg(short = 's', value_name = "source address")]
    pub(super) source: Option<String>,
    /// Provider name, such as tcp or shm
    #[arg(short = 'p', value_name = "provider")]
    pub(super) provider: Option<String>,
    /// Endpoint type: msg|rdm|dgram
    #[arg(short = 'e', value_name = "ep_type", default_value = "dgram", value_parser = parse_endpoint)]
    pub(super) endpoint: EpType,
    /// Number of iterations
    #[arg(short = 'I', value_name = "number", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(..=i32::MAX as i64))]
    pub(super) iterations: u32,
    /// Transfer size in bytes, or 'all' for every one [default: some]
    #[arg(short = 'S', value_name = "size", value_parser = parse_sizes)]
    pub(super) sizes: Option<Sizes>,
    /// Check the contents of messages
    #[arg(short = 'c')]
    pub(super) check: bool,
    /// Transmit mode: msg|tagged
    #[arg(short = 'm', value_name = "transmit mode", default_value = "msg")]
    pub(super) mode: String,
    /// Print each size as a JSON object in a line of its own
    #[arg(long)]
    pub(super) json: bool,
    /// Print debugging output
    #[arg(short = 'v')]
    pub(super) verbose: bool,
    /// Use IPv6 for the control connection
    #[arg(short = '6')]
    pub(super) ipv6: bool,
}

/// Which lengths of messages are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// Every power of two and every middle between two of them.
    All,
    /// A single size.
    One(usize),
}

/// Where the server waits.
pub(super) const CONTROL_PORT: u16 = 47592;

impl Options {
    pub(super) fn tagged(&self) -> bool {
        !self.mode.eq_ignore_ascii_case("msg")
    }

    pub(super) fn is_client(&self) -> bool {
        self.server.is_some()
    }

    /// Returns where the server waits.
    pub(super) fn server_port(&self) -> u16 {
        match self.source_port {
            0 => CONTROL_PORT,
            port => port,
        }
    }

    pub(super) fn debug(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("[debug] {}", text());
        }
    }
}

fn parse_endpoint(text: &str) -> Result<EpType, String> {
    match text.to_ascii_lowercase().as_str() {
        "msg" => Ok(EpType::Msg),
        "rdm" => Ok(EpType::Rdm),
        "dgram" => Ok(EpType::Dgram),
        _ => Err(format!("Unknown endpoint : {text}")),
    }
}

pub(super) fn endpoint_name(endpoint: EpType) -> &'static str {
    match endpoint {
        EpType::Msg => "msg",
        EpType::Rdm => "rdm",
        EpType::Dgram => "dgram",
        EpType::Unspec => "unspecified",
    }
}

fn parse_sizes(text: &str) -> Result<Sizes, String> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(Sizes::All);
    }
    match text.parse::<i32>().map(usize::try_from) {
        Ok(Ok(size)) => Ok(Sizes::One(size)),
        _ => Err("a number of bytes, or 'all'".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(["fi_pingpong"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn the_usual_command_lines_are_understood() {
        let server = parse("-p tcp -e rdm -I 1000 -S all -c").unwrap();
        assert_eq!(server.endpoint, EpType::Rdm);
        assert_eq!((server.iterations, server.check), (1000, true));
        assert_eq!((server.sizes, server.tagged()), (Some(Sizes::All), false));
        assert_eq!((server.is_client(), server.server_port()), (false, 47592));

        let client = parse("-e RDM -m tagged -S 64 -P 5000 -B 6000 127.0.0.1").unwrap();
        assert_eq!(client.server.as_deref(), Some("127.0.0.1"));
        assert_eq!((client.destination_port, client.source_port), (5000, 6000));
        assert_eq!(
            (client.sizes, client.tagged()),
            (Some(Sizes::One(64)), true)
        );
    }

    #[test]
    fn datagrams_are_the_default_as_upstream() {
        let options = parse("").unwrap();
        assert_eq!(options.endpoint, EpType::Dgram);
        assert_eq!((options.iterations, options.sizes), (10, None));
    }

    #[test]
    fn values_that_are_none_are_refused() {
        for line in [
            "-e foo",
            "-I -1",
            "-I x",
            "-I 2147483648",
            "-S -1",
            "-S x",
            "-P 65536",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
