//! Providers that a C compiler makes of `programs/`, and our own under a C library.

use std::fs;
use std::os::unix::fs::symlink;

use oxifabric_trials::pingpong::{PingPong, rows};
use oxifabric_trials::source::{Compiled, compile, compile_client};
use oxifabric_trials::{Library, Missing, Program, Scratch, installed, require};

use super::{folder, info, version_of};

/// Compiles `programs/provider.c` under a name and a version.
fn provider(name: &str, version: u32) -> Result<Compiled, Missing> {
    let name = format!("-DNAME=\"{name}\"");
    let version = format!("-DVERSION={version}");
    shared_object("provider", &[&name, &version])
}

/// Compiles a program of `programs/` as a file that can be loaded.
fn shared_object(program: &str, defines: &[&str]) -> Result<Compiled, Missing> {
    let compiler = installed("cc")?;
    if !std::path::Path::new("/usr/include/rdma/providers/fi_prov.h").exists() {
        return Err(Missing("libfabric-dev is not installed".into()));
    }
    let options = [&["-shared", "-fPIC"], defines, &["-lfabric"]].concat();
    Ok(compile(program, &compiler, &options))
}

#[test]
fn a_provider_is_loaded_listed_used_and_cleaned_up() {
    let mirror = require!(provider("mirror", 0x0003_0001));
    let found = folder(&[("libmirror-fi.so", mirror.file())]);
    let listed = require!(info("-l", found.path(), &[]));
    assert_eq!(
        version_of(listed.expect_success(), "mirror"),
        "version: 3.1"
    );
    listed.expect_stdout("shm:\n").expect_stdout("tcp:\n");

    let client = require!(compile_client("mirror"));
    let library = require!(Library::under_test());
    let outcome = Program::new(client.file())
        .library(&library)
        .env("FI_PROVIDER_PATH", found.path())
        .env("FI_MIRROR_LANES", "5")
        .env("FI_LOG_LEVEL", "info")
        .run();
    outcome
        .expect_success()
        .expect_stdout("lanes 5 version 30001 api 10011\n")
        .expect_stdout("fabric api 10011\n")
        .expect_stdout("event 7 hello\n");
    assert!(outcome.stderr.contains("asked for API 1.17"), "{outcome}");
    assert!(outcome.stderr.contains("mirror cleans up"), "{outcome}");
}

#[test]
fn its_endpoints_are_filtered_and_its_parameters_listed() {
    let mirror = require!(provider("mirror", 1));
    let found = folder(&[("libmirror-fi.so", mirror.file())]);
    let all = require!(info("", found.path(), &[]));
    all.expect_success()
        .expect_stdout("provider: mirror\n")
        .expect_stdout("domain: corridor\n");
    let without = require!(info("", found.path(), &[("FI_PROVIDER", "^mirror")]));
    assert!(
        !without.expect_success().stdout.contains("mirror"),
        "{without}"
    );
    let alone = require!(info("", found.path(), &[("FI_PROVIDER", "mirror")]));
    alone.expect_success().expect_stdout("provider: mirror\n");
    assert!(!alone.stdout.contains("provider: tcp"), "{alone}");
    assert!(!alone.stderr.contains("leaves no provider"), "{alone}");
    let inet = require!(info(
        "",
        found.path(),
        &[("FI_ADDR_FORMAT", "FI_SOCKADDR_IN")]
    ));
    inet.expect_success().expect_stdout("provider: tcp\n");
    assert!(!inet.stdout.contains("mirror"), "{inet}");
    let refused = require!(info("-p mirror -c FI_ATOMIC", found.path(), &[]));
    assert!(!refused.is_success(), "{refused}");
    let parameters = require!(info("-e", found.path(), &[]));
    parameters.expect_stdout("# FI_MIRROR_LANES: size_t\n# mirror: How many lanes there are\n");
}

#[test]
fn of_two_with_one_name_the_newest_the_first_or_the_preferred_is_active() {
    let old = require!(provider("tcp", 1));
    let new = require!(provider("tcp", 0x7fff_0000));
    let found = folder(&[("libold-fi.so", old.file())]);
    let path = found.path().display();
    let version = |path: String| {
        let outcome = info("-l", path, &[])?;
        Ok::<_, Missing>(version_of(outcome.expect_success(), "tcp"))
    };
    let ours = require!(version("/nonexistent".into()));
    assert_eq!(require!(version(format!("{path}"))), ours);
    assert_eq!(require!(version(format!("@{path}"))), "version: 0.1");
    assert_eq!(
        require!(version(format!("+{path}/libold-fi.so:/nonexistent"))),
        "version: 0.1"
    );

    let found = folder(&[("libnew-fi.so", new.file()), ("libold-fi.so", old.file())]);
    let path = found.path().display();
    assert_eq!(require!(version(format!("{path}"))), "version: 32767.0");
    assert_eq!(
        require!(version(format!("+{path}/libold-fi.so:{path}"))),
        "version: 0.1"
    );
    let replaced = require!(info("-p tcp", found.path(), &[]));
    replaced
        .expect_success()
        .expect_stdout("domain: corridor\n");
    assert!(!replaced.stdout.contains("FI_PROTO_XNET"), "{replaced}");
}

