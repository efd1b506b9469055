//! What a test machine may lack. A test that cannot run for another reason fails the run: the machine is supposed to have what it
//! needs, MPI libraries, root, namespaces, ptrace(2), valgrind, C libraries and the recorded compiler among them.

/// Parts of reasons, and why a complete run may do without.
#[rustfmt::skip]
const MAY_BE_MISSING: [(&str, &str); 14] = [
    ("FABTESTS_BIN names no folder", "fabtests are no package; they are built by hand"),
    ("no intel-mpi wheel", "`cargo xtask clients` installs it"),
    ("no open-mpi-5 wheel", "`cargo xtask clients` installs it"),
    ("rustup component add rust-src", "no part of a plain toolchain"),
    ("it may need a feature", "a step of its own turns it on"),
    ("the feature tokio is off", "a step of its own turns it on"),
    ("kernel modules are not tried", "QEMU is large; `cargo xtask guest` says what it needs"),
    ("libefa before rdma-core 49", "Debian 12 has an older one; newer ones are tried by hand"),
    ("no header of rdma-core 50", "Debian 12 has an older one; newer ones are tried by hand"),
    // The same tests judge Debian's C library, of which some do not hold.
    ("the C library ", "a difference of an old C library"),
    ("this provider ", "a difference of an old C library"),
    ("fi_control failed: Function not implemented", "a difference of an old C library"),
    (" has room for all", "a difference of an old C library"),
    (" makes room by itself", "a difference of an old C library"),
];

/// Returns why a complete run may do without what the reason names, if it may.
pub(crate) fn excuse(reason: &str) -> Option<&'static str> {
    let listed = MAY_BE_MISSING
        .iter()
        .find(|(part, _)| reason.contains(part));
    listed.map(|(_, why)| *why)
}

/// Returns the reason for which a line says that a test did not run: `SKIP: REASON` under libtest, and at the end of the line of a
/// test whose harness ignores it at run time, `ignored (REASON)`.
pub(crate) fn reason(line: &str) -> Option<&str> {
    if let Some(reason) = line.strip_prefix("SKIP:") {
        return Some(reason.trim());
    }
    let (before, reason) = line.split_once("ignored (")?;
    let is_result = before.is_empty() || before.ends_with("... ");
    reason.strip_suffix(')').filter(|_| is_result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_from_both_harnesses() {
        assert_eq!(reason("SKIP: no root"), Some("no root"));
        let ignored = "test mpich::hello       ... ignored (no mpich wheel in /tmp)";
        assert_eq!(reason(ignored), Some("no mpich wheel in /tmp"));
        assert_eq!(
            reason("ignored (it printed (much))"),
            Some("it printed (much)")
        );
        for other in [
            "test a ... ok",
            "test run_under_callgrind ... ignored, another test runs it",
            "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured",
            "a word was ignored (by a peer)",
        ] {
            assert_eq!(reason(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_listed_has_no_excuse() {
        assert!(excuse("FABTESTS_BIN names no folder with fabtests").is_some());
        for reason in [
            "no mpich wheel in /tmp/venv-mpich",
            "valgrind is not installed",
            "only root may make a network",
            "leaks are not looked for: this machine forbids ptrace(2)",
            "instructions are recorded for another compiler",
        ] {
            assert_eq!(excuse(reason), None, "{reason}");
        }
    }
}
