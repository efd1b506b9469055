//! Scalable endpoints: fi_endpoint(3) "SCALABLE ENDPOINTS". Path class: setup.
//!
//! Transmit and receive context of one index share an endpoint of their own: engine, device and lock, so that contexts do not
//! get in each other's way. The address of that endpoint follows from the endpoint's and the index; see docs/adr/0011.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxifabric_abi::{
    FI_CLASS_AV, FI_CLASS_SEP, FI_ENABLE, fi_ops, fi_ops_cm, fi_ops_ep, fi_rx_attr, fi_tx_attr,
    fid, fid_ep, fid_t,
};
use oxifabric_types::{Address, EpType, Errno, Info};

use super::alias::{Alias, AliasAttr};
use super::context_pair::{ContextPair, Direction};
use super::disabled;
use crate::absent::{self, no1, no2, no3, no4, no5};
use crate::av::Av;
use crate::domain::Domain;
use crate::handle::{Fid, Ref, checked, hand_out, status, table};
use crate::info::address_from_c;

/// How often ports in a row are looked for when the system chooses the first.
const ATTEMPTS: usize = 64;

/// A scalable endpoint.
#[repr(C)]
pub(crate) struct ScalableEndpoint {
    fid: Fid<fid_ep>,
    /// One for each pair of contexts.
    pairs: Vec<NonNull<dyn ContextPair>>,
    /// How many handles of each transmit context are open.
    tx: Box<[AtomicUsize]>,
    /// How many handles of each receive context are open.
    rx: Box<[AtomicUsize]>,
    info: Info,
    /// It outlives the pairs.
    _domain: Ref<Domain>,
}

