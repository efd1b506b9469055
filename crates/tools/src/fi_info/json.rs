//! What `fi_info` prints, as JSON: arrays of objects, one a line.

use std::io::{self, Write};

use oxifabric::{Backend, Info, ParameterKind, Rejection};

use super::print::selected_variables;
use super::why::count_by_provider;
use crate::output::{print_array, quote};

/// Prints an object for each offer.
pub(super) fn offers(out: &mut dyn Write, offers: &[Info]) -> io::Result<()> {
    let offers = offers.iter().map(|info| {
        format!(
            "{{\"provider\": {}, \"fabric\": {}, \"domain\": {}, \"version\": {}, \"type\": {}, \"protocol\": {}}}",
            quote(info.provider()),
            quote(info.fabric()),
            quote(info.domain()),
            version(info),
            quote(&info.ep_type_name()),
            quote(&info.protocol_name()),
        )
    });
    print_array(out, &offers.collect::<Vec<_>>())
}

/// Prints an object for each provider.
pub(super) fn providers(out: &mut dyn Write, offers: &[Info]) -> io::Result<()> {
    let offers = offers.iter().map(|info| {
        let (name, version) = (quote(info.provider()), version(info));
        format!("{{\"provider\": {name}, \"version\": {version}}}")
    });
    print_array(out, &offers.collect::<Vec<_>>())
}

fn version(info: &Info) -> String {
    let (major, minor) = info.provider_version();
    quote(&format!("{major}.{minor}"))
}

/// Prints an object for each variable whose name contains `part`; `value` is null where nothing sets it.
pub(super) fn variables(
    out: &mut dyn Write,
    backend: Backend,
    part: Option<&str>,
) -> io::Result<()> {
    let variables = selected_variables(backend, part)?;
    let variables = variables.iter().map(|variable| {
        let kind = match variable.kind {
            ParameterKind::Text => "string",
            ParameterKind::Int => "integer",
            ParameterKind::Size => "size",
            ParameterKind::Bool => "boolean",
            _ => "unknown",
        };
        let value = (variable.value.as_deref()).map_or_else(|| "null".to_owned(), quote);
        format!(
            "{{\"name\": {}, \"type\": \"{kind}\", \"help\": {}, \"value\": {value}}}",
            quote(&variable.name),
            quote(&variable.help),
        )
    });
    print_array(out, &variables.collect::<Vec<_>>())
}

/// Prints an object with how many offers of each provider are returned, and the reasons against all others, nearest miss first.
pub(super) fn reasons(
    out: &mut dyn Write,
    returned: &[Info],
    rejections: &[Rejection],
) -> io::Result<()> {
    let returned = count_by_provider(returned).into_iter();
    let returned = returned
        .map(|(name, count)| format!("{{\"provider\": {}, \"offers\": {count}}}", quote(name)));
    let refused = rejections.iter().map(|rejection| {
        let offer = (rejection.offer.as_deref()).map_or_else(|| "null".to_owned(), quote);
        let reasons: Vec<String> = rejection
            .reasons
            .iter()
            .map(|reason| quote(reason))
            .collect();
        format!(
            "{{\"provider\": {}, \"offer\": {offer}, \"reasons\": [{}]}}",
            quote(&rejection.provider),
            reasons.join(", ")
        )
    });
    write!(out, "{{\"returned\": ")?;
    print_array(out, &returned.collect::<Vec<_>>())?;
    write!(out, ", \"not_returned\": ")?;
    print_array(out, &refused.collect::<Vec<_>>())?;
    writeln!(out, "}}")
}
