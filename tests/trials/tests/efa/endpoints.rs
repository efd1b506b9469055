//! What is shown and said of endpoints, their options, and what they cost.

use super::*;

/// What docs/performance.md says that the heap holds, with room to spare: an address, and a peer with which messages were exchanged and that is gone.
#[test]
fn a_peer_takes_little_memory() {
    let ours = require!(Library::under_test());
    let (scratch, program) = (Scratch::new(), require!(compile_client("efa_cost")));
    let network = require!(softnic::network("reorder = 0\n", 1, &scratch));
    let file = program.file().display().to_string();
    let run = network.args([&file, "memory", "2000", "40"]);
    let outcome = run.library(&ours).limit(Duration::from_secs(120)).run();
    outcome.expect_success();
    for (what, most) in [("2000 inserted, ", 512), ("40 met, ", 2048)] {
        let lines = &mut outcome.stdout.lines();
        let bytes = lines.find_map(|line| line.strip_prefix(what)?.split(' ').next()?.parse().ok());
        assert!(bytes.is_some_and(|bytes: i64| bytes <= most), "{outcome}");
    }
}

/// What fi_info(1) shows is what the C library's provider shows, but for what our endpoints do not ask of applications.
#[test]
fn fi_info_shows_what_the_c_library_shows() {
    let fi_info = require!(installed("fi_info"));
    let ours = require!(Library::under_test());
    let c = require!(Library::mpich_wheel());
    let shown = |library: &Library| -> Result<Vec<String>, Missing> {
        let scratch = Scratch::new();
        let run = softnic::network("nics = 2\n", 1, &scratch)?.args([&fi_info]);
        let run = run.line("-p efa -v").library(library);
        let outcome = run.env("FI_PROVIDER_PATH", providers(library)).run();
        outcome.expect_success();
        let entries = outcome.stdout.split("---\n").skip(1).map(str::to_owned);
        Ok(entries.collect())
    };
    let (ours, c) = (require!(shown(&ours)), require!(shown(&c)));
    assert_eq!((ours.len(), c.len()), (6, 6));
    const DIFFER: [&str; 5] = ["mode: ", "xpu", "prov_version", "threading", "api_version"];
    // What an engine can do beyond the C library's is no matter of the device.
    const OF_ENGINE: [&str; 9] = [
        "rma_iov_limit",
        "caps: ",
        "op_flags",
        "msg_order",
        "size: ",
        "cq_data_size",
        "_cnt: ",
        "max_",
        "progress",
    ];
    for (ours, c) in ours.iter().zip(&c) {
        let has_engine = c.contains("protocol_version: 4");
        assert_eq!(ours.contains("protocol_version: 4"), has_engine);
        let differ = DIFFER.iter().chain(OF_ENGINE.iter().filter(|_| has_engine));
        let rest = |entry: &str| {
            let lines = entry
                .lines()
                .filter(|line| !differ.clone().any(|part| line.contains(part)));
            lines
                .map(|line| line.replace("(nil)", "0x0"))
                .collect::<Vec<_>>()
        };
        assert_eq!(rest(ours), rest(c));
        // Of the endpoint, its sends, its receives and the domain, in this order.
        let of_receives = ours.lines().filter(|line| line.contains("caps: ")).nth(2);
        let of_receives = of_receives.expect("capabilities of receives");
        let sends = ["FI_READ,", "FI_WRITE,", "FI_SEND"];
        assert!(
            !sends.iter().any(|caps| of_receives.contains(caps)),
            "{of_receives}"
        );
    }
    assert!(
        ours[0].contains("src_addr: fi_addr_efa://[fe80::ff:fe00:1]:0:0"),
        "{}",
        ours[0]
    );
}

/// Options that only this provider has say what they say in the C library, and take what they take there.
/// The headers of 2.5 do not know the option.
#[test]
fn writes_with_data_may_be_told_to_use_up_receives_before_an_endpoint_is_enabled() {
    let ours = require!(Library::under_test());
    let program = require!(compile_client("options"));
    let said = |fabric: &str| {
        let scratch = Scratch::new();
        let run = softnic::network("", 1, &scratch)?.args([program.file()]);
        let run = run.line(&format!("{fabric} 18 unsolicited")).library(&ours);
        let outcome = run.run();
        outcome.expect_success();
        Ok::<_, Missing>(outcome.stdout)
    };
    let (no, yes) = ("set unsolicited 0", "set unsolicited 1");
    // FI_ENOPROTOOPT, FI_EINVAL, and at the end FI_EOPBADSTATE; FI_EOPNOTSUPP where there are no receives for such writes.
    let start = format!("get unsolicited: -92 0\n{yes}: -22\n{yes}: 0\n");
    for (fabric, forbidden) in [("efa", 0), ("efa-direct", -95)] {
        let expected = format!("{start}{no}: {forbidden}\n{yes}: -258\nclosed\n");
        assert_eq!(require!(said(fabric)), expected, "{fabric}");
    }
}

