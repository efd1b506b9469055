//! Discovery: which endpoints of which providers fit a request, and why the others do not. Source: fi_getinfo(3).
//!
//! A registry is a list of providers in the order in which their endpoints are returned. A query is pure: it opens no
//! device and changes nothing. Setup path.

mod format;
mod place;
#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::{Once, OnceLock};

use oxifabric_abi::{FI_MSG_PREFIX, FI_NUMERICHOST, FI_SOURCE};
use oxifabric_provider::log;
use oxifabric_provider::params::{NameFilter, Parameter, ParameterKind, setting, sysconfig};
use oxifabric_types::{
    DomainAttr, EpType, Info, Progress, Reason, match_info, nearest, provider_is_named,
};

use crate::provider_entry::{Listed, ProviderEntry};
pub use format::admits_format;
use place::places;

/// The providers of a library, in order of preference.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    entries: &'static [&'static ProviderEntry],
}

/// What an application asks of fi_getinfo(3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The API version that the application was written for.
    pub version: u32,
    /// Host name or address.
    pub node: Option<&'a str>,
    /// Service name or port.
    pub service: Option<&'a str>,
    /// FI_SOURCE, FI_NUMERICHOST and their like.
    pub flags: u64,
    /// What the endpoint has to be like.
    pub hints: Option<&'a Info>,
}

/// What there is, best first, and what was refused.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Endpoints that fit.
    pub infos: Vec<Info>,
    /// Endpoints and providers that do not.
    pub refusals: Vec<Refusal>,
}

/// An offer, or a whole provider, that was not returned.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The provider.
    pub provider: &'static str,
    /// Which of its offers: domain and kind of endpoint. Empty for all.
    pub offer: String,
    /// Every cause. Fewer causes are a nearer miss.
    pub reasons: Vec<Reason>,
}

impl Registry {
    /// Makes a registry of providers in order of preference.
    pub const fn new(entries: &'static [&'static ProviderEntry]) -> Self {
        Self { entries }
    }

    /// Lists the providers in order of preference.
    pub fn providers(&self) -> impl Iterator<Item = &'static ProviderEntry> {
        self.entries.iter().copied()
    }

    /// Finds a provider by name; case does not matter.
    pub fn find(&self, name: &str) -> Option<&'static ProviderEntry> {
        self.providers()
            .find(|entry| entry.name.eq_ignore_ascii_case(name))
    }

    /// Answers a request, under the filter that FI_PROVIDER sets.
    pub fn query(&self, request: &Request<'_>) -> Answer {
        let filter = filter_of_environment();
        self.warn_of_unknown(filter);
        let answer = self.query_filtered(request, filter);
        warn_of_unresolved(request, &answer);
        answer
    }

    /// As [`Registry::query`], under a given filter.
    pub fn query_filtered(&self, request: &Request<'_>, filter: &NameFilter) -> Answer {
        sysconfig::report();
        let mut answer = Answer::default();
        for entry in self.providers() {
            ask(entry, request, filter, &mut answer);
        }
        for refusal in &answer.refusals {
            log::info!(refusal.provider, Core, "not returned: {refusal}");
        }
        answer
    }

    /// Warns once if FI_PROVIDER admits no provider of this library.
    fn warn_of_unknown(&self, filter: &NameFilter) {
        static SAID: Once = Once::new();
        if let Some(warning) = self.unknown(filter) {
            SAID.call_once(|| log::warn!("", Core, "{warning}"));
        }
    }

    /// Returns the warning about a filter that admits no provider of this library.
    fn unknown(&self, filter: &NameFilter) -> Option<String> {
        if self.providers().any(|entry| filter.admits(entry.name)) {
            return None;
        }
        let known = || self.providers().map(|entry| entry.name);
        let near = filter.names().find_map(|name| nearest(name, known()));
        let meant = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
        let names = known().collect::<Vec<_>>().join(", ");
        Some(format!(
            "FI_PROVIDER={filter} leaves no provider; {meant}there are {names}"
        ))
    }

    /// Returns, for each provider and offer that is not in the answer to a request, why not.
    pub fn why(&self, request: &Request<'_>) -> Vec<(&'static str, String, Reason)> {
        let refusals = self.query(request).refusals;
        refusals
            .into_iter()
            .flat_map(|refusal| {
                let Refusal {
                    provider,
                    offer,
                    reasons,
                } = refusal;
                reasons
                    .into_iter()
                    .map(move |reason| (provider, offer.clone(), reason))
            })
            .collect()
    }
}

