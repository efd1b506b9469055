//! Each example runs to its end, as a program of its own.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long an example may take before the test fails.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Returns the path of an example of the package that is being tested.
fn program(name: &str) -> Option<PathBuf> {
    let test = env::current_exe().ok()?;
    let program = test.parent()?.parent()?.join("examples").join(name);
    program.exists().then_some(program)
}

fn run(name: &str, arguments: &[&str]) {
    let Some(program) = program(name) else {
        eprintln!("SKIP: the example {name} was not built; it may need a feature");
        return;
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .expect("the example starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the example can be waited for") {
            break status;
        }
        if start.elapsed() > WATCHDOG {
            child.kill().expect("the example can be ended");
            child.wait().expect("the example has ended");
            panic!("{name} {arguments:?} does not end");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{name} {arguments:?}: {status}");
}

#[test]
fn a_first_program_plays_ping_pong() {
    let Some(program) = program("first_pingpong") else {
        eprintln!("SKIP: the example first_pingpong was not built");
        return;
    };
    let mut other = Command::new(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut told = BufReader::new(other.stdout.take().expect("its output is a pipe")).lines();
    let address = told.next().expect("it prints an address").unwrap();
    run("first_pingpong", &[&address]);
    let last = told.next().expect("it prints a result").unwrap();
    assert_eq!(last, "the ball came back 500 times");
    assert!(other.wait().expect("the example has ended").success());
}

#[test]
fn connections_play_ping_pong() {
    run("msg_pingpong", &["tcp"]);
}

#[test]
fn datagrams_play_ping_pong() {
    run("rdm_pingpong", &["tcp"]);
    run("rdm_pingpong", &["shm"]);
}

#[test]
fn a_server_answers_a_hundred_clients() {
    run("tagged_server", &["tcp"]);
    run("tagged_server", &["shm"]);
}

#[test]
fn a_store_is_changed_without_its_server() {
    run("rma_key_value", &["tcp"]);
    run("rma_key_value", &["shm"]);
}

#[test]
fn no_number_is_drawn_twice() {
    run("atomic_counter", &["tcp"]);
    run("atomic_counter", &["shm"]);
}

#[test]
fn tasks_get_their_answers() {
    run("async_echo", &["tcp"]);
    run("async_echo", &["shm"]);
}

#[test]
fn a_file_is_copied() {
    run("file_copy", &["tcp"]);
    run("file_copy", &["shm"]);
}

#[test]
fn pieces_go_over_two_rails() {
    run("multi_rail", &[]);
}
