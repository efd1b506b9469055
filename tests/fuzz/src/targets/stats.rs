//! What a process tells of its endpoints, as `oxi top` reads it. Texts do nothing to a terminal, and what is read comes back from
//! the words that it is spelled with.

use oxifabric_types::EpType;
use oxifabric_types::stats::{
    FIGURES_WORDS, Figures, Head, IDENTITY_WORDS, Identity, MAGIC, MAX_SLOTS, SLOT_BYTES, Slot,
};

/// The bytes of a slot, read twice alike.
pub(super) fn run(bytes: &[u8]) {
    if let Some(head) = Head::decode(bytes) {
        assert!(head.used <= MAX_SLOTS);
    }
    let Slot::Of(identity, figures) = Slot::decode(bytes, bytes) else {
        return;
    };
    let letters = identity.provider.chars().chain(identity.address.chars());
    assert!(!letters.into_iter().any(char::is_control));
    let again = slot(&identity, &figures);
    assert_eq!(Slot::decode(&again, &again), Slot::Of(identity, figures));
}

/// Returns the bytes of a slot.
fn slot(identity: &Identity, figures: &Figures) -> Vec<u8> {
    let mut words = identity.encode().to_vec();
    assert_eq!(words.len(), IDENTITY_WORDS);
    words.extend(figures.encode());
    assert_eq!(words.len(), IDENTITY_WORDS + FIGURES_WORDS);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize(SLOT_BYTES, 0);
    bytes
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let identity = Identity {
        id: 1,
        kind: EpType::Rdm,
        provider: "tcp".into(),
        address: "127.0.0.1:4711".into(),
    };
    let figures = Figures {
        peers: 3,
        ..Figures::default()
    };
    let mut head = [MAGIC, 12, 3, 0].map(u64::to_ne_bytes).concat();
    head.resize(SLOT_BYTES, 0);
    vec![slot(&identity, &figures), head]
}
