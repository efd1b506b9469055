//! The same work done by UCX, with its own program `ucx_perftest` (Debian's ucx-utils).

use std::error::Error;
use std::time::Duration;

use oxifabric_trials::{Pair, Program, installed, port};

use crate::cores::Cores;
use crate::workload::Figure;

/// A test of `ucx_perftest`.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    /// Its name there.
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    pub(crate) count: u64,
}

impl Test {
    /// Runs it once, a process on each core, over the transports that match a provider. `None` without the program.
    pub(crate) fn measure(
        &self,
        provider: &str,
        figure: Figure,
        cores: &Cores,
    ) -> Result<Option<f64>, Box<dyn Error>> {
        let (Ok(program), Some(transports)) = (installed("ucx_perftest"), transports(provider))
        else {
            return Ok(None);
        };
        let service = port::free().to_string();
        let side = |at| {
            let side = Program::new(&program).env("UCX_TLS", transports);
            let side = side.args(["-p", &service]).limit(Duration::from_secs(120));
            cores.place(side, at)
        };
        let (size, count) = (self.bytes.to_string(), self.count.to_string());
        let test = [
            "-t",
            self.name,
            "-s",
            &size,
            "-n",
            &count,
            "-f",
            "127.0.0.1",
        ];
        let both = Pair {
            server: side(0),
            client: side(1).args(test),
            is_ready: port::is_listening,
        }
        .run();
        let client = both.client.as_ref().filter(|_| both.is_success());
        let client = client.ok_or_else(|| both.to_string())?;
        let found = read(&client.stdout, figure);
        Ok(Some(found.ok_or_else(|| format!("no figures\n{client}"))?))
    }
}

/// UCX's transports between processes that a provider's are compared with.
fn transports(provider: &str) -> Option<&'static str> {
    match provider {
        "shm" => Some("posix,sysv,cma,self"),
        "tcp" => Some("tcp,self"),
        _ => None,
    }
}

/// Reads the figure off the last line: count; typical, average, overall time in us; average, overall bandwidth in MiB/s; rates.
fn read(stdout: &str, figure: Figure) -> Option<f64> {
    let line = stdout.lines().rfind(|line| !line.trim().is_empty())?;
    let columns: Vec<f64> = line
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let [_, _, _, time_us, _, mebibytes, _, rate] = columns[..] else {
        return None;
    };
    match figure {
        Figure::LatencyUs => Some(time_us),
        Figure::MbytesPerSecond => Some(mebibytes * 1.048_576),
        Figure::MillionsPerSecond => Some(rate / 1e6),
        Figure::Seconds | Figure::Microseconds | Figure::Nanoseconds | Figure::Bytes => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_off_the_last_line() {
        let printed = "a head\n    300000      0.307     0.333     0.335       22.91      22.00     3003168     3000000\n";
        assert_eq!(read(printed, Figure::LatencyUs), Some(0.335));
        assert_eq!(read(printed, Figure::MillionsPerSecond), Some(3.0));
        let megabytes = read(printed, Figure::MbytesPerSecond).expect("a bandwidth");
        assert!((megabytes - 23.07).abs() < 0.01);
        assert_eq!(read("nothing\n", Figure::LatencyUs), None);
    }
}
