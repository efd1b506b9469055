//! The folders in which libibverbs finds devices: what sysfs has of a NIC of type EFA.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::plan::{Plan, gid};

/// Makes the folder of a host.
///
/// # Errors
/// Those of the file system.
pub(crate) fn make(folder: &Path, plan: &Plan, host: u8) -> io::Result<()> {
    put(folder, "class/infiniband_verbs/abi_version", "6")?;
    for nic in 0..plan.nics {
        device(folder, host, nic)?;
    }
    Ok(())
}

fn device(folder: &Path, host: u8, nic: u8) -> io::Result<()> {
    let name = format!("efa_{nic}");
    let verbs = format!("class/infiniband_verbs/uverbs{nic}");
    put(folder, &format!("{verbs}/ibdev"), &name)?;
    put(folder, &format!("{verbs}/abi_version"), "1")?;
    put(
        folder,
        &format!("{verbs}/dev"),
        &format!("231:{}", 192 + u16::from(nic)),
    )?;
    let pci = format!("devices/pci0000:00/{}", place(nic));
    put(folder, &format!("{pci}/vendor"), "0x1d0f")?;
    put(folder, &format!("{pci}/device"), "0xefa1")?;
    put(
        folder,
        &format!("{pci}/modalias"),
        "pci:v00001D0Fd0000EFA1sv00001D0Fsd0000EFA1bc02sc00i00",
    )?;
    fs::create_dir_all(folder.join("bus/pci/drivers/efa"))?;
    link(
        folder,
        "../../../bus/pci/drivers/efa",
        &format!("{pci}/driver"),
    )?;
    let class = format!("class/infiniband/{name}");
    let guid = gid(host, nic)[8..].to_vec();
    put(folder, &format!("{class}/node_guid"), &groups(&guid))?;
    put(folder, &format!("{class}/node_type"), "7: unspecified")?;
    put(folder, &format!("{class}/fw_ver"), "0.0.0.0")?;
    let port = format!("{class}/ports/1");
    put(folder, &format!("{port}/gids/0"), &groups(&gid(host, nic)))?;
    put(folder, &format!("{port}/pkeys/0"), "0xffff")?;
    put(folder, &format!("{port}/link_layer"), "Unspecified")?;
    put(folder, &format!("{port}/state"), "4: ACTIVE")?;
    put(folder, &format!("{port}/rate"), "100 Gb/sec (4X EDR)")?;
    link(
        folder,
        &format!("../../../{pci}"),
        &format!("{class}/device"),
    )
}

/// Returns the place of a NIC on the PCI bus, the same on every host.
pub(crate) fn place(nic: u8) -> String {
    format!("0000:00:{:02x}.0", 6 + nic)
}

/// Writes bytes as sysfs writes GIDs.
fn groups(bytes: &[u8]) -> String {
    let groups = bytes.chunks(2).map(|pair| {
        let digits = pair.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    });
    groups.collect::<Vec<_>>().join(":")
}

fn put(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let file = folder.join(name);
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(file, format!("{text}\n"))
}

fn link(folder: &Path, to: &str, name: &str) -> io::Result<()> {
    symlink(to, folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_sysfs_does() {
        let text = groups(&gid(1, 2));
        assert_eq!(text, "fe80:0000:0000:0000:0000:01ff:fe02:0001");
    }
}