impl Answer {
    /// Returns what came nearest to the request, if anything was refused.
    pub fn nearest_miss(&self) -> Option<&Refusal> {
        self.refusals
            .iter()
            .min_by_key(|refusal| refusal.distance())
    }
}

impl Refusal {
    /// Returns whether the node or the service of the request does not resolve.
    pub fn is_unresolved(&self) -> bool {
        let mut fields = self.reasons.iter().map(Reason::field);
        fields.any(|field| ["node", "service"].contains(&field))
    }

    /// Returns how far it is from what was asked for: an offer with few reasons is near, a provider that was not even asked is
    /// farther, and one of another name than was asked for the farthest.
    pub fn distance(&self) -> impl Ord + use<> {
        let is_other = self.reasons.iter().any(Reason::is_of_another_provider);
        (is_other, self.offer.is_empty(), self.reasons.len())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.offer.is_empty() { "" } else { " " };
        write!(f, "{}{place}{}: ", self.provider, self.offer)?;
        for (index, reason) in self.reasons.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{reason}")?;
        }
        Ok(())
    }
}

/// Returns the filter that FI_PROVIDER sets, read once.
pub fn filter_of_environment() -> &'static NameFilter {
    static FILTER: OnceLock<NameFilter> = OnceLock::new();
    FILTER.get_or_init(|| {
        let names = setting("FI_PROVIDER").unwrap_or_default();
        NameFilter::parse(&names.to_string_lossy())
    })
}

/// How long the polls of a queue stay empty before the thread yields.
pub(crate) const YIELD_US: Parameter = Parameter {
    name: "oxi_yield_us",
    kind: ParameterKind::Int,
    help: "Microseconds of empty polls after which a thread yields the processor to others; 0: never",
    default: "100",
};

/// Parameters of the library as a whole.
pub(crate) static PARAMETERS: [Parameter; 3] = [
    YIELD_US,
    format::ADDR_FORMAT,
    Parameter {
        name: "provider",
        kind: ParameterKind::Text,
        help: "Use only these providers, with commas between them; a ^ in front leaves them out",
        default: "all",
    },
];

/// Warns if a provider could not resolve the node or service of a request. A name of another kind of address, such as
/// `fi_shm://4711`, is not meant for all providers.
fn warn_of_unresolved(request: &Request<'_>, answer: &Answer) {
    if request.node.is_some_and(|node| node.contains("://")) {
        return;
    }
    let mut reasons = answer.refusals.iter().flat_map(|refusal| &refusal.reasons);
    let unresolved = reasons.find_map(|reason| match reason {
        Reason::Failed { field, why } if ["node", "service"].contains(field) => Some((field, why)),
        _ => None,
    });
    if let Some((field, why)) = unresolved {
        log::warn!("", Core, "fi_getinfo: {field} {why}");
    }
}

/// Asks one provider and adds to the answer.
fn ask(
    entry: &'static ProviderEntry,
    request: &Request<'_>,
    filter: &NameFilter,
    answer: &mut Answer,
) {
    let refuse = |reason| Refusal {
        provider: entry.name,
        offer: String::new(),
        reasons: vec![reason],
    };
    if let Err(reason) = admitted(entry, request, filter) {
        answer.refusals.push(refuse(reason));
        return;
    }
    let placed = match places(entry, request) {
        Ok(placed) => placed,
        Err(reason) => {
            answer.refusals.push(refuse(reason));
            return;
        }
    };
    for offer in placed {
        match match_info(&offer, request.hints, request.version).and_then(format::admitted) {
            Ok(mut info) => {
                let prefix = prefix_mode(&info, request.hints);
                for mode in [&mut info.mode, &mut info.tx.mode, &mut info.rx.mode] {
                    *mode |= prefix;
                }
                let is_alone =
                    entry.progresses_alone(&offer) && offer.domain.data_progress == Progress::Auto;
                if entry.requires_auto_progress || is_alone {
                    report_auto(&mut info.domain, request.hints);
                }
                (entry.settle)(&mut info, request.hints);
                answer.infos.push(info);
            }
            Err(reasons) => answer.refusals.push(Refusal {
                provider: entry.name,
                offer: format!("{} {}", offer.domain.name, offer.ep.kind.name()),
                reasons,
            }),
        }
    }
}