impl ScalableEndpoint {
    /// Opens an endpoint with as many contexts as `ep_attr` says, one of each kind at least.
    ///
    /// # Errors
    /// `INVAL` for another kind of endpoint or more contexts than the domain has, and what the devices say.
    pub(crate) fn open(
        domain: &Domain,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_ep, Errno> {
        if !matches!(info.ep.kind, EpType::Rdm | EpType::Unspec) {
            return Err(Errno::INVAL);
        }
        let (tx, rx) = (info.ep.tx_ctx_cnt.max(1), info.ep.rx_ctx_cnt.max(1));
        let most = &domain.info().domain;
        if tx > most.max_ep_tx_ctx.max(1) || rx > most.max_ep_rx_ctx.max(1) {
            return Err(Errno::INVAL);
        }
        let pairs = open_pairs(domain, &info, tx.max(rx))?;
        let fid = fid_ep {
            fid: fid {
                fclass: FI_CLASS_SEP,
                context,
                ops: table(&BASE),
            },
            ops: table(&EP),
            cm: table(&CM),
            msg: table(&disabled::MSG),
            rma: table(&disabled::RMA),
            tagged: table(&disabled::TAGGED),
            atomic: table(&absent::ATOMIC),
            collective: table(&absent::COLLECTIVE),
        };
        let none = |count| (0..count).map(|_| AtomicUsize::new(0)).collect();
        let endpoint = Box::new(Self {
            fid: Fid::new(fid),
            pairs,
            tx: none(tx),
            rx: none(rx),
            info,
            _domain: Ref::to(domain),
        });
        Ok(Box::into_raw(endpoint).cast())
    }

    /// Returns the endpoint of a handle.
    ///
    /// # Safety
    /// The handle was made by [`ScalableEndpoint::open`] and is open.
    unsafe fn of<'a>(handle: *mut fid_ep) -> &'a Self {
        // SAFETY: the caller's contract; the type is `repr(C)` and begins with its handle.
        unsafe { &*handle.cast::<Self>() }
    }

    /// Returns the pairs of contexts.
    fn pairs(&self) -> impl Iterator<Item = &dyn ContextPair> {
        // SAFETY: the pairs are closed with the endpoint, not before.
        self.pairs.iter().map(|pair| unsafe { pair.as_ref() })
    }

    /// Returns the first pair, whose address is the endpoint's.
    fn first(&self) -> *mut fid_ep {
        self.pairs()
            .next()
            .map_or(core::ptr::null_mut(), |pair| pair.handle().as_ptr())
    }

    /// Opens a context.
    fn context(
        &self,
        direction: Direction,
        index: c_int,
        op_flags: u64,
        context: *mut c_void,
    ) -> Result<*mut fid_ep, Errno> {
        let counts = match direction {
            Direction::Transmit => &self.tx,
            Direction::Receive => &self.rx,
        };
        let index = usize::try_from(index).map_err(|_| Errno::INVAL)?;
        let aliases = counts.get(index).ok_or(Errno::INVAL)?;
        let &pair = self.pairs.get(index).ok_or(Errno::INVAL)?;
        if aliases.load(Ordering::Acquire) != 0 {
            return Err(Errno::BUSY);
        }
        let attr = AliasAttr {
            // SAFETY: as in `pairs`.
            endpoint: unsafe { pair.as_ref() }.handle(),
            aliases: NonNull::from(aliases),
            pair: Some((pair, direction)),
            tx_flags: op_flags,
            rx_flags: op_flags,
        };
        // SAFETY: the endpoint does not close while contexts are open.
        Ok(unsafe { Alias::open(attr, context) })
    }

    fn bind_vector(&self, av: &Av) -> Result<(), Errno> {
        self.pairs().try_for_each(|pair| pair.bind_vector(av))
    }

    /// Gives every context pair its address under this name of the endpoint.
    fn rename(&self, name: &Address) -> Result<(), Errno> {
        for (index, pair) in self.pairs().enumerate() {
            pair.rename(name.context(index).ok_or(Errno::INVAL)?)?;
        }
        Ok(())
    }

    fn is_in_use(&self) -> bool {
        let mut counts = self.tx.iter().chain(&self.rx);
        counts.any(|count| count.load(Ordering::Acquire) != 0)
    }
}

impl Drop for ScalableEndpoint {
    fn drop(&mut self) {
        close_pairs(&self.pairs);
    }
}

/// Opens the pairs of contexts, each where its index says.
fn open_pairs(
    domain: &Domain,
    info: &Info,
    count: usize,
) -> Result<Vec<NonNull<dyn ContextPair>>, Errno> {
    let fixed = match &info.src {
        Some(Address::Inet(at)) => at.port() != 0,
        Some(Address::Name(_) | Address::Efa(_)) => true,
        None => false,
    };
    let mut attempts = if fixed { 1 } else { ATTEMPTS };
    loop {
        let mut pairs = Vec::with_capacity(count);
        match fill(&mut pairs, domain, info, count) {
            Ok(()) => return Ok(pairs),
            Err(errno) => {
                close_pairs(&pairs);
                attempts -= 1;
                // The system's choice had a neighbour, or none beyond it.
                if attempts == 0 || !matches!(errno, Errno::ADDRINUSE | Errno::INVAL) {
                    return Err(errno);
                }
            }
        }
    }
}

fn fill(
    pairs: &mut Vec<NonNull<dyn ContextPair>>,
    domain: &Domain,
    info: &Info,
    count: usize,
) -> Result<(), Errno> {
    let open_pair = domain.fabric().entry().open_pair;
    let first = open_pair(domain, info.clone())?;
    pairs.push(first);
    // SAFETY: the pair was opened just now.
    let base = unsafe { first.as_ref() }.name();
    for index in 1..count {
        let mut info = info.clone();
        // Anywhere at first, and then where it belongs.
        info.src = match &base {
            Address::Inet(at) => Some(Address::Inet(SocketAddr::new(at.ip(), 0))),
            Address::Name(_) | Address::Efa(_) => None,
        };
        let pair = open_pair(domain, info)?;
        pairs.push(pair);
        let name = base.context(index).ok_or(Errno::INVAL)?;
        // SAFETY: the pair was opened just now.
        unsafe { pair.as_ref() }.rename(name)?;
    }
    Ok(())
}

fn close_pairs(pairs: &[NonNull<dyn ContextPair>]) {
    for pair in pairs {
        // SAFETY: no thread has a handle of it any more.
        unsafe { pair.as_ref().close() };
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    ..absent::BASE
};

static EP: fi_ops_ep = fi_ops_ep {
    cancel: Some(no2),
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Some(tx_context),
    rx_ctx: Some(rx_context),
    rx_size_left: Some(no1),
    tx_size_left: Some(no1),
    export_xpu: Some(no3),
    ..fi_ops_ep::NONE
};

static CM: fi_ops_cm = fi_ops_cm {
    setname: Some(setname),
    getname: Some(getname),
    getpeer: Some(no3),
    connect: Some(no4),
    listen: Some(no1),
    accept: Some(no3),
    reject: Some(no4),
    shutdown: Some(no2),
    join: Some(no5),
    ..fi_ops_cm::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let handle = fid.cast::<ScalableEndpoint>();
    // SAFETY: the table is only in the handles of this type.
    if unsafe { (*handle).is_in_use() } {
        return -Errno::BUSY.raw();
    }
    // SAFETY: `open` boxed it, no context refers to it any more, and the application gives it up.
    drop(unsafe { Box::from_raw(handle) });
    0
}

unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    if bfid.is_null() || flags != 0 {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in the handles of this type; the application binds an open object.
    status(unsafe {
        match (*bfid).fclass {
            FI_CLASS_AV => {
                checked(bfid).and_then(|av| ScalableEndpoint::of(fid.cast()).bind_vector(av))
            }
            _ => Err(Errno::INVAL),
        }
    })
}

unsafe extern "C" fn control(_fid: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    match command {
        // Contexts are enabled one by one.
        FI_ENABLE => 0,
        _ => -Errno::NOSYS.raw(),
    }
}

unsafe extern "C" fn tx_context(
    sep: *mut fid_ep,
    index: c_int,
    attr: *mut fi_tx_attr,
    tx_ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of this type; the application passes attributes or null.
    let (endpoint, attr) = unsafe { (ScalableEndpoint::of(sep), attr.as_mut()) };
    let tx = &endpoint.info.tx;
    let mut op_flags = tx.op_flags.bits();
    if let Some(attr) = attr {
        op_flags = attr.op_flags;
        (attr.caps, attr.mode) = (tx.caps.bits(), tx.mode);
        (attr.msg_order, attr.comp_order) = (tx.msg_order.bits(), tx.comp_order.bits());
        (attr.inject_size, attr.size) = (tx.inject_size, tx.size);
        (attr.iov_limit, attr.rma_iov_limit) = (tx.iov_limit, tx.rma_iov_limit);
    }
    let open = || endpoint.context(Direction::Transmit, index, op_flags, context);
    // SAFETY: the application passes a place for the handle.
    unsafe { hand_out(tx_ep, open) }
}

unsafe extern "C" fn rx_context(
    sep: *mut fid_ep,
    index: c_int,
    attr: *mut fi_rx_attr,
    rx_ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of this type; the application passes attributes or null.
    let (endpoint, attr) = unsafe { (ScalableEndpoint::of(sep), attr.as_mut()) };
    let rx = &endpoint.info.rx;
    let mut op_flags = rx.op_flags.bits();
    if let Some(attr) = attr {
        op_flags = attr.op_flags;
        (attr.caps, attr.mode) = (rx.caps.bits(), rx.mode);
        (attr.msg_order, attr.comp_order) = (rx.msg_order.bits(), rx.comp_order.bits());
        (attr.total_buffered_recv, attr.size) = (rx.total_buffered_recv, rx.size);
        attr.iov_limit = rx.iov_limit;
    }
    let open = || endpoint.context(Direction::Receive, index, op_flags, context);
    // SAFETY: the application passes a place for the handle.
    unsafe { hand_out(rx_ep, open) }
}

unsafe extern "C" fn setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int {
    // SAFETY: the table is only in the handles of this type.
    let endpoint = unsafe { ScalableEndpoint::of(fid.cast()) };
    // SAFETY: the application passes `addrlen` bytes, or null.
    let name = unsafe { address_from_c(addr, addrlen, endpoint.info.addr_format) };
    status(name.and_then(|name| endpoint.rename(&name.ok_or(Errno::INVAL)?)))
}

unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    // SAFETY: the table is only in the handles of this type, whose pairs have every operation.
    unsafe {
        let first = ScalableEndpoint::of(fid.cast()).first();
        match (*(*first).cm).getname {
            Some(getname) => getname(first.cast(), addr, addrlen),
            None => -Errno::NOSYS.raw(),
        }
    }
}

unsafe extern "C" fn getopt(
    fid: fid_t,
    level: c_int,
    name: c_int,
    val: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: the table is only in the handles of this type, whose pairs have every operation.
    unsafe {
        let first = ScalableEndpoint::of(fid.cast()).first();
        match (*(*first).ops).getopt {
            Some(getopt) => getopt(first.cast(), level, name, val, len),
            None => -Errno::NOSYS.raw(),
        }
    }
}

unsafe extern "C" fn setopt(
    fid: fid_t,
    level: c_int,
    name: c_int,
    val: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the table is only in the handles of this type, whose pairs have every operation.
    unsafe {
        for pair in ScalableEndpoint::of(fid.cast()).pairs() {
            let pair = pair.handle().as_ptr();
            let set = match (*(*pair).ops).setopt {
                Some(setopt) => setopt(pair.cast(), level, name, val, len),
                None => -Errno::NOSYS.raw(),
            };
            if set != 0 {
                return set;
            }
        }
    }
    0
}
