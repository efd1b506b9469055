//! One run: a folder, the switch, the program, and all of it gone afterwards.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;

use crate::plan::Plan;
use crate::switch::Switch;
use crate::sys::{self, Socket};
use crate::{Run, sysfs, topology};

/// How the folders of runs are named: this, the number of the namespace of process ids, and the process id.
const FOLDER: &str = "softnic.";

/// Runs a program on a network, and returns its exit code; 128 and the signal's number if one ended it.
///
/// # Errors
/// The folder cannot be made, or the program cannot be started.
pub(crate) fn run(plan: Plan, run: &Run) -> io::Result<u8> {
    sweep();
    let library = library()?;
    let folder = Folder::create()?;
    for host in 0..plan.hosts {
        sysfs::make(&folder.0.join(format!("host{host}")), &plan, host)?;
    }
    let listener = Socket::listen(&folder.0.join("switch"))?;
    let (first, rest) = run
        .program
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(first);
    command.args(rest);
    command.env("SOFTNIC_RUN", &folder.0);
    command.env("SOFTNIC_HOSTS", plan.hosts.to_string());
    command.env("SOFTNIC_NICS", plan.nics.to_string());
    command.env("SYSFS_PATH", folder.0.join("host0"));
    command.env("LD_PRELOAD", preload(&library));
    if run.topology {
        let file = folder.0.join("topology.xml");
        topology::write(&file, (0..plan.nics).map(sysfs::place))?;
        command.env("HWLOC_XMLFILE", file);
        // Processes may be bound to the processors of the description, which are those of this machine.
        command.env("HWLOC_THISSYSTEM", "1");
    }
    // What the terminal sends goes to the program too; this process stays to clean up.
    sys::outlive_signals();
    let child = command.spawn();
    let mut child =
        child.map_err(|error| io::Error::new(error.kind(), format!("{first}: {error}")))?;
    sys::pass_on_signals(child.id());
    let (ended, mut ends) = io::pipe()?;
    let waiting = thread::spawn(move || {
        let status = child.wait();
        let _ = ends.write_all(&[1]);
        status
    });
    let counts = Switch::new(plan, listener).run(&ended);
    let status = waiting.join().map_err(|_| io::ErrorKind::Other)??;
    if run.stats {
        eprintln!("softnic: {counts}");
    }
    Ok(code(status))
}

fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}

/// Returns the list of libraries to load first: this one, and those of the caller.
fn preload(library: &Path) -> String {
    let theirs = std::env::var("LD_PRELOAD").unwrap_or_default();
    let both = format!("{} {theirs}", library.display());
    both.trim_end().to_owned()
}

/// Finds the preloaded library: where SOFTNIC_LIBRARY says, beside this program, or where packages put libraries.
fn library() -> io::Result<PathBuf> {
    const NAME: &str = "libsoftnic.so";
    if let Some(named) = std::env::var_os("SOFTNIC_LIBRARY") {
        return Ok(PathBuf::from(named));
    }
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = ["", "deps", "../lib"].map(|place| folder.join(place).join(NAME));
    let found = places.iter().find(|place| place.exists());
    let missing = || format!("{NAME} is not in {}", folder.display());
    found
        .cloned()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing()))
}

/// The folder of a run, which goes with it.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn create() -> io::Result<Self> {
        let name = format!("{}{}", prefix(), std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns how the names of folders begin here: processes of another namespace may have the same ids, and are not seen from this one.
fn prefix() -> String {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    format!("{FOLDER}{namespace}.")
}

/// Removes the folders of runs that were killed.
fn sweep() {
    let prefix = prefix();
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        let Some(process) = process.and_then(|number| number.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new("/proc").join(process.to_string()).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
