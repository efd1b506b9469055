//! A file in which a program under FI_HOOK=monitor leaves what it counted. Source: fi_hook(7).
//!
//! It holds numbers, and behind them a byte of flags. The sampler sets the first flag; the program answers by copying its counts
//! and clearing it. Only the side whose turn it is touches the numbers.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::table::NUMBERS;

/// Flags of the file: a sample is asked for; the program has ended.
const WANTED: u8 = 1;
const ENDED: u8 = 2;

/// Where the flags are.
const FLAGS: usize = NUMBERS * size_of::<u64>();

/// An open file.
#[derive(Debug)]
pub(super) struct Source(File);

/// The result of reading a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The program has not answered yet.
    Pending,
    /// What the program counted since the last sample.
    Sample(Vec<u64>),
    /// The last counts: the program has ended.
    Last(Vec<u64>),
}

impl Source {
    /// Opens a file of a program.
    ///
    /// # Errors
    /// It cannot be opened, or is too short to be such a file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() <= FLAGS as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "no file of the hook monitor: it is too short",
            ));
        }
        Ok(Self(file))
    }

    /// Takes the sample, if there is one, and asks for the next.
    pub(super) fn look(&self) -> io::Result<Look> {
        let flags = self.flags()?;
        if flags & WANTED != 0 {
            return Ok(Look::Pending);
        }
        let mut bytes = vec![0; FLAGS];
        self.0.read_exact_at(&mut bytes, 0)?;
        let numbers = bytes
            .as_chunks::<{ size_of::<u64>() }>()
            .0
            .iter()
            .map(|number| u64::from_ne_bytes(*number))
            .collect();
        if flags & ENDED != 0 {
            return Ok(Look::Last(numbers));
        }
        self.0.write_all_at(&[flags | WANTED], FLAGS as u64)?;
        Ok(Look::Sample(numbers))
    }

    fn flags(&self) -> io::Result<u8> {
        let mut flags = [0];
        self.0.read_exact_at(&mut flags, FLAGS as u64)?;
        Ok(flags[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file as a program leaves it, removed with the test.
    struct Program(std::path::PathBuf);

    impl Program {
        fn new(name: &str, bytes: usize) -> Self {
            let path =
                std::env::temp_dir().join(format!("oxi-sample-{}-{name}", std::process::id()));
            fs::write(&path, vec![0; bytes]).unwrap();
            Self(path)
        }

        fn answer(&self, number: u64, flags: u8) {
            let file = OpenOptions::new().write(true).open(&self.0).unwrap();
            file.write_all_at(&number.to_ne_bytes(), 8).unwrap();
            file.write_all_at(&[flags], FLAGS as u64).unwrap();
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn each_sample_is_taken_once_and_the_next_is_asked_for() {
        let program = Program::new("turns", FLAGS + 8);
        let source = Source::open(&program.0).unwrap();
        assert!(matches!(source.look().unwrap(), Look::Sample(_)));
        assert_eq!(source.look().unwrap(), Look::Pending);
        program.answer(7, 0);
        let Look::Sample(sample) = source.look().unwrap() else {
            panic!("the program has answered");
        };
        assert_eq!((sample.len(), sample[0], sample[1]), (NUMBERS, 0, 7));
        program.answer(8, ENDED);
        let Look::Last(sample) = source.look().unwrap() else {
            panic!("the program has ended");
        };
        assert_eq!(sample[1], 8);
    }

    #[test]
    fn a_short_file_is_refused() {
        let program = Program::new("short", FLAGS);
        let error = Source::open(&program.0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
