//! What the environment says: numbers, truth values and lists of names.

use oxifabric_provider::params::{NameFilter, parse_bool, parse_int, variable};

pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(value) = parse_int(&text) {
        assert_eq!(parse_int(&value.to_string()), Some(value));
    }
    let (text, name) = text.split_once('\n').unwrap_or((&text, "tcp"));
    assert_eq!(parse_bool(text), parse_bool(&text.to_ascii_uppercase()));
    assert!(variable(text, name).starts_with("FI_"));
    let filter = NameFilter::parse(text);
    for name in [name, "tcp", "tcp;ofi_rxm"] {
        let admits = filter.admits(name);
        assert!(!admits || filter.admits_core(name), "{filter:?} {name:?}");
        let by_stack = filter.admits_stack(name);
        assert!(
            filter.is_negated() || !admits || by_stack,
            "{filter:?} {name:?}"
        );
    }
    assert_eq!(filter.is_negated(), text.trim().starts_with('^'));
    assert!(NameFilter::parse(&format!("^{text}")).is_negated());
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "tcp,shm\ntcp",
        "^tcp;ofi_rxm,shm",
        " 0x7fffffffffffffff",
        "-077",
        "--9223372036854775807",
        "0x-5",
        "Yes",
        "^,,",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
