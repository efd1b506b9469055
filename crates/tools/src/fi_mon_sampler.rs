//! `fi_mon_sampler`: reads the files in which programs under FI_HOOK=monitor count, and writes tables. Source:
//! fi_mon_sampler(1), fi_hook(7).

mod sample;
mod table;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;

use self::sample::{Look, Source};
use crate::output::parse_options;

/// Sample what programs count under FI_HOOK=monitor.
#[derive(Debug, Parser)]
#[command(name = "fi_mon_sampler", args_override_self = true)]
pub(crate) struct Options {
    /// File of one program's provider, or a folder of such files
    #[arg(value_name = "target")]
    target: PathBuf,
    /// Go on, and look for new samples every so many milliseconds
    #[arg(short = 'w', value_name = "msec")]
    watch_ms: Option<u64>,
    /// Format of the output: csv, or json for one object a line
    #[arg(short = 'f', value_name = "format", default_value = "csv", value_parser = parse_format)]
    format: Format,
    /// Folder for one table per file of the target; without it the table of a single file is printed
    #[arg(short = 'o', value_name = "outpath")]
    out: Option<PathBuf>,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Json,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }
}

/// Reads the name of a format, which may be written in capitals.
fn parse_format(text: &str) -> Result<Format, String> {
    [Format::Csv, Format::Json]
        .into_iter()
        .find(|format| text.eq_ignore_ascii_case(format.name()))
        .ok_or_else(|| "the formats are csv and json".to_owned())
}

/// Runs the program.
pub fn main() -> ExitCode {
    let options = match parse_options::<Options>() {
        Ok(options) => options,
        Err(code) => return code,
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fi_mon_sampler: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let is_folder = about(&options.target, fs::metadata(&options.target))?.is_dir();
    if is_folder && options.out.is_none() {
        return Err(io::Error::other(
            "a folder needs -o, a place for one table per file",
        ));
    }
    let mut sampler = Sampler::default();
    loop {
        if is_folder {
            sampler.discover(options)?;
        } else if !sampler.knows(&options.target) {
            sampler.add(options.target.clone(), options)?;
        }
        sampler.look()?;
        let is_over = !is_folder && sampler.files.iter().all(|file| file.is_closed());
        match options.watch_ms {
            Some(watch_ms) if !is_over => thread::sleep(Duration::from_millis(watch_ms)),
            _ => return Ok(()),
        }
    }
}

/// All files that were found so far.
#[derive(Default)]
struct Sampler {
    files: Vec<Sampled>,
}

impl Sampler {
    fn knows(&self, path: &Path) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    /// Opens the new files of the folder, and drops those that are gone. A file that cannot be a sample is reported once and then
    /// ignored.
    fn discover(&mut self, options: &Options) -> io::Result<()> {
        self.files.retain(|file| file.path.exists());
        for entry in about(&options.target, fs::read_dir(&options.target))? {
            let entry = entry?;
            if !entry.file_type().is_ok_and(|kind| kind.is_file()) || self.knows(&entry.path()) {
                continue;
            }
            if let Err(error) = self.add(entry.path(), options) {
                eprintln!("fi_mon_sampler: {error}");
                self.files.push(Sampled::closed(entry.path()));
            }
        }
        Ok(())
    }

    /// Takes up one file. Its table goes to a file of its name in `out`, or to the standard output.
    fn add(&mut self, path: PathBuf, options: &Options) -> io::Result<()> {
        let (out, format) = (options.out.as_deref(), options.format);
        let source = about(&path, Source::open(&path))?;
        let (table, has_header): (Box<dyn Write>, bool) = match out {
            None => (Box::new(io::stdout()), false),
            Some(folder) => {
                let (file, place) = open_table(folder, &path, format)?;
                eprintln!("Writing samples to {}", place.display());
                let length = file.metadata()?.len();
                (Box::new(file), length > 0)
            }
        };
        self.files.push(Sampled {
            path,
            open: Some(Open {
                source,
                table,
                has_header,
                format,
            }),
        });
        Ok(())
    }

    /// Writes a row for each sample that is ready, and asks for the next one.
    fn look(&mut self) -> io::Result<()> {
        for file in &mut self.files {
            file.look()?;
        }
        Ok(())
    }
}

/// Opens the table of a file, at its end if it is there already.
fn open_table(folder: &Path, path: &Path, format: Format) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let place = folder.join(format!("{name}.{}", format.name()));
    let file = OpenOptions::new().create(true).append(true).open(&place);
    Ok((about(&place, file)?, place))
}

/// One file of a program.
struct Sampled {
    path: PathBuf,
    /// `None` as soon as there is nothing more to come.
    open: Option<Open>,
}

struct Open {
    source: Source,
    table: Box<dyn Write>,
    has_header: bool,
    format: Format,
}

impl Sampled {
    fn closed(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    fn is_closed(&self) -> bool {
        self.open.is_none()
    }

    fn look(&mut self) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let is_last = match about(&self.path, open.source.look())? {
            Look::Pending => !self.path.exists() || is_orphan(&self.path),
            Look::Sample(sample) => {
                open.write(&sample)?;
                false
            }
            Look::Last(sample) => {
                open.write(&sample)?;
                about(&self.path, fs::remove_file(&self.path))?;
                true
            }
        };
        if is_last {
            eprintln!("Closed {}", self.path.display());
            self.open = None;
        }
        Ok(())
    }
}

impl Open {
    fn write(&mut self, sample: &[u64]) -> io::Result<()> {
        if self.format == Format::Json {
            writeln!(self.table, "{}", table::object(sample))?;
            return self.table.flush();
        }
        if !self.has_header {
            writeln!(self.table, "{}", table::header())?;
            self.has_header = true;
        }
        writeln!(self.table, "{}", table::row(sample))?;
        self.table.flush()
    }
}

/// Returns whether the program that the file's name tells, `PPID_PID_...`, has ended without marking the file: a killed program
/// answers no more.
fn is_orphan(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = name
        .split('_')
        .nth(1)
        .and_then(|number| number.parse::<u32>().ok());
    process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists())
}

/// Names the file in an error.
fn about<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    result.map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_may_be_written_in_capitals() {
        let parse = |line: &str| Options::try_parse_from(line.split_whitespace());
        let options = parse("fi_mon_sampler -w 100 -f CSV -o there here").unwrap();
        assert_eq!(options.watch_ms, Some(100));
        assert_eq!(options.out.as_deref(), Some(Path::new("there")));
        assert_eq!(options.format, Format::Csv);
        let json = parse("fi_mon_sampler -f Json here").unwrap();
        assert_eq!(json.format, Format::Json);
        assert!(parse("fi_mon_sampler -f xml here").is_err());
        assert!(parse("fi_mon_sampler").is_err());
    }

    #[test]
    fn a_file_whose_process_is_gone_is_an_orphan() {
        let own = format!("/x/1_{}_0_0_tcp", std::process::id());
        assert!(!is_orphan(Path::new(&own)));
        assert!(is_orphan(Path::new("/x/1_4294967295_0_0_tcp")));
        assert!(!is_orphan(Path::new("/x/other")));
    }
}
