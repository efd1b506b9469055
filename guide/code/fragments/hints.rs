//! Asking for offers.

use oxifabric::{Backend, Caps, Error, Hints, Order, Progress};

#[test]
fn offers_are_listed_best_first() -> Result<(), Error> {
    // ANCHOR: offers
    let hints = Hints::new().caps(Caps::TAGGED | Caps::RMA);
    for info in hints.offers(Backend::from_env()?)? {
        println!(
            "{} {} {}: {} bytes can be injected",
            info.provider(),
            info.fabric(),
            info.domain(),
            info.inject_size()
        );
    }
    // ANCHOR_END: offers
    Ok(())
}

#[test]
fn a_request_is_put_together() -> Result<(), Error> {
    for provider in ["tcp", "shm"] {
        // ANCHOR: narrow
        // Abilities are set already: `Hints::new` names all that this crate can work with.
        let hints = Hints::new()
            .caps(Caps::TAGGED | Caps::SOURCE)
            .max_message_size(1 << 20)
            .order(Order::SAS)
            // Promised: only one thread is in this domain.
            .one_thread()
            .provider(provider);
        let info = hints.best(Backend::from_env()?)?;
        // ANCHOR_END: narrow
        assert_eq!(info.provider(), provider);
        assert!(info.max_message_size() >= 1 << 20 && info.tx_order().contains(Order::SAS));
    }
    Ok(())
}

#[test]
fn automatic_progress_is_asked_for() -> Result<(), Error> {
    // ANCHOR: auto
    let hints = Hints::new().progress(Progress::Auto);
    let info = hints.best(Backend::from_env()?)?;
    assert_eq!(info.progress(), Progress::Auto);
    // ANCHOR_END: auto
    Ok(())
}

#[test]
fn a_request_that_no_provider_meets_says_why() -> Result<(), Error> {
    // ANCHOR: why
    let hints = Hints::new().caps(Caps::MULTICAST).provider("tcp");
    let why = hints.best(Backend::builtin()).expect_err("tcp cannot");
    println!("{why}");
    for rejection in why.rejections() {
        println!("{}: {:?}", rejection.provider, rejection.reasons);
    }
    // ANCHOR_END: why
    assert!(!why.rejections().is_empty());
    Ok(())
}
