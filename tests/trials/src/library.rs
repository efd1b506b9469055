//! The builds of libfabric that a program can be pointed at.

use std::env;
use std::path::{Path, PathBuf};

use crate::{Missing, Scratch, repository};

/// A folder whose `libfabric.so.1` a program loads through `LD_LIBRARY_PATH`.
#[derive(Debug)]
pub struct Library {
    folder: PathBuf,
    /// The name in reports.
    name: &'static str,
    /// Keeps a folder that was made for this library.
    _scratch: Option<Scratch>,
}

impl Library {
    /// Returns the library under test, `lib/` of the folder that the variable `OXI_DIST` names.
    ///
    /// # Errors
    /// `OXI_DIST` is not set or holds no library. There is no default: the trials must not judge a build that
    /// an earlier change left behind.
    ///
    /// # Panics
    /// `OXI_DIST` is set and the library is not there: that is a broken build, not a missing program.
    pub fn under_test() -> Result<Self, Missing> {
        let dist = env::var_os("OXI_DIST").ok_or_else(|| {
            Missing("OXI_DIST names no library to test (cargo xtask test sets it)".into())
        })?;
        let library = Self::at(Path::new(&dist).join("lib"), "oxifabric");
        Ok(library.unwrap_or_else(|missing| panic!("OXI_DIST: {missing}")))
    }

    /// Returns the C library that Debian's package libfabric1 installs (1.17 in Debian 12).
    ///
    /// # Errors
    /// The package is not installed.
    pub fn debian() -> Result<Self, Missing> {
        let folder = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
        Self::alone(&Path::new(&folder).join("libfabric.so.1"), "Debian's C")
    }

    /// Returns the C library inside the MPICH wheel (2.5.1 in MPICH 5.0.2).
    ///
    /// # Errors
    /// There is no virtual environment with MPICH, see [`crate::wheel`].
    pub fn mpich_wheel() -> Result<Self, Missing> {
        let wheel = crate::wheel::MPICH.environment()?;
        Self::alone(&wheel.join("lib/mpich/libfabric.so.1"), "the wheel's C")
    }

    /// Returns the library in `folder`.
    ///
    /// # Errors
    /// There is no `libfabric.so.1` in the folder.
    pub fn at(folder: PathBuf, name: &'static str) -> Result<Self, Missing> {
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        if !folder.join("libfabric.so.1").exists() {
            return Err(Missing(format!(
                "no libfabric.so.1 in {}",
                folder.display()
            )));
        }
        Ok(Self {
            folder,
            name,
            _scratch: None,
        })
    }

    /// Returns the library `file`, linked into a folder where nothing else is: beside its siblings it would bring
    /// their versions of other libraries into the program.
    ///
    /// # Errors
    /// There is no such file.
    ///
    /// # Panics
    /// The temporary folder cannot be written.
    pub fn alone(file: &Path, name: &'static str) -> Result<Self, Missing> {
        let file = file
            .canonicalize()
            .map_err(|_| Missing(format!("no {}", file.display())))?;
        let scratch = Scratch::new();
        std::os::unix::fs::symlink(file, scratch.join("libfabric.so.1"))
            .expect("a new folder takes a link");
        Ok(Self {
            folder: scratch.path().to_path_buf(),
            name,
            _scratch: Some(scratch),
        })
    }

    /// Returns the folder for `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what reports call it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// Returns the folder in which `cargo xtask test` prepares what trials need, `target` of the repository.
#[must_use]
pub fn prepared() -> PathBuf {
    repository().join("target")
}
