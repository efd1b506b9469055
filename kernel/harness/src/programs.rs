//! Programs of Debian in a guest, with the libraries that they need.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::unpack_group;
use crate::place::{KERNEL, Place};

/// Programs, the packages that have them and their libraries, and the folder in which these are unpacked.
pub(crate) struct Programs {
    group: &'static str,
    packages: &'static [&'static str],
    programs: &'static [&'static str],
}

/// What makes and checks file systems.
pub(crate) const FILE_SYSTEMS: Programs = Programs {
    group: "e2fsprogs",
    packages: &[
        "e2fsprogs",
        "libext2fs2",
        "libcom-err2",
        "libblkid1",
        "libuuid1",
        "libc6",
    ],
    programs: &["sbin/mkfs.ext4", "sbin/e2fsck", "sbin/badblocks"],
};

/// What makes software RDMA devices, and counts what is open at one.
pub(crate) const RDMA: Programs = Programs {
    group: "rdma",
    packages: &[
        "iproute2", "libmnl0", "libbsd0", "libmd0", "libcap2", "libc6",
    ],
    programs: &["usr/bin/rdma"],
};

/// The peer of the modules on the C library of Debian, whose verbs reaches RDMA devices; [`peers`](crate::peers) compiles it.
pub(crate) const VERBS_PEER: Programs = Programs {
    group: "libfabric",
    packages: &[
        "libfabric1",
        "ibverbs-providers",
        "libatomic1",
        "libc6",
        "libibverbs1",
        "libnl-3-200",
        "libnl-route-3-200",
        "libnuma1",
        "libpsm-infinipath1",
        "libpsm2-2",
        "librdmacm1",
        "libuuid1",
    ],
    programs: &["kofi_verbs_peer"],
};

/// What loads a disk, with all that Debian builds it with.
pub(crate) const FIO: Programs = Programs {
    group: "fio",
    packages: &[
        "fio",
        "libacl1",
        "libaio1",
        "libargon2-1",
        "libblkid1",
        "libboost-iostreams1.74.0",
        "libboost-thread1.74.0",
        "libbz2-1.0",
        "libc6",
        "libcom-err2",
        "libcryptsetup12",
        "libdaxctl1",
        "libdevmapper1.02.1",
        "libffi8",
        "libfmt9",
        "libgcc-s1",
        "libgfapi0",
        "libgfrpc0",
        "libgfxdr0",
        "libglusterfs0",
        "libgmp10",
        "libgnutls30",
        "libgssapi-krb5-2",
        "libhogweed6",
        "libibverbs1",
        "libicu72",
        "libidn2-0",
        "libjson-c5",
        "libk5crypto3",
        "libkeyutils1",
        "libkmod2",
        "libkrb5-3",
        "libkrb5support0",
        "liblzma5",
        "libnbd0",
        "libndctl6",
        "libnettle8",
        "libnl-3-200",
        "libnl-route-3-200",
        "libnuma1",
        "libp11-kit0",
        "libpcre2-8-0",
        "libpmem1",
        "libpmemblk1",
        "librados2",
        "librbd1",
        "librdmacm1",
        "libselinux1",
        "libssl3",
        "libstdc++6",
        "libtasn1-6",
        "libtirpc3",
        "libudev1",
        "libunistring2",
        "libuuid1",
        "libxml2",
        "libzstd1",
        "zlib1g",
    ],
    programs: &["usr/bin/fio"],
};

/// Modules of Debian's kernel that file systems and the software RDMA device need, from its folder of modules.
pub(crate) const MODULES: [&str; 19] = [
    "lib/crc16",
    "crypto/crc32c_generic",
    "lib/libcrc32c",
    "fs/mbcache",
    "fs/jbd2/jbd2",
    "fs/ext4/ext4",
    "crypto/crc32_generic",
    "drivers/net/dummy",
    "drivers/net/macvlan",
    "net/ipv4/udp_tunnel",
    "net/ipv6/ip6_udp_tunnel",
    "drivers/infiniband/core/ib_core",
    "drivers/infiniband/core/ib_uverbs",
    "drivers/infiniband/sw/rxe/rdma_rxe",
    "fs/configfs/configfs",
    "drivers/infiniband/core/ib_cm",
    "drivers/infiniband/core/iw_cm",
    "drivers/infiniband/core/rdma_cm",
    "drivers/infiniband/core/rdma_ucm",
];

