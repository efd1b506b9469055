//! The other tests with hooks between them and the providers: fi_hook(7), which works with triggered operations too.

use std::env;
use std::process::Command;

/// Runs the tests of a module in a process of their own, with FI_HOOK, which is read once.
fn pass_with(hooks: &str, module: &str) {
    let program = env::current_exe().expect("a process knows its program");
    let run = Command::new(program)
        .args([module, "--test-threads=2"])
        .env("FI_HOOK", hooks)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && !said.contains(" 0 passed"),
        "{hooks}: {said}\n{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

#[test]
fn triggered_operations_and_deferred_work_pass_through_hooks() {
    pass_with("noop", "deferred::");
    pass_with("perf;trace;profile;debug;noop", "deferred::");
}

#[test]
fn threads_pass_through_hooks() {
    pass_with("profile;debug;perf", "threads::threads_share_an_endpoint");
}
