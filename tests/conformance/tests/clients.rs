//! What well-known clients of libfabric ask of fi_getinfo(3), and which provider they get first. The hints are those of their
//! sources of 2026; the C library's answers were observed with libfabric 2.6. With `OXI_CONFORMANCE_LIBRARY` another library is
//! asked, and held against what the C library gave.

use core::ffi::CStr;
use core::ptr::{null, null_mut};
use std::path::Path;

use oxifabric_abi::*;
use oxifabric_fixtures::c;
use oxifabric_libfabric::{EntryPoints, builtin};

/// Hints with all their parts.
struct Hints<'a> {
    info: &'a mut fi_info,
    tx: &'a mut fi_tx_attr,
    rx: &'a mut fi_rx_attr,
    ep: &'a mut fi_ep_attr,
    domain: &'a mut fi_domain_attr,
    fabric: &'a mut fi_fabric_attr,
}

impl Hints<'_> {
    fn provider(&mut self, name: &CStr) {
        self.fabric.prov_name = c!(libc::strdup(name.as_ptr()));
    }
}

/// A client, or one of its kinds of requests.
struct Client {
    name: &'static str,
    version: u32,
    hints: fn(&mut Hints<'_>),
    /// The first provider of the C library.
    c: &'static str,
    /// The first provider here.
    here: &'static str,
    /// The protocol of the first endpoint.
    protocol: u32,
    /// Its queue sizes.
    sizes: (usize, usize),
    /// What else the client looks for in the list, by name.
    listed: &'static [&'static str],
}

/// The registration modes that stand for FI_MR_BASIC.
const BASIC: i32 = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
const BOTH: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;

fn mercury(hints: &mut Hints<'_>, provider: &CStr, protocol: u32) {
    hints.info.mode = FI_ASYNC_IOV | FI_CONTEXT;
    hints.info.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV;
    hints.info.addr_format = FI_SOCKADDR_IN;
    hints.ep.type_ = FI_EP_RDM;
    hints.ep.protocol = protocol;
    hints.tx.op_flags = FI_INJECT_COMPLETE;
    hints.domain.resource_mgmt = FI_RM_ENABLED;
    hints.domain.mr_mode = BASIC | FI_MR_LOCAL | FI_MR_ENDPOINT;
    hints.domain.threading = FI_THREAD_SAFE;
    hints.domain.control_progress = FI_PROGRESS_MANUAL;
    hints.domain.data_progress = FI_PROGRESS_MANUAL;
    hints.provider(provider);
}

fn openshmem(hints: &mut Hints<'_>) {
    hints.info.caps = FI_RMA | FI_ATOMIC;
    hints.ep.type_ = FI_EP_RDM;
    hints.domain.data_progress = FI_PROGRESS_AUTO;
    hints.domain.resource_mgmt = FI_RM_ENABLED;
    hints.domain.mr_mode = BASIC;
    hints.domain.mr_key_size = 1;
    hints.domain.threading = FI_THREAD_SAFE;
    hints.tx.op_flags = FI_DELIVERY_COMPLETE;
    hints.tx.inject_size = 16;
}

fn gasnet(hints: &mut Hints<'_>, caps: u64) {
    hints.info.caps = caps;
    hints.info.mode = FI_CONTEXT;
    hints.ep.type_ = FI_EP_RDM;
    hints.domain.threading = FI_THREAD_SAFE;
    hints.domain.control_progress = FI_PROGRESS_MANUAL;
    hints.domain.resource_mgmt = FI_RM_ENABLED;
    hints.domain.av_type = FI_AV_TABLE;
    hints.domain.mr_mode = BASIC | FI_MR_ENDPOINT;
    hints.tx.op_flags = FI_DELIVERY_COMPLETE;
}

fn nccl(hints: &mut Hints<'_>) {
    hints.info.caps = BOTH | FI_TAGGED | FI_MSG;
    hints.info.mode = FI_CONTEXT | FI_CONTEXT2;
    hints.ep.type_ = FI_EP_RDM;
    hints.domain.mr_mode = BASIC | FI_MR_LOCAL | FI_MR_ENDPOINT;
    hints.domain.mr_key_size = 2;
    hints.domain.threading = FI_THREAD_SAFE;
    (hints.tx.msg_order, hints.rx.msg_order) = (FI_ORDER_SAS, FI_ORDER_SAS);
}

