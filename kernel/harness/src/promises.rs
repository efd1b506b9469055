//! What is run in a guest when no command is given, and what has to come of it.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::guest::{self, Job};
use crate::place::Place;

/// The script of the guest. Each of its own checks is a line `ok` or `not ok`, as those of the modules are.
///
/// The modules count their allocations, and warn when they are unloaded with some left, which ends the guest (`panic_on_warn`).
const SCRIPT: &str = r#"
say() { if [ $1 = 0 ]; then echo "guest: ok - $2"; else echo "guest: not ok - $2"; fi; }
refused() { ! "$@" 2> /dev/null; }
insmod /mod/kofi_engine.ko seeds=5 && rmmod kofi_engine
say $? "engines do what the model says"
insmod /mod/kofi.ko && insmod /mod/kofi_loop.ko
say $? "kofi and kofi_loop are loaded"
insmod /mod/kofi_test.ko
say $? "kofi_test is loaded"
dmesg | sed 's/^\[[^]]*\] //' | grep '^kofi'
reason='kofi: getinfo: kofi_loop (FI_EP_RDM): caps: FI_MULTICAST was asked for and is not offered'
dmesg | grep -qF "$reason"
say $? "the log says why hints find nothing"
refused rmmod kofi
say $? "kofi is not unloaded while providers use it"
rmmod kofi_test
say $? "a consumer without objects is unloaded"
ifconfig lo up && insmod /mod/kofi_tcp.ko
say $? "kofi_tcp is loaded"
dmesg -c > /tmp/log
insmod /mod/kofi_test.ko provider=kofi_tcp
say $? "kofi_test is loaded for kofi_tcp"
dmesg | sed 's/^\[[^]]*\] //' | grep '^kofi'
rmmod kofi_test
mount -t debugfs debug /sys/kernel/debug
played() {
    insmod /mod/kofi_pingpong.ko provider=$1 listen=$2 connect=$2 rounds=100 size=$3 || return 1
    for wait in $(seq 300); do
        [ "$(grep -c ' 0 rounds 100 of 100 ' /sys/kernel/debug/kofi_pingpong)" = 2 ] && break
        sleep 0.1
    done
    cat /sys/kernel/debug/kofi_pingpong
    rmmod kofi_pingpong && [ $wait != 300 ]
}
played kofi_loop a 1 && played kofi_loop a 4096 && played kofi_loop a 100000
say $? "a message goes to and fro over a connection"
played kofi_tcp 127.0.0.1 1 && played kofi_tcp 127.0.0.1 4096 && played kofi_tcp 127.0.0.1 100000
say $? "a message goes to and fro over TCP"
meets() {
    insmod /mod/kofi_pingpong.ko provider=kofi_tcp listen=127.0.0.1 rounds=50 size=$2 || return 1
    LD_LIBRARY_PATH=$1 $1/kofi_peer connect 127.0.0.1 47592 $2 50 && ended "listen 0 rounds 50"
    met=$?
    rmmod kofi_pingpong && [ $met = 0 ] || return 1
    LD_LIBRARY_PATH=$1 $1/kofi_peer listen 127.0.0.1 47593 $2 50 &
    for wait in $(seq 300); do grep -q ':B9E9 00000000:0000 0A' /proc/net/tcp && break; sleep 0.1; done
    insmod /mod/kofi_pingpong.ko provider=kofi_tcp connect=127.0.0.1 service=47593 rounds=50 size=$2 || return 1
    wait $! && ended "connect 0 rounds 50"
    met=$?
    rmmod kofi_pingpong && [ $met = 0 ]
}
ended() {
    for wait in $(seq 300); do grep -q "^$1 " /sys/kernel/debug/kofi_pingpong && return 0; sleep 0.1; done
    cat /sys/kernel/debug/kofi_pingpong
    return 1
}
for library in ours c; do
    what="a program on the library '$library' in user space connects, is connected to, and gets back what it sent"
    if [ -x /peers/$library/kofi_peer ]; then
        meets /peers/$library 1 && meets /peers/$library 4096 && meets /peers/$library 300000
        say $? "$what"
    else
        echo "guest: ok - $what # SKIP it is not there"
    fi
