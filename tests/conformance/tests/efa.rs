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

/// Networks that requests pass in order and out of it.
const PLANS: [(&str, &str); 2] = [
    ("in_order", "reorder = 0\n"),
    (
        "out_of_order",
        "reorder = 0.7\nreorder_window = 32\nrnr = 0.05\ndelay_us = [0, 300]\n",
    ),
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

/// Requirements that read what was just written, although no order of accesses is offered.
const IN_ORDER: [&str; 2] = [
    "a_write_changes_what_it_names",
    "accesses_need_no_queue_for_receives",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match std::env::var_os(ON_SOFTNIC) {
        None => PLANS
            .iter()
            .map(|plan| Trial::test(plan.0, || over(plan)))
            .collect(),
        Some(plan) => requirements(plan == PLANS[0].0),
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs all requirements in a process whose devices are on a network with this plan.
fn over(&(name, plan): &(&str, &str)) -> Result<(), Failed> {
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

fn requirements(is_in_order: bool) -> Vec<Trial> {
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
            let needs_order = !is_in_order && IN_ORDER.contains(&requirement.name);
            let is_left_out = needs_order
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
