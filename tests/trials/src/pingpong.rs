//! Debian's `fi_pingpong`: its command lines and the figures that it prints.

use std::time::Duration;

use crate::{Library, Missing, Pair, Program, installed, port};

/// A run of `fi_pingpong` between two processes of this machine.
#[derive(Clone, Copy, Debug)]
pub struct PingPong<'a> {
    /// The options of both sides, beside provider and ports.
    pub options: &'a str,
    /// Library and provider of the server.
    pub server: (&'a Library, &'a str),
    /// Library and provider of the client.
    pub client: (&'a Library, &'a str),
    /// The time after which both are ended.
    pub limit: Duration,
}

impl<'a> PingPong<'a> {
    /// Returns a run with the same library and provider on both sides.
    #[must_use]
    pub fn new(library: &'a Library, provider: &'a str, options: &'a str) -> Self {
        let side = (library, provider);
        Self {
            options,
            server: side,
            client: side,
            limit: Duration::from_secs(1800),
        }
    }

    /// Returns the two programs.
    ///
    /// # Errors
    /// `fi_pingpong` is not installed.
    pub fn pair(&self) -> Result<Pair, Missing> {
        let program = installed("fi_pingpong")?;
        let control_port = port::free();
        let side = |(library, provider): (&Library, &str)| {
            Program::new(&program)
                .library(library)
                .args(["-p", provider])
                .line(self.options)
                .limit(self.limit)
        };
        Ok(Pair {
            server: side(self.server).line(&format!("-B {control_port}")),
            client: side(self.client).line(&format!("-P {control_port} 127.0.0.1")),
            is_ready: port::is_listening,
        })
    }
}

/// One row of the table that `fi_pingpong` and the benchmarks of fabtests print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Message size.
    pub bytes: u64,
    /// Megabytes per second, in one direction at a time.
    pub mbytes_per_second: f64,
    /// Time of one message, one way.
    pub latency_us: f64,
}

/// Returns the rows of the table `bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec`; fabtests have no `#ack`.
#[must_use]
pub fn rows(stdout: &str) -> Vec<Row> {
    stdout.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    let [bytes, .., _time, rate, latency, _per_second] = columns[..] else {
        return None;
    };
    Some(Row {
        bytes: size(bytes)?,
        mbytes_per_second: rate.parse().ok()?,
        latency_us: latency.parse().ok()?,
    })
}

/// Sizes are printed as `384`, `1.5k` or `2m`, in powers of 1024.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1_u64 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let (whole, tenths) = digits.split_once('.').unwrap_or((digits, "0"));
    let (whole, tenths): (u64, u64) = (whole.parse().ok()?, tenths.parse().ok()?);
    Some(whole * unit + tenths * unit / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_its_head_is_not() {
        let printed = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                       8       20k     =20k     312k        0.26s      1.21       6.60       0.15\n\
                       1.5k    1k      =1k      2.9m        0.02s    125.89      12.20       0.08\n\
                       64      1k      125k       0.01s      8.30       7.71       0.13\n";
        let read = rows(printed);
        assert_eq!(read.len(), 3);
        assert_eq!((read[0].bytes, read[0].latency_us), (8, 6.6));
        assert_eq!((read[1].bytes, read[1].mbytes_per_second), (1536, 125.89));
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("384"), Some(384));
        assert_eq!(size("3m"), Some(3 << 20));
        assert_eq!(size("k"), None);
        assert_eq!(size(""), None);
    }
}
