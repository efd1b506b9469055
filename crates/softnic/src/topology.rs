//! What hwloc is told of the machine: its processors as they are, and the NICs, which the kernel does not know.
//!
//! Programs that ask hwloc for the place of a NIC find every PCI device of a real machine. MPICH ends where one is missing.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

/// The bits of one group in hwloc's text of a set.
const GROUP: usize = 32;

/// Writes the file that `HWLOC_XMLFILE` names: a machine with the processors of this one and NICs at these places.
///
/// # Errors
/// Those of the file system.
pub(crate) fn write(file: &Path, places: impl Iterator<Item = String>) -> io::Result<()> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let processors = processors(&online);
    fs::write(file, describe(&processors, places))
}

/// Reads a list of processors as the kernel writes it, `0-3,8`; one processor if there is none.
fn processors(online: &str) -> Vec<usize> {
    let ranges = online.trim().split(',').filter_map(range);
    let found: Vec<usize> = ranges.flatten().collect();
    if found.is_empty() { vec![0] } else { found }
}

fn range(text: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Describes the machine in version 2 of hwloc's XML.
fn describe(processors: &[usize], places: impl Iterator<Item = String>) -> String {
    let all = set(processors);
    let all_sets = sets(&all);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n\
         <object type=\"Machine\" os_index=\"0\" {all_sets} allowed_cpuset=\"{all}\" allowed_nodeset=\"0x00000001\" gp_index=\"1\">\n\
         <object type=\"NUMANode\" os_index=\"0\" {all_sets} gp_index=\"2\"/>\n"
    );
    let mut number = 3..;
    let mut next = || number.next().unwrap_or(usize::MAX);
    for &processor in processors {
        let (sets, number) = (sets(&set(&[processor])), next());
        let _ = writeln!(
            text,
            "<object type=\"PU\" os_index=\"{processor}\" {sets} gp_index=\"{number}\"/>"
        );
    }
    let _ = writeln!(
        text,
        "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-ff]\">",
        next()
    );
    for place in places {
        let number = next();
        let _ = writeln!(
            text,
            "<object type=\"PCIDev\" gp_index=\"{number}\" pci_busid=\"{place}\" \
             pci_type=\"0200 [1d0f:efa1] [1d0f:efa1] 00\" pci_link_speed=\"0.000000\"/>"
        );
    }
    text.push_str("</object>\n</object>\n</topology>\n");
    text
}

/// Returns the attributes of an object with these processors, on the one node that there is.
fn sets(processors: &str) -> String {
    let nodes = "0x00000001";
    format!(
        "cpuset=\"{processors}\" complete_cpuset=\"{processors}\" nodeset=\"{nodes}\" complete_nodeset=\"{nodes}\""
    )
}

/// Writes a set of numbers as hwloc does: groups of 32 bits, the highest first.
fn set(numbers: &[usize]) -> String {
    let last = numbers.iter().max().map_or(0, |last| last / GROUP);
    let group = |at: usize| {
        let inside = numbers.iter().filter(|number| *number / GROUP == at);
        let bits = inside.fold(0_u32, |bits, number| bits | 1 << (number % GROUP));
        format!("0x{bits:08x}")
    };
    let groups: Vec<String> = (0..=last).rev().map(group).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_as_the_kernel_lists_them() {
        assert_eq!(processors("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(processors("5"), [5]);
        assert_eq!(processors(""), [0]);
    }

    #[test]
    fn sets_have_their_highest_group_first() {
        assert_eq!(set(&[0, 1]), "0x00000003");
        assert_eq!(set(&[1, 32, 40]), "0x00000101,0x00000002");
    }

    #[test]
    fn every_processor_and_every_nic_is_an_object_with_a_number_of_its_own() {
        let places = ["0000:00:06.0", "0000:00:07.0"].map(str::to_owned);
        let text = describe(&[0, 3], places.into_iter());
        assert_eq!(text.matches("type=\"PU\"").count(), 2);
        assert!(text.contains("pci_busid=\"0000:00:07.0\""));
        for number in 1..=7 {
            let number = format!("gp_index=\"{number}\"");
            assert_eq!(text.matches(&number).count(), 1, "{number}");
        }
    }
}
