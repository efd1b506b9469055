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
    let options = options(plan, seed, scratch);
    Ok(Program::new(program()?).args(options))
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
    let mut options = options(plan, seed, scratch);
    options.insert(1, "--topology".into());
    Ok(launch.under(&softnic.display().to_string(), options))
}

fn options(plan: &str, seed: u32, scratch: &Scratch) -> Vec<String> {
    let file = scratch.join("plan.toml");
    fs::write(&file, plan).expect("a new folder takes a file");
    let (seed, file) = (seed.to_string(), file.display().to_string());
    let words = ["run", "--seed", &seed, "--plan", &file, "--"];
    words.map(str::to_owned).to_vec()
}
