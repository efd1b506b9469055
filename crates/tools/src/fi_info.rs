//! `fi_info`: what the library offers, and why not more. Source: fi_info(1).

mod json;
mod names;
mod options;
mod print;
mod why;

use std::io;
use std::process::ExitCode;

use oxifabric::{Backend, Errno, Hints, WhyNot};

use crate::output::{exit_with, parse_options, print};
pub(crate) use options::Options;

/// Runs the program. It ends with the number of the error of fi_getinfo(3), if there is one.
pub fn main() -> ExitCode {
    let options = match parse_options::<Options>() {
        Ok(options) => options,
        Err(code) => return code,
    };
    let backend = match Backend::from_env() {
        Ok(backend) => backend,
        Err(error) => {
            eprintln!("{error}");
            return exit_with(error.errno().raw());
        }
    };
    match run(&options, backend) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fi_info: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, backend: Backend) -> io::Result<ExitCode> {
    if options.version {
        print(|out| print::version(out, backend))?;
        return Ok(ExitCode::SUCCESS);
    }
    let hints = match options.hints() {
        Ok(hints) => hints,
        Err(problem) => {
            eprintln!("error: {problem}");
            return Ok(exit_with(Errno::INVAL.raw()));
        }
    };
    let offers = hints.offers(backend);
    if options.why {
        let rejections = hints.rejections(backend);
        let returned = offers.as_deref().unwrap_or_default();
        print(|out| match options.json {
            true => json::reasons(out, returned, &rejections),
            false => why::explain(out, returned, &rejections),
        })?;
        return Ok(offers.map_or_else(|why| exit_with(why.errno().raw()), |_| ExitCode::SUCCESS));
    }
    match offers {
        Ok(offers) => {
            print(|out| match options.what() {
                options::What::Variables(part) if options.json => {
                    json::variables(out, backend, part)
                }
                options::What::Providers if options.json => json::providers(out, &offers),
                _ if options.json => json::offers(out, &offers),
                options::What::Variables(part) => print::variables(out, backend, part),
                options::What::Long(part) => print::long(out, &offers, part),
                options::What::Providers => print::providers(out, &offers),
                options::What::Short => print::short(out, &offers),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => Ok(complain(backend, &hints, &why)),
    }
}

/// Reports that there is nothing, what came nearest, and how to learn more.
fn complain(backend: Backend, hints: &Hints, why: &WhyNot) -> ExitCode {
    let errno = why.errno().raw();
    eprintln!("fi_getinfo: -{errno} ({})", backend.strerror(errno));
    if let Some(nearest) = hints.rejections(backend).first() {
        eprintln!("nearest miss: {nearest}");
        eprintln!("fi_info --why with the same options says more");
    }
    exit_with(errno)
}
