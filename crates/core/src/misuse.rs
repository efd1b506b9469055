//! What the log says of calls that an application makes wrongly: the call, the object and what to do. Failure paths only.

use core::ffi::c_void;
use core::fmt;
use core::slice;

use oxifabric_abi::{
    FI_ADDR_STR, FI_ADDR_UNSPEC, FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_DOMAIN,
    FI_CLASS_EP, FI_CLASS_EQ, FI_CLASS_MR, FI_CLASS_RX_CTX, FI_CLASS_SEP, FI_CLASS_SRX_CTX,
    FI_CLASS_STX_CTX, FI_CLASS_TX_CTX, FI_RECV, FI_TRANSMIT, fi_addr_t, fid,
};
use oxifabric_provider::log;
use oxifabric_types::{Errno, Flags, format_name};

/// How many bytes of an address are shown.
const SHOWN: usize = 28;

/// An object as the log names it: what it is, and the pointer that the application has.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    class: usize,
    handle: *const fid,
}

impl Named {
    /// Names an open object.
    ///
    /// # Safety
    /// `handle` is null or an open object of any provider.
    pub(crate) unsafe fn of(handle: *const fid) -> Self {
        // SAFETY: the caller's contract; every open object begins with a `fid`.
        let class = unsafe { handle.as_ref() }.map_or(0, |fid| fid.fclass);
        Self { class, handle }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.class {
            0 => return f.write_str("NULL"),
            FI_CLASS_DOMAIN => "domain",
            FI_CLASS_EP => "endpoint",
            FI_CLASS_SEP => "scalable endpoint",
            FI_CLASS_TX_CTX => "transmit context",
            FI_CLASS_RX_CTX => "receive context",
            FI_CLASS_SRX_CTX => "shared receive context",
            FI_CLASS_STX_CTX => "shared transmit context",
            FI_CLASS_AV => "address vector",
            FI_CLASS_CQ => "completion queue",
            FI_CLASS_CNTR => "counter",
            FI_CLASS_EQ => "event queue",
            FI_CLASS_MR => "memory region",
            _ => "object",
        };
        write!(f, "{class} {:p}", self.handle)
    }
}

/// Logs a data transfer on an endpoint that is not enabled.
///
/// # Safety
/// `endpoint` is an open object.
#[cold]
#[inline(never)]
pub(crate) unsafe fn not_enabled(call: &str, endpoint: *const fid) {
    // SAFETY: the caller's contract.
    let named = unsafe { Named::of(endpoint) };
    match named.class {
        FI_CLASS_SEP => log::warn!(
            "",
            EpData,
            "{call}: {named} has contexts, which transfer data: open one by fi_tx_context or fi_rx_context"
        ),
        _ => log::warn!(
            "",
            EpData,
            "{call}: {named} is not enabled: fi_enable comes first"
        ),
    }
}

/// Logs an endpoint that cannot be enabled; `lacking` says for sends and receives whether no
/// completion queue takes their completions.
#[cold]
pub(crate) fn not_enabled_for(prov: &str, endpoint: Named, lacking: (bool, bool), cause: Errno) {
    let what = match (cause, lacking) {
        (Errno::NOAV, _) => "no address vector is bound: fi_ep_bind one with flags 0".to_owned(),
        (Errno::NOCQ, (true, true)) => queue_for("sends and receives", "FI_TRANSMIT | FI_RECV"),
        (Errno::NOCQ, (false, true)) => queue_for("receives", "FI_RECV"),
        (Errno::NOCQ, _) => queue_for("sends", "FI_TRANSMIT"),
        _ => cause.to_string(),
    };
    log::warn!(prov, EpCtrl, "fi_enable: {endpoint}: {what}");
}

fn queue_for(operations: &str, flags: &str) -> String {
    format!("no completion queue is bound for its {operations}: fi_ep_bind one with {flags}")
}

/// Logs an object that cannot be bound to an endpoint.
#[cold]
pub(crate) fn not_bound(prov: &str, endpoint: Named, object: Named, flags: u64, cause: Errno) {
    let what = match cause {
        Errno::DOMAIN => {
            "it is of another domain: open it on the domain of the endpoint".to_owned()
        }
        Errno::OPBADSTATE => "the endpoint is enabled: bind before fi_enable".to_owned(),
        Errno::BADFLAGS => format!("it takes no flags {flags:#x}"),
        Errno::INVAL if object.class == FI_CLASS_CQ && flags & (FI_TRANSMIT | FI_RECV) == 0 => {
            "flags say which completions it takes: FI_TRANSMIT, FI_RECV or both".to_owned()
        }
        Errno::INVAL if object.handle.is_null() => "there is nothing to bind".to_owned(),
        Errno::INVAL => {
            "one is bound already, or it is none that endpoints of this provider use".to_owned()
        }
        other => other.to_string(),
    };
    log::warn!(prov, EpCtrl, "fi_ep_bind: {object} to {endpoint}: {what}");
}

