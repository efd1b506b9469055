//! The report of a panic of this library, which is printed before the process ends: its state cannot be trusted any more (docs/adr/0036).
//!
//! Only the libraries for C have this hook. A Rust program that links this crate has a hook of its own, and keeps it.

use std::backtrace::Backtrace;
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::{process, thread};

/// Installs the panic hook, which reports a panic. It does not return to the program: the profile makes it abort(3).
pub(crate) fn report_panics() {
    panic::set_hook(Box::new(report));
}

fn report(info: &PanicHookInfo<'_>) {
    let stack = Backtrace::force_capture().to_string();
    let thread = thread::current();
    let defect = Defect {
        what: info.payload_as_str().unwrap_or("a panic without a text"),
        place: &info
            .location()
            .map_or_else(String::new, ToString::to_string),
        thread: thread.name(),
        stack: &stack,
    };
    // One write, so that the lines of several processes do not mix. An error of it cannot be reported anywhere.
    let _ = io::stderr().write_all(defect.report().as_bytes());
}

/// What is known about a panic.
struct Defect<'a> {
    what: &'a str,
    place: &'a str,
    thread: Option<&'a str>,
    stack: &'a str,
}

impl Defect<'_> {
    fn report(&self) -> String {
        let Self { what, place, .. } = self;
        format!(
            "libfabric:{}: oxifabric has found a defect of its own and ends this process: what it would do next cannot be trusted\n\
             \x20 what:   {what}\n\
             \x20 where:  {place}, version {}\n\
             \x20 call:   {}\n\
             \x20 thread: {}\n\
             \x20 report: {}/issues, or as SECURITY.md says there if a peer or another user can bring it about\n{}",
            process::id(),
            env!("CARGO_PKG_VERSION"),
            self.call().unwrap_or("unknown, for want of symbols"),
            self.thread.unwrap_or("of the program"),
            env!("CARGO_PKG_REPOSITORY"),
            self.stack,
        )
    }

    /// Returns the outermost function of this library on the stack: the call of the program, or what a thread of the library runs.
    fn call(&self) -> Option<&str> {
        // Lines such as `  12: oxifabric_core::endpoint::msg::send`; those of places begin with `at`.
        let mut functions = self.stack.lines().filter_map(|line| {
            let (number, function) = line.split_once(": ")?;
            number.trim().parse::<u32>().ok().map(|_| function.trim())
        });
        let is_ours = |function: &&str| function.trim_start_matches('<').starts_with("oxifabric_");
        functions.rfind(is_ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "\
   0: std::backtrace::Backtrace::create
   1: oxifabric_libfabric::defect::report
   2: oxifabric_engine::tx::advance
             at ./crates/engine/src/tx.rs:170:5
   3: <oxifabric_tcp::Tcp as oxifabric_core::Provider>::tsend
   4: main
   5: <unknown>
";

    fn defect(stack: &str) -> Defect<'_> {
        Defect {
            what: "the index is 7",
            place: "crates/engine/src/tx.rs:170:5",
            thread: Some("oxi-progress"),
            stack,
        }
    }

    #[test]
    fn the_call_is_the_outermost_function_of_this_library() {
        let call = Some("<oxifabric_tcp::Tcp as oxifabric_core::Provider>::tsend");
        assert_eq!(defect(STACK).call(), call);
        assert_eq!(defect("   0: main\n   1: <unknown>").call(), None);
    }

    #[test]
    fn a_report_says_what_where_which_call_and_which_thread() {
        let report = defect(STACK).report();
        for part in [
            "what:   the index is 7\n",
            "where:  crates/engine/src/tx.rs:170:5",
            "::tsend\n",
            "thread: oxi-progress\n",
            "report: https://",
            "   4: main\n",
        ] {
            assert!(report.contains(part), "{part:?} is missing in {report}");
        }
    }
}
