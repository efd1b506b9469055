//! Hints against offers: which endpoint fits what an application asked for, and why the others do not.
//!
//! Everything here is a pure function of its arguments. The rules are those of fi_getinfo(3), fi_domain(3),
//! fi_endpoint(3) and fi_mr(3); a value that the hints leave at zero is a wildcard, except for mode bits.

mod check;
mod mr_mode;
mod names;
mod narrow;
mod reason;
#[cfg(test)]
mod tests;

pub use names::{format_name, format_of_name, provider_is_named, stack_has_all};
pub use reason::Reason;

use crate::{Caps, Info};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Fits one offer of a provider to the hints of an application that asked for API `version`.
///
/// The result is the offer narrowed to the hints: no primary capability that was not asked for, sizes and models as
/// asked. Without hints it is the offer with the forms that the API version knows. Addresses are kept as offered.
///
/// # Errors
/// Every field in which the offer falls short, so that the caller can tell the nearest miss.
pub fn match_info(offer: &Info, hints: Option<&Info>, version: u32) -> Result<Info, Vec<Reason>> {
    match_boxed(offer, hints, version).map(|info| *info)
}

/// As [`match_info`], with the result on the heap: a kernel's stack is short.
///
/// # Errors
/// As [`match_info`].
pub fn match_boxed(
    offer: &Info,
    hints: Option<&Info>,
    version: u32,
) -> Result<Box<Info>, Vec<Reason>> {
    let known = older_than(version, 2, 0).then(|| known(offer));
    let offer = known.as_deref().unwrap_or(offer);
    if let Some(hints) = hints {
        let reasons = check::shortcomings(offer, hints, version);
        if !reasons.is_empty() {
            return Err(reasons);
        }
    }
    Ok(narrow::narrow(offer, hints, version))
}

/// Returns the offer without what has another meaning in API versions before 2.0, where the bit of FI_EXACT_DIRECTED_RECV
/// was that of FI_VARIABLE_MSG, which no provider here has.
#[inline(never)]
fn known(offer: &Info) -> Box<Info> {
    let mut offer = Box::new(offer.clone());
    for caps in [&mut offer.caps, &mut offer.tx.caps, &mut offer.rx.caps] {
        caps.remove(Caps::EXACT_DIRECTED_RECV);
    }
    offer
}

/// Returns whether an API version comes before `major.minor`.
const fn older_than(version: u32, major: u32, minor: u32) -> bool {
    version < (major << 16 | minor)
}
