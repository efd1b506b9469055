//! Aliases: handles that stand for an endpoint, made by fi_ep_alias (fi_endpoint(3)) or as contexts of scalable endpoints.
//!
//! An alias has flags of its own for calls without flags, and hands every call on to its endpoint through the endpoint's
//! own tables. So it needs not know the provider, it follows the endpoint when that is enabled, and the endpoint's own
//! calls pay nothing for it.

mod access;
mod messages;

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use oxifabric_abi::{
    FI_ALIAS, FI_CLASS_EP, FI_CLASS_RX_CTX, FI_CLASS_TX_CTX, FI_ENABLE, FI_GETOPSFLAG, FI_RECV,
    FI_SETOPSFLAG, FI_TRANSMIT, fi_alias, fi_ops, fi_ops_cm, fi_ops_ep, fid, fid_ep, fid_t,
};
use oxifabric_types::Errno;

use super::context_pair::{ContextPair, Direction};
use super::disabled;
use crate::absent::{self, no1, no2, no3, no4, no5};
use crate::handle::{Fid, status, table};

/// A handle that stands for an endpoint.
#[repr(C)]
pub(crate) struct Alias {
    fid: Fid<fid_ep>,
    /// The endpoint itself, never another alias.
    endpoint: NonNull<fid_ep>,
    /// Counts the aliases of the endpoint, or of one direction of it: it stays open while there is one.
    aliases: NonNull<AtomicUsize>,
    /// The pair of a context, and the one direction that it has; `None` for an alias of a whole endpoint.
    pair: Option<(NonNull<dyn ContextPair>, Direction)>,
    tx_flags: AtomicU64,
    rx_flags: AtomicU64,
}

/// Attributes of a new alias.
pub(crate) struct AliasAttr {
    pub(crate) endpoint: NonNull<fid_ep>,
    pub(crate) aliases: NonNull<AtomicUsize>,
    pub(crate) pair: Option<(NonNull<dyn ContextPair>, Direction)>,
    /// Flags of sends, reads and writes that bring none.
    pub(crate) tx_flags: u64,
    /// Flags of receives that bring none.
    pub(crate) rx_flags: u64,
}

