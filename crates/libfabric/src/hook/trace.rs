//! The hook trace: every call with its arguments and its result, in the log at level trace. Source: fi_hook(7).

use oxifabric_provider::log::{self, Level, Subsys};
use oxifabric_types::Errno;

use super::{Call, Hook};

#[derive(Debug)]
pub(super) struct Trace {
    provider: String,
}

impl Trace {
    pub(super) fn start(provider: &str) -> Option<Box<dyn Hook>> {
        let provider = provider.to_owned();
        Some(Box::new(Self { provider }))
    }
}

impl Hook for Trace {
    fn after(&self, call: &Call<'_>, _token: u64, result: i64) {
        // A queue that is polled while it is empty would be all that is in the log.
        let nothing = result == -i64::from(Errno::AGAIN.raw());
        if nothing || !log::enabled(&self.provider, Level::Trace, Subsys::Core) {
            return;
        }
        let Call {
            table,
            op,
            arguments,
            ..
        } = call;
        log::trace!(&self.provider, Core, "{table}.{op}({arguments}) = {result}");
    }
}
