//! The Debian packages that the tests use of this machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use oxifabric_packaging::cargo::run;

/// The packages that the tests use, each with a file that shows that it is there.
const PACKAGES: &[(&str, &str)] = &[
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
    // RDMA without hardware: softnic's device is below these libraries, and their own tests judge it.
    ("ibverbs-providers", "/etc/libibverbs.d/efa.driver"),
    ("libibverbs-dev", "/usr/include/infiniband/efadv.h"),
    (
        "python3-pyverbs",
        "/usr/lib/python3/dist-packages/pyverbs/__init__.py",
    ),
    ("rdma-core", "/usr/share/doc/rdma-core/tests"),
    ("perftest", "/usr/bin/ib_send_lat"),
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
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        run(command.args(words)).is_ok()
    };
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(missing);
    // The package lists of a fresh machine may be absent or old.
    let is_installed = apt(&install) || (apt(&["update"]) && apt(&install));
    if !is_installed {
        println!("apt-get failed; the tests that need these packages will be skipped");
    }
}

/// What runs the guests of kernel modules, and what builds these; none is installed for the other tests.
const FOR_GUESTS: [&str; 3] = [
    "/usr/bin/qemu-system-x86_64",
    "/usr/bin/make",
    "/usr/bin/apt-get",
];

/// Returns what is missing to build kernel modules and run them, if anything is.
pub(crate) fn missing_for_guests() -> Option<&'static str> {
    FOR_GUESTS
        .into_iter()
        .find(|file| !Path::new(file).exists())
}

/// Whether this process may do anything on the machine: the effective user, second number of the line `Uid:`.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_ascii_whitespace().nth(1)) == Some("0")
}
