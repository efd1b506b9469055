//! Callers at the socket of a shm endpoint, of this user and of another one, while two good peers play on beside them. What they send
//! is made by `programs/callers.c` after docs/protocol/shm.md.

use std::fs;
use std::time::{Duration, Instant};

use oxifabric_trials::source::{self, Compiled};
use oxifabric_trials::{Library, Missing, Process, Program, installed, require};

use crate::players::Players;

/// A user without rights.
const OTHER: u32 = 65534;
/// Callers before their handshake: as many as docs/protocol/shm.md 2.9 lets in.
const MOST_SILENT: usize = 64;
/// Callers that claim the name of a live peer: as many as the same section lets wait for its end.
const MOST_PARKED: usize = 128;
/// What an honest peer is played for at a time, in rounds.
const ROUNDS: u64 = 200;
/// A bound on a hang, not an expectation.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Two players over shm and the program that attacks one of them.
struct Scene {
    players: Players,
    callers: Compiled,
}

impl Scene {
    /// Lets the players play; of `FI_SHM_USERS` they get `users`, and at most `files` descriptors.
    fn open(users: &str, files: u32) -> Result<Self, Missing> {
        installed("prlimit")?;
        let library = Library::under_test()?;
        let program = source::compile_client("volley")?;
        let callers = source::compile("callers", &installed("cc")?, &[]);
        let adapt = |program: Program| {
            let limit = format!("--nofile={files}");
            program.env("FI_SHM_USERS", users).under("prlimit", [limit])
        };
        let mut players = Players::start_over("shm", &program, &library, adapt);
        players.play(1);
        Ok(Self { players, callers })
    }

    /// Starts an attack on the answerer, and waits until it says that it is done, or goes on from there.
    fn attack(&self, user: u32, what: &str, count: u64) -> Process {
        attack(&self.callers, &self.players, user, what, count)
    }

    /// Requires that the players keep at least half their pace beside an attack.
    #[track_caller]
    fn expect_fair(&mut self, user: u32, what: &str, count: u64) {
        let callers = &self.callers;
        self.players.expect_fair(|players| {
            let _attack = attack(callers, players, user, what, count);
            players.watched_pace()
        });
    }

    /// Returns how many pieces of other processes' memory the answerer has mapped.
    fn mappings(&self) -> usize {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.players.id()));
        let maps = maps.unwrap_or_default();
        maps.lines().filter(|line| line.contains("/memfd:")).count()
    }

    /// Plays on until the answerer has at most `most` descriptors.
    fn settle(&mut self, most: usize) {
        self.settle_what("descriptors", most, |scene| scene.players.descriptors());
    }

    /// Plays on until the answerer has at most `most` pieces of other processes' memory: it gives memory back some polls after the socket.
    fn settle_mappings(&mut self, most: usize) {
        self.settle_what("mappings", most, Self::mappings);
    }

    fn settle_what(&mut self, what: &str, most: usize, held: impl Fn(&Self) -> usize) {
        let deadline = Instant::now() + TIMEOUT;
        while held(self) > most {
            let left = held(self);
            assert!(Instant::now() < deadline, "{left} {what} of {most}");
            self.players.play_on(ROUNDS);
        }
    }
}

/// A shm endpoint that is called by the program `callers`.
pub(crate) struct Called<'a> {
    pub(crate) program: &'a Compiled,
    pub(crate) endpoint: &'a str,
    /// A peer of it.
    pub(crate) peer: &'a str,
}

impl Called<'_> {
    /// Starts an attack, and waits until it says that it is done, or goes on from there.
    pub(crate) fn attack(&self, user: u32, what: &str, count: u64) -> Process {
        let line = format!("{user} {} {what} {count}", self.endpoint);
        let program = Program::new(self.program.file()).line(&line);
        let mut attack = program.env("PEER", self.peer).start();
        let _ = attack.until(|attack| attack.stdout().contains("done\n"));
        let (said, reported) = (attack.stdout(), attack.stderr());
        assert!(said.contains("done\n"), "{said}{reported}");
        attack
    }
}

fn attack(callers: &Compiled, players: &Players, user: u32, what: &str, count: u64) -> Process {
    let called = Called {
        program: callers,
        endpoint: &players.name("answerer"),
        peer: &players.name("asker"),
    };
    called.attack(user, what, count)
}

/// Returns whether this test may act as another user.
pub(crate) fn other_user() -> Result<u32, Missing> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status
        .lines()
        .any(|line| line.split_whitespace().take(3).eq(["Uid:", "0", "0"]));
    root.then_some(OTHER)
        .ok_or_else(|| Missing("only root can act as another user".into()))
}

/// This test's own user.
pub(crate) fn own_user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map_or(0, |about| about.uid())
}

fn leave_no_descriptor(user: u32) -> Result<(), Missing> {
    let mut scene = Scene::open("", 1024)?;
    let before = scene.players.descriptors();
    scene.attack(user, "descriptors", 10_000);
    scene.settle(before);
    scene.expect_fair(user, "descriptors", 0);
    scene.settle(before);
    scene.players.finish();
    Ok(())
}

#[test]
fn ten_thousand_callers_of_this_user_that_send_descriptors_leave_none_open() {
    require!(leave_no_descriptor(own_user()));
}

#[test]
fn ten_thousand_callers_of_another_user_that_send_descriptors_leave_none_open() {
    let other = require!(other_user());
    require!(leave_no_descriptor(other));
}