fn chapel(hints: &mut Hints<'_>, op_flags: u64, order: u64) {
    hints.info.caps = FI_MSG | FI_MULTI_RECV | FI_RMA | BOTH;
    hints.info.mode = u64::MAX;
    hints.ep.type_ = FI_EP_RDM;
    hints.domain.control_progress = FI_PROGRESS_MANUAL;
    hints.domain.data_progress = FI_PROGRESS_MANUAL;
    hints.domain.av_type = FI_AV_TABLE;
    hints.domain.resource_mgmt = FI_RM_ENABLED;
    hints.domain.mr_mode = BASIC | FI_MR_LOCAL | FI_MR_ENDPOINT;
    hints.tx.op_flags = op_flags;
    (hints.tx.msg_order, hints.rx.msg_order) = (order, order);
}

fn nixl(hints: &mut Hints<'_>, more: u64, mode: u64) {
    hints.info.caps = FI_MSG | FI_RMA | BOTH | more;
    hints.info.mode = mode;
    hints.ep.type_ = FI_EP_RDM;
    hints.domain.mr_mode = BASIC | FI_MR_LOCAL;
    hints.domain.mr_key_size = 2;
    hints.domain.threading = FI_THREAD_COMPLETION;
}

fn derecho(hints: &mut Hints<'_>, provider: &CStr) {
    hints.info.caps = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints.info.mode = u64::MAX;
    hints.ep.type_ = FI_EP_MSG;
    hints.domain.mr_mode = BASIC | FI_MR_LOCAL;
    hints.provider(provider);
}

/// A row: name, version, hints, the C library's first, ours, protocol, sizes, what is listed.
macro_rules! client {
    ($name:literal, $major:literal.$minor:literal, $hints:expr, $c:literal, $here:literal, $protocol:expr, $sizes:expr, $listed:expr) => {
        Client {
            name: $name,
            version: FI_VERSION($major, $minor),
            hints: $hints,
            c: $c,
            here: $here,
            protocol: $protocol,
            sizes: $sizes,
            listed: $listed,
        }
    };
}

