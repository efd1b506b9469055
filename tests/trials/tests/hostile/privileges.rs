//! Another user of the host: one starts a program that has more rights than that user, one prepares links in the place of
//! files that a program makes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use oxifabric_trials::source::{Compiled, compile};
use oxifabric_trials::{Library, Missing, Outcome, Program, Scratch, installed, require};

/// Users without rights; they need no entry in any table.
const VICTIM: u32 = 61_001;
const ATTACKER: u32 = 61_002;

/// Compiles the program, if the machine has what these trials need.
fn borrowed(library: &Library) -> Result<Compiled, Missing> {
    if fs::metadata("/proc/self").map_or(true, |about| about.uid() != 0) {
        return Err(Missing("only root can take another user's place".into()));
    }
    installed("setpriv")?;
    let compiler = installed("cc")?;
    if !Path::new("/usr/include/rdma/fabric.h").exists() {
        return Err(Missing("libfabric-dev is not installed".into()));
    }
    // LD_LIBRARY_PATH is not for programs with another user's rights.
    let path = format!("-Wl,-rpath,{}", library.folder().display());
    Ok(compile("borrowed", &compiler, &["-lfabric", &path]))
}

fn as_user(program: Program, user: u32) -> Program {
    let user = [format!("--reuid={user}"), format!("--regid={user}")];
    program.under("setpriv", user.into_iter().chain(["--clear-groups".into()]))
}

/// What an environment may ask for that others would notice.
struct Wishes {
    folder: Scratch,
    _provider: Compiled,
}

impl Wishes {
    fn new() -> Result<Self, Missing> {
        let compiler = installed("cc")?;
        let provider = compile("provider", &compiler, &["-shared", "-fPIC", "-lfabric"]);
        let folder = Scratch::new();
        fs::copy(provider.file(), folder.join("libmirror-fi.so")).expect("a new folder");
        fs::write(folder.join("conf"), "FI_LOG_SUBSYS=core\n").expect("a new folder");
        let all = Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), all).expect("it is ours");
        Ok(Self {
            folder,
            _provider: provider,
        })
    }

    fn of(&self, program: Program) -> Program {
        program
            .env("FI_PROVIDER_PATH", self.folder.path())
            .env("FI_OXI_CONF", self.folder.join("conf"))
            .env("FI_LOG_LEVEL", "debug")
            .env("FI_LOG_LOCATION", self.folder.join("log"))
            .env("FI_HOOK", "monitor")
            .env("FI_OFI_HOOK_MONITOR_BASEPATH", self.folder.join("counts"))
            .env("FI_TCP_IFACE", "lo")
    }

    /// Returns which of them were granted.
    fn granted(&self, outcome: &Outcome) -> Vec<&'static str> {
        let said = |line: &str| outcome.stdout.lines().any(|said| said == line);
        let is_there = |name: &str| self.folder.join(name).exists();
        let wishes = [
            ("a provider", said("provider mirror")),
            ("a setting of a file", said("set FI_LOG_SUBSYS")),
            ("a setting", said("set FI_TCP_IFACE")),
            ("a log", is_there("log")),
            ("a hook", is_there("counts")),
        ];
        let granted = wishes.into_iter().filter(|(_, granted)| *granted);
        granted.map(|(wish, _)| wish).collect()
    }
}

fn set_user_id_programs_believe_nothing() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = borrowed(&library)?;
    let wishes = Wishes::new()?;
    let owned = wishes.of(Program::new(program.file()).line("tcp")).run();
    owned.expect_success();
    assert_eq!(wishes.granted(&owned).len(), 5, "its own user may: {owned}");

    let wishes = Wishes::new()?;
    let mode = Permissions::from_mode(0o4755);
    fs::set_permissions(program.file(), mode).expect("it is ours");
    let borrowing = as_user(wishes.of(Program::new(program.file()).line("tcp")), VICTIM).run();
    if !borrowing.stdout.contains("with the rights of 0") {
        return Err(Missing("set-user-ID programs have no effect here".into()));
    }
    let none: [&str; 0] = [];
    assert_eq!(wishes.granted(&borrowing), none, "{borrowing}");
    borrowing.expect_success();
    Ok(())
}

#[test]
fn a_set_user_id_program_takes_nothing_from_its_environment() {
    require!(set_user_id_programs_believe_nothing());
}

/// A folder of the attacker where the monitor of the victim looks for its own, with links to a file of the victim under
/// all names that the next processes can have.
struct Trap {
    folder: Scratch,
    precious: PathBuf,
}

const PRECIOUS: &str = "what the victim cannot lose";

impl Trap {
    fn set() -> Self {
        let folder = Scratch::new();
        let precious = folder.join("precious");
        fs::write(&precious, PRECIOUS).expect("a new folder");
        chown(&precious, Some(VICTIM), Some(VICTIM)).expect("root may");
        let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux tells it");
        let base = folder.join("base");
        let inner = base.join(VICTIM.to_string()).join(name.trim());
        fs::create_dir_all(&inner).expect("a new folder");
        let this = std::process::id();
        for pid in this + 1..this + 20_000 {
            let link = inner.join(format!("{this}_{pid}_0_0_tcp"));
            symlink(&precious, link).expect("a new name");
        }
        for folder in inner.ancestors().take(3) {
            chown(folder, Some(ATTACKER), Some(ATTACKER)).expect("root may");
            fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("root may");
        }
        Self { folder, precious }
    }
}

fn the_monitor_follows_no_links() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let program = borrowed(&library)?;
    let trap = Trap::set();
    let monitored = Program::new(program.file()).line("tcp");
    let monitored = monitored
        .env("FI_HOOK", "monitor")
        .env("FI_OFI_HOOK_MONITOR_BASEPATH", trap.folder.join("base"));
    let monitored = as_user(monitored, VICTIM).run();
    monitored.expect_success();
    let left = fs::read_to_string(&trap.precious).expect("it stays");
    assert_eq!(left, PRECIOUS, "{monitored}");
    let told = "the hook monitor cannot make its file";
    assert!(monitored.stderr.contains(told), "{monitored}");
    Ok(())
}

#[test]
fn a_link_in_the_place_of_a_file_of_the_monitor_is_not_followed() {
    require!(the_monitor_follows_no_links());
}
