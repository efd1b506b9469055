//! The Debian packages that the modules are built from and run in, downloaded and unpacked.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::run;
use crate::place::{KERNEL, KERNEL_PACKAGE, Place, RUST_PACKAGE};

/// Downloads and unpacks what is not there yet.
///
/// # Errors
/// A package cannot be had in its version.
pub(crate) fn unpack(place: &Place) -> Result<(), Box<dyn Error>> {
    let kernel = |name: &str| format!("{name}={KERNEL_PACKAGE}");
    let rust = |name: &str| format!("{name}={RUST_PACKAGE}");
    let groups = [
        (
            "image",
            vec![kernel(&format!("linux-image-{KERNEL}-amd64"))],
        ),
        (
            "headers",
            vec![
                kernel(&format!("linux-headers-{KERNEL}-amd64")),
                kernel(&format!("linux-headers-{KERNEL}-common")),
                kernel("linux-kbuild-6.1"),
            ],
        ),
        ("busybox", vec!["busybox-static".into()]),
        (
            "rust",
            vec![
                rust("rustc-web"),
                rust("rust-web-src"),
                rust("libstd-rust-web-dev"),
                rust("libstd-rust-web-1.96"),
                "libllvm22".into(),
            ],
        ),
    ];
    for (group, packages) in groups {
        unpack_group(&place.unpacked(group), &packages)?;
    }
    mend_makefile(place)?;
    extract_kernel(place)
}

/// Downloads packages and unpacks them into a folder, once.
///
/// # Errors
/// A package cannot be had.
pub(crate) fn unpack_group(folder: &Path, packages: &[String]) -> Result<(), Box<dyn Error>> {
    let done = folder.join(".unpacked");
    let names = packages.join("\n");
    if fs::read_to_string(&done).is_ok_and(|there| there == names) {
        return Ok(());
    }
    let downloads = folder.with_extension("debs");
    for folder in [folder, &downloads] {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
    }
    eprintln!("kernel: downloading {}", packages.join(" "));
    let mut download = Command::new("apt-get");
    download.args(["-qq", "-o", "APT::Sandbox::User=root", "download"]);
    run(download.args(packages).current_dir(&downloads))?;
    for package in fs::read_dir(&downloads)? {
        run(Command::new("dpkg")
            .arg("-x")
            .arg(package?.path())
            .arg(folder))?;
    }
    fs::remove_dir_all(&downloads)?;
    Ok(fs::write(done, names)?)
}

/// Lets the headers' Makefile look for its other half where that was unpacked.
fn mend_makefile(place: &Place) -> Result<(), Box<dyn Error>> {
    let makefile = place.headers().join("Makefile");
    let text = fs::read_to_string(&makefile)?;
    let unpacked = place.unpacked("headers");
    let there = format!("include {}/usr/src", unpacked.display());
    Ok(fs::write(
        makefile,
        text.replace("include /usr/src", &there),
    )?)
}

/// Takes the kernel out of its compressed image: QEMU starts it as it is, and need not have it decompressed by the guest.
fn extract_kernel(place: &Place) -> Result<(), Box<dyn Error>> {
    let vmlinux = place.vmlinux();
    if vmlinux.exists() {
        return Ok(());
    }
    let image = place
        .unpacked("image")
        .join(format!("boot/vmlinuz-{KERNEL}-amd64"));
    let image = fs::read(image)?;
    // Source: the kernel's Documentation/x86/boot.rst, setup_sects, payload_offset and payload_length.
    let number = |at: usize| -> Option<usize> {
        let bytes = image.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let broken = "the kernel's image has another form";
    let setup = image
        .get(0x1f1)
        .copied()
        .filter(|sectors| *sectors != 0)
        .unwrap_or(4);
    let start = (usize::from(setup) + 1) * 512 + number(0x248).ok_or(broken)?;
    let payload = image
        .get(start..start + number(0x24c).ok_or(broken)?)
        .ok_or(broken)?;
    let whole = place.dir.join("vmlinux.part");
    let mut xz = Command::new("xz");
    xz.args(["--decompress", "--stdout", "--single-stream"]);
    xz.stdin(Stdio::piped()).stdout(fs::File::create(&whole)?);
    let mut xz = xz.spawn().map_err(|error| format!("xz: {error}"))?;
    let mut input = xz.stdin.take().ok_or("xz has no input")?;
    // Behind the compressed data is its length, which xz does not read.
    let _ = input.write_all(payload);
    drop(input);
    xz.wait()?;
    match fs::read(&whole)?.starts_with(b"\x7fELF") {
        true => Ok(fs::rename(whole, vmlinux)?),
        false => Err(broken.into()),
    }
}
