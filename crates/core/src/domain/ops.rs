//! The calls on a domain, as C programs make them: they open every other object.

use core::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

use oxifabric_abi::compat::{fi_cntr_attr_1_9, fi_cq_attr_1_9};
use oxifabric_abi::{
    FI_CLASS_DOMAIN, FI_MAP_RAW_MR, FI_PEER, FI_UNMAP_KEY, fi_av_attr, fi_cntr_attr, fi_cq_attr,
    fi_info, fi_ops, fi_ops_domain, fi_poll_attr, fi_rx_attr, fi_tx_attr, fid, fid_av, fid_cntr,
    fid_cq, fid_domain, fid_ep, fid_poll, fid_stx,
};
use oxifabric_provider::faults;
use oxifabric_provider::handles::Handles;
use oxifabric_sync::SwitchLock;
use oxifabric_types::{Caps, EpType, Errno, Flags, Info, Progress, Threading};

use super::{Domain, locks};
use crate::absent::{self, no4};
use crate::atomic;
use crate::av;
use crate::cntr::Cntr;
use crate::collective;
use crate::cq::Cq;
use crate::endpoint::scalable::ScalableEndpoint;
use crate::endpoint::srx::Srx;
use crate::endpoint::stx::Stx;
use crate::eq::Eq;
use crate::fabric::Fabric;
use crate::handle::{
    self, Fid, Object, Ref, Uses, checked, hand_out, object, publish, status, table,
};
use crate::info;
use crate::mr;
use crate::mr::regions::Regions;
use crate::mr::rma_targets::RmaTargets;
use crate::named_ops;
use crate::poll_set::PollSet;
use crate::progress::DomainProgress;
use crate::sockaddr;
use crate::work;

/// Opens a domain of a fabric.
///
/// # Errors
/// `INVAL` without an info, or with one of another provider; what the provider says.
///
/// # Safety
/// `info` is null or comes from fi_getinfo(3).
pub(crate) unsafe fn open(
    fabric: &Fabric,
    info: *const fi_info,
    context: *mut c_void,
) -> Result<*mut fid_domain, Errno> {
    // SAFETY: the caller's contract.
    let mut info = unsafe { info::from_application(info, fabric.api_version()) }?;
    // Posts that fault injection refuses go later, even if the program relies on a short message being away.
    if fabric.entry().requires_auto_progress || faults::affects_posts() {
        info.domain.data_progress = Progress::Auto;
    }
    let provider = (fabric.entry().open_domain)(&info)?;
    let fid = fid_domain {
        fid: handle::new_fid::<Domain>(context),
        ops: table(&OPS),
        mr: table(&mr::OPS),
    };
    let automatic = info.domain.data_progress == Progress::Auto
        && (!fabric.entry().progresses_alone(&info) || info.caps.contains(Caps::TRIGGER));
    let progress = Arc::new(DomainProgress::new(locks(&info), automatic));
    if info.caps.contains(Caps::TRIGGER) {
        fabric.register(&progress);
    }
    let serial = info.domain.threading == Threading::Domain && !locks(&info);
    // SAFETY: with the lock off, the application promised that one thread at a time uses the whole domain; the table
    // calls no other object.
    let regions = unsafe { SwitchLock::new(Regions::new(&info.domain), !serial) };
    Ok(publish(Domain {
        fid: Fid::new(fid),
        uses: Uses::none(),
        fabric: Ref::to(fabric),
        regions,
        progress,
        rma_targets: RmaTargets::default(),
        info,
        provider,
        eq: Mutex::new(None),
    }))
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Domain {
    type Handle = fid_domain;
    const CLASS: usize = FI_CLASS_DOMAIN;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    ops_open: Some(ops_open),
    ..absent::BASE
};

/// What the provider's operations find by handles.
static HANDLES: Handles = Handles {
    region: mr::registration,
};

static OPS: fi_ops_domain = fi_ops_domain {
    av_open: Some(av_open),
    cq_open: Some(cq_open),
    endpoint: Some(endpoint),
    scalable_ep: Some(scalable_ep),
    cntr_open: Some(cntr_open),
    poll_open: Some(poll_open),
    stx_ctx: Some(stx_ctx),
    srx_ctx: Some(srx_ctx),
    query_atomic: Some(atomic::query),
    query_collective: Some(collective::query),
    endpoint2: Some(endpoint2),
    xpu_ctx: Some(no4),
    ..fi_ops_domain::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of domains, and the application gives this one up.
    status(unsafe { handle::close::<Domain>(fid) })
}

unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the table is only in the handles of domains; the application binds an open object.
    let (domain, eq) = unsafe { (object::<Domain>(fid.cast()), checked::<Eq>(bfid)) };
    status(eq.and_then(|eq| domain.bind(eq, flags)))
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(fid.cast()) };
    // SAFETY: the application passes what the command takes.
    status(unsafe {
        match command {
            FI_MAP_RAW_MR | FI_UNMAP_KEY => mr::raw::control(command, arg),
            _ => work::control::control(domain, command, arg),
        }
    })
}

unsafe extern "C" fn ops_open(
    fid: *mut fid,
    name: *const c_char,
    flags: u64,
    ops: *mut *mut c_void,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of domains; the application passes a name, and a place for the table.
    unsafe {
        let domain: &Domain = object(fid.cast());
        named_ops::open(name, flags, ops, |name| {
            let found = domain.provider().ops(name, &HANDLES)?;
            Ok(move || found)
        })
    }
}

unsafe extern "C" fn poll_open(
    domain: *mut fid_domain,
    attr: *mut fi_poll_attr,
    set: *mut *mut fid_poll,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain) };
    // SAFETY: the application passes attributes or null, and a place for the handle.
    unsafe { hand_out(set, || PollSet::open(domain, attr.as_ref())) }
}