/// The libefa of Debian 12 cannot tell of regions (FI_ENOSYS), nor can softnic with a newer one. What accelerators need is for endpoints without an engine (FI_EOPNOTSUPP), and is
/// not offered there either.
#[test]
fn tables_of_functions_are_opened_by_name() {
    let ours = require!(Library::under_test());
    let compiler = require!(installed("cc"));
    // Debian's headers do not know the tables.
    let headers = ours.folder().with_file_name("include");
    let options = format!("-I{} -lfabric", headers.display());
    let options: Vec<&str> = options.split(' ').collect();
    let program = compile("named_ops", &compiler, &options);
    let said = |fabric: &str| {
        let scratch = Scratch::new();
        let run = softnic::network("", 1, &scratch)?.args([program.file()]);
        let outcome = run.args([fabric]).library(&ours).run();
        outcome.expect_success();
        Ok::<_, Missing>(outcome.stdout)
    };
    for (fabric, of_accelerators) in [("efa", -95), ("efa-direct", -38)] {
        let expected = format!(
            "efa domain ops: 0\nquery_mr: -38\nefa gda ops: {of_accelerators}\n\
             efa feature ops: 0\nmixed_hmem_iov: 0\nno such table: -38\n"
        );
        assert_eq!(require!(said(fabric)), expected, "{fabric}");
    }
}

/// That would take another queue pair, which has another address than the one that peers may know (FI_EOPBADSTATE).
#[test]
fn an_endpoint_keeps_the_address_that_it_has_told() {
    let ours = require!(Library::under_test());
    let program = require!(compile_client("options"));
    let scratch = Scratch::new();
    let run = require!(softnic::network("", 1, &scratch)).args([program.file()]);
    let rdma_core = std::env::var("OXI_RDMA_CORE").unwrap_or_default();
    let folders = format!("{}:{rdma_core}", ours.folder().display());
    let run = run.line("efa 18 named").env("LD_LIBRARY_PATH", folders);
    let outcome = run.run();
    outcome.expect_success();
    let set = |value, code| format!("set unsolicited {value}: {code}\n");
    let before = [set(0, 0), set(1, 0)].concat();
    let after = match rdma_core.is_empty() {
        false => [set(0, -258), set(1, 0)].concat(),
        // Older ones do not let devices do without receives, so that there is nothing to change.
        true => before.clone(),
    };
    let expected = format!("{before}{after}the address is the same\n");
    assert_eq!(outcome.stdout, expected);
}

/// What libibverbs says by 1 is that it keeps memory from children, by 2 that the kernel does.
#[test]
fn memory_is_kept_from_children_where_that_is_asked_for() {
    let ours = require!(Library::under_test());
    let program = require!(compile_client("forksafe"));
    let status = |value: &str| {
        let scratch = Scratch::new();
        let run = softnic::network("", 1, &scratch)?.args([program.file()]);
        let outcome = run.library(&ours).env("FI_EFA_FORK_SAFE", value).run();
        outcome.expect_success();
        Ok::<_, Missing>(outcome.stdout)
    };
    let (without, with) = (require!(status("0")), require!(status("1")));
    match without.as_str() {
        "fork status 2\n" => assert_eq!(with, without),
        without => assert_eq!(
            (without, with.as_str()),
            ("fork status 0\n", "fork status 1\n")
        ),
    }
}

#[test]
fn options_are_those_of_the_c_library() {
    let (ours, c) = (
        require!(Library::under_test()),
        require!(Library::mpich_wheel()),
    );
    let program = require!(compile_client("options"));
    let said = |library: &Library, caps: &str, arguments: &str, rdma: Option<&str>| {
        let scratch = Scratch::new();
        let run = softnic::network(caps, 1, &scratch)?.args([program.file()]);
        let run = run.line(arguments).library(library);
        let run = run.env("FI_PROVIDER_PATH", providers(library));
        let run = rdma
            .into_iter()
            .fold(run, |run, value| run.env("FI_EFA_USE_DEVICE_RDMA", value));
        let outcome = run.run();
        outcome.expect_success();
        Ok::<_, Missing>(outcome.stdout)
    };
    for caps in ["", "caps = [\"notify\"]\n"] {
        for arguments in ["efa 17", "efa 18", "efa-direct 18"] {
            // Without a device that reads, C ends a process that is to use one.
            let values = [None, Some("0"), Some("1")];
            for rdma in values
                .into_iter()
                .filter(|rdma| caps.is_empty() || *rdma != Some("1"))
            {
                let of_c = require!(said(&c, caps, arguments, rdma));
                let of_ours = require!(said(&ours, caps, arguments, rdma));
                assert_eq!(of_ours, of_c, "{caps} {arguments} {rdma:?}");
                assert!(of_ours.contains("set rnr retry 3: "), "{of_ours}");
            }
        }
    }
}

#[test]
fn a_machine_without_devices_is_explained() {
    let library = require!(Library::under_test());
    let fi_info = library.folder().join("../bin/fi_info");
    let nowhere = Scratch::new();
    let run = Program::new(fi_info).line("-p efa --why").library(&library);
    let outcome = run.env("SYSFS_PATH", nowhere.path()).run();
    let said = outcome.stdout.replace("\n", " ").replace("  ", " ");
    assert!(
        said.contains("this machine has no RDMA device"),
        "{outcome}"
    );
}
