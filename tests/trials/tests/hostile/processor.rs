//! The processor time of processes and threads, as the kernel counts it.

use std::fs;
use std::time::Duration;

/// The unit of proc(5) "stat": 1 / USER_HZ seconds, which is the same on all of Linux.
const TICK: Duration = Duration::from_millis(10);

/// Returns the processor time of a process, of its threads and of those that have ended: the fields 14 and 15 of proc(5) "stat".
pub(crate) fn time_of_process(id: u32) -> Duration {
    fields_of_stat(id, 14)
}

/// Returns the processor time of the processes that a process started and waited for: the fields 16 and 17 of proc(5) "stat".
pub(crate) fn time_of_ended_children(id: u32) -> Duration {
    fields_of_stat(id, 16)
}

/// Returns the sum of two fields of proc(5) "stat", of which `first` is the first.
fn fields_of_stat(id: u32, first: usize) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
    // The name of the program is in parentheses and may have any characters.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_ascii_whitespace().skip(first - 3).take(2);
    let ticks: Option<u32> = ticks.map(|field| field.parse::<u32>().ok()).sum();
    TICK * ticks.expect("numbers")
}

/// Returns the processor time of the calling thread: the first field of proc(5) "schedstat".
pub(crate) fn time_of_this_thread() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("it runs");
    let nanoseconds = text.split_ascii_whitespace().next();
    let nanoseconds = nanoseconds.and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}
