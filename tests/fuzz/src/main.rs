//! libFuzzer on one target, which OXI_FUZZ_TARGET names. `cargo xtask fuzz` builds and runs it.
//!
//! With OXI_FUZZ_SEEDS it writes the seeds of all targets into that folder, one folder a target, and ends.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs, io};

use libfuzzer_sys::fuzz_target;
use oxifabric_fuzz::{TARGETS, Target};

static TARGET: OnceLock<&Target> = OnceLock::new();

fuzz_target!(
    init: {
        if let Some(folder) = env::var_os("OXI_FUZZ_SEEDS") {
            write_seeds(Path::new(&folder)).expect("the seeds can be written");
            std::process::exit(0);
        }
        let name = env::var("OXI_FUZZ_TARGET").expect("OXI_FUZZ_TARGET names a target");
        let target = TARGETS.iter().find(|target| target.name == name);
        TARGET.get_or_init(|| target.expect("OXI_FUZZ_TARGET names one of the targets"));
    },
    |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(bytes);
        }
    }
);

fn write_seeds(folder: &Path) -> io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in target.inputs().iter().enumerate() {
            fs::write(folder.join(format!("{number:03}")), seed)?;
        }
    }
    Ok(())
}