#[rustfmt::skip]
static CLIENTS: [Client; 22] = [
    client!("Mercury, tcp, client", 1 . 13, |h| { mercury(h, c"tcp", FI_PROTO_XNET); (h.tx.size, h.rx.size) = (512, 512); },
        "tcp", "tcp", FI_PROTO_XNET, (512, 512), &[]),
    client!("Mercury, tcp, listener", 1 . 20, |h| { mercury(h, c"tcp", FI_PROTO_XNET); (h.tx.size, h.rx.size) = (4096, 512); },
        "tcp", "tcp", FI_PROTO_XNET, (4096, 512), &[]),
    client!("Mercury and DAOS, tcp;ofi_rxm", 1 . 20, |h| mercury(h, c"tcp;ofi_rxm", FI_PROTO_RXM),
        "tcp;ofi_rxm", "tcp;ofi_rxm", FI_PROTO_RXM, (2048, 2048), &[]),
    client!("Mercury, sockets", 1 . 13, |h| {
            mercury(h, c"sockets", FI_PROTO_SOCK_TCP);
            (h.domain.control_progress, h.domain.data_progress) = (FI_PROGRESS_AUTO, FI_PROGRESS_AUTO);
        }, "sockets", "sockets", FI_PROTO_SOCK_TCP, (256, 256), &[]),
    client!("Mercury, shm", 1 . 20, |h| { mercury(h, c"shm", FI_PROTO_SHM); h.info.addr_format = FI_ADDR_STR; },
        "shm", "shm", FI_PROTO_SHM, (1024, 1024), &[]),
    client!("Sandia OpenSHMEM", 1 . 5, openshmem, "tcp;ofi_rxm", "tcp", 0, (0, 0), &[]),
    client!("Sandia OpenSHMEM, fence", 1 . 5, |h| { openshmem(h); h.info.caps |= FI_FENCE; }, "sockets", "tcp", 0, (0, 0), &[]),
    client!("Sandia OpenSHMEM, events", 1 . 5, |h| { openshmem(h); h.info.caps |= FI_RMA_EVENT; }, "sockets", "tcp", 0, (0, 0), &[]),
    client!("Charm++", 1 . 0, |h| {
            h.info.caps = FI_TAGGED | FI_RMA | FI_REMOTE_READ;
            h.info.mode = FI_CONTEXT;
            h.ep.type_ = FI_EP_RDM;
            h.domain.resource_mgmt = FI_RM_ENABLED;
        }, "tcp", "tcp", FI_PROTO_XNET, (256, 256), &[]),
    client!("GASNet-EX, by its list of names", 1 . 5, |h| gasnet(h, FI_RMA | FI_MSG | FI_MULTI_RECV),
        "tcp", "tcp", 0, (0, 0), &["udp;ofi_rxd", "tcp;ofi_rxm"]),
    client!("GASNet-EX, memory access", 1 . 5, |h| { gasnet(h, FI_RMA); h.provider(c"tcp;ofi_rxm"); },
        "tcp;ofi_rxm", "tcp;ofi_rxm", FI_PROTO_RXM, (2048, 2048), &[]),
    client!("GASNet-EX, active messages", 1 . 5, |h| { gasnet(h, FI_MSG | FI_MULTI_RECV); h.provider(c"tcp;ofi_rxm"); },
        "tcp;ofi_rxm", "tcp;ofi_rxm", FI_PROTO_RXM, (2048, 2048), &[]),
    client!("NIXL, discovery", 1 . 18, |h| { nixl(h, 0, FI_CONTEXT); h.domain.mr_mode = !3; (h.domain.mr_key_size, h.domain.threading) = (0, 0); },
        "tcp", "tcp", FI_PROTO_XNET, (256, 256), &[]),
    client!("NIXL, rail", 1 . 18, |h| nixl(h, FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE, FI_CONTEXT | FI_CONTEXT2),
        "tcp", "tcp", FI_PROTO_XNET, (256, 256), &[]),
    client!("aws-ofi-nccl, send and receive", 1 . 18, nccl, "tcp", "tcp", FI_PROTO_XNET, (256, 256), &[]),
    client!("aws-ofi-nccl, the oldest interface", 1 . 6, nccl, "tcp", "tcp", FI_PROTO_XNET, (256, 256), &[]),
    client!("oneCCL, network", 1 . 10, |h| {
            h.info.caps = FI_TAGGED;
            h.info.mode = FI_CONTEXT;
            h.ep.type_ = FI_EP_RDM;
            h.domain.resource_mgmt = FI_RM_ENABLED;
            (h.domain.control_progress, h.domain.data_progress) = (FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL);
        }, "tcp", "tcp", FI_PROTO_XNET, (256, 256), &["shm"]),
    client!("oneCCL, shared memory", 1 . 10, |h| { h.info.caps = FI_TAGGED; h.info.mode = FI_CONTEXT; h.ep.type_ = FI_EP_RDM; h.provider(c"shm"); },
        "shm", "shm", FI_PROTO_SHM, (1024, 1024), &[]),
    client!("Chapel, by order", 1 . 9, |h| chapel(h, FI_COMPLETION, FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW | FI_ORDER_SAS),
        "tcp", "tcp", 0, (0, 0), &["tcp;ofi_rxm", "udp;ofi_rxd"]),
    client!("Chapel, by delivery", 1 . 9, |h| chapel(h, FI_COMPLETION | FI_DELIVERY_COMPLETE, 0),
        "tcp", "tcp", 0, (0, 0), &["tcp;ofi_rxm", "udp;ofi_rxd"]),
    client!("Derecho, tcp", 1 . 5, |h| { derecho(h, c"tcp"); (h.tx.size, h.rx.size) = (1024, 1024); },
        "tcp", "tcp", FI_PROTO_SOCK_TCP, (1024, 1024), &[]),
    client!("Derecho, sockets", 1 . 5, |h| derecho(h, c"sockets"), "sockets", "sockets", FI_PROTO_SOCK_TCP, (0, 0), &[]),
];

/// A list of the library; released at the end.
struct List(&'static EntryPoints, *mut fi_info);

impl List {
    /// Asks with hints that `set` fills.
    fn of(library: &'static EntryPoints, version: u32, set: impl FnOnce(&mut Hints<'_>)) -> Self {
        let empty = Self(library, c!((library.dupinfo)(null())));
        c!({
            let info = &mut *empty.1;
            let (tx, rx) = (&mut *info.tx_attr, &mut *info.rx_attr);
            let (ep, domain) = (&mut *info.ep_attr, &mut *info.domain_attr);
            let fabric = &mut *info.fabric_attr;
            set(&mut Hints {
                info,
                tx,
                rx,
                ep,
                domain,
                fabric,
            });
        });
        let mut first = null_mut();
        let code = c!((library.getinfo)(
            version,
            null(),
            null(),
            0,
            empty.1,
            &mut first
        ));
        assert!(code == 0 || code == -FI_ENODATA, "{code}");
        Self(library, first)
    }

    fn entries(&self) -> impl Iterator<Item = &fi_info> {
        core::iter::successors(c!(self.1.as_ref()), |info| c!(info.next.as_ref()))
    }

    fn providers(&self) -> Vec<String> {
        let mut names: Vec<String> = self.entries().map(provider).collect();
        names.dedup();
        names
    }
}

impl Drop for List {
    fn drop(&mut self) {
        c!((self.0.freeinfo)(self.1));
    }
}

