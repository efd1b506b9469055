//! Links in different processes: reading each other's memory, sudden death, forks, small file systems.
//!
//! The other process is this test program again, told by an environment variable what to be.

mod other;
mod recorder;

use std::env;
use std::process::Command;
use std::thread;
use std::time::Instant as Clock;

use other::{NAME, Other, ROLE, TARGET};
use oxifabric_engine::{Kind, Link, PostError, Posted, RxToken};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Device;
use oxifabric_shm::Params;
use oxifabric_types::{Address, Errno, PeerId};
use recorder::{Port, WATCHDOG, header, lend, params, pattern};

const LONG: usize = 8 << 20;

/// Runs the other process; returns at once when the tests are run as usual.
#[test]
fn other_process() {
    let (Ok(role), Ok(target)) = (env::var(ROLE), env::var(TARGET)) else {
        return;
    };
    let mut port = Port::named(env::var(NAME).ok().as_deref(), &params()).expect("an endpoint");
    port.link.enable(true).expect("a listener");
    let peer = port
        .link
        .peer(&Address::Name(target.into()))
        .expect("a name");
    match role.as_str() {
        "offer" => offer_without_end(&mut port, peer),
        "take" => take_one(&mut port, peer),
        _ => panic!("an unknown role: {role}"),
    }
}

fn post(port: &mut Port, peer: PeerId, kind: Kind, id: u32, body: &Iov) {
    let start = Clock::now();
    while port.try_post(peer, header(kind, id, body.len()), body) != Ok(Posted::Done) {
        port.poll();
        assert!(start.elapsed() < WATCHDOG, "cannot post: {port:?}");
    }
}

/// Sends small messages and the Rts of long ones until it is killed.
fn offer_without_end(port: &mut Port, peer: PeerId) {
    let long = pattern(LONG, 1);
    for id in 0.. {
        post(port, peer, Kind::Tagged, id, &lend(b"small"));
        post(port, peer, Kind::TaggedRts, id, &lend(&long));
        if id == 3 {
            println!("underway");
        }
        port.poll();
        if !port.sink.down.is_empty() {
            return;
        }
    }
}

/// Pulls one long message without a copy by the sender, and prints what it got.
fn take_one(port: &mut Port, peer: PeerId) {
    post(port, peer, Kind::Tagged, 1, &lend(b"here I am"));
    port.until("the Rts arrives", |sink| !sink.arrived.is_empty());
    let got = port.sink.arrived.pop_front().expect("just seen");
    let mut target = vec![0; LONG];
    let Some(remote) = got.remote else {
        return println!("SKIP: {:?}", port.link.directory().reason(peer));
    };
    // SAFETY: the vector outlives the pull.
    let into = unsafe { Iov::contiguous(target.as_mut_ptr(), LONG) };
    port.link
        .pull(peer, &remote, into, RxToken(1))
        .expect("a live peer");
    port.until("the pull ends", |sink| !sink.pulled.is_empty());
    let whole = target == pattern(LONG, 2);
    println!("taken: {:?} {whole}", port.sink.pulled[0].1);
    post(port, peer, Kind::Fin, 1, &Iov::empty());
}

#[test]
fn another_process_reads_a_long_message() {
    let mut a = Port::open(&params());
    let mut other = Other::start("take", &a.link.name(), None);
    a.until("it calls", |sink| !sink.arrived.is_empty());
    let peer = a.sink.arrived.pop_front().expect("just seen").from;
    let long = pattern(LONG, 2);
    post(&mut a, peer, Kind::TaggedRts, 9, &lend(&long));
    let reader = thread::spawn(move || (other.line("taken: "), other));
    a.until("it is done or gone", |sink| {
        !sink.arrived.is_empty() || !sink.down.is_empty()
    });
    if a.link.limits(peer).pull {
        let (line, _alive) = reader.join().expect("a line");
        assert_eq!(line, "Ok(()) true");
        assert_eq!(a.sink.arrived[0].header.kind, Kind::Fin);
    } else {
        println!("SKIP: {:?}", a.link.directory().reason(peer));
    }
}

