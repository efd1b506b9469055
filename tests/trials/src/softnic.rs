//! Networks of software NICs for programs: `softnic run`.
//!
//! `OXI_SOFTNIC` names the program softnic, with its library beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Missing, Program, Scratch, library};

/// Returns the program that makes devices, and checks that there are libraries to use them.
///
/// # Errors
/// Either is missing.
pub fn program() -> Result<PathBuf, Missing> {
    if !Path::new("/etc/libibverbs.d/efa.driver").exists() {
        return Err(Missing("ibverbs-providers is not installed".into()));
    }
    let program = std::env::var_os("OXI_SOFTNIC").map(PathBuf::from);
    let program = program.unwrap_or_else(|| library::prepared().join("debug/softnic"));
    match program.exists() {
        true => Ok(program),
        false => Err(Missing(format!("no softnic in {}", program.display()))),
    }
}

/// Returns the start of a program on a network with this plan and seed; the arguments that follow are the program and its own. The plan lies in
/// `scratch`.
///
/// # Errors
/// As [`program`].
///
/// # Panics
/// The folder cannot be written.
pub fn network(plan: &str, seed: u32, scratch: &Scratch) -> Result<Program, Missing> {
    let softnic = Program::new(program()?).args(["run"]);
    Ok(softnic.args(options(plan, seed, scratch)))
}

/// Returns the start of a program as [`network`] does, on a network that says at its end what was requested of it, in the form `N reads, N writes`.
///
/// # Errors
/// As [`program`].
///
/// # Panics
/// As [`network`].
pub fn counted(plan: &str, seed: u32, scratch: &Scratch) -> Result<Program, Missing> {
    let softnic = Program::new(program()?).args(["run", "--stats"]);
    Ok(softnic.args(options(plan, seed, scratch)))
}

/// Lets a program of MPI run on a network: hwloc is told of the NICs, whose places MPICH asks it for. Ranks are spread over the hosts.
///
/// # Errors
/// As [`program`].
///
/// # Panics
/// As [`network`].
pub fn under(
    launch: Program,
    plan: &str,
    seed: u32,
    scratch: &Scratch,
) -> Result<Program, Missing> {
    let softnic = program()?;
    let run = ["run", "--topology"].map(str::to_owned).into_iter();
    let options = run.chain(options(plan, seed, scratch));
    Ok(launch.under(&softnic.display().to_string(), options))
}

/// Writes the plan, and returns the options of `softnic run` for it, behind which the program follows.
fn options(plan: &str, seed: u32, scratch: &Scratch) -> [String; 5] {
    let file = scratch.join("plan.toml");
    fs::write(&file, plan).expect("a new folder takes a file");
    let (seed, file) = (seed.to_string(), file.display().to_string());
    ["--seed", &seed, "--plan", &file, "--"].map(str::to_owned)
}
