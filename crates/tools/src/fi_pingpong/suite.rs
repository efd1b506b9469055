//! Ping-pong of one size, and the end. Both sides must do the same, message by message.

use std::time::Instant;

use super::Trouble;
use super::options::Options;
use super::report::{Report, header};
use super::transfer::Transfer;

/// All sizes of one run.
#[derive(Default)]
pub(super) struct Suite {
    /// Messages whose contents were written, and checked; each has a text of its own.
    filled: u32,
    checked: u32,
    headed: bool,
}

impl Suite {
    /// Plays one size and prints what was measured.
    pub(super) fn play(
        &mut self,
        options: &Options,
        transfer: &mut Transfer,
        size: usize,
    ) -> Result<(), Trouble> {
        let client = options.is_client();
        transfer.sync(client)?;
        let start = Instant::now();
        for _ in 0..options.iterations {
            if client {
                self.send(options, transfer, size)?;
                self.receive(options, transfer, size)?;
            } else {
                self.receive(options, transfer, size)?;
                self.send(options, transfer, size)?;
            }
        }
        let time = start.elapsed();
        let sent = u64::from(options.iterations);
        let acked = transfer.agree_on_count(client, sent)?;
        if sent == 0 {
            return Ok(());
        }
        let report = Report {
            size,
            sent,
            acked,
            time,
        };
        self.show(&report, options.json)
    }

    fn send(
        &mut self,
        options: &Options,
        transfer: &mut Transfer,
        size: usize,
    ) -> Result<(), Trouble> {
        transfer.send(size, |bytes| {
            if options.check {
                Text::new(&mut self.filled).fill(bytes);
            }
        })
    }

    fn receive(
        &mut self,
        options: &Options,
        transfer: &mut Transfer,
        size: usize,
    ) -> Result<(), Trouble> {
        let wrong = transfer.receive(|bytes| {
            options
                .check
                .then(|| Text::new(&mut self.checked).first_wrong(bytes, size))
        })?;
        let Some(byte) = wrong.flatten() else {
            return Ok(());
        };
        println!(
            "Error at iteration={} size={size} byte={byte}",
            self.checked
        );
        Err(Trouble::Contents)
    }

    fn show(&mut self, report: &Report, json: bool) -> Result<(), Trouble> {
        crate::output::print(|out| {
            if json {
                return writeln!(out, "{}", report.json());
            }
            if !self.headed {
                writeln!(out, "{}", header())?;
            }
            writeln!(out, "{}", report.line())
        })?;
        self.headed = true;
        Ok(())
    }
}

/// Exchanges the last messages, after which both sides may end.
pub(super) fn finish(transfer: &mut Transfer) -> Result<(), Trouble> {
    const LAST: &[u8; 4] = b"fin\0";
    transfer.send_last(LAST)?;
    if transfer.receive_last()?.starts_with(LAST) {
        Ok(())
    } else {
        Err(Trouble::Contents)
    }
}

/// The contents of a checked message: letters in a circle, from a place that the number of the message gives.
struct Text(usize);

const LETTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// How far the text of a message begins after that of the one before.
const STEP: u32 = 7;

impl Text {
    /// Returns the text of the next message.
    fn new(count: &mut u32) -> Self {
        let start = count.wrapping_mul(STEP) as usize % LETTERS.len();
        *count = count.wrapping_add(1);
        Self(start)
    }

    fn letters(self) -> impl Iterator<Item = u8> {
        LETTERS.iter().copied().cycle().skip(self.0)
    }

    fn fill(self, bytes: &mut [u8]) {
        for (byte, letter) in bytes.iter_mut().zip(self.letters()) {
            *byte = letter;
        }
    }

    /// Returns where a message differs from the text; the shorter length, if that is what differs.
    fn first_wrong(self, bytes: &[u8], size: usize) -> Option<usize> {
        let mut pairs = bytes.iter().zip(self.letters());
        let differs = pairs.position(|(byte, letter)| *byte != letter);
        differs.or_else(|| (bytes.len() != size).then_some(bytes.len().min(size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_upstream() {
        let mut count = 0;
        let mut bytes = [0; 4];
        Text::new(&mut count).fill(&mut bytes);
        assert_eq!(&bytes, b"0123");
        Text::new(&mut count).fill(&mut bytes);
        assert_eq!(&bytes, b"789a");
        count = 9;
        Text::new(&mut count).fill(&mut bytes);
        assert_eq!(&bytes, b"1234");
    }

    #[test]
    fn wrong_bytes_and_lengths_are_found() {
        assert_eq!(Text(0).first_wrong(b"0123", 4), None);
        assert_eq!(Text(0).first_wrong(b"01x3", 4), Some(2));
        assert_eq!(Text(0).first_wrong(b"012", 4), Some(3));
        assert_eq!(Text(60).first_wrong(b"YZ01", 4), None);
    }
}
