//! Runs trials, and reports those that cannot run here as ignored, each with its reason.
//!
//! libtest decides before it runs a test whether that is ignored; whether a program is installed shows only in the test. So test
//! programs of trials have `harness = false`, take the attribute `test` from this crate by `#[macro_use] extern crate
//! oxifabric_trials`, and call [`main`].

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use libtest_mimic::{Arguments, Completion, Trial};

use crate::Missing;

/// A function with the attribute `test`.
#[derive(Debug)]
pub struct Registered {
    /// Its path, beginning with the name of the test program.
    pub name: &'static str,
    /// Panics if the test fails.
    pub run: fn(),
}

inventory::collect!(Registered);

/// Whether this program reports by [`main`]. Under libtest a line that begins with `SKIP:` is all that there is.
static REPORTS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What the test that this thread runs has missed.
    static MISSING: RefCell<Option<Missing>> = const { RefCell::new(None) };
}

/// Runs all registered trials that the arguments of the command line select.
pub fn main() -> ExitCode {
    REPORTS.store(true, Ordering::Relaxed);
    let mut trials: Vec<&Registered> = inventory::iter::<Registered>().collect();
    trials.sort_by_key(|trial| trial.name);
    let trials = trials.into_iter().map(|trial| {
        let name = trial
            .name
            .split_once("::")
            .map_or(trial.name, |(_, name)| name);
        Trial::ignorable_test(name, || {
            (trial.run)();
            Ok(completion())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn completion() -> Completion {
    match MISSING.take() {
        Some(missing) => Completion::ignored_with(missing),
        None => Completion::Completed,
    }
}

/// Notes that the test which this thread runs cannot run here. The test returns next.
pub fn skip(missing: Missing) {
    if REPORTS.load(Ordering::Relaxed) {
        MISSING.set(Some(missing));
    } else {
        println!("SKIP: {missing}");
    }
}

/// Hands a function to the harness; the attribute `test` calls it.
#[doc(hidden)]
#[macro_export]
macro_rules! registered {
    ($name:ident) => {
        $crate::inventory::submit! {
            $crate::harness::Registered { name: ::std::concat!(::std::module_path!(), "::", ::std::stringify!($name)), run: $name }
        }
    };
}

/// Takes the value of a `Result<_, Missing>`, or reports what is missing and returns from the test.
#[macro_export]
macro_rules! require {
    ($needed:expr) => {
        match $needed {
            Ok(found) => found,
            Err(missing) => return $crate::harness::skip(missing),
        }
    };
}