#[test]
fn three_thousand_silent_callers_are_bounded_and_good_peers_play_on() {
    let mut scene = require!(Scene::open("", 1024));
    let before = scene.players.descriptors();
    let attack = scene.attack(own_user(), "silent", 3_000);
    scene.settle(before + MOST_SILENT);
    drop(attack);
    scene.settle(before);
    scene.expect_fair(own_user(), "silent", 3_000);
    scene.players.finish();
}

#[test]
fn silent_callers_of_another_user_are_shown_the_door_at_once() {
    let other = require!(other_user());
    let mut scene = require!(Scene::open("", 1024));
    let before = scene.players.descriptors();
    let attack = scene.attack(other, "silent", 3_000);
    scene.settle(before);
    drop(attack);
    scene.expect_fair(other, "flood", 0);
    scene.players.finish();
}

#[test]
fn good_peers_play_on_where_silent_callers_take_the_last_descriptors() {
    let mut scene = require!(Scene::open("", 48));
    scene.expect_fair(own_user(), "silent", 500);
    let attack = scene.attack(own_user(), "silent", 500);
    scene.players.play_on(ROUNDS);
    let taken = scene.players.descriptors();
    assert!(taken <= 40, "{taken} of 48, so that none are left");
    drop(attack);
    scene.players.finish();
}

#[test]
fn two_thousand_peers_that_come_and_leave_without_a_message_leave_nothing() {
    let mut scene = require!(Scene::open("", 1024));
    let (descriptors, mappings) = (scene.players.descriptors(), scene.mappings());
    scene.attack(own_user(), "peers", 2_000);
    scene.settle(descriptors);
    scene.settle_mappings(mappings);
    scene.expect_fair(own_user(), "peers", 0);
    scene.settle(descriptors);
    scene.players.finish();
}

#[test]
fn a_flood_of_callers_leaves_good_peers_their_pace() {
    let mut scene = require!(Scene::open("", 1024));
    scene.expect_fair(own_user(), "flood", 0);
    scene.players.finish();
}

#[test]
fn a_caller_that_claims_the_name_of_a_live_peer_does_not_replace_it() {
    let mut scene = require!(Scene::open("", 1024));
    let before = scene.players.descriptors();
    let attack = scene.attack(own_user(), "claim", 2_000);
    assert!(
        attack.stdout().contains("claim: no answer"),
        "{}",
        attack.stdout()
    );
    // Many of them wait for the end of the peer, and more come than may wait.
    let undisturbed = scene.players.usual_pace();
    let attack = scene.attack(own_user(), "claims", 2 * MOST_PARKED as u64);
    scene.settle(before + MOST_SILENT + 3 * MOST_PARKED);
    scene.players.expect_fair_since(undisturbed);
    drop(attack);
    scene.settle(before);
    scene.players.finish();
}

#[test]
fn a_root_endpoint_refuses_other_users_unless_it_is_told_and_never_reads_their_memory() {
    let other = require!(other_user());
    for (users, answer) in [
        ("", "handshake: refused, cause 3"),
        ("7", "handshake: refused, cause 3"),
        // Neither of both abilities that it could have: it never sleeps, and does not read.
        ("65534", "handshake: kind 2, abilities 0"),
    ] {
        let mut scene = require!(Scene::open(users, 1024));
        let attack = scene.attack(other, "handshake", 30_000);
        assert!(
            attack.stdout().contains(answer),
            "{users}: {}",
            attack.stdout()
        );
        // The peers come again and again, whether they are refused or admitted.
        scene.expect_fair(other, "peers", 0);
        scene.players.finish();
    }
}

/// A page of huge memory that any program may take, as long as this is there.
struct HugePage {
    before: String,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePage {
    fn add() -> Result<Self, Missing> {
        let missing = || Missing("the number of huge pages cannot be changed".into());
        let before = fs::read_to_string(HUGE_PAGES).map_err(|_| missing())?;
        let count: u64 = before.trim().parse().map_err(|_| missing())?;
        let wanted = (count + 1).to_string();
        fs::write(HUGE_PAGES, &wanted).map_err(|_| missing())?;
        let page = Self { before };
        let is_there = fs::read_to_string(HUGE_PAGES).is_ok_and(|now| now.trim() == wanted);
        is_there.then_some(page).ok_or_else(missing)
    }
}

impl Drop for HugePage {
    fn drop(&mut self) {
        let _ = fs::write(HUGE_PAGES, &self.before);
    }
}

/// Memory that looks complete and could be taken away later is refused, each kind of it, and the endpoint serves on.
fn refuse_memory(huge: &[&str]) -> Result<(), Missing> {
    let mut scene = Scene::open("", 1024)?;
    let attack = scene.attack(own_user(), "memory", 0);
    let said = attack.stdout();
    let mut lines = said.lines();
    let first = lines.next().unwrap_or_default();
    assert!(huge.contains(&first), "{said}");
    let refused = ["loose", "short", "read-only"].map(|kind| format!("{kind}: refused, cause 2"));
    assert!(
        lines.eq(refused.iter().map(String::as_str).chain(["done"])),
        "{said}"
    );
    scene.players.play_on(ROUNDS);
    scene.players.finish();
    Ok(())
}

const HUGE_IS_REFUSED: &str = "huge: refused, cause 2";

#[test]
fn memory_of_huge_pages_that_are_there_is_refused() {
    let _page = require!(HugePage::add());
    require!(refuse_memory(&[HUGE_IS_REFUSED]));
}

#[test]
fn memory_that_could_kill_by_a_signal_is_refused() {
    // Many machines have no huge pages to offer.
    require!(refuse_memory(&[HUGE_IS_REFUSED, "huge: impossible"]));
}