done
# The log is read for what peers cause, so that none of it may be left out for being much.
echo 0 > /proc/sys/net/core/message_cost
attacked() {
    dmesg -c > /tmp/log
    insmod /mod/kofi_pingpong.ko provider=kofi_tcp listen=127.0.0.1 rounds=5 size=64 || return 1
    /peers/kofi_hostile 127.0.0.1 47592 request && /peers/kofi_hostile 127.0.0.1 47592 $1 && ended "$lost"
    met=$?
    rmmod kofi_pingpong
    dmesg | grep '^.*kofi_tcp: 127.0.0.1:[0-9]*: dropped a connection' && dmesg | grep "$2" && [ $met = 0 ]
}
# Its receive did not come to its end, or was given back, or found no connection any more, or learnt what was wrong with it (EPROTO).
lost='listen -\(104\|125\|107\|71\) rounds 0'
broken='kofi_tcp: connection with .* lost: the peer broke the protocol'
within='kofi_tcp: connection with .* lost: the peer closed it in the middle'
attacked header "$broken" && attacked length "$broken" && attacked urgent 'kofi_tcp: connection with .* lost: '
say $? "what is no frame ends its connection with an error and a line in the log"
attacked half "$within" && attacked reset 'kofi_tcp: connection with .* lost: '
say $? "so does a peer that vanishes within a frame"
attacked flood 'it sent no request in time'
say $? "connections without requests keep none out"
played kofi_tcp 127.0.0.1 64
say $? "all the while others are served"
rmmod kofi_tcp
say $? "kofi_tcp is unloaded"
insmod /mod/kofi_hold.ko && refused rmmod kofi_loop
say $? "a provider is not unloaded while its fabric is open"
rmmod kofi_hold && rmmod kofi_loop && refused insmod /mod/kofi_hold.ko
say $? "a provider is unloaded when its fabrics are closed, and not found any more"
rmmod kofi
say $? "kofi is unloaded"
sockets() { sed -n 's/^TCP: inuse \([0-9]*\) orphan \([0-9]*\) .*/\1+\2/p' /proc/net/sockstat; }
sockets_before=$(sockets)
# Processors put off the release of what others allocated for packets: of up to 64 of these each, 4 MiB, until they handle packets again.
echo 0 > /proc/sys/net/core/skb_defer_max
for round in 1 2 3 4 5 6 7 8 9 10; do
    insmod /mod/kofi.ko && insmod /mod/kofi_loop.ko && insmod /mod/kofi_test.ko || break
    rmmod kofi_test && rmmod kofi_loop && insmod /mod/kofi_tcp.ko || break
    insmod /mod/kofi_test.ko provider=kofi_tcp && rmmod kofi_test && rmmod kofi_tcp && rmmod kofi || break
    [ $round = 1 ] && before=$(memory-free 10)
done
[ $round = 10 ] && ! lsmod | grep -q kofi
say $? "all are loaded, used and unloaded ten times"
# An endpoint with its queues has some 200 KiB, and each round opens more than a hundred.
for wait in $(seq 50); do
    after=$(memory-free)
    [ $((before - after)) -lt 4096 ] && break
    sleep 0.2
done
echo "memory: $before KiB after one round, $after KiB after ten"
[ $((before - after)) -lt 4096 ]
say $? "and leave the memory as it was"
for wait in $(seq 300); do [ "$(sockets)" = "$sockets_before" ] && break; sleep 0.1; done
echo "sockets, in use and closing: $sockets_before before, $(sockets) after"
[ "$(sockets)" = "$sockets_before" ]
say $? "and no socket"
echo "guest: 1..23"
"#;

/// What the lines of one speaker in the log say.
#[derive(Default)]
struct Tally {
    ok: usize,
    failed: Vec<String>,
    /// The number of checks that were announced.
    planned: usize,
}

impl Tally {
    fn note(&mut self, text: &str) {
        if text.starts_with("ok ") {
            self.ok += 1;
        } else if text.starts_with("not ok ") {
            self.failed.push(text.to_owned());
        } else if let Some(count) = text.strip_prefix("1..") {
            self.planned += count.parse().unwrap_or(0);
        }
    }

    fn summary(&self) -> String {
        let all = self.planned.max(self.ok + self.failed.len());
        format!("{} of {all} promises are kept", self.ok)
    }

    /// Returns the checks that failed and, where checks were not reported, how many were kept.
    fn broken(&self) -> impl Iterator<Item = String> + '_ {
        let are_missing = self.planned == 0 || self.ok + self.failed.len() != self.planned;
        let missing = are_missing.then(|| self.summary());
        self.failed.iter().cloned().chain(missing)
    }
}

/// The script that tries the disk; it says how many checks it had when it has come to its end.
const DISK_SCRIPT: &str = include_str!("../../guest/disk.sh");

/// The script that tries the provider over RDMA devices; it says how many checks it had as well.
const VERBS_SCRIPT: &str = include_str!("../../guest/verbs.sh");

/// The providers over which the disk is tried, each in a guest of its own, and the node of the target there.
const PROVIDERS: [(&str, &str); 3] = [
    ("kofi_loop", "target"),
    ("kofi_tcp", "127.0.0.1"),
    ("kofi_verbs", "10.0.0.1"),
];

/// Returns the names of the providers over which the disk is tried.
pub(crate) fn providers() -> Vec<&'static str> {
    PROVIDERS.iter().map(|&(name, _)| name).collect()
}

/// How the disk is tried.
pub(crate) struct DiskTest<'a> {
    /// Over one provider only.
    pub(crate) provider: Option<&'a str>,
    /// Also with what takes minutes; then nothing else is tried.
    pub(crate) is_heavy: bool,
}

