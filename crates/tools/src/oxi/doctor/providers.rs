//! Which providers open, and why others do not.

use oxifabric::{
    AddressVector, Backend, CompletionQueue, Connectionless, Dgram, Domain, Endpoint, EpType,
    Error, Fabric, Hints, Info, Rdm,
};

use super::Finding;

/// Opens an endpoint of each provider.
pub(super) fn check(backend: Backend) -> Vec<Finding> {
    let all = Hints::anything().providers_only().offers(backend);
    let mut names: Vec<String> = match all {
        Ok(all) => all.iter().map(|info| info.provider().to_owned()).collect(),
        Err(why) => {
            return vec![Finding::bad(
                "providers",
                why.to_string(),
                "look at FI_PROVIDER",
            )];
        }
    };
    names.sort();
    names.dedup();
    names.iter().map(|name| examine(backend, name)).collect()
}

fn examine(backend: Backend, name: &str) -> Finding {
    let about = format!("provider {name}");
    let Some(info) = offer(backend, name) else {
        return not_offered(backend, name, about);
    };
    let opened = match info.ep_type() {
        Some(EpType::Dgram) => open::<Dgram>(&info),
        _ => open::<Rdm>(&info),
    };
    match opened {
        Ok(address) => Finding::ok(about, format!("an endpoint opens at {address}")),
        Err(error) => Finding::bad(
            about,
            format!("no endpoint opens: {error}"),
            "FI_LOG_LEVEL=info says more",
        ),
    }
}

/// Returns its best offer. Under the name of `udp` come those of `udp;ofi_rxd` as well, which are left out.
fn offer(backend: Backend, name: &str) -> Option<Info> {
    let reliable = Hints::new().provider(name);
    let datagrams = reliable.clone().kind::<Dgram>();
    let answers = [reliable, datagrams].map(|hints| hints.offers(backend).unwrap_or_default());
    let mut offers = answers.concat();
    let own = offers.iter().position(|info| info.provider() == name);
    (!offers.is_empty()).then(|| offers.swap_remove(own.unwrap_or(0)))
}

fn open<K: Connectionless>(info: &Info) -> Result<String, Error> {
    let fabric = Fabric::open(info)?;
    let domain = Domain::open(&fabric, info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::polled(&domain, 16)?;
    let builder = Endpoint::<K>::builder(&domain).address_vector(&peers);
    let endpoint = builder.queue(&queue).enable()?;
    Ok(endpoint.address()?.to_string())
}

/// Returns the finding about a provider without an offer that this crate opens; the nearest miss says why.
fn not_offered(backend: Backend, name: &str, about: String) -> Finding {
    let all = Hints::new().provider(name).rejections(backend);
    let own = all.iter().find(|rejection| rejection.provider == name);
    let reason = own.or(all.first()).map_or_else(
        || "the library does not say why".to_owned(),
        |rejection| rejection.reasons.join("; "),
    );
    // Hardware that is not there is no trouble.
    if reason.contains("this machine has no ") {
        return Finding::ok(about, reason);
    }
    let advice = format!("`fi_info --why -p '{name}'` lists what is missing");
    Finding::warn(about, format!("it offers nothing: {reason}"), advice)
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn all_providers_of_this_library_open() {
        let findings = check(Backend::builtin());
        for name in ["tcp", "shm", "udp", "udp;ofi_rxd", "sim"] {
            let about = format!("provider {name}");
            let found = findings.iter().find(|finding| finding.about == about);
            let found = found.unwrap_or_else(|| panic!("{name}: {findings:?}"));
            assert_eq!(found.grade, Grade::Ok, "{found:?}");
        }
    }

    #[test]
    fn a_provider_is_examined_itself_and_not_what_is_built_upon_it() {
        let kind = |name| offer(Backend::builtin(), name).and_then(|info| info.ep_type());
        assert_eq!(kind("udp"), Some(EpType::Dgram));
        assert_eq!(kind("udp;ofi_rxd"), Some(EpType::Rdm));
    }

    #[test]
    fn a_provider_that_offers_nothing_is_reported() {
        let finding = examine(Backend::builtin(), "none");
        assert_eq!(finding.grade, Grade::Warn, "{finding:?}");
    }

    #[test]
    fn a_machine_without_the_hardware_of_a_provider_is_no_trouble() {
        let finding = examine(Backend::builtin(), "efa");
        assert_eq!(finding.grade, Grade::Ok, "{finding:?}");
    }
}
