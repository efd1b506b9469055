//! Instruction counts of a program inside a library, which other processes do not disturb: callgrind of valgrind.

use std::collections::HashMap;
use std::fs;

use crate::{Library, Missing, Program, Scratch, installed};

/// Runs the program on the library and counts the instructions inside of it. What the library's calls into the C library cost is
/// left out: that one chooses its code by the processor.
///
/// # Errors
/// There is no valgrind.
///
/// # Panics
/// The program fails, or callgrind leaves no counts.
pub fn instructions(program: Program, library: &Library) -> Result<u64, Missing> {
    installed("valgrind")?;
    let scratch = Scratch::new();
    let counts = scratch.join("counts");
    let out = format!("--callgrind-out-file={}", counts.display());
    let options = ["--quiet", "--tool=callgrind", &out];
    let outcome = program.library(library).under("valgrind", options).run();
    outcome.expect_success();
    let text = fs::read_to_string(counts).expect("callgrind writes where it is told to");
    let file = library.folder().join("libfabric.so.1");
    let object = file.canonicalize().unwrap_or(file);
    Ok(spent_in(&object.display().to_string(), &text))
}

/// Sums the costs that an object has itself, "Callgrind Format Specification" of valgrind's manual.
fn spent_in(object: &str, counts: &str) -> u64 {
    let mut objects = Objects::default();
    let mut is_inside = false;
    let mut sum = 0;
    let mut lines = counts.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("ob=") {
            is_inside = objects.name(name) == object;
        } else if let Some(name) = line.strip_prefix("cob=") {
            objects.name(name);
        } else if line.starts_with("calls=") {
            // The next line has the cost of what is called.
            lines.next();
        } else if is_inside {
            sum += cost(line).unwrap_or(0);
        }
    }
    sum
}

/// Returns the cost in a line `POSITION COST`, whose position is a number or relative to the one before.
fn cost(line: &str) -> Option<u64> {
    let (position, cost) = line.split_once(' ')?;
    let is_position =
        position.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first));
    is_position.then(|| cost.parse().ok()).flatten()
}

/// Names that are written once, `(NUMBER) NAME`, and are `(NUMBER)` from then on.
#[derive(Default)]
struct Objects<'a>(HashMap<&'a str, &'a str>);

impl<'a> Objects<'a> {
    fn name(&mut self, text: &'a str) -> &'a str {
        match text.split_once(' ') {
            Some((number, name)) => {
                self.0.insert(number, name);
                name
            }
            None => self.0.get(text).copied().unwrap_or(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "\
events: Ir
ob=(1) /lib/program
fl=(1) program.c
fn=(1) main
12 100
cob=(2) /lib/libfabric.so.1
cfn=(2) fi_send
calls=3 20
+3 5000
ob=(2)
fn=(2)
20 7
* 1
-4 30
cob=(3) /lib/libc.so.6
cfn=(3) memcpy
calls=1 0
+2 400
+1 2
ob=(3)
fn=(3)
0 400
totals: 540
";

    #[test]
    fn what_is_called_counts_where_it_is() {
        assert_eq!(spent_in("/lib/libfabric.so.1", COUNTS), 40);
        assert_eq!(spent_in("/lib/program", COUNTS), 100);
        assert_eq!(spent_in("/lib/libc.so.6", COUNTS), 400);
        assert_eq!(spent_in("/lib/other.so", COUNTS), 0);
    }
}