#[test]
fn a_peer_killed_in_the_middle_is_down_and_leaves_nothing() {
    let Run::Inside = in_own_memory(
        "a_peer_killed_in_the_middle_is_down_and_leaves_nothing",
        "1g",
    ) else {
        return;
    };
    let name = format!("fi_ns://victim-{}", std::process::id());
    for _ in 0..2 {
        let mut a = Port::open(&params());
        let mut other = Other::start("offer", &a.link.name(), Some(&name));
        a.until("the Rts arrive", |sink| {
            sink.arrived
                .iter()
                .filter(|got| got.remote.is_some())
                .count()
                > 2
        });
        let peer = a.sink.arrived[0].from;
        let mut target = vec![0u8; LONG];
        let remotes: Vec<_> = a.sink.arrived.iter().filter_map(|got| got.remote).collect();
        for (id, remote) in remotes.iter().enumerate() {
            // SAFETY: the vector outlives the link, and no code reads it.
            let into = unsafe { Iov::contiguous(target.as_mut_ptr(), LONG) };
            a.link
                .pull(peer, remote, into, RxToken(id as u32))
                .expect("a live peer");
        }
        a.poll();
        other.kill();
        a.until("it is down", |sink| !sink.down.is_empty());
        assert_eq!(a.sink.down, [(peer, Errno::CONNRESET)]);
        assert_eq!(a.sink.pulled.len(), remotes.len(), "every pull has ended");
        assert!(
            a.link
                .directory()
                .reason(peer)
                .is_some_and(|reason| reason.contains(&name))
        );
    }
    assert_eq!(shared_files(), [""; 0]);
}

/// Lists what is in /dev/shm.
fn shared_files() -> Vec<String> {
    let folder = std::fs::read_dir("/dev/shm").expect("it is ours");
    let names = folder.map(|entry| entry.expect("it can be read").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Where a test is that runs again with a /dev/shm of its own.
enum Run {
    /// This is that run.
    Inside,
    /// That run has passed, and has written this log.
    Passed(String),
    Skipped,
}

/// Runs the test of this name again where /dev/shm has this size and is empty, and no other program has files in it.
fn in_own_memory(test: &str, size: &str) -> Run {
    const OWN: &str = "OXIFABRIC_TEST_OWN_MEMORY";
    if env::var_os(OWN).is_some() {
        return Run::Inside;
    }
    let mount = format!("mount -t tmpfs -o size={size} own /dev/shm");
    let script = format!("{mount} && exec \"$0\" --exact {test} --nocapture");
    let run = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .arg(env::current_exe().expect("the program's path"))
        .env(OWN, "")
        .output();
    let run = match run {
        Ok(run) => run,
        Err(error) => {
            println!("SKIP: unshare: {error}");
            return Run::Skipped;
        }
    };
    let (said, log) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    if said.is_empty() {
        println!("SKIP: {log}");
        return Run::Skipped;
    }
    let is_passed = run.status.success() && said.contains("1 passed");
    assert!(is_passed, "{said}{log}");
    Run::Passed(log.into_owned())
}

#[test]
fn memory_in_a_folder_works_and_leaves_no_file() {
    let Run::Inside = in_own_memory("memory_in_a_folder_works_and_leaves_no_file", "1g") else {
        return;
    };
    let in_folder = Params {
        dir: Some("/dev/shm".into()),
        ..params()
    };
    let mut a = Port::named(None, &in_folder).expect("the folder takes files");
    a.link.enable(false).expect("a listener");
    let mut b = Port::open(&in_folder);
    let to_b = a.peer(&b);
    recorder::both("they connect", &mut a, &mut b, |a, _| {
        a.send(to_b, 1, b"x") == Ok(Posted::Done)
    });
    assert_eq!(shared_files(), [""; 0]);
    let mut careful = Port::open(&params());
    let to_careful = a.peer(&careful);
    assert_eq!(a.send(to_careful, 1, b"x"), Err(PostError::Again));
    recorder::both(
        "memory that could shrink is refused",
        &mut a,
        &mut careful,
        |a, _| !a.sink.down.is_empty(),
    );
    assert_eq!(a.sink.down, [(to_careful, Errno::NOMEM)]);
}

#[test]
fn a_folder_that_is_too_small_is_enospc_at_opening() {
    match in_own_memory("a_folder_that_is_too_small_is_enospc_at_opening", "64k") {
        Run::Inside => {
            let small = Params {
                dir: Some("/dev/shm".into()),
                ..params()
            };
            assert_eq!(Port::named(None, &small).map(drop), Err(Errno::NOSPC));
        }
        Run::Passed(log) => assert!(log.contains("/dev/shm") && log.contains("needs"), "{log}"),
        Run::Skipped => {}
    }
}

#[test]
fn a_forked_child_gets_errors_and_disturbs_nothing() {
    let (mut a, mut b, to_b, _) = recorder::pair(&params());
    let mut status = 0;
    // SAFETY: the child calls the link, which allocates nothing on these paths, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = a.send(to_b, 666, b"x") == Err(PostError::Down(Errno::OPBADSTATE));
        let idle = a.poll() == 0 && b.poll() == 0;
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if refused && idle { 0 } else { 1 }) };
    }
    assert!(child > 0, "fork failed");
    // SAFETY: waits for the child above and writes the status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child saw what it should");
    assert_eq!(a.send(to_b, 1, b"x"), Ok(Posted::Done));
    b.until("it arrives", |sink| sink.arrived.len() == 1);
    assert_eq!(b.sink.arrived[0].header.id, 1);
}
