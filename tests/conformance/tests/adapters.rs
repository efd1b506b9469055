//! Checks the requirements on the provider `sim` over each kind of adapters that a plan can describe (docs/sim.md): with and without order,
//! with and without accesses that adapters carry out. A process has one network, so there is a process for each plan.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use oxifabric_conformance::pages::PAGES;
use oxifabric_fixtures::Subject;
use oxifabric_libfabric::builtin;

/// The variable that names the plan of a network.
const PLAN: &str = "FI_SIM_PLAN";

/// Plans, and whether adapters carry out accesses.
const PLANS: [(&str, &str, bool); 4] = [
    ("ordered", "[nic]\norder = 'ordered'\n", false),
    ("unordered", "[nic]\norder = 'unordered'\n", false),
    (
        "ordered_one_sided",
        "[nic]\norder = 'ordered'\none_sided = ['read', 'write', 'atomic']\n",
        true,
    ),
    (
        "unordered_one_sided",
        "[nic]\norder = 'unordered'\none_sided = ['read', 'write', 'atomic']\n",
        true,
    ),
];

/// What needs FI_RMA_EVENT, which is not offered where no software of the target sees an access.
const EVENTS: [&str; 3] = [
    "a_region_counts_writes",
    "a_region_counts_atomics_that_change_it",
    "access_by_others_is_counted",
];

/// The variable by which a child learns that accesses are carried out by adapters.
const ONE_SIDED: &str = "OXI_ADAPTERS_ONE_SIDED";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match std::env::var_os(PLAN) {
        None => PLANS
            .iter()
            .map(|plan| Trial::test(plan.0, || over(plan)))
            .collect(),
        Some(_) => requirements(std::env::var_os(ONE_SIDED).is_some()),
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs all requirements in a process whose network has this plan.
fn over(&(name, plan, one_sided): &(&str, &str, bool)) -> Result<(), Failed> {
    let file = PlanFile::new(name, plan);
    let mut child = Command::new(std::env::current_exe()?);
    child
        .env(PLAN, &file.0)
        .args(["--test-threads", "2", "--color", "never"]);
    if one_sided {
        child.env(ONE_SIDED, "1");
    }
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

fn requirements(one_sided: bool) -> Vec<Trial> {
    let subject = Subject {
        library: builtin(),
        provider: "sim",
    };
    let pages = PAGES.iter().filter(|page| page.providers.contains(&"sim"));
    let requirements = pages.flat_map(|page| {
        let requirements = page.requirements.iter();
        requirements.map(|requirement| (page.name, requirement))
    });
    let counts = |name: &str| one_sided && EVENTS.contains(&name);
    requirements
        .map(|(page, requirement)| {
            let check = move || {
                (requirement.check)(&subject);
                Ok(())
            };
            Trial::test(format!("{page}::{}", requirement.name), check)
                .with_ignored_flag(counts(requirement.name))
        })
        .collect()
}

/// A file with a plan.
struct PlanFile(PathBuf);

impl PlanFile {
    fn new(name: &str, plan: &str) -> Self {
        let file = format!("oxi-adapters-{}-{name}.toml", std::process::id());
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
