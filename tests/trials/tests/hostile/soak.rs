//! Everything at once, for as long as `OXI_SOAK_SECONDS` says: streams, connection requests, packets, handshakes and cells of attackers at
//! one process that serves honest peers over tcp, udp;ofi_rxd and shm. Its descriptors and memory are at the end what they were before.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use oxifabric_trials::source::{self, Compiled};
use oxifabric_trials::{Library, Missing, Process, Program, Scratch, installed, require};

use crate::callers::Called;
use crate::doors::{REFUSAL, answer, ask, request_with};
use crate::growth::{Growth, Held};
use crate::players::name_in;
use crate::siege::{Attack, KINDS, Targets};

/// How long the attack lasts unless the variable says otherwise.
const SECONDS: u64 = 60;
/// What the process serves.
const PROVIDERS: [&str; 3] = ["tcp", "udp;ofi_rxd", "shm"];
/// The place of the passive endpoint among those that have printed a port.
const LISTENER: usize = 2;
/// How much more memory than before may be resident at the end, beside the plateau that is required: that one is of private memory only, and
/// says nothing of the first third.
const MORE: u64 = 24 << 20;
/// How long the process may take to let go of what departed attackers held.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One process with an endpoint for each provider, and an honest peer of each.
struct Scene {
    server: Process,
    peers: Vec<Process>,
    meeting: Scratch,
}

impl Scene {
    fn open(library: &Library, limit: Duration) -> Result<Self, Missing> {
        let (echoes, volley) = (
            source::compile_client("echoes")?,
            source::compile_client("volley")?,
        );
        let meeting = Scratch::new();
        for provider in PROVIDERS {
            fs::create_dir(meeting.join(provider)).expect("a new folder takes folders");
        }
        let start = |program: &Compiled, args: &[&str]| {
            let program = Program::new(program.file()).library(library).args(args);
            program.limit(limit).start()
        };
        let folder = meeting.path().to_str().expect("a folder's name is text");
        let server = start(&echoes, &[&[folder], &PROVIDERS[..]].concat());
        let peers = PROVIDERS.map(|provider| {
            let folder = meeting.join(provider);
            start(
                &volley,
                &[provider, folder.to_str().expect("text"), "asker"],
            )
        });
        let mut scene = Self {
            server,
            peers: peers.into(),
            meeting,
        };
        scene.play(1);
        Ok(scene)
    }

    /// Waits until every honest peer has done `more` further rounds.
    fn play(&mut self, more: u64) {
        for (provider, peer) in PROVIDERS.iter().zip(&mut self.peers) {
            let rounds = self.meeting.join(provider).join("rounds");
            let goal = recorded(&rounds) + more;
            let played = peer.until(|_| recorded(&rounds) >= goal);
            assert_eq!(
                played,
                Ok(()),
                "{provider}: {}{}",
                peer.stdout(),
                peer.stderr()
            );
        }
        // The passive endpoint hears an honest one too.
        let mut stream = ask(self.address(LISTENER), &request_with("honest"));
        assert_eq!(answer(&mut stream), (REFUSAL, b"seen".to_vec()));
    }

    /// Returns how many rounds each honest peer has done.
    fn rounds(&self) -> [u64; PROVIDERS.len()] {
        PROVIDERS.map(|provider| recorded(&self.meeting.join(provider).join("rounds")))
    }

    /// Returns the address that the endpoint with this place among those with ports listens at.
    fn address(&self, at: usize) -> SocketAddr {
        let printed = self.server.stdout();
        let with_ports = |line| str::strip_prefix(line, "address fi_sockaddr_in://");
        let address = printed.lines().filter_map(with_ports).nth(at);
        address
            .and_then(|text| text.parse().ok())
            .expect("the process printed its addresses")
    }

    fn held(&self) -> Held {
        Held::by(self.server.id())
    }

    /// Waits until the process has no more descriptors and memory than that.
    fn settle(&mut self, descriptors: usize, resident: u64) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let held = self.held();
            if held.descriptors <= descriptors && held.resident <= resident {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{} descriptors, of {descriptors}; {} bytes, of {resident}",
                held.descriptors,
                held.resident
            );
            self.play(1);
        }
    }

    fn end(self) {
        for provider in PROVIDERS {
            let stop = self.meeting.join(provider).join("stop");
            fs::write(stop, "").expect("the meeting place is writable");
        }
        for peer in self.peers {
            peer.wait().expect_success().expect_stdout(" 0 wrong\n");
        }
        self.server.wait().expect_success();
    }
}

fn recorded(rounds: &Path) -> u64 {
    fs::read_to_string(rounds)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Returns the kinds of attackers that take part: all, or those whose names `OXI_SOAK_KINDS` has, to find by hand which makes it grow.
fn chosen() -> Vec<&'static str> {
    let names = env::var("OXI_SOAK_KINDS").unwrap_or_else(|_| KINDS.join(","));
    let named = |kind: &&str| names.split(',').any(|name| name == *kind);
    KINDS.into_iter().filter(named).collect()
}

fn besiege() -> Result<(), Missing> {
    let library = Library::under_test()?;
    let scribbler = source::compile_client("scribbler")?;
    let callers = source::compile("callers", &installed("cc")?, &[]);
    let seconds = env::var("OXI_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS, |text| text.parse().expect("a number of seconds"));
    let lasts = Duration::from_secs(seconds);
    let mut scene = Scene::open(&library, lasts + 3 * TIMEOUT)?;
    let before = scene.rounds();
    let shm = scene.meeting.join("shm");
    let [tcp, udp, listener] = [0, 1, LISTENER].map(|at| scene.address(at));
    let (endpoint, peer) = (name_in(&shm, "answerer"), name_in(&shm, "asker"));
    let targets = Targets {
        tcp,
        udp,
        listener,
        shm: &shm,
        called: Called {
            program: &callers,
            endpoint: &endpoint,
            peer: &peer,
        },
        scribbler: &scribbler,
        library: &library,
    };
    let chosen = chosen();
    if chosen.contains(&"channels") {
        println!("{} channels before the attack", Attack::fill_channels(udp));
        scene.play(1);
    }
    let start = scene.held();
    let mut growth = Growth::over(lasts);
    let visits = Attack::last(&targets, &chosen, || {
        let begun = Instant::now();
        while begun.elapsed() < lasts {
            scene.play(1);
            growth.watch(scene.server.id());
        }
    });
    let mut done = scene.rounds();
    done.iter_mut()
        .zip(before)
        .for_each(|(now, before)| *now -= before);
    println!("visits by {KINDS:?}: {visits:?}; rounds of {PROVIDERS:?}: {done:?}");
    let struck = KINDS.iter().zip(visits).filter(|(_, count)| *count > 0);
    assert!(
        struck.map(|(kind, _)| *kind).eq(chosen),
        "{visits:?} visits"
    );
    scene.settle(start.descriptors, start.resident + MORE);
    let end = scene.held();
    println!(
        "before: {} descriptors, {} KiB private, {} KiB resident; at the end: {}, {}, {}",
        start.descriptors,
        start.private >> 10,
        start.resident >> 10,
        end.descriptors,
        end.private >> 10,
        end.resident >> 10
    );
    growth.expect_plateau();
    scene.end();
    Ok(())
}

#[test]
fn a_besieged_process_serves_honest_peers_and_does_not_grow() {
    require!(besiege());
}
