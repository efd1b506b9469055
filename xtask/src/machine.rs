//! What the tests use of this machine: Debian packages, and a virtual environment with the MPICH wheel.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that the tests use, each with a file that shows that it is there.
const PACKAGES: [(&str, &str); 7] = [
    ("libfabric-bin", "/usr/bin/fi_pingpong"),
    ("libfabric-dev", "/usr/include/rdma/fabric.h"),
    ("openmpi-bin", "/usr/bin/mpirun.openmpi"),
    ("libopenmpi-dev", "/usr/bin/mpicc.openmpi"),
    ("python3-venv", "/usr/share/doc/python3-venv"),
    ("python3-pip", "/usr/bin/pip3"),
    ("util-linux", "/usr/bin/taskset"),
];

/// Programs compiled with this wheel run on the library under test; it also contains a C libfabric.
const WHEEL: &str = "mpich==5.0.2";

/// Installs the packages that are missing, or says how to. Tests whose packages stay missing are skipped.
pub(crate) fn install_packages() {
    let missing = PACKAGES
        .iter()
        .filter(|(_, file)| !Path::new(file).exists());
    let missing: Vec<&str> = missing.map(|(package, _)| *package).collect();
    if missing.is_empty() {
        return;
    }
    if !is_root() {
        println!(
            "Some tests will be skipped. To run them: sudo apt-get install -y {}",
            missing.join(" ")
        );
        return;
    }
    println!("Installing {}", missing.join(" "));
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
            .args(args)
            .status()
            .is_ok_and(|status| status.success())
    };
    let install = [
        &["install", "-y", "--no-install-recommends"],
        missing.as_slice(),
    ]
    .concat();
    // The package lists of a fresh machine may be absent or old.
    let is_installed = apt(&install) || (apt(&["update"]) && apt(&install));
    if !is_installed {
        println!("apt-get failed; the tests that need these packages will be skipped");
    }
}

/// Makes sure that there is a virtual environment with MPICH, and returns its folder.
///
/// # Errors
/// Python, pip or the package index cannot be reached.
pub(crate) fn mpich_environment(target: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let place = target.join("venv-mpich");
    if place.join("bin/mpiexec").exists() {
        return Ok(place);
    }
    fs::create_dir_all(target)?;
    let succeed = |command: &mut Command| match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    };
    // Debian's python3 has the venv module of the package above, whatever other python3 comes first on PATH.
    succeed(
        Command::new("/usr/bin/python3")
            .args(["-m", "venv"])
            .arg(&place),
    )?;
    let pip = place.join("bin/pip");
    succeed(Command::new(pip).args(["install", "--quiet", "--disable-pip-version-check", WHEEL]))?;
    Ok(place)
}

/// Whether this process may do anything on the machine: the effective user, second number of the line `Uid:`.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_ascii_whitespace().nth(1)) == Some("0")
}
