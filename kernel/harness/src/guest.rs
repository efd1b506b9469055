//! A command in a guest of QEMU that has the modules.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::command::run as run_program;
use crate::peers;
use crate::place::Place;
use crate::programs::{self, FILE_SYSTEMS, FIO, RDMA, install, install_modules};

/// What a guest has: seconds after which it is ended, and MiB of memory.
const SMALL: (&str, &str) = ("480", "512");
/// The same of one with fio, whose libraries are large.
const LARGE: (&str, &str) = ("1200", "1024");

/// What any kernel is told: the console, and that a fault or panic ends the guest.
const ARGUMENTS: &str =
    "console=ttyS0 quiet panic=-1 oops=panic no_timer_check apparmor=0 audit=0 random.trust_cpu=on";

/// What the processors of a guest are, and what its kernel is told besides.
struct Machine {
    processors: &'static [&'static str],
    arguments: &'static str,
}

/// A guest that tries the modules, with checks of its memory.
const CHECKED: Machine = Machine {
    processors: &["-accel", "tcg,thread=multi", "-smp", "2", "-cpu", "max"],
    arguments: "panic_on_warn=1 slub_debug=FZPU page_poison=1",
};

/// A guest that measures. The clock counts instructions: with the two features of its processor that are off, a copy would count one for each byte.
const MEASURED: Machine = Machine {
    processors: &[
        "-accel",
        "tcg,thread=single",
        "-smp",
        "1",
        "-icount",
        "shift=0,sleep=off",
        "-cpu",
        "max,erms=off,fsrm=off",
    ],
    arguments: "mitigations=off",
};

/// What a guest is started for.
pub(crate) struct Job<'a> {
    /// The shell's commands.
    pub(crate) commands: &'a str,
    /// Whether it has fio.
    pub(crate) has_fio: bool,
    /// Whether it measures: one processor, whose clock counts instructions, and no checks of its memory.
    pub(crate) is_measured: bool,
}

/// Runs the commands of a job in a guest with the modules in /mod, and gives each line that it prints to `each`; returns its exit status.
///
/// # Errors
/// The guest cannot be started, or ended without a report: a panic, or too long a time.
pub(crate) fn run(
    place: &Place,
    modules: &[PathBuf],
    job: &Job,
    each: &mut dyn FnMut(&str),
) -> Result<ExitCode, Box<dyn Error>> {
    let initrd = initrd(place, modules, job)?;
    let mut qemu = Command::new("timeout");
    let (timeout, memory) = if job.has_fio { LARGE } else { SMALL };
    qemu.args(["--foreground", timeout, "qemu-system-x86_64", "-M", "q35"]);
    let machine = if job.is_measured { MEASURED } else { CHECKED };
    qemu.args(machine.processors).args(["-m", memory]);
    qemu.args([
        "-display",
        "none",
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
    ]);
    qemu.args([
        "-device",
        "isa-debug-exit,iobase=0xf4,iosize=1",
        "-serial",
        "stdio",
    ]);
    qemu.arg("-kernel")
        .arg(place.vmlinux())
        .arg("-initrd")
        .arg(initrd);
    let arguments = format!("{ARGUMENTS} {}", machine.arguments);
    qemu.args(["-append", &arguments]).stdin(Stdio::null());
    let mut qemu = qemu
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("qemu-system-x86_64: {error}"))?;
    let console = qemu.stdout.take().ok_or("QEMU has no console")?;
    for line in BufReader::new(console).split(b'\n') {
        let line = line?;
        each(String::from_utf8_lossy(&line).trim_end());
    }
    let status = qemu.wait()?;
    // The guest writes its status to a port, and QEMU ends with twice that and one; after a panic it ends with zero.
    match status.code() {
        Some(code) if code & 1 == 1 && code != 1 => Ok(ExitCode::from((code >> 1) as u8)),
        Some(1) => Ok(ExitCode::SUCCESS),
        Some(124) => Err(format!("the guest did not end within {timeout} s").into()),
        _ => Err(format!("the guest ended without a report ({status})").into()),
    }
}

/// Makes the guest's file system: busybox, programs of Debian, the modules, the commands.
fn initrd(place: &Place, modules: &[PathBuf], job: &Job) -> Result<PathBuf, Box<dyn Error>> {
    let root = place.dir.join("root");
    let _ = fs::remove_dir_all(&root);
    for folder in ["bin", "lib", "mod", "proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(root.join(folder))?;
    }
    // Programs name their loader in /lib64, whether the host or a package brought it.
    symlink("lib", root.join("lib64"))?;
    fs::copy(place.busybox(), root.join("bin/busybox"))?;
    for module in modules {
        let name = module.file_name().ok_or("a module without a name")?;
        let copy = root.join("mod").join(name);
        fs::copy(module, &copy)?;
        run_program(Command::new("strip").arg("--strip-debug").arg(copy))?;
    }
    peers::install(place, &root)?;
    program(
        &root.join("init"),
        &fs::read_to_string(place.sources.join("guest/init"))?,
    )?;
    install_modules(place, &programs::MODULES, &root)?;
    if job.is_measured {
        install_modules(place, &programs::NVME, &root)?;
    }
    install(place, &FILE_SYSTEMS, &root)?;
    install(place, &RDMA, &root)?;
    for (name, script) in [("rdma-up", "rdma.sh"), ("memory-free", "memory.sh")] {
        let text = fs::read_to_string(place.sources.join("guest").join(script))?;
        program(&root.join("bin").join(name), &text)?;
    }
    if job.has_fio {
        install(place, &FIO, &root)?;
    }
    program(&root.join("job"), &format!("#!/bin/sh\n{}\n", job.commands))?;
    let initrd = place.dir.join("initrd");
    let pack = "find . | \"$1\" cpio -o -H newc > \"$2\" 2> /dev/null";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", pack, "sh"])
        .arg(place.busybox())
        .arg(&initrd);
    run_program(shell.current_dir(&root))?;
    Ok(initrd)
}

fn program(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}
