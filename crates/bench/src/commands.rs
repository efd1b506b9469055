//! The protocol of the two benchmark processes over a pipe: one command or answer a line.

use core::fmt;
use core::str::FromStr;

use oxifabric::{Address, AddressFormat};

/// A command of the leading process to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerCommand {
    /// Answer `count` messages.
    Pong(Round),
    /// Take a stream of messages, with this many receives posted.
    Drain(Round, usize),
}

/// A round of messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Length of each message, in bytes.
    pub(crate) size: usize,
    /// Number of messages.
    pub(crate) count: usize,
    /// Seed of the contents of checked messages.
    pub(crate) seed: u64,
}

impl fmt::Display for WorkerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pong(round) => write!(f, "pong {round}"),
            Self::Drain(round, window) => write!(f, "drain {round} {window}"),
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.size, self.count, self.seed)
    }
}

impl FromStr for WorkerCommand {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let command = match words[..] {
            ["pong", size, count, seed] => parse_round(size, count, seed).map(Self::Pong),
            ["drain", size, count, seed, window] => parse_round(size, count, seed)
                .zip(window.parse().ok())
                .map(|(round, window)| Self::Drain(round, window)),
            _ => None,
        };
        command.ok_or_else(|| format!("not a command: {line:?}"))
    }
}

fn parse_round(size: &str, count: &str, seed: &str) -> Option<Round> {
    Some(Round {
        size: size.parse().ok()?,
        count: count.parse().ok()?,
        seed: seed.parse().ok()?,
    })
}

/// Writes an address as its format and its bytes.
pub(crate) fn spell_address(address: &Address) -> String {
    let bytes = address.bytes().iter();
    let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    format!("{} {hex}", address.format().0)
}

/// Reads what [`spell_address`] wrote.
pub(crate) fn parse_address(line: &str) -> Result<Address, String> {
    let wrong = || format!("no address: {line:?}");
    let (format, hex) = line.trim().split_once(' ').ok_or_else(wrong)?;
    let format = AddressFormat(format.parse().map_err(|_| wrong())?);
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(parse_byte).collect();
    Ok(Address::new(format, &bytes.ok_or_else(wrong)?))
}

fn parse_byte(hex: &[u8]) -> Option<u8> {
    u8::from_str_radix(core::str::from_utf8(hex).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn commands_and_addresses_survive_the_pipe() {
        let round = Round {
            size: 64,
            count: 1000,
            seed: 7,
        };
        for command in [WorkerCommand::Pong(round), WorkerCommand::Drain(round, 32)] {
            assert_eq!(command.to_string().parse(), Ok(command));
        }
        let address = Address::from(SocketAddr::from(([127, 0, 0, 1], 4711)));
        assert_eq!(parse_address(&spell_address(&address)), Ok(address));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "pong",
            "pong 1 2",
            "pong 1 2 x",
            "drain 1 2 3",
            "sing 1 2 3",
        ] {
            assert!(line.parse::<WorkerCommand>().is_err(), "{line}");
        }
        for line in ["", "2", "x 00", "2 0g", "2 é"] {
            assert!(parse_address(line).is_err(), "{line}");
        }
    }
}
