//! C programs of this crate, compiled for a trial.

use std::path::{Path, PathBuf};

use crate::{Missing, Program, Scratch, installed};

/// A compiled program. The file vanishes with it.
#[derive(Debug)]
pub struct Compiled {
    file: PathBuf,
    _scratch: Scratch,
}

impl Compiled {
    /// Returns the program's file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// Compiles `programs/NAME.c` with a C compiler or an MPI library's compiler wrapper.
///
/// # Panics
/// The compiler refuses the program.
#[must_use]
pub fn compile(name: &str, compiler: &Path, options: &[&str]) -> Compiled {
    let scratch = Scratch::new();
    let file = scratch.join(name);
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    Program::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&file, &programs.join(name).with_extension("c")])
        .args(options)
        .run()
        .expect_success();
    Compiled {
        file,
        _scratch: scratch,
    }
}

/// Compiles `programs/NAME.c` against the installed libfabric headers.
///
/// # Errors
/// There is no C compiler or libfabric-dev is not installed.
pub fn compile_client(name: &str) -> Result<Compiled, Missing> {
    let compiler = installed("cc")?;
    if !Path::new("/usr/include/rdma/fabric.h").exists() {
        return Err(Missing("libfabric-dev is not installed".into()));
    }
    Ok(compile(name, &compiler, &["-lfabric"]))
}
