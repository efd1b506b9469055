//! Temporary folders that vanish with their owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

/// A folder of its own under the system's temporary folder, removed on drop.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a new, empty folder.
    ///
    /// # Panics
    /// The temporary folder of this machine cannot be written.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("oxi-trial-{}-{number}", process::id()));
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    /// Returns where the folder is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a path inside the folder.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary folder; a trial does not fail for it.
        let _ = fs::remove_dir_all(&self.0);
    }
}
