//! Printing for people and for pipes that may close early.

use std::io::{self, Write};
use std::process::ExitCode;

/// The end of every help.
pub(crate) const LIBRARY_HELP: &str =
    "OXIFABRIC_LIBRARY=PATH in the environment uses another libfabric.so.1 than the one built in.";

/// Prints to the standard output through a buffer; a reader that went away is no error.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Ends a program as those of libfabric do: with the number of the error, in the bits that there are for it.
pub(crate) fn exit_with(errno: i32) -> ExitCode {
    ExitCode::from(errno as u8)
}

/// Returns the name under which the program was started.
pub(crate) fn program_name(default: &str) -> String {
    std::env::args_os()
        .next()
        .map_or_else(|| default.to_owned(), |name| name.to_string_lossy().into())
}

/// Reads the options of a program, or prints help, or what is wrong with them.
pub(crate) fn parse_options<T: clap::Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        // Nothing can be done about a terminal that is gone.
        _ = error.print();
        ExitCode::from(u8::from(error.use_stderr()))
    })
}
