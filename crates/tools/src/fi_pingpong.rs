//! `fi_pingpong`: messages to and fro between two processes. Source: fi_pingpong(1).
//!
//! Either side may be upstream's program: what both say over the control connection is in [`control`], the messages in
//! [`suite`], the sizes in [`sizes`].

mod control;
mod options;
mod report;
mod sizes;
mod suite;
mod transfer;

use std::fmt;
use std::process::ExitCode;

use oxifabric::{Backend, Caps, EpType, Errno, Error, Hints, Info};

use crate::output::{exit_with, parse_options};
use control::Control;
pub(crate) use options::Options;
use suite::Suite;
use transfer::Transfer;

/// What ends the program before its time.
#[derive(Debug)]
enum Trouble {
    /// The fabric failed.
    Fabric(Error),
    /// The control connection failed.
    Control(std::io::Error),
    /// A message arrived with the wrong contents.
    Contents,
    /// What was asked for is not there.
    Missing(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric(error) => error.fmt(f),
            Self::Control(error) => write!(f, "control connection: {error}"),
            Self::Contents => f.write_str("a message arrived with the wrong contents"),
            Self::Missing(what) => f.write_str(what),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fabric(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Control(error)
    }
}

impl Trouble {
    fn errno(&self) -> i32 {
        match self {
            Self::Fabric(error) => error.errno().raw(),
            Self::Control(error) => error.raw_os_error().unwrap_or(Errno::IO.raw()),
            Self::Contents => -1,
            Self::Missing(_) => Errno::NODATA.raw(),
        }
    }
}

/// Runs the program. It ends with the number of the error, if there is one.
pub fn main() -> ExitCode {
    let options = match parse_options::<Options>() {
        Ok(options) => options,
        Err(code) => return code,
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("fi_pingpong: {trouble}");
            exit_with(trouble.errno())
        }
    }
}

fn run(options: &Options) -> Result<(), Trouble> {
    if options.endpoint != EpType::Rdm {
        let name = options::endpoint_name(options.endpoint);
        let what =
            format!("there are no {name} endpoints in this program; use -e rdm on both sides");
        return Err(Trouble::Missing(what));
    }
    options.debug(|| format!("{options:?}"));
    let backend = Backend::from_env()?;
    let control = if options.server.is_some() {
        Control::connect(options)
    } else {
        Control::accept(options)
    }?;
    let mut transfer = meet(options, backend, control)?;
    let sizes = sizes::list(options, transfer.longest());
    let mut suite = Suite::default();
    for size in sizes {
        suite.play(options, &mut transfer, size)?;
    }
    suite::finish(&mut transfer)
}

/// Exchanges addresses: the server says its own first.
fn meet(options: &Options, backend: Backend, mut control: Control) -> Result<Transfer, Trouble> {
    let hints = hints(options)?;
    if options.server.is_some() {
        let theirs = control.read_address()?;
        let info = choose(options, backend, hints.destination(&theirs))?;
        let mut transfer = Transfer::open(options, &info, control)?;
        transfer.tell_address()?;
        transfer.meet(&theirs)?;
        return Ok(transfer);
    }
    let info = choose(options, backend, hints)?;
    let mut transfer = Transfer::open(options, &info, control)?;
    transfer.tell_address()?;
    let theirs = transfer.read_address()?;
    transfer.meet(&theirs)?;
    Ok(transfer)
}

fn hints(options: &Options) -> Result<Hints, Trouble> {
    let caps = if options.tagged() {
        Caps::TAGGED
    } else {
        Caps::MSG
    };
    let mut hints = Hints::new().caps(caps);
    if let Some(provider) = &options.provider {
        hints = hints.provider(provider);
    }
    if let Some(domain) = &options.domain {
        hints = hints.domain(domain);
    }
    if let Some(fabric) = &options.fabric {
        hints = hints.fabric(fabric);
    }
    if let Some(source) = &options.source {
        hints = hints.source(&control::resolve(source)?);
    }
    Ok(hints)
}

/// Takes the first offer that fits.
fn choose(options: &Options, backend: Backend, hints: Hints) -> Result<Info, Trouble> {
    let offers = hints.offers(backend).map_err(Error::from)?;
    let fitting = offers.into_iter().find(|info| info.obstacle().is_none());
    let info = fitting.ok_or_else(|| Trouble::Missing("no offer can be opened here".to_owned()))?;
    options.debug(|| format!("playing over\n{info}"));
    Ok(info)
}