fn provider(info: &fi_info) -> String {
    let name = c!(CStr::from_ptr((*info.fabric_attr).prov_name));
    name.to_string_lossy().into_owned()
}

fn library() -> (&'static EntryPoints, bool) {
    match std::env::var_os("OXI_CONFORMANCE_LIBRARY") {
        Some(file) => {
            let loaded = EntryPoints::load(Path::new(&file)).expect("a libfabric.so.1");
            (Box::leak(Box::new(loaded)), false)
        }
        None => (builtin(), true),
    }
}

/// Opens fabric, domain and endpoint, and closes them.
fn opens(library: &EntryPoints, info: &fi_info) {
    let info = (&raw const *info).cast_mut();
    let (mut fabric, mut domain, mut ep) = (null_mut(), null_mut(), null_mut());
    c!({
        let code = (library.fabric)((*info).fabric_attr, &mut fabric, null_mut());
        assert_eq!(code, 0, "fi_fabric");
        let code = fi_domain(fabric, info, &mut domain, null_mut());
        assert_eq!(code, 0, "fi_domain");
        let code = fi_endpoint(domain, info, &mut ep, null_mut());
        assert_eq!(code, 0, "fi_endpoint");
        for handle in [ep.cast::<fid>(), domain.cast(), fabric.cast()] {
            assert_eq!(fi_close(handle), 0);
        }
    });
}

/// Returns whether this host has a network interface; without one nothing reaches other hosts.
fn has_network(library: &'static EntryPoints) -> bool {
    let list = List::of(library, FI_VERSION(2, 0), |h| {
        h.info.caps = FI_MSG | FI_REMOTE_COMM
    });
    list.entries().next().is_some()
}

#[test]
fn clients_get_what_the_c_library_gives_or_better() {
    let (library, ours) = library();
    if !has_network(library) {
        println!("SKIP: no network interface but the loopback");
        return;
    }
    for client in &CLIENTS {
        let list = List::of(library, client.version, client.hints);
        let providers = list.providers();
        let expected = if ours { client.here } else { client.c };
        assert_eq!(
            providers.first().map(String::as_str),
            Some(expected),
            "{}: {providers:?}",
            client.name
        );
        for name in client.listed {
            assert!(
                providers.iter().any(|listed| listed == name),
                "{}: {name}",
                client.name
            );
        }
        let first = list.entries().next().expect("it was looked at");
        let (protocol, sizes) = c!((
            (*first.ep_attr).protocol,
            ((*first.tx_attr).size, (*first.rx_attr).size)
        ));
        if client.protocol != 0 {
            assert_eq!(protocol, client.protocol, "{}", client.name);
        }
        if client.sizes != (0, 0) {
            assert_eq!(sizes, client.sizes, "{}", client.name);
        }
        if ours {
            opens(library, first);
        }
    }
}

#[test]
fn providers_that_reach_other_hosts_are_first_unless_only_this_host_is_meant() {
    let (library, ours) = library();
    let asked = |caps| List::of(library, FI_VERSION(2, 0), |h| h.info.caps = caps).providers();
    if !ours {
        return;
    }
    assert_eq!(asked(0), ["tcp", "udp;ofi_rxd", "shm", "udp", "tcp"]);
    assert_eq!(asked(FI_TAGGED)[..2], ["tcp", "tcp;ofi_rxm"]);
    assert_eq!(asked(FI_MSG | FI_LOCAL_COMM)[0], "shm");
    assert!(!asked(FI_MSG | FI_REMOTE_COMM).contains(&"shm".to_owned()));
}

#[test]
fn other_names_are_found_only_if_asked_for() {
    let (library, ours) = library();
    let named = |name: &CStr| List::of(library, FI_VERSION(2, 0), |h| h.provider(name)).providers();
    for name in [c"tcp;ofi_rxm", c"ofi_rxm;tcp", c"ofi_rxm"] {
        assert_eq!(named(name), ["tcp;ofi_rxm"], "{name:?}");
    }
    assert_eq!(named(c"sockets"), ["sockets"]);
    if ours {
        assert_eq!(
            (named(c"tcp"), named(c"net")),
            (vec!["tcp".into()], vec!["net".into()])
        );
    }
    let by_protocol = |name: Option<&CStr>| {
        let set = |h: &mut Hints<'_>| {
            h.ep.protocol = FI_PROTO_RXM;
            name.into_iter().for_each(|name| h.provider(name));
        };
        List::of(library, FI_VERSION(2, 0), set).providers()
    };
    assert_eq!(by_protocol(None), ["tcp;ofi_rxm"]);
    assert_eq!(by_protocol(Some(c"tcp")), ["tcp;ofi_rxm"]);
}