/// Logs an object that cannot be closed because others use it.
#[cold]
pub(crate) fn in_use(object: Named) {
    log::warn!(
        "",
        Core,
        "fi_close: {object} is in use by objects that were opened on it or are bound to it: close them first"
    );
}

/// Logs an object that could not be opened, with what was asked for.
#[cold]
pub(crate) fn not_opened(prov: &str, call: &str, parent: Named, asked: &str, cause: Errno) {
    log::warn!(prov, Core, "{call}: {parent}: {cause}: {asked}");
}

/// Logs a data transfer on an endpoint that was not opened for it.
///
/// # Safety
/// `endpoint` is an open object.
#[cold]
#[inline(never)]
pub(crate) unsafe fn not_asked_for(call: &str, endpoint: *const fid, capability: &str) {
    // SAFETY: the caller's contract.
    let named = unsafe { Named::of(endpoint) };
    log::warn!(
        "",
        EpData,
        "{call}: {named} was opened without {capability}: ask for it in hints->caps"
    );
}

/// Logs an operation with more bytes than its endpoint takes.
#[cold]
#[inline(never)]
pub(crate) fn too_long(prov: &str, call: Call, len: usize, limit: usize) {
    let name = match call {
        Call::Send(flags) | Call::Access(flags) if flags.contains(Flags::INJECT) => "inject_size",
        _ => "max_msg_size",
    };
    log::warn!(
        prov,
        EpData,
        "{call}: {len} bytes are too long, {name} is {limit}"
    );
}

/// The call that names a peer.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// A send with these flags.
    Send(Flags),
    /// A receive with these flags.
    Receive(Flags),
    /// A read or write with these flags.
    Access(Flags),
    /// Another call.
    Named(&'static str),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send(flags) => {
                match (flags.contains(Flags::TAGGED), flags.contains(Flags::INJECT)) {
                    (false, false) => "fi_send",
                    (false, true) => "fi_inject",
                    (true, false) => "fi_tsend",
                    (true, true) => "fi_tinject",
                }
            }
            Self::Receive(flags) if flags.contains(Flags::TAGGED) => "fi_trecv",
            Self::Receive(_) => "fi_recv",
            Self::Access(flags) if flags.contains(Flags::READ) => "fi_read",
            Self::Access(_) => "fi_write",
            Self::Named(name) => name,
        })
    }
}

/// Logs an operation that names no peer of its endpoint; `cause` is the error of the address vector or the device.
#[cold]
#[inline(never)]
pub(crate) fn no_peer(prov: &str, call: Call, vector: Named, name: fi_addr_t, cause: Errno) {
    match (name, cause) {
        (_, Errno::AGAIN) => {}
        (FI_ADDR_UNSPEC, _) => log::warn!(
            prov,
            EpData,
            "{call}: FI_ADDR_UNSPEC names no peer; it is also what fi_av_insert stores for an address that it does not take"
        ),
        (_, Errno::INVAL) => log::warn!(
            prov,
            EpData,
            "{call}: there is no address {name:#x} in {vector}: pass what fi_av_insert stored there and fi_av_remove has not removed"
        ),
        _ => log::warn!(
            prov,
            EpData,
            "{call}: address {name:#x} of {vector}: {cause}"
        ),
    }
}

/// Logs an entry of fi_av_insert, number `at` of `count`, that is no address of the format.
///
/// # Safety
/// `address` has `size` bytes.
#[cold]
pub(crate) unsafe fn no_address(
    prov: &str,
    vector: Named,
    (at, count): (usize, usize),
    (address, size): (*const c_void, usize),
    format: u32,
) {
    // SAFETY: the caller's contract.
    let bytes = unsafe { slice::from_raw_parts(address.cast::<u8>(), size.min(SHOWN)) };
    log::warn!(
        prov,
        Av,
        "fi_av_insert: {vector}: entry {at} of {count} is no {} of an endpoint: {}; insert the bytes that the peer's fi_getname stored",
        format_name(format),
        Bytes { bytes, format }
    );
}

/// The bytes of an address, and what they say where they are a socket address.
struct Bytes<'a> {
    bytes: &'a [u8],
    format: u32,
}

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.format == FI_ADDR_STR {
            return write!(f, "{:?}", String::from_utf8_lossy(self.bytes));
        }
        if let [low, high, port @ ..] = self.bytes
            && let Some(port) = port.first_chunk()
        {
            let (family, port) = (u16::from_ne_bytes([*low, *high]), u16::from_be_bytes(*port));
            write!(f, "family {family}, port {port}, ")?;
        }
        f.write_str("bytes")?;
        self.bytes
            .iter()
            .try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}
