//! What the C compiler of this machine makes of C headers.

use crate::structures::{Place, WHOLE};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};

/// All headers, by what stands after `rdma/`.
#[rustfmt::skip]
pub(crate) const HEADERS: [&str; 18] = [
    "fabric", "fi_errno", "fi_domain", "fi_endpoint", "fi_cm", "fi_eq", "fi_rma", "fi_tagged", "fi_atomic",
    "fi_collective", "fi_trigger", "fi_ext", "fi_profile", "fi_xpu", "fi_xpu_device", "providers/fi_prov", "providers/fi_log",
    "providers/fi_peer",
];

/// Headers of providers that are not here, for programs that include them.
pub(crate) const PROVIDERS: [&str; 3] = ["fi_ext_efa", "fi_ext_usnic", "fi_cxi_ext"];

/// Whether that compiler is there.
pub(crate) fn has_compiler(name: &str) -> Result<(), String> {
    match Command::new(name).arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{name} --version: {}", output.status)),
        Err(e) => Err(format!("{name}: {e}")),
    }
}

/// Asserts that C lays all places out and gives all constants the values that Rust does.
pub(crate) fn expect_equal(
    options: &[&str],
    headers: &[&str],
    places: &[Place],
    constants: &[(&str, i64)],
) {
    let folder = Folder::new();
    let source = folder.file("layout.c", &program(headers, places, constants));
    let binary = folder.0.join("layout");
    succeed(
        Command::new("cc")
            .args(options)
            .args(["-w", "-o"])
            .args([&binary, &source]),
    );
    let ran = succeed(&mut Command::new(&binary));
    let theirs = String::from_utf8(ran.stdout).expect("the program prints ASCII");
    let mut rows = theirs.lines();
    for place in places {
        let ours = format!(
            "{}.{} {} {}",
            place.structure, place.field, place.offset, place.size
        );
        assert_eq!(Some(ours.as_str()), rows.next());
    }
    for (name, value) in constants {
        assert_eq!(Some(format!("{name} {value}").as_str()), rows.next());
    }
    assert_eq!(rows.next(), None);
}

/// A C program that prints one row per place and per constant, in their order.
fn program(headers: &[&str], places: &[Place], constants: &[(&str, i64)]) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stddef.h>\n");
    for header in headers {
        let _ = writeln!(text, "#include <rdma/{header}.h>");
    }
    text += "int main(void) {\n";
    for Place {
        structure, field, ..
    } in places
    {
        let _ = match (*structure, *field) {
            (_, WHOLE) => writeln!(
                text,
                r#"printf("{structure}.{WHOLE} 0 %zu\n", sizeof(struct {structure}));"#
            ),
            // An array without a length has no size in C.
            ("fi_eq_cm_entry", "data") => writeln!(
                text,
                r#"printf("{structure}.{field} %zu 0\n", offsetof(struct {structure}, {field}));"#
            ),
            _ => writeln!(
                text,
                r#"printf("{structure}.{field} %zu %zu\n", offsetof(struct {structure}, {field}),
                    sizeof(((struct {structure} *)0)->{field}));"#
            ),
        };
    }
    for (name, _) in constants {
        let _ = writeln!(text, r#"printf("{name} %lld\n", (long long)({name}));"#);
    }
    text + "return 0; }\n"
}

/// Runs a command that must succeed.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .expect("the compiler answered to --version");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A folder for the files of one test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let thread = format!("{:?}", std::thread::current().id());
        let name = format!("c-{}-{}", process::id(), thread.replace(['(', ')'], ""));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("the test can write to its own folder");
        Self(folder)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("the test can write to its own folder");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It lies in the folder for temporary files of the build.
        let _ = fs::remove_dir_all(&self.0);
    }
}
