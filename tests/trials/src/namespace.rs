//! A part of the machine of a trial's own: other programs neither take its ports nor leave files among its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Missing, Process, Program, installed};

/// A network with the loopback interface only, and an empty /dev/shm. Both end with the value and the programs in it.
#[derive(Debug)]
pub struct Namespace {
    /// A process that does nothing else than to keep them.
    keeper: Process,
}

impl Namespace {
    /// Makes both.
    ///
    /// # Errors
    /// Only root may do that, or a program for it is not installed.
    pub fn new() -> Result<Self, Missing> {
        for program in ["unshare", "nsenter", "ip", "mount"] {
            installed(program)?;
        }
        let script = "mount -t tmpfs own /dev/shm && ip link set lo up && echo made && exec tail -f /dev/null";
        let keeper = Program::new("sh").args(["-c", script]);
        let mut keeper = keeper.under("unshare", ["--net", "--mount"]).start();
        let made = keeper.until(|keeper| keeper.stdout().contains("made\n"));
        made.map_err(|_| {
            Missing("only root may make a network and a /dev/shm of a trial's own".into())
        })?;
        Ok(Self { keeper })
    }

    /// Returns the program, to be run there. It is named by its whole path, as are its files.
    #[must_use]
    pub fn around(&self, program: Program) -> Program {
        let namespaces = format!("/proc/{}/ns", self.keeper.id());
        let options = [
            format!("--net={namespaces}/net"),
            format!("--mount={namespaces}/mnt"),
        ];
        program.under("nsenter", options)
    }

    /// Lists the names in its /dev/shm.
    ///
    /// # Panics
    /// The process that keeps it has been killed.
    #[must_use]
    pub fn shared_memory(&self) -> Vec<PathBuf> {
        let its_root = Path::new("/proc")
            .join(self.keeper.id().to_string())
            .join("root");
        let entries = fs::read_dir(its_root.join("dev/shm")).expect("the keeper lives");
        entries.flatten().map(|entry| entry.path()).collect()
    }
}
