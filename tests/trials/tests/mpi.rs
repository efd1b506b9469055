//! MPI programs on unmodified MPI libraries, every result checked by the program.
//!
//! Open MPI's matching layer for libfabric uses tagged messages with directed receives, inject and cancel;
//! MPICH's network module adds multi-receive, remote memory access and its own address exchange. Intel MPI and Open MPI 5
//! are there after `cargo xtask clients`.

#[macro_use]
extern crate oxifabric_trials;

use oxifabric_trials::mpi::Mpi;
use oxifabric_trials::{Library, Missing, Outcome, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Runs `programs/PROGRAM.c` with `ranks` ranks.
fn run(mpi: Mpi, provider: &str, program: &str, ranks: u32) -> Result<Outcome, Missing> {
    let library = Library::under_test()?;
    let compiled = mpi.compile(program)?;
    Ok(mpi
        .launch(&library, provider, ranks, compiled.file())?
        .run())
}

/// Every rank is there and has loaded the library under test, not the one that the MPI library came with.
fn hello(mpi: Mpi, provider: &str) -> Result<(), Missing> {
    let library = Library::under_test()?;
    let file = library.folder().join("libfabric.so.1");
    let file = file
        .canonicalize()
        .expect("the library under test is a file");
    for ranks in 2..=4 {
        let outcome = run(mpi, provider, "hello", ranks)?;
        outcome
            .expect_success()
            .expect_stdout(&format!("heard of {ranks} ranks"));
        for rank in 0..ranks {
            outcome.expect_stdout(&format!("rank {rank} of {ranks} on {}\n", file.display()));
        }
    }
    Ok(())
}

/// With two to four ranks nothing arrives wrong.
fn checked(mpi: Mpi, provider: &str, program: &str) -> Result<(), Missing> {
    for ranks in 2..=4 {
        let outcome = run(mpi, provider, program, ranks)?;
        let verdict = format!("{program} of {ranks}: 0 wrong");
        outcome.expect_success().expect_stdout(&verdict);
    }
    Ok(())
}

macro_rules! programs {
    ($($name:ident: $mpi:expr, $provider:literal;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn hello() {
                require!(super::hello($mpi, $provider));
            }

            #[test]
            fn ring() {
                require!(checked($mpi, $provider, "ring"));
            }

            #[test]
            fn allreduce() {
                require!(checked($mpi, $provider, "allreduce"));
            }

            #[test]
            fn alltoall() {
                require!(checked($mpi, $provider, "alltoall"));
            }
        }
    )*};
}

programs! {
    open_mpi_tcp: Mpi::Open, "tcp";
    open_mpi_reliable_datagrams: Mpi::Open, "udp;ofi_rxd";
    mpich_tcp: Mpi::Mpich, "tcp";
    mpich_shm: Mpi::Mpich, "shm";
    mpich_reliable_datagrams: Mpi::Mpich, "udp;ofi_rxd";
    open_mpi_5_tcp: Mpi::Open5, "tcp";
    intel_mpi_tcp: Mpi::Intel, "tcp";
    intel_mpi_shm: Mpi::Intel, "shm";
}

/// Open MPI selects no provider without FI_REMOTE_COMM (other nodes can be reached), and shm has none: with that asked
/// for, shm cannot be offered truthfully. The log names exactly this, so that a user finds out.
#[test]
fn open_mpi_is_told_why_it_gets_no_shm() {
    require!(refused_shm());
}

fn refused_shm() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let compiled = Mpi::Open.compile("hello")?;
    let launch = Mpi::Open.launch(&library, "shm", 2, compiled.file())?;
    let outcome = launch
        .env("FI_PROVIDER", "shm")
        .env("FI_LOG_LEVEL", "info")
        .run();
    assert!(!outcome.is_success(), "Open MPI has taken shm: {outcome}");
    let said = &outcome.stderr;
    let refusal = said.lines().find(|line| line.contains("not returned: shm"));
    let refusal = refusal.unwrap_or_else(|| panic!("shm was not asked for: {said}"));
    assert!(
        refusal.contains("FI_REMOTE_COMM was asked for"),
        "another reason: {refusal}"
    );
    Ok(())
}