impl Alias {
    /// Opens an alias.
    ///
    /// # Safety
    /// Endpoint and count stay where they are until the count has returned to what it was.
    pub(crate) unsafe fn open(attr: AliasAttr, context: *mut c_void) -> *mut fid_ep {
        let direction = attr.pair.map(|(_, direction)| direction);
        // SAFETY: the caller's contract.
        let enabled = attr
            .pair
            .is_none_or(|(pair, direction)| unsafe { pair.as_ref() }.is_enabled(direction));
        // SAFETY: the caller's contract.
        unsafe { attr.aliases.as_ref() }.fetch_add(1, Ordering::Relaxed);
        let fid = fid_ep {
            fid: fid {
                fclass: match direction {
                    None => FI_CLASS_EP,
                    Some(Direction::Transmit) => FI_CLASS_TX_CTX,
                    Some(Direction::Receive) => FI_CLASS_RX_CTX,
                },
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
        let alias = Box::new(Self {
            fid: Fid::new(fid),
            endpoint: attr.endpoint,
            aliases: attr.aliases,
            pair: attr.pair,
            tx_flags: AtomicU64::new(attr.tx_flags),
            rx_flags: AtomicU64::new(attr.rx_flags),
        });
        if enabled {
            alias.open_tables();
        }
        Box::into_raw(alias).cast()
    }

    /// Exchanges the tables of data transfers for those that lead to the endpoint, or to one direction of it.
    fn open_tables(&self) {
        let direction = self.pair.map(|(_, direction)| direction);
        let handle = self.fid.as_ptr();
        // SAFETY: the handle is ours; the application enables a context before it transfers data on it.
        unsafe {
            (*handle).msg = table(messages::msg(direction));
            (*handle).rma = table(access::rma(direction));
            (*handle).tagged = table(messages::tagged(direction));
            (*handle).atomic = table(access::atomic(direction));
        }
    }

    /// Returns the alias of a handle.
    ///
    /// # Safety
    /// The handle was made by [`Alias::open`] and is open.
    unsafe fn of<'a>(handle: *mut fid_ep) -> &'a Self {
        // SAFETY: the caller's contract; the type is `repr(C)` and begins with its handle.
        unsafe { &*handle.cast::<Self>() }
    }

    /// Returns the endpoint's handle.
    const fn target(&self) -> *mut fid_ep {
        self.endpoint.as_ptr()
    }

    /// Returns the flags of sends, reads and writes that bring none.
    fn tx(&self) -> u64 {
        self.tx_flags.load(Ordering::Relaxed)
    }

    /// Returns the flags of receives that bring none.
    fn rx(&self) -> u64 {
        self.rx_flags.load(Ordering::Relaxed)
    }

    /// Makes another alias of the same endpoint (`FI_ALIAS`).
    ///
    /// # Safety
    /// `request` is null or what the command takes.
    unsafe fn alias(&self, request: *const fi_alias) -> Result<(), Errno> {
        let attr = AliasAttr {
            endpoint: self.endpoint,
            aliases: self.aliases,
            pair: self.pair,
            tx_flags: self.tx(),
            rx_flags: self.rx(),
        };
        // SAFETY: the caller's contract; this alias keeps the endpoint open until the new one has been counted.
        unsafe { alias(request, attr, (*self.fid.as_ptr()).fid.context) }
    }

    /// Returns the flags of the direction that the argument names.
    fn flags(&self, named: u64) -> Result<&AtomicU64, Errno> {
        match (named & FI_TRANSMIT != 0, named & FI_RECV != 0) {
            (true, false) => Ok(&self.tx_flags),
            (false, true) => Ok(&self.rx_flags),
            _ => Err(Errno::INVAL),
        }
    }

    /// Enables the endpoint, or the direction of it that a context is.
    fn enable(&self) -> Result<(), Errno> {
        if let Some((pair, direction)) = self.pair {
            // SAFETY: the endpoint stays where it is while the alias is open.
            unsafe { pair.as_ref() }.enable_direction(direction)?;
            self.open_tables();
            return Ok(());
        }
        // SAFETY: the endpoint is open, and every table has this operation.
        unsafe {
            let endpoint = self.target().cast::<fid>();
            match (*(*endpoint).ops).control {
                Some(control) => refused(control(endpoint, FI_ENABLE, core::ptr::null_mut())),
                None => Err(Errno::NOSYS),
            }
        }
    }
}

/// Opens the alias that an application asks for by `FI_ALIAS`, with the flags of `attr`, save for those of one
/// direction that the request names.
///
/// # Safety
/// `request` is null or what the command takes; otherwise as for [`Alias::open`].
pub(crate) unsafe fn alias(
    request: *const fi_alias,
    mut attr: AliasAttr,
    context: *mut c_void,
) -> Result<(), Errno> {
    // SAFETY: the caller's contract.
    let request = unsafe { request.as_ref() }.ok_or(Errno::INVAL)?;
    if request.fid.is_null() {
        return Err(Errno::INVAL);
    }
    let flags = request.flags & !(FI_TRANSMIT | FI_RECV);
    match (
        request.flags & FI_TRANSMIT != 0,
        request.flags & FI_RECV != 0,
    ) {
        (true, false) => attr.tx_flags = flags,
        (false, true) => attr.rx_flags = flags,
        _ => return Err(Errno::INVAL),
    }
    // SAFETY: the caller's contract, passed on; the application has a place for the handle.
    unsafe { *request.fid = Alias::open(attr, context).cast() };
    Ok(())
}

/// Turns what a call returned back into a result.
fn refused(returned: c_int) -> Result<(), Errno> {
    match returned {
        0 => Ok(()),
        errno => Err(Errno::from_raw(errno.saturating_neg())),
    }
}

static BASE: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    ..absent::BASE
};

static EP: fi_ops_ep = fi_ops_ep {
    cancel: Some(cancel),
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Some(no5),
    rx_ctx: Some(no5),
    rx_size_left: Some(rx_size_left),
    tx_size_left: Some(tx_size_left),
    export_xpu: Some(no3),
    ..fi_ops_ep::NONE
};

static CM: fi_ops_cm = fi_ops_cm {
    setname: Some(no3),
    getname: Some(getname),
    getpeer: Some(getpeer),
    connect: Some(no4),
    listen: Some(no1),
    accept: Some(no3),
    reject: Some(no4),
    shutdown: Some(no2),
    join: Some(no5),
    ..fi_ops_cm::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of aliases; count and endpoint are there until the count has returned to
    // what it was.
    unsafe {
        let alias = Alias::of(fid.cast());
        if let Some((pair, direction)) = alias.pair
            && alias.aliases.as_ref().load(Ordering::Acquire) == 1
            && let Err(errno) = pair.as_ref().disable_direction(direction)
        {
            return -errno.raw();
        }
        alias.aliases.as_ref().fetch_sub(1, Ordering::Release);
        // The application gives the handle up.
        drop(Box::from_raw(fid.cast::<Alias>()));
    }
    0
}

unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the table is only in the handles of aliases; the application binds an open object.
    unsafe {
        let alias = Alias::of(fid.cast());
        if let Some((pair, direction)) = alias.pair {
            return status(pair.as_ref().bind_direction(bfid, flags, direction));
        }
        let endpoint = alias.target().cast::<oxifabric_abi::fid>();
        match (*(*endpoint).ops).bind {
            Some(bind) => bind(endpoint, bfid, flags),
            None => -Errno::NOSYS.raw(),
        }
    }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the table is only in the handles of aliases.
    let alias = unsafe { Alias::of(fid.cast()) };
    // SAFETY: the application passes what the command takes.
    status(unsafe {
        match command {
            FI_ENABLE => alias.enable(),
            FI_ALIAS => alias.alias(arg.cast()),
            FI_GETOPSFLAG => match arg.cast::<u64>().as_mut() {
                Some(arg) => alias
                    .flags(*arg)
                    .map(|flags| *arg = flags.load(Ordering::Relaxed)),
                None => Err(Errno::INVAL),
            },
            FI_SETOPSFLAG => match arg.cast::<u64>().as_ref() {
                Some(arg) => alias
                    .flags(*arg)
                    .map(|flags| flags.store(*arg & !(FI_TRANSMIT | FI_RECV), Ordering::Relaxed)),
                None => Err(Errno::INVAL),
            },
            _ => Err(Errno::NOSYS),
        }
    })
}

