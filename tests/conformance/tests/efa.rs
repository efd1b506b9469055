//! Checks the requirements on reliable datagrams over the provider `efa`, on a software NIC that reorders messages and finds receivers not ready
//! (docs/softnic.md). The devices are in the environment of a process, so there is a process for each plan.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use oxifabric_conformance::pages::PAGES;
use oxifabric_fixtures::Subject;
use oxifabric_libfabric::builtin;

/// The variable by which a child learns that it has devices.
const ON_SOFTNIC: &str = "OXI_ON_SOFTNIC";

/// What makes a network unruly.
const UNRULY: &str = "reorder = 0.7\nreorder_window = 32\nrnr = 0.05\ndelay_us = [0, 300]\n";

/// Networks that requests pass in order and out of it, and whether devices read and write memory of peers (`FI_EFA_USE_DEVICE_RDMA`).
const PLANS: [(&str, &str, &str); 4] = [
    ("in_order", "reorder = 0\n", "0"),
    ("out_of_order", UNRULY, "0"),
    ("in_order_with_rdma", "reorder = 0\n", "1"),
    ("out_of_order_with_rdma", UNRULY, "1"),
];

/// Pages about what the protocol has no packets for: collectives, and the sets of addresses that they begin with.
const NOT_OFFERED: [&str; 2] = ["fi_av_set(3)", "fi_collective(3)"];

/// Requirements on what is not offered either: scalable endpoints with shared contexts, and offsets as addresses. The last one finds its counter by the
/// place of the provider in `PROVIDERS`, where this one is not.
const EXCEPTIONS: [&str; 6] = [
    "a_receive_context_is_shared",
    "a_look_finds_messages_of_a_shared_context",
    "a_transmit_context_is_shared",
    "a_shared_buffer_takes_many_messages",
    "addresses_are_offsets_where_not_virtual",
    "an_event_calls",
];

/// Requirements that read what was just written, although no order of accesses is offered: a read may overtake a write that is injected, which is complete
/// before it arrives.
const IN_ORDER: [&str; 2] = [
    "accesses_need_no_queue_for_receives",
    "an_injecting_write_frees_its_buffer",
];

/// Requirements that let a read follow what was written by messages, which a device reads without waiting for them.
const READ_BEHIND_WRITE: [&str; 2] = ["a_write_is_gathered", "a_write_goes_to_several_places"];

/// Requirements on the error of an access that is refused: a device tells one for all that is wrong with a key, a place or a right
/// (docs/protocol/efa.md section 5). The trials of efa check that one.
const OF_SOFTWARE: [&str; 10] = [
    "a_read_needs_the_right_to_read",
    "a_read_with_a_false_key_fails",
    "reads_are_bounded",
    "local_rights_are_no_remote_rights",
    "a_closed_region_is_not_accessed",
    "regions_may_overlap",
    "a_false_key_changes_nothing",
    "bounds_are_checked",
    "rights_are_checked",
    "addresses_do_not_wrap",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match std::env::var_os(ON_SOFTNIC) {
        None => PLANS
            .iter()
            .map(|plan| Trial::test(plan.0, || over(plan)))
            .collect(),
        Some(plan) => {
            let plan = plan.to_string_lossy();
            requirements(plan.starts_with("in_order"), plan.ends_with("with_rdma"))
        }
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs all requirements in a process whose devices are on a network with this plan.
fn over(&(name, plan, rdma): &(&str, &str, &str)) -> Result<(), Failed> {
    let test = std::env::current_exe()?;
    let softnic = test
        .parent()
        .and_then(Path::parent)
        .map(|folder| folder.join("softnic"));
    let softnic =
        softnic.filter(|file| file.exists() && Path::new("/etc/libibverbs.d/efa.driver").exists());
    let Some(softnic) = softnic else {
        println!("SKIP: ibverbs-providers is not installed, or softnic is not built");
        return Ok(());
    };
    let file = PlanFile::new(name, plan);
    let mut child = Command::new(softnic);
    child
        .args(["run", "--plan"])
        .arg(&file.0)
        .arg("--")
        .arg(test);
    child
        .env(ON_SOFTNIC, name)
        .env("FI_EFA_USE_DEVICE_RDMA", rdma)
        .args(["--test-threads", "2", "--color", "never"]);
    let output = child.output()?;
    let out = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && out.contains("test result: ok") {
        return Ok(());
    }
    let failed = out.lines().filter(|line| line.ends_with("FAILED"));
    let failed: Vec<_> = failed.map(str::trim).collect();
    let err = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}\n{}\n{err}", output.status, failed.join("\n")).into())
}

fn requirements(is_in_order: bool, with_rdma: bool) -> Vec<Trial> {
    let subject = Subject {
        library: builtin(),
        provider: "efa",
    };
    let pages = PAGES.iter().filter(|page| page.providers.contains(&"sim"));
    let requirements = pages.flat_map(|page| {
        let requirements = page.requirements.iter();
        requirements.map(|requirement| (page.name, requirement))
    });
    requirements
        .map(|(page, requirement)| {
            let check = move || {
                (requirement.check)(&subject);
                Ok(())
            };
            let needs_order = (with_rdma || !is_in_order) && IN_ORDER.contains(&requirement.name);
            let needs_software = OF_SOFTWARE.contains(&requirement.name)
                || READ_BEHIND_WRITE.contains(&requirement.name);
            let is_left_out = needs_order
                || (with_rdma && needs_software)
                || NOT_OFFERED.contains(&page)
                || EXCEPTIONS.contains(&requirement.name);
            Trial::test(format!("{page}::{}", requirement.name), check)
                .with_ignored_flag(is_left_out)
        })
        .collect()
}

/// A file with a plan.
struct PlanFile(PathBuf);

impl PlanFile {
    fn new(name: &str, plan: &str) -> Self {
        let file = format!("oxi-efa-{}-{name}.toml", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, plan).expect("a folder for temporary files");
        Self(path)
    }
}

impl Drop for PlanFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
