//! Providers that others built for the C library: verbs and efa inside the wheel of MPICH, rxm inside that of Intel MPI.

use std::path::PathBuf;

use oxifabric_trials::pingpong::{PingPong, rows};
use oxifabric_trials::wheel::{self, Wheel};
use oxifabric_trials::{Library, Missing, Program, harness, require};

use super::{folder, info, version_of};

/// Returns a provider inside a wheel.
fn in_wheel(wheel: &Wheel, file: &str) -> Result<PathBuf, Missing> {
    let file = wheel.environment()?.join("lib").join(file);
    match file.exists() {
        true => Ok(file),
        false => Err(Missing(format!("no {}", file.display()))),
    }
}

#[test]
fn verbs_and_efa_of_mpich_are_listed_say_why_they_offer_nothing_and_end_in_peace() {
    let verbs = require!(in_wheel(&wheel::MPICH, "mpich/libfabric/libverbs-fi.so"));
    let efa = require!(in_wheel(&wheel::MPICH, "mpich/libfabric/libefa-fi.so"));
    let found = folder(&[("libefa-fi.so", &efa), ("libverbs-fi.so", &verbs)]);
    // They beat what this library has under their names only if they are preferred: they are older.
    let path = format!("@{}", found.path().display());
    let listed = require!(info("-l", &path, &[("FI_LOG_LEVEL", "debug")]));
    if listed.stderr.contains("cannot open shared object file") {
        let missing =
            "libibverbs and librdmacm, which the wheel's providers need, are not installed";
        return harness::skip(Missing(missing.into()));
    }
    listed.expect_success().expect_stdout("tcp:\n");
    for name in ["verbs", "efa"] {
        assert_eq!(version_of(&listed, name), "version: 205.10");
    }
    let ended = |file: &str| {
        let line = format!("cleaning up {}", found.join(file).display());
        let at = listed.stderr.find(&line);
        at.unwrap_or_else(|| panic!("{file} was not cleaned up: {listed}"))
    };
    assert!(ended("libverbs-fi.so") < ended("libefa-fi.so"), "{listed}");

    // Our tools contain the library; the providers are linked to the file of its name, which the path makes ours.
    let library = require!(Library::under_test());
    let ours = library.folder().join("../bin/fi_info");
    for (name, file, from) in [
        ("verbs", "libverbs-fi.so", &verbs),
        ("efa", "libefa-fi.so", &efa),
    ] {
        let alone = folder(&[(file, from)]);
        let path = format!("@{}", alone.path().display());
        let nearest = Program::new(&ours)
            .library(&library)
            .line(&format!("-p {name}"))
            .env("FI_PROVIDER_PATH", &path)
            .run();
        let miss = format!("nearest miss: {name}: ");
        assert!(
            nearest.is_success() || nearest.stderr.contains(&miss),
            "{nearest}"
        );
        let asked = require!(info(
            &format!("-p {name}"),
            &path,
            &[("FI_LOG_LEVEL", "info")]
        ));
        if asked.is_success() {
            // There is a device.
            asked.expect_stdout(&format!("provider: {name}"));
            continue;
        }
        asked.expect_code(61);
        let why = format!("{name}:core:");
        let lines = asked.stderr.lines();
        let why =
            lines.filter(|line| line.contains(&why) && line.contains("not returned: fi_getinfo"));
        assert!(why.count() > 0, "{asked}");
    }
}

#[test]
fn messages_go_over_intels_rxm_above_our_connected_endpoints() {
    let rxm = require!(in_wheel(&wheel::INTEL_MPI, "librxm-fi.so"));
    let library = require!(Library::under_test());
    let found = folder(&[("librxm-fi.so", &rxm)]);
    // It beats what this library has under that name only if it is preferred: it is older.
    let path = format!("+{}:/nonexistent", found.join("librxm-fi.so").display());
    let offered = require!(info("-p tcp;ofi_rxm", &path, &[]));
    offered
        .expect_success()
        .expect_stdout("provider: tcp;ofi_rxm\n")
        .expect_stdout("protocol: FI_PROTO_RXM\n");
    let run = PingPong::new(&library, "tcp;ofi_rxm", "-e rdm -I 10 -S all -c");
    let mut pair = require!(run.pair());
    pair.server = pair.server.env("FI_PROVIDER_PATH", &path);
    pair.client = pair.client.env("FI_PROVIDER_PATH", &path);
    let both = pair.run();
    assert!(rows(&both.expect_success().stdout).len() > 10);
}
