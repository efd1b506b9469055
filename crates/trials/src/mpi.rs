//! Two MPI libraries that run on libfabric, and their launchers.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::source::{self, Compiled};
use crate::{Library, Missing, Program, installed, library};

/// An MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// Debian's Open MPI 4.1, over its matching layer for libfabric.
    Open,
    /// The MPICH wheel, over its network module for libfabric.
    Mpich,
}

impl Mpi {
    /// Compiles `programs/NAME.c` for this library.
    ///
    /// # Errors
    /// The library is not installed.
    pub fn compile(self, name: &str) -> Result<Compiled, Missing> {
        let wrapper = match self {
            Self::Open => installed("mpicc.openmpi")?,
            Self::Mpich => mpich_environment()?.join("bin/mpicc"),
        };
        installed("cc")?;
        Ok(source::compile(name, &wrapper, &[]))
    }

    /// The launch of `program` with so many ranks over one provider of `library`.
    ///
    /// # Errors
    /// The MPI library is not installed.
    pub fn launch(
        self,
        library: &Library,
        provider: &str,
        ranks: u32,
        program: &Path,
    ) -> Result<Program, Missing> {
        let launch = match self {
            Self::Open => open_mpi(library, provider, ranks)?,
            Self::Mpich => mpich(library, provider, ranks)?,
        };
        // Two to four spinning ranks share whatever cores there are.
        Ok(launch.args([program]).limit(Duration::from_secs(300)))
    }
}

fn open_mpi(library: &Library, provider: &str, ranks: u32) -> Result<Program, Missing> {
    Ok(Program::new(installed("mpirun.openmpi")?)
        .library(library)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .line("-x LD_LIBRARY_PATH -x FI_PROVIDER_PATH --oversubscribe")
        .line("--mca pml cm --mca mtl ofi --mca btl self --mca osc pt2pt")
        .line(&format!(
            "--mca mtl_ofi_provider_include {provider} -np {ranks}"
        )))
}

fn mpich(library: &Library, provider: &str, ranks: u32) -> Result<Program, Missing> {
    let wheel = mpich_environment()?;
    let mut folders = OsString::from(library.folder());
    for own in ["lib", "lib/mpich"] {
        folders.push(":");
        folders.push(wheel.join(own));
    }
    Ok(Program::new(wheel.join("bin/mpiexec"))
        .env("LD_LIBRARY_PATH", folders)
        .env("FI_PROVIDER", provider)
        .env("MPIR_CVAR_CH4_NETMOD", "ofi")
        // Without its own shared memory, so that ranks of one machine meet over the provider.
        .env("MPIR_CVAR_NOLOCAL", "1")
        .line(&format!("-n {ranks}")))
}

/// The virtual environment that holds the MPICH wheel: `OXI_MPICH`, or the one `cargo xtask test` makes.
///
/// # Errors
/// It is not there.
pub fn mpich_environment() -> Result<PathBuf, Missing> {
    let wheel = env::var_os("OXI_MPICH")
        .map_or_else(|| library::prepared().join("venv-mpich"), PathBuf::from);
    if wheel.join("bin/mpiexec").exists() {
        return Ok(wheel);
    }
    let place = wheel.display();
    Err(Missing(format!("no MPICH wheel in {place}")))
}
