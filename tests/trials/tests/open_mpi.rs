//! Open MPI's layers over libfabric: messages by its matching layer (pml cm, mtl ofi) or by its own matching over byte
//! transfers (pml ob1, btl ofi), one-sided programs by messages (osc pt2pt) or by remote memory access (osc rdma), and
//! threads. Four ranks, every result checked by the program.
//!
//! shm cannot be selected by mtl ofi, which asks for FI_REMOTE_COMM. Open MPI 5 is there after `cargo xtask clients`; it
//! has no osc pt2pt.

#[macro_use]
extern crate oxifabric_trials;

use oxifabric_trials::mpi::Mpi;
use oxifabric_trials::{Library, Missing, Scratch, require, softnic};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

/// Messages by libfabric's matching.
const MATCHING: &str = "--mca pml cm --mca mtl ofi --mca btl self";
/// Messages by libfabric's matching, with windows by messages.
const MATCHING_ALL: &str = "--mca pml cm --mca mtl ofi --mca btl self --mca osc pt2pt";
/// Messages by libfabric's matching, with windows by remote memory access.
const MATCHING_AND_ACCESS: &str = "--mca pml cm --mca mtl ofi --mca btl self,ofi --mca osc rdma";
/// Messages over sockets of Open MPI's own, windows by messages, long messages by remote memory access.
const LONG_MESSAGES: &str = "--mca pml ob1 --mca btl self,tcp,ofi --mca osc pt2pt";
/// Windows by remote memory access.
const ACCESS: &str = "--mca pml ob1 --mca btl self,tcp,ofi --mca osc rdma";
/// Windows by remote memory access with several contexts, where there are some.
const CONTEXTS: &str =
    "--mca pml ob1 --mca btl self,tcp,ofi --mca btl_ofi_num_contexts_per_module 4 --mca osc rdma";
/// Nothing but libfabric between the ranks.
const ALONE: &str = "--mca pml ob1 --mca btl self,ofi --mca btl_ofi_mode 2 --mca osc rdma";

/// Two hosts between which much is overtaken and receivers are often not ready, where efa has software devices.
const UNRULY: &str = "hosts = 2\nreorder = 0.7\nreorder_window = 32\nrnr = 0.05\n";

/// Runs programs, each with an argument or none, through layers of Open MPI.
fn run(mpi: Mpi, provider: &str, layers: &str, programs: &[&str]) -> Result<(), Missing> {
    let library = Library::under_test()?;
    for program in programs {
        let mut words = program.split(' ');
        let name = words.next().unwrap_or(program);
        let compiled = mpi.compile(name)?;
        let launch = mpi.launch_through(layers, &library, provider, compiled.file())?;
        let (launch, scratch) = (launch.args(words), Scratch::new());
        let launch = match provider {
            "efa" => softnic::under(launch, UNRULY, 1, &scratch)?,
            _ => launch,
        };
        let outcome = launch.run();
        let verdict = format!("{name} of 4: 0 wrong");
        outcome.expect_success().expect_stdout(&verdict);
    }
    Ok(())
}

/// Windows cannot be had with threads where they are made of messages: Open MPI's osc pt2pt declines.
const BY_MESSAGES: &[&str] = &["ring", "threads messages", "windows"];
const MESSAGES: &[&str] = &["ring", "threads messages"];
const ALL: &[&str] = &["ring", "windows", "threads"];

macro_rules! layers {
    ($($name:ident: $mpi:expr, $provider:literal, $layers:expr, $programs:expr;)*) => {$(
        #[test]
        fn $name() {
            require!(run($mpi, $provider, $layers, $programs));
        }
    )*};
}

layers! {
    matching_over_tcp: Mpi::Open, "tcp", MATCHING_ALL, BY_MESSAGES;
    matching_and_access_over_tcp: Mpi::Open, "tcp", MATCHING_AND_ACCESS, ALL;
    long_messages_over_tcp: Mpi::Open, "tcp", LONG_MESSAGES, BY_MESSAGES;
    access_over_tcp: Mpi::Open, "tcp", ACCESS, ALL;
    access_in_contexts_over_tcp: Mpi::Open, "tcp", CONTEXTS, ALL;
    nothing_but_tcp: Mpi::Open, "tcp", ALONE, ALL;
    long_messages_over_shm: Mpi::Open, "shm", LONG_MESSAGES, BY_MESSAGES;
    access_over_shm: Mpi::Open, "shm", ACCESS, ALL;
    access_in_contexts_over_shm: Mpi::Open, "shm", CONTEXTS, ALL;
    nothing_but_shm: Mpi::Open, "shm", ALONE, ALL;
    matching_over_efa: Mpi::Open, "efa", MATCHING_ALL, BY_MESSAGES;
    matching_and_access_over_efa: Mpi::Open, "efa", MATCHING_AND_ACCESS, ALL;
    nothing_but_efa: Mpi::Open, "efa", ALONE, ALL;
    open_mpi_5_matching_over_tcp: Mpi::Open5, "tcp", MATCHING, MESSAGES;
    open_mpi_5_matching_and_access_over_tcp: Mpi::Open5, "tcp", MATCHING_AND_ACCESS, ALL;
    open_mpi_5_access_over_tcp: Mpi::Open5, "tcp", ACCESS, ALL;
    open_mpi_5_nothing_but_tcp: Mpi::Open5, "tcp", ALONE, ALL;
    open_mpi_5_access_over_shm: Mpi::Open5, "shm", ACCESS, ALL;
    open_mpi_5_nothing_but_shm: Mpi::Open5, "shm", ALONE, ALL;
}