/// Reports automatic progress, which a thread or the device makes in any case, to applications that asked for no model. One that asked
/// for manual progress gets it as asked, and its polls are empty at worst (fi_domain(3)).
fn report_auto(domain: &mut DomainAttr, hints: Option<&Info>) {
    let hints = hints.map(|hints| &hints.domain);
    let asked = hints.map_or(Progress::Unspec, |hints| hints.data_progress);
    if asked == Progress::Unspec {
        domain.data_progress = Progress::Auto;
    }
}

/// Returns the prefix mode for datagram endpoints of applications that are ready for it: then they have it, with a prefix
/// of no bytes, since a datagram carries nothing but the message.
fn prefix_mode(info: &Info, hints: Option<&Info>) -> u64 {
    match (info.ep.kind, hints) {
        (EpType::Dgram, Some(hints)) => hints.mode & FI_MSG_PREFIX,
        _ => 0,
    }
}

/// Checks what concerns a provider as a whole.
fn admitted(
    entry: &ProviderEntry,
    request: &Request<'_>,
    filter: &NameFilter,
) -> Result<(), Reason> {
    let asked = request.hints.map_or("", |hints| &hints.fabric.prov_name);
    if !asked.is_empty() && !provider_is_named(asked, entry.name) {
        return Err(Reason::Lacks {
            field: "fabric_attr.prov_name",
            wanted: asked.to_owned(),
            offered: entry.name.to_owned(),
        });
    }
    if !filter.admits(entry.name) {
        let why = format!("FI_PROVIDER={filter} leaves this provider out");
        return Err(Reason::Failed {
            field: "fabric_attr.prov_name",
            why,
        });
    }
    if !answers(entry, request, filter) {
        let why = format!("it has to be asked for by name: FI_PROVIDER={}", entry.name);
        return Err(Reason::Failed {
            field: "fabric_attr.prov_name",
            why,
        });
    }
    if let Some(why) = (entry.obstacle)() {
        return Err(Reason::Failed {
            field: "provider",
            why,
        });
    }
    if request.flags & FI_SOURCE != 0 && request.node.is_none() && request.service.is_none() {
        let why = "FI_SOURCE says that node and service name the local side, but there is neither";
        return Err(Reason::Failed {
            field: "flags",
            why: why.to_owned(),
        });
    }
    Ok(())
}

/// Returns whether a provider that is admitted answers a request of this kind.
fn answers(entry: &ProviderEntry, request: &Request<'_>, filter: &NameFilter) -> bool {
    let asked = request.hints.map_or("", |hints| &hints.fabric.prov_name);
    let is_named = asked
        .split(';')
        .any(|name| name.eq_ignore_ascii_case(entry.layer()));
    if is_named || filter.mentions(entry.layer()) {
        return true;
    }
    match (entry.listed, request.hints) {
        (Listed::Always, _) => true,
        (Listed::OnNeeds, Some(hints)) => {
            hints.ep.protocol != 0 || asked.is_empty() && !hints.caps.is_empty()
        }
        (Listed::OnNeeds, None) | (Listed::ByName, _) => false,
    }
}

impl Request<'_> {
    /// Returns whether node and service name the local side.
    fn is_source(&self) -> bool {
        self.flags & FI_SOURCE != 0
    }

    /// Returns whether name look-ups are forbidden.
    fn is_numeric(&self) -> bool {
        self.flags & FI_NUMERICHOST != 0
    }
}
