//! How many instructions an operation needs inside the library as it is laid out, against the figures last recorded in
//! `instructions.tsv`. Time scatters on a busy machine, instructions do not: a few per cent more are a change of the code.

#[macro_use]
extern crate oxifabric_trials;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt};

use oxifabric_trials::source::{Compiled, compile_client};
use oxifabric_trials::{Library, Missing, Program, callgrind, require};

fn main() -> std::process::ExitCode {
    oxifabric_trials::harness::main()
}

const PROVIDERS: [&str; 2] = ["shm", "sim"];
/// What is counted, with the bytes of an operation where these are not 8.
const WORKS: [&str; 15] = [
    "pingpong",
    "rate",
    "write",
    "read",
    "poll",
    "pingpong 48",
    "pingpong 192",
    "pingpong 8192",
    "pingpong 65536",
    "rate 48",
    "rate 8192",
    "write 48",
    "write 192",
    "write 8192",
    "write 65536",
];

/// Operations of the shorter and of the longer run. Only what the longer one needs more is counted.
const COUNTS: [u64; 2] = [1_280, 6_400];

/// The per cent by which a figure may differ from the recorded one. One that is lower by more is to be recorded too, or half of it
/// could be lost again unseen.
const TOLERANCE_PERCENT: u64 = 3;

/// Set, it asks for the figures to be recorded rather than compared.
const RECORD: &str = "OXI_RECORD_INSTRUCTIONS";

#[test]
fn operations_need_as_many_instructions_as_were_recorded() {
    let library = require!(Library::under_test());
    let compiler = require!(compiler_of(&library));
    let recorded = Record::read();
    let is_recording = env::var_os(RECORD).is_some();
    if !is_recording {
        require!(recorded.expect_of(&compiler));
    }
    let counted = Record {
        compiler,
        figures: require!(count(&library)),
    };
    println!("{counted}");
    if is_recording {
        return fs::write(Record::file(), counted.to_string()).expect("the room can be written");
    }
    let differing: Vec<String> = counted.differing(&recorded).collect();
    assert!(
        differing.is_empty(),
        "{}\nIf that is meant to be: \
         OXI_DIST=$(cargo xtask dist) {RECORD}=1 cargo test -p oxifabric-trials --test instructions",
        differing.join("\n")
    );
}

/// Returns the compiler and target of the library, as it reports them: other compilers make other code of the same lines.
fn compiler_of(library: &Library) -> Result<String, Missing> {
    const MARK: &[u8] = b"rustc version ";
    const OURS: &[u8] = b"FI_OXI_";
    let file = fs::read(library.folder().join("libfabric.so.1")).expect("the library is there");
    let find = |mark: &[u8]| file.windows(mark.len()).position(|part| part == mark);
    let at = find(MARK);
    assert!(
        at.is_some() || find(OURS).is_none(),
        "oxifabric's library has lost the mark of its compiler"
    );
    let at = at.ok_or_else(|| Missing("no rustc compiled the library".into()))? + MARK.len();
    let version = file[at..].split(|byte| b" \0".contains(byte)).next();
    let version = String::from_utf8_lossy(version.unwrap_or_default());
    Ok(format!("rustc {version} {}", env::consts::ARCH))
}

/// Counts all works over all providers.
fn count(library: &Library) -> Result<Vec<Figure>, Missing> {
    let program = compile_client("operations")?;
    let mut figures = Vec::new();
    for provider in PROVIDERS {
        for work in WORKS {
            let instructions_of =
                |count| instructions_of(library, &program, [provider, work], count);
            let more = instructions_of(COUNTS[1])? - instructions_of(COUNTS[0])?;
            figures.push(Figure {
                name: format!("{provider}\t{work}"),
                instructions: more / (COUNTS[1] - COUNTS[0]),
            });
        }
    }
    Ok(figures)
}

/// Returns how many instructions a run of `count` operations needs.
fn instructions_of(
    library: &Library,
    program: &Compiled,
    work: [&str; 2],
    count: u64,
) -> Result<u64, Missing> {
    let [provider, work] = work;
    let (work, size) = work.split_once(' ').unwrap_or((work, "8"));
    let program = Program::new(program.file());
    // Otherwise times would decide which way long messages take.
    let program = program.env("FI_SHM_SEGMENTED_SIZE", "6144");
    let program = program.args([provider, work, &count.to_string(), size]);
    callgrind::instructions(program.limit(Duration::from_secs(600)), library)
}

/// The recorded figures, or those to be recorded.
struct Record {
    compiler: String,
    figures: Vec<Figure>,
}

/// How many instructions one operation needs, both sides taken together.
struct Figure {
    /// Provider and work.
    name: String,
    instructions: u64,
}

impl Record {
    fn file() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.tsv")
    }

    /// Reads the file, if there is one.
    fn read() -> Self {
        let text = fs::read_to_string(Self::file()).unwrap_or_default();
        let mut lines = text.lines();
        let compiler = lines
            .next()
            .unwrap_or_default()
            .trim_start_matches("# ")
            .to_owned();
        let figures = lines.filter_map(|line| {
            let (name, instructions) = line.rsplit_once('\t')?;
            Some(Figure {
                name: name.to_owned(),
                instructions: instructions.parse().ok()?,
            })
        });
        Self {
            compiler,
            figures: figures.collect(),
        }
    }

    fn expect_of(&self, compiler: &str) -> Result<(), Missing> {
        if self.compiler == compiler {
            return Ok(());
        }
        Err(Missing(format!(
            "instructions are recorded for {:?}, not for {compiler}",
            self.compiler
        )))
    }

    /// Reports which figures differ from the recorded ones, and by how much.
    fn differing(&self, recorded: &Self) -> impl Iterator<Item = String> {
        self.figures.iter().filter_map(|now| {
            let was = recorded.figures.iter().find(|was| was.name == now.name);
            let was = was.map_or(0, |was| was.instructions);
            let is_same = now.instructions.abs_diff(was) * 100 <= was * TOLERANCE_PERCENT;
            (!is_same).then(|| {
                format!(
                    "{}: {} instructions, recorded are {was}",
                    now.name, now.instructions
                )
            })
        })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {}", self.compiler)?;
        writeln!(f, "provider\twork\tinstructions")?;
        for Figure { name, instructions } in &self.figures {
            writeln!(f, "{name}\t{instructions}")?;
        }
        Ok(())
    }
}
