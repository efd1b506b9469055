//! What the tests use of this machine: Debian packages, and MPI libraries in virtual environments.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oxifabric_trials::wheel::{self, Wheel};

/// The packages that the tests use, each with a file that shows that it is there.
const PACKAGES: [(&str, &str); 15] = [
    ("libfabric-bin", "/usr/bin/fi_pingpong"),
    ("libfabric-dev", "/usr/include/rdma/fabric.h"),
    ("openmpi-bin", "/usr/bin/mpirun.openmpi"),
    // Its compiler wrapper is in openmpi-bin already, without headers.
    ("libopenmpi-dev", "/usr/share/doc/libopenmpi-dev"),
    ("python3-venv", "/usr/share/doc/python3-venv"),
    ("python3-pip", "/usr/bin/pip3"),
    // libFuzzer is C++.
    ("g++", "/usr/bin/g++"),
    ("util-linux", "/usr/bin/taskset"),
    // It judges metrics.
    (
        "python3-prometheus-client",
        "/usr/lib/python3/dist-packages/prometheus_client",
    ),
    // It counts instructions.
    ("valgrind", "/usr/bin/valgrind"),
    // The raw Rust binding reads the headers with it, and finds them by pkg-config.
    ("libclang-14-dev", "/usr/lib/llvm-14/lib/libclang.so"),
    ("pkg-config", "/usr/bin/pkg-config"),
    // They build and judge the Debian packages.
    ("debhelper", "/usr/bin/dh"),
    ("lintian", "/usr/bin/lintian"),
    // It formats manual pages.
    ("man-db", "/usr/bin/man"),
];

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

/// Makes sure that there is an environment with this MPI library, and returns its folder.
///
/// # Errors
/// Python, pip or the package index cannot be reached.
pub(crate) fn environment(wheel: &Wheel) -> Result<PathBuf, Box<dyn Error>> {
    let place = wheel.place();
    if wheel.environment().is_ok() {
        return Ok(place);
    }
    fs::create_dir_all(&place)?;
    // Debian's python3 has the venv module of the package above, whatever other python3 comes first on PATH.
    succeed(
        Command::new("/usr/bin/python3")
            .args(["-m", "venv"])
            .arg(&place),
    )?;
    let mut install = pip(&place);
    install.args(["install", "--quiet"]);
    succeed(install.args(wheel.packages))?;
    Ok(place)
}

/// Makes sure that the test suite of mpi4py is there. `environment` has the pip that fetches it.
///
/// # Errors
/// As [`environment`].
pub(crate) fn suite(environment: &Path) -> Result<(), Box<dyn Error>> {
    if wheel::suite().is_ok() {
        return Ok(());
    }
    let place = wheel::suite_place();
    let folder = place.parent().ok_or("the suite has no place")?;
    let mut download = pip(environment);
    download.args(["download", "--quiet", "--no-deps", "--no-binary", ":all:"]);
    succeed(download.arg("--dest").arg(folder).arg(wheel::SUITE))?;
    let archive = format!("{}.tar.gz", place.display());
    succeed(
        Command::new("tar")
            .arg("-xf")
            .arg(archive)
            .arg("-C")
            .arg(folder),
    )
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

/// Whether this process may do anything on the machine: the effective user, second number of the line `Uid:`.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_ascii_whitespace().nth(1)) == Some("0")
}