#[test]
fn a_file_that_cannot_be_loaded_says_why_and_harms_nothing() {
    let folder = Scratch::new();
    fs::write(folder.join("libnone-fi.so"), "no library ".repeat(99)).expect("the folder is ours");
    symlink("/lib/x86_64-linux-gnu/libm.so.6", folder.join("libm-fi.so"))
        .expect("a new folder takes a link");
    let outcome = require!(info("-l", folder.path(), &[]));
    outcome.expect_success().expect_stdout("tcp:\n");
    for why in [
        "libnone-fi.so: invalid ELF header",
        "libm-fi.so: it has no function fi_prov_ini",
    ] {
        assert!(outcome.stderr.contains(why), "{why:?}\n{outcome}");
    }
    let relative = require!(info("-l", "+libnone-fi.so", &[("FI_LOG_LEVEL", "warn")]));
    relative.expect_success();
    assert!(relative.stderr.contains("full path"), "{relative}");
}

#[test]
fn the_last_that_was_loaded_cleans_up_first() {
    let toys =
        [("alpha", 1), ("beta", 1), ("gamma", 1)].map(|(name, version)| provider(name, version));
    let [alpha, beta, gamma] = toys;
    let (alpha, beta, gamma) = (require!(alpha), require!(beta), require!(gamma));
    let found = folder(&[
        ("liba-fi.so", alpha.file()),
        ("libb-fi.so", beta.file()),
        ("libc-fi.so", gamma.file()),
    ]);
    let listed = require!(info("-l", found.path(), &[]));
    let said = listed.expect_success().stderr.lines();
    let said: Vec<&str> = said
        .filter_map(|line| line.strip_suffix(" cleans up"))
        .collect();
    assert_eq!(said, ["gamma", "beta", "alpha"]);
}

#[test]
fn one_that_layers_gets_what_is_at_the_bottom_whatever_is_hidden() {
    let lift = require!(shared_object("layer", &["-DFLAGS=1ULL<<59"]));
    let found = folder(&[("liblift-fi.so", lift.file())]);
    let all = require!(info("", found.path(), &[]));
    all.expect_success()
        .expect_stdout("provider: tcp;ofi_lift\n")
        .expect_stdout("provider: udp;ofi_lift\n");
    for absent in ["shm;ofi_lift", "ofi_rxd;ofi_lift"] {
        assert!(!all.stdout.contains(absent), "{absent}: {all}");
    }
    let only = [("FI_PROVIDER", "tcp;ofi_lift")];
    let stacked = require!(info("", found.path(), &only));
    stacked
        .expect_success()
        .expect_stdout("provider: tcp;ofi_lift\n");
    assert!(!stacked.stdout.contains("provider: udp"), "{stacked}");
    assert!(!stacked.stderr.contains("leaves no provider"), "{stacked}");

    let hidden = require!(shared_object("layer", &["-DFLAGS=1ULL<<60"]));
    let found = folder(&[("liblift-fi.so", hidden.file())]);
    let alone = require!(info("", found.path(), &[("FI_PROVIDER", "udp")]));
    for seen in ["lift saw shm\n", "lift saw tcp\n", "lift saw udp;ofi_rxd\n"] {
        assert!(
            alone.expect_success().stderr.contains(seen),
            "{seen}{alone}"
        );
    }
    assert!(!alone.stdout.contains("provider: tcp"), "{alone}");
}

#[test]
fn a_stack_of_ours_yields_to_one_of_its_upper_name() {
    let rxd = require!(provider("ofi_rxd", 0x7fff_0000));
    let found = folder(&[("librxd-fi.so", rxd.file())]);
    let listed = require!(info("-l", found.path(), &[]));
    assert_eq!(
        version_of(listed.expect_success(), "ofi_rxd"),
        "version: 32767.0"
    );
    assert!(!listed.stdout.contains("udp;ofi_rxd"), "{listed}");
}

/// Debian's C library with our providers beside its own.
fn debian_with_ours() -> Result<(Library, String), Missing> {
    let plugin = Library::under_test()?.folder().join("libfabric");
    assert!(
        plugin.join("liboxifabric-fi.so").exists(),
        "the layout lacks our external provider"
    );
    Ok((Library::debian()?, plugin.display().to_string()))
}

#[test]
fn our_providers_stand_beside_those_of_a_c_library() {
    let (debian, path) = require!(debian_with_ours());
    let fi_info = require!(installed("fi_info"));
    let info = |options: &str| {
        let program = Program::new(&fi_info).library(&debian).line(options);
        program.env("FI_PROVIDER_PATH", &path).run()
    };
    let listed = info("-l");
    listed
        .expect_success()
        .expect_stdout("oxifabric:\n")
        .expect_stdout("\ntcp:\n");
    let ours = info("-p oxifabric");
    ours.expect_success()
        .expect_stdout("protocol: FI_PROTO_SHM\n")
        .expect_stdout("protocol: FI_PROTO_XNET\n");
    assert!(!ours.stdout.contains("provider: tcp"), "{ours}");
    info("-e").expect_stdout("# FI_OXIFABRIC_PROVIDER: String\n");
}

#[test]
fn messages_go_over_our_providers_under_a_c_library() {
    let (debian, path) = require!(debian_with_ours());
    for transport in ["shm", "tcp"] {
        let run = PingPong::new(&debian, "oxifabric", "-e rdm -I 20 -S all -c");
        let mut pair = require!(run.pair());
        let beside = |program: Program| {
            let program = program.env("FI_PROVIDER_PATH", &path);
            program.env("FI_OXIFABRIC_PROVIDER", transport)
        };
        pair.server = beside(pair.server);
        pair.client = beside(pair.client);
        let both = pair.run();
        let client = both.expect_success();
        assert!(rows(&client.stdout).len() > 10, "{transport}: {client}");
    }
}
