//! What was seen, as JSON.

use std::io::{self, Write};
use std::time::Duration;

use super::report::{Report, SHARES};
use crate::output::quote;

impl Report {
    /// Prints one JSON object. Times are in microseconds of the network's time, but for those that end with `_here_s`.
    pub(super) fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (set_up, set_up_here) = self.set_up;
        writeln!(out, "{{")?;
        writeln!(out, "  \"nodes\": {},", self.nodes)?;
        writeln!(out, "  \"pattern\": {},", quote(&self.pattern.name()))?;
        writeln!(out, "  \"message_bytes\": {},", self.size)?;
        writeln!(out, "  \"rate\": {},", self.rate)?;
        writeln!(out, "  \"asked_us\": {:.3},", micros(self.asked))?;
        writeln!(out, "  \"set_up_us\": {:.3},", micros(set_up))?;
        writeln!(
            out,
            "  \"set_up_here_s\": {:.6},",
            set_up_here.as_secs_f64()
        )?;
        writeln!(out, "  \"run_us\": {:.3},", micros(self.took))?;
        writeln!(out, "  \"run_here_s\": {:.6},", self.wall.as_secs_f64())?;
        writeln!(out, "  \"turns\": {},", self.turns)?;
        writeln!(out, "  \"sent\": {},", self.begun)?;
        writeln!(out, "  \"received\": {},", self.arrived)?;
        writeln!(out, "  \"missing\": {},", self.missing)?;
        writeln!(out, "  \"unposted\": {},", self.waiting)?;
        writeln!(out, "  \"wrong\": {},", self.wrong)?;
        let packets = self.packets.map(|(what, number)| {
            format!("{}: {number}", quote(&format!("{what:?}").to_lowercase()))
        });
        writeln!(out, "  \"packets\": {{{}}},", packets.join(", "))?;
        let told = &self.times[self.times.len() - SHARES.len()..];
        let times: Vec<String> = (told.iter())
            .map(|(share, time)| format!("{{\"share\": {share}, \"within_us\": {time:.3}}}"))
            .collect();
        writeln!(out, "  \"times\": [{}],", times.join(", "))?;
        let memory =
            (self.memory_rows()).map(|(_, name, value)| format!("{}: {value:.1}", quote(name)));
        writeln!(out, "  \"memory\": {{{}}}", memory.join(", "))?;
        writeln!(out, "}}")
    }
}
