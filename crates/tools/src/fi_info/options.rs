//! The options of `fi_info`. Source: fi_info(1).

use clap::Parser;
use oxifabric::Hints;

use crate::output::LIBRARY_HELP;

use super::names::{parse_address_format, parse_caps, parse_ep_type, parse_modes};

/// List the fabric interfaces of this machine, and say why others are not offered.
#[derive(Debug, Parser)]
#[command(
    name = "fi_info",
    disable_version_flag = true,
    infer_long_args = true,
    args_override_self = true,
    after_help = LIBRARY_HELP
)]
pub(crate) struct Options {
    /// Source name or address
    #[arg(
        short = 's',
        long = "src_addr",
        value_name = "ADDR",
        overrides_with = "node"
    )]
    source: Option<String>,
    /// Destination node name or address
    #[arg(short = 'n', long, value_name = "NAME")]
    node: Option<String>,
    /// Port number
    #[arg(short = 'P', long, value_name = "PNUM")]
    port: Option<String>,
    /// One or more capabilities: FI_MSG|FI_RMA...
    #[arg(short = 'c', long, value_name = "CAP1|CAP2..")]
    caps: Option<String>,
    /// One or more modes, default all modes
    #[arg(short = 'm', long, value_name = "MOD1|MOD2..")]
    mode: Option<String>,
    /// Endpoint type: FI_EP_MSG, FI_EP_DGRAM, FI_EP_RDM
    #[arg(short = 't', long = "ep_type", value_name = "EPTYPE")]
    ep_type: Option<String>,
    /// Domain name
    #[arg(short = 'd', long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Fabric name
    #[arg(short = 'f', long, value_name = "FABRIC")]
    fabric: Option<String>,
    /// Address format: FI_FORMAT_UNSPEC, FI_SOCKADDR...
    #[arg(short = 'a', long = "addr_format", value_name = "FMT")]
    address_format: Option<String>,
    /// Provider name
    #[arg(short = 'p', long, value_name = "PROV")]
    provider: Option<String>,
    /// Print the environment variables that libfabric reads
    #[arg(short = 'e', long)]
    env: bool,
    /// Print those environment variables whose name contains SUBSTR
    #[arg(short = 'g', long, value_name = "SUBSTR")]
    getenv: Option<String>,
    /// Print the long text of those interfaces in which SUBSTR appears
    #[arg(short = 'i', long, value_name = "SUBSTR")]
    info: Option<String>,
    /// List the providers, usable or not
    #[arg(short = 'l', long)]
    list: bool,
    /// Print the long text of each interface
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Say for each provider and offer why it is not returned
    #[arg(long)]
    pub(super) why: bool,
    /// Print what is asked for as JSON: offers, providers (-l), variables (-e, -g), or reasons (--why)
    #[arg(long, conflicts_with_all = ["verbose", "info"])]
    pub(super) json: bool,
    /// Print version information
    #[arg(long)]
    pub(super) version: bool,
}

/// What to print.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// Environment variables; with a part of their names.
    Variables(Option<&'a str>),
    /// The long text of offers; with a part of it.
    Long(Option<&'a str>),
    /// The names of providers.
    Providers,
    /// Some lines for each offer.
    Short,
}

impl Options {
    /// Returns what to ask the library for.
    ///
    /// # Errors
    /// A sentence about a name that is none.
    pub(super) fn hints(&self) -> Result<Hints, String> {
        let (node, port) = (self.node.as_deref(), self.port.as_deref());
        let hints = Hints::anything();
        let hints = match &self.source {
            Some(source) => hints.local(Some(source), port),
            None => hints.peer(node, port),
        };
        let hints = add(hints, parse(&self.caps, parse_caps)?, Hints::caps);
        let hints = add(hints, parse(&self.mode, parse_modes)?, Hints::mode);
        let hints = add(hints, parse(&self.ep_type, parse_ep_type)?, Hints::ep_type);
        let format = parse(&self.address_format, parse_address_format)?;
        let hints = add(hints, format, Hints::address_format);
        let hints = add(hints, self.provider.as_deref(), Hints::provider);
        let hints = add(hints, self.domain.as_deref(), Hints::domain);
        let hints = add(hints, self.fabric.as_deref(), Hints::fabric);
        Ok(if self.list {
            hints.providers_only()
        } else {
            hints
        })
    }

    /// Returns what to print of the answer.
    pub(super) fn what(&self) -> What<'_> {
        if self.env || self.getenv.is_some() {
            What::Variables(self.getenv.as_deref())
        } else if self.verbose || self.info.is_some() {
            What::Long(self.info.as_deref())
        } else if self.list {
            What::Providers
        } else {
            What::Short
        }
    }
}

fn parse<T>(
    text: &Option<String>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    text.as_deref().map(parse).transpose()
}

fn add<T>(hints: Hints, value: Option<T>, to: impl FnOnce(Hints, T) -> Hints) -> Hints {
    match value {
        Some(value) => to(hints, value),
        None => hints,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(["fi_info"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn short_and_long_options_mean_the_same() {
        let short = parse("-p tcp -t FI_EP_RDM -c FI_MSG|FI_TAGGED -a FI_SOCKADDR_IN").unwrap();
        let long = parse(
            "--provider=tcp --ep_type FI_EP_RDM --caps fi_msg|fi_tagged --addr_format=FI_SOCKADDR_IN",
        )
        .unwrap();
        let [short, long] = [short, long].map(|options| options.hints().unwrap());
        assert_eq!(format!("{short:?}"), format!("{long:?}"));
    }

    #[test]
    fn long_options_may_be_cut_short() {
        assert_eq!(
            parse("--prov shm").unwrap().provider.as_deref(),
            Some("shm")
        );
        assert!(parse("--verb").unwrap().verbose);
    }

    #[test]
    fn what_is_printed_follows_the_options() {
        assert_eq!(parse("").unwrap().what(), What::Short);
        assert_eq!(parse("-l").unwrap().what(), What::Providers);
        assert_eq!(parse("-lv").unwrap().what(), What::Long(None));
        assert_eq!(parse("-i eth").unwrap().what(), What::Long(Some("eth")));
        assert_eq!(parse("-e -v").unwrap().what(), What::Variables(None));
        assert_eq!(
            parse("-g TCP").unwrap().what(),
            What::Variables(Some("TCP"))
        );
    }

    #[test]
    fn the_last_of_an_option_wins() {
        let options = parse("-p tcp -p shm").unwrap();
        assert_eq!(options.provider.as_deref(), Some("shm"));
    }

    #[test]
    fn unknown_names_are_told() {
        let options = parse("-c FI_MSG|FI_FOO").unwrap();
        let error = options.hints().unwrap_err();
        assert_eq!(error, "Unrecognized capability: FI_FOO");
        let options = parse("-t FI_EP_FOO").unwrap();
        let error = options.hints().unwrap_err();
        assert_eq!(error, "Unrecognized endpoint type: FI_EP_FOO");
    }
}
