//! Builds the guide into `target/guide`, or into the folder that is named: `guide [FOLDER]`.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use mdbook_driver::MDBook;

fn main() -> Result<(), Box<dyn Error>> {
    let source = oxifabric_guide::folder();
    let out = match env::args_os().nth(1) {
        Some(folder) => std::path::absolute(folder)?,
        None => target(source).join("guide"),
    };
    let mut book = MDBook::load(source)?;
    book.config.build.build_dir = out.clone();
    book.build()?;
    println!("{}", out.join("index.html").display());
    Ok(())
}

/// Where cargo builds.
fn target(source: &Path) -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| source.join("../target"))
}
