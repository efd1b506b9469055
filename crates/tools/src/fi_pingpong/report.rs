//! The lines that `fi_pingpong` prints, which scripts read.

use core::time::Duration;

/// What is known after all messages of one size.
pub(super) struct Report {
    pub(super) size: usize,
    pub(super) sent: u64,
    pub(super) acked: u64,
    pub(super) time: Duration,
}

/// Messages for each iteration: one there, one back.
const PER_ITERATION: u64 = 2;

/// Returns the names of the columns.
pub(super) fn header() -> String {
    format!(
        "{:<8}{:<8}{:<9}{:<8}{:>8} {:>10}{:>13}{:>13}",
        "bytes", "#sent", "#ack", "total", "time", "MB/sec", "usec/xfer", "Mxfers/sec"
    )
}

impl Report {
    /// Returns the line of one size.
    pub(super) fn line(&self) -> String {
        let elapsed_us = self.time.as_micros() as u64;
        let bytes = self.sent * self.size as u64 * PER_ITERATION;
        let each_us = elapsed_us as f32 / self.sent as f32 / PER_ITERATION as f32;
        let (sign, difference) = match self.sent.cmp(&self.acked) {
            core::cmp::Ordering::Equal => ('=', self.acked),
            core::cmp::Ordering::Less => ('-', self.acked - self.sent),
            core::cmp::Ordering::Greater => ('+', self.sent - self.acked),
        };
        format!(
            "{:<8}{:<8}{sign}{:<8}{:<8}{:>8.2}s{:>10.2}{:>11.2}{:>11.2}",
            spell_size(self.size as u64),
            spell_count(self.sent),
            spell_count(difference),
            spell_size(bytes),
            elapsed_us as f64 / 1e6,
            bytes as f64 / elapsed_us as f64,
            each_us,
            1.0 / f64::from(each_us),
        )
    }
}

impl Report {
    /// Returns a JSON object; times are in microseconds, the bandwidth in 1,000,000 bytes a second.
    pub(super) fn json(&self) -> String {
        let time_us = self.time.as_secs_f64() * 1e6;
        let messages = (self.sent * PER_ITERATION).max(1) as f64;
        let bytes = self.sent * self.size as u64 * PER_ITERATION;
        let bandwidth = bytes as f64 / time_us.max(1e-3);
        format!(
            "{{\"bytes\": {}, \"sent\": {}, \"acknowledged\": {}, \"time_us\": {time_us:.3}, \"latency_us\": {:.4}, \
             \"bandwidth_mbps\": {bandwidth:.2}}}",
            self.size,
            self.sent,
            self.acked,
            time_us / messages,
        )
    }
}

/// Returns a length in units of 1024, with one digit after the point if there is one before it.
fn spell_size(size: u64) -> String {
    let (base, unit) = match size {
        0x4000_0000.. => (1 << 30, "g"),
        0x10_0000.. => (1 << 20, "m"),
        0x400.. => (1 << 10, "k"),
        _ => (1, ""),
    };
    let whole = size / base;
    let tenths = if whole < 10 {
        size % base * 10 / base
    } else {
        0
    };
    if tenths == 0 {
        format!("{whole}{unit}")
    } else {
        format!("{whole}.{tenths}{unit}")
    }
}

/// Returns a number in units of 1000.
fn spell_count(count: u64) -> String {
    match count {
        1_000_000_000.. => format!("{}b", count / 1_000_000_000),
        1_000_000.. => format!("{}m", count / 1_000_000),
        1000.. => format!("{}k", count / 1000),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_upstream() {
        let report = |size, sent, acked, micros| {
            let time = Duration::from_micros(micros);
            let line = Report {
                size,
                sent,
                acked,
                time,
            };
            line.line()
        };
        assert_eq!(
            header(),
            "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec"
        );
        assert_eq!(
            report(64, 10, 10, 250),
            "64      10      =10      1.2k        0.00s      5.12      12.50       0.08"
        );
        assert_eq!(
            report(1 << 20, 1000, 999, 2_000_000),
            "1m      1k      +1       1.9g        2.00s   1048.58    1000.00       0.00"
        );
    }

    #[test]
    fn sizes_and_counts_are_short() {
        for (size, text) in [
            (0, "0"),
            (1023, "1023"),
            (1536, "1.5k"),
            (20480, "20k"),
            (6 << 20, "6m"),
        ] {
            assert_eq!(spell_size(size), text);
        }
        for (count, text) in [
            (999, "999"),
            (1999, "1k"),
            (5_000_000, "5m"),
            (1_000_000_000, "1b"),
        ] {
            assert_eq!(spell_count(count), text);
        }
    }
}
