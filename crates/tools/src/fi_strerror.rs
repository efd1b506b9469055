//! `fi_strerror`: the text of an error number. Source: fi_strerror(1).

use std::io::{self, Write};
use std::process::ExitCode;

use oxifabric::Backend;

use crate::output::{print, program_name};

/// Runs the program.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (argument, more) = (arguments.next(), arguments.next());
    let Some(argument) = argument.filter(|_| more.is_none()) else {
        return finish(print(usage), false);
    };
    let argument = argument.to_string_lossy();
    if argument == "-h" {
        return finish(print(usage), true);
    }
    match parse_number(&argument) {
        Ok(number) => finish(print(|out| show(out, number)), true),
        Err(problem) => {
            let complained = print(|out| {
                writeln!(out, "ERROR: {}\n", problem.describe(&argument))?;
                usage(out)
            });
            finish(complained, false)
        }
    }
}

fn finish(printed: io::Result<()>, success: bool) -> ExitCode {
    if printed.is_ok() && success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn show(out: &mut dyn Write, number: i32) -> io::Result<()> {
    match Backend::from_env() {
        Ok(backend) => writeln!(out, "{}", backend.strerror(number.wrapping_abs())),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn usage(out: &mut dyn Write) -> io::Result<()> {
    let name = program_name("fi_strerror");
    writeln!(out, "Usage: {name} FI_ERROR_CODE")?;
    writeln!(out)?;
    writeln!(
        out,
        "Displays the error string for the given numeric FI_ERROR_CODE."
    )?;
    writeln!(
        out,
        "FI_ERROR_CODE may be a hexadecimal, octal, or decimal constant."
    )?;
    writeln!(
        out,
        "For convenience, the absolute value of FI_ERROR_CODE will be used."
    )
}

/// What is wrong with a number.
#[derive(Debug, PartialEq, Eq)]
enum Problem {
    NoNumber,
    OutOfRange,
}

impl Problem {
    fn describe(&self, text: &str) -> String {
        match self {
            Self::NoNumber => format!("unable to parse '{text}'"),
            Self::OutOfRange => format!("'{text}' is out of range"),
        }
    }
}

/// Reads a number as C writes it: decimal, `0x` hexadecimal or `0` octal, with a sign. Source: strtol(3).
fn parse_number(text: &str) -> Result<i32, Problem> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let (digits, radix) = split_radix(digits);
    if !digits
        .chars()
        .next()
        .is_some_and(|first| first.is_digit(radix))
    {
        return Err(Problem::NoNumber);
    }
    let magnitude = i64::from_str_radix(digits, radix).map_err(|_| Problem::NoNumber)?;
    let value = if negative { -magnitude } else { magnitude };
    i32::try_from(value).map_err(|_| Problem::OutOfRange)
}

fn split_radix(digits: &str) -> (&str, u32) {
    if let Some(hex) = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
    {
        (hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (&digits[1..], 8)
    } else {
        (digits, 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, number) in [
            ("61", 61),
            ("-61", -61),
            ("+11", 11),
            (" 11", 11),
            ("0x3d", 61),
            ("0X3D", 61),
            ("-0x10", -16),
            ("075", 61),
            ("0", 0),
            ("00", 0),
            ("2147483647", i32::MAX),
            ("-2147483648", i32::MIN),
        ] {
            assert_eq!(parse_number(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for text in ["", "-", "x", "6 1", "61 ", "0x", "09", "--1", "0x-1", "1e3"] {
            assert_eq!(parse_number(text), Err(Problem::NoNumber), "{text}");
        }
        for text in ["2147483648", "-2147483649", "0xffffffff"] {
            assert_eq!(parse_number(text), Err(Problem::OutOfRange), "{text}");
        }
    }
}
