//! Where everything is, and which versions it has.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel's release; this one stays in Debian 12's main archive.
pub(crate) const KERNEL: &str = "6.1.0-50";
/// The version of its packages.
pub(crate) const KERNEL_PACKAGE: &str = "6.1.176-1";
/// The version of Debian's Rust that has its library's source.
pub(crate) const RUST_PACKAGE: &str = "1.96.0+dfsg1-1~deb12u2";
/// What the modules are compiled for: no operating system, no vector registers, no red zone.
pub(crate) const TARGET: &str = "x86_64-unknown-none";

/// The folder in which all is unpacked and built, and that of the sources.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) sources: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let sources = sources.ok_or("kernel/harness has no parent")?.to_owned();
        let root = sources.parent().ok_or("kernel has no parent")?;
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let dir = target.join("kernel");
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, sources })
    }

    /// Returns the folder of unpacked packages of a group.
    pub(crate) fn unpacked(&self, group: &str) -> PathBuf {
        self.dir.join(group)
    }

    /// Returns the folder of the kernel's headers.
    pub(crate) fn headers(&self) -> PathBuf {
        self.unpacked("headers")
            .join(format!("usr/src/linux-headers-{KERNEL}-amd64"))
    }

    /// Returns objtool, which adds unwind tables and the places that the kernel patches.
    pub(crate) fn objtool(&self) -> PathBuf {
        let series = KERNEL.rsplit_once('.').map_or(KERNEL, |(series, _)| series);
        self.unpacked("headers").join(format!(
            "usr/lib/linux-kbuild-{series}/tools/objtool/objtool"
        ))
    }

    /// Returns the uncompressed kernel.
    pub(crate) fn vmlinux(&self) -> PathBuf {
        self.dir.join("vmlinux")
    }

    /// Returns busybox, which runs on this machine as well as in the guest.
    pub(crate) fn busybox(&self) -> PathBuf {
        self.unpacked("busybox").join("bin/busybox")
    }

    /// Returns the libraries for [`TARGET`].
    pub(crate) fn sysroot(&self) -> PathBuf {
        self.dir.join("sysroot")
    }
}
