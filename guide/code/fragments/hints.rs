//! Asking for offers.

use oxifabric::{Backend, Caps, Error, Hints};

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
fn a_request_that_nobody_meets_says_why() -> Result<(), Error> {
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