/// Stores the handle of a new object as [`hand_out`] does. If there is none, the log says what was asked for.
///
/// # Safety
/// `place` is null or may be written.
unsafe fn open_on<T>(
    domain: &Domain,
    (call, asked): (&str, impl FnOnce() -> String),
    place: *mut *mut T,
    open: impl FnOnce() -> Result<*mut T, Errno>,
) -> c_int {
    let open = || open().inspect_err(|&cause| domain.log_not_opened(call, &asked(), cause));
    // SAFETY: the caller's contract.
    unsafe { hand_out(place, open) }
}

unsafe extern "C" fn av_open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain) };
    // SAFETY: the application passes attributes or null, and a place for the handle.
    unsafe {
        let attr = attr.as_mut();
        let asked = attr.as_deref();
        let (kind, flags) = asked.map_or((0, 0), |attr| (attr.type_, attr.flags));
        let asked = || format!("type {kind}, flags {flags:#x}");
        open_on(domain, ("fi_av_open", asked), av, || {
            av::open::open(domain, attr, context)
        })
    }
}

unsafe extern "C" fn cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain) };
    // SAFETY: the application passes attributes or null, and a place for the handle.
    unsafe {
        let attr = attr.cast::<fi_cq_attr_1_9>().as_ref();
        let (format, wait) = attr.map_or((0, 0), |attr| (attr.format, attr.wait_obj));
        let asked = || format!("format {format}, wait_obj {wait}");
        open_on(domain, ("fi_cq_open", asked), cq, || {
            Cq::open(domain, attr, context)
        })
    }
}

unsafe extern "C" fn cntr_open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain) };
    // SAFETY: the application passes attributes or null, and a place for the handle.
    unsafe {
        let attr = attr.cast::<fi_cntr_attr_1_9>().as_ref();
        let (events, wait) = attr.map_or((0, 0), |attr| (attr.events, attr.wait_obj));
        let asked = || format!("events {events}, wait_obj {wait}");
        open_on(domain, ("fi_cntr_open", asked), cntr, || {
            Cntr::open(domain, attr, context)
        })
    }
}

unsafe extern "C" fn endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain) };
    // SAFETY: the application passes an info of fi_getinfo(3) or FI_CONNREQ, or null; all layouts have the handle in one place.
    let described = unsafe {
        let described = info::from_application(info, domain.fabric().api_version());
        described.map(|described| (described, (*info).handle))
    };
    let asked = || match &described {
        Ok((info, _)) => describe(info),
        Err(_) => "its info is null, or holds a value that does not exist".to_owned(),
    };
    let open = || {
        let (described, handle) = described.clone()?;
        open_endpoint(domain, described, handle, context)
    };
    // SAFETY: the application passes a place for the handle.
    unsafe { open_on(domain, ("fi_endpoint", asked), ep, open) }
}

/// Says which endpoint an application asked for.
fn describe(info: &Info) -> String {
    let kind = info.ep.kind.name();
    match &info.src {
        Some(at) => format!("{kind} at {}", sockaddr::spell(at)),
        None => format!("{kind} at any address"),
    }
}

unsafe extern "C" fn scalable_ep(
    domain: *mut fid_domain,
    info: *mut fi_info,
    sep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain) };
    let open = || {
        // SAFETY: the application passes an info of fi_getinfo(3) or null.
        let info = unsafe { info::from_application(info, domain.fabric().api_version()) }?;
        ScalableEndpoint::open(domain, info, context)
    };
    // SAFETY: the application passes a place for the handle.
    unsafe { hand_out(sep, open) }
}

unsafe extern "C" fn stx_ctx(
    domain: *mut fid_domain,
    _attr: *mut fi_tx_attr,
    stx: *mut *mut fid_stx,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain) };
    // SAFETY: the application passes a place for the handle.
    unsafe { hand_out(stx, || Ok(Stx::open(domain, context))) }
}

unsafe extern "C" fn srx_ctx(
    domain: *mut fid_domain,
    attr: *mut fi_rx_attr,
    srx: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of domains; the application passes attributes, or null. Both fields are
    // where they were in every API version.
    let (domain, (caps, flags)) = unsafe {
        let asked = attr.as_ref().map_or((0, 0), |a| (a.caps, a.op_flags));
        (object::<Domain>(domain), asked)
    };
    if flags & FI_PEER != 0 {
        // `context` names receives that another provider keeps (fi_peer(3)): those are not taken.
        return -Errno::BADFLAGS.raw();
    }
    if domain.fabric().entry().progresses_alone(domain.info()) {
        return -Errno::NOSYS.raw();
    }
    let (caps, flags) = (Caps::from_bits_retain(caps), Flags::from_bits_retain(flags));
    // SAFETY: the application passes a place for the handle.
    unsafe { hand_out(srx, || Ok(Srx::open(domain, caps, flags, context))) }
}

/// Opens an endpoint of either kind.
fn open_endpoint(
    domain: &Domain,
    info: Info,
    handle: *mut fid,
    context: *mut c_void,
) -> Result<*mut fid_ep, Errno> {
    let entry = domain.fabric().entry();
    match (info.ep.kind, entry.msg) {
        // SAFETY: the handle comes from the same provider, which made the info.
        (EpType::Msg, Some(msg)) => unsafe { (msg.open_endpoint)(domain, info, handle, context) },
        _ => (entry.open_endpoint)(domain, info, context),
    }
}

unsafe extern "C" fn endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        // FI_PEER_TRANSFER: endpoints under another provider are not offered.
        return -Errno::BADFLAGS.raw();
    }
    // SAFETY: the arguments are those of `endpoint`.
    unsafe { endpoint(domain, info, ep, context) }
}