/// Runs the tests, those of RDMA devices and of the disk in guests of their own, and prints what came of them.
///
/// # Errors
/// As [`guest::run`].
pub(crate) fn run(
    place: &Place,
    modules: &[PathBuf],
    disk: &DiskTest,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut broken = Vec::new();
    if !disk.is_heavy {
        for (of, commands) in [("modules", SCRIPT), ("kofi_verbs", VERBS_SCRIPT)] {
            let job = Job {
                commands,
                has_fio: false,
                is_measured: false,
            };
            broken.extend(broken_promises(of, place, modules, &job, true)?);
        }
    }
    let heavy = if disk.is_heavy { "1" } else { "" };
    for (provider, node) in PROVIDERS {
        if disk.provider.is_some_and(|only| only != provider) {
            continue;
        }
        let of = format!("disk over {provider}");
        let commands = format!("PROVIDER={provider} TARGET={node} HEAVY={heavy}\n{DISK_SCRIPT}");
        let job = Job {
            commands: &commands,
            has_fio: disk.is_heavy,
            is_measured: false,
        };
        broken.extend(broken_promises(&of, place, modules, &job, false)?);
    }
    // Once more at the end, which is what is read of a long log.
    broken.iter().for_each(|what| println!("{what}"));
    Ok(if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs a job, prints what came of it, and returns what was announced by it and, if they are tested, by the modules, and not kept.
fn broken_promises(
    of: &str,
    place: &Place,
    modules: &[PathBuf],
    job: &Job,
    tests_modules: bool,
) -> Result<Vec<String>, Box<dyn Error>> {
    println!("{of}:");
    let (mut modules_say, mut guest_says) = (Tally::default(), Tally::default());
    let status = guest::run(place, modules, job, &mut |line| {
        println!("{line}");
        if let Some(text) = line.strip_prefix("kofi_test: ") {
            modules_say.note(text);
        } else if let Some(text) = line.strip_prefix("guest: ") {
            guest_says.note(text);
        } else if let Some(text) = broken_at_console(line) {
            modules_say.failed.push(text.to_owned());
        }
    })?;
    let mut tallies = vec![("guest", guest_says)];
    if tests_modules {
        tallies.push(("kofi_test", modules_say));
    }
    let mut broken = Vec::new();
    for (speaker, tally) in &tallies {
        println!("{speaker}: {}", tally.summary());
        broken.extend(
            tally
                .broken()
                .map(|what| format!("{of}: {speaker}: {what}")),
        );
    }
    if status != ExitCode::SUCCESS {
        broken.push(format!("{of}: the guest ended with an error"));
    }
    Ok(broken)
}

/// Returns the promise that a line of the kernel's console says is broken, where no script shows the log: in the guest insmod tries a module
/// whose load fails a second time, so that a script may not notice.
fn broken_at_console(line: &str) -> Option<&str> {
    let (_, text) = line.strip_prefix('[')?.split_once("] kofi_test: ")?;
    text.starts_with("not ok ").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_console_says_is_broken_is_noticed() {
        let line = "[   18.460981] kofi_test: not ok 90 - it waits (queues.c:142)";
        assert_eq!(
            broken_at_console(line),
            Some("not ok 90 - it waits (queues.c:142)")
        );
        assert_eq!(broken_at_console("[ 1.2] kofi_test: ok 1 - it is"), None);
        assert_eq!(broken_at_console("[ 1.2] kofi: not ok 1 - it is"), None);
    }

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.note(line));
        tally
    }

    #[test]
    fn what_was_not_reported_is_not_kept() {
        let is_complete = |lines: &[&str]| tally(lines).broken().next().is_none();
        assert!(is_complete(&["ok 1 - a", "ok 2 - b", "1..2"]));
        assert!(!is_complete(&["ok 1 - a", "1..2"]));
        assert!(!is_complete(&["ok 1 - a"]));
        assert!(!is_complete(&["ok 1 - a", "not ok 2 - b", "1..2"]));
        assert!(!is_complete(&["1..0"]));
    }

    #[test]
    fn what_is_broken_is_said() {
        let broken = |lines: &[&str]| tally(lines).broken().collect::<Vec<_>>();
        assert!(broken(&["ok 1 - a", "1..1"]).is_empty());
        assert_eq!(
            broken(&["ok 1 - a", "not ok 2 - b", "1..2"]),
            ["not ok 2 - b"]
        );
        assert_eq!(
            broken(&["ok 1 - a", "not ok 2 - b"]),
            ["not ok 2 - b", "1 of 2 promises are kept"]
        );
        assert_eq!(broken(&["ok 1 - a", "1..2"]), ["1 of 2 promises are kept"]);
        assert_eq!(broken(&[]), ["0 of 0 promises are kept"]);
    }

    #[test]
    fn the_script_announces_as_many_checks_as_it_has() {
        // The one in the loop is said for two libraries.
        let checks = SCRIPT
            .lines()
            .filter(|line| line.trim().starts_with("say $?"))
            .count();
        assert!(SCRIPT.contains(&format!("1..{}\"", checks + 1)));
    }
}