/// Those that NVMe over fabrics and a disk in memory need.
pub(crate) const NVME: [&str; 13] = [
    "crypto/crct10dif_common",
    "crypto/crct10dif_generic",
    "lib/crc-t10dif",
    "lib/crc64",
    "crypto/crc64_rocksoft_generic",
    "lib/crc64-rocksoft",
    "block/t10-pi",
    "drivers/nvme/host/nvme-core",
    "drivers/nvme/host/nvme-fabrics",
    "drivers/nvme/host/nvme-rdma",
    "drivers/nvme/target/nvmet",
    "drivers/nvme/target/nvmet-rdma",
    "drivers/block/brd",
];

/// Copies programs into the bin of a guest, and their libraries to where the loader looks.
///
/// # Errors
/// A package cannot be had, or none has a library that is needed.
pub(crate) fn install(
    place: &Place,
    programs: &Programs,
    root: &Path,
) -> Result<(), Box<dyn Error>> {
    let folder = unpack(place, programs)?;
    let mut libraries = BTreeMap::new();
    collect(&folder, &mut libraries)?;
    let to = root.join("lib");
    let mut open = Vec::new();
    for program in programs.programs {
        let from = folder.join(program);
        let name = from.file_name().ok_or("a program without a name")?;
        fs::copy(&from, root.join("bin").join(name))?;
        open.push(from);
    }
    // The loader itself is named by programs only as their interpreter.
    let mut needed = vec!["ld-linux-x86-64.so.2".to_owned()];
    while let Some(name) = needed.pop() {
        if !to.join(&name).exists() {
            let from = libraries
                .get(&name)
                .ok_or_else(|| format!("no package has {name}"))?;
            fs::copy(from, to.join(&name))?;
            open.push(from.clone());
        }
        while let Some(file) = open.pop() {
            needed.extend(needs(&file)?);
        }
    }
    Ok(())
}

/// Unpacks the packages of programs, and returns the folder in which they are.
///
/// # Errors
/// A package cannot be had.
pub(crate) fn unpack(place: &Place, programs: &Programs) -> Result<PathBuf, Box<dyn Error>> {
    let folder = place.unpacked(programs.group);
    let packages: Vec<String> = programs.packages.iter().map(|&name| name.into()).collect();
    unpack_group(&folder, &packages)?;
    Ok(folder)
}

/// Copies modules of Debian's kernel into /mod of a guest.
///
/// # Errors
/// A file cannot be copied.
pub(crate) fn install_modules(
    place: &Place,
    modules: &[&str],
    root: &Path,
) -> Result<(), Box<dyn Error>> {
    let folder = place
        .unpacked("image")
        .join(format!("lib/modules/{KERNEL}-amd64/kernel"));
    for module in modules {
        let from = folder.join(format!("{module}.ko"));
        let name = from.file_name().ok_or("a module without a name")?;
        fs::copy(&from, root.join("mod").join(name))?;
    }
    Ok(())
}

/// Lists the shared libraries below a folder by their names.
fn collect(folder: &Path, libraries: &mut BTreeMap<String, PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            collect(&path, libraries)?;
        } else if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && name.contains(".so")
            && path.exists()
        {
            libraries.insert(name.to_owned(), path);
        }
    }
    Ok(())
}

/// Lists the libraries that a program or library needs.
fn needs(file: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let output = Command::new("objdump").arg("-p").arg(file).output()?;
    if !output.status.success() {
        return Err(format!("objdump {}: {}", file.display(), output.status).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| {
        let name = line.trim().strip_prefix("NEEDED")?;
        Some(name.trim().to_owned())
    });
    Ok(names.collect())
}