/// Defines calls that go to the endpoint as they are.
macro_rules! pass_on {
    ($($name:ident: $table:ident.$slot:ident($first:ident: $handle:ty $(, $arg:ident: $type:ty)*) -> $ret:ty;)*) => { $(
        unsafe extern "C" fn $name($first: $handle, $($arg: $type),*) -> $ret {
            // SAFETY: the table is only in the handles of aliases, whose endpoint is open; the arguments are the caller's.
            unsafe {
                let endpoint = $crate::endpoint::alias::Alias::of($first.cast()).target();
                match (*endpoint).$table.as_ref().and_then(|table| table.$slot) {
                    Some(call) => call(endpoint.cast(), $($arg),*),
                    None => <$ret as oxifabric_abi::Absent>::ABSENT,
                }
            }
        }
    )* };
}
use pass_on;

pass_on! {
    cancel: ops.cancel(fid: fid_t, context: *mut c_void) -> isize;
    getopt: ops.getopt(fid: fid_t, level: c_int, name: c_int, val: *mut c_void, len: *mut usize) -> c_int;
    setopt: ops.setopt(fid: fid_t, level: c_int, name: c_int, val: *const c_void, len: usize) -> c_int;
    rx_size_left: ops.rx_size_left(ep: *mut fid_ep) -> isize;
    tx_size_left: ops.tx_size_left(ep: *mut fid_ep) -> isize;
    getname: cm.getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int;
    getpeer: cm.getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int;
}
