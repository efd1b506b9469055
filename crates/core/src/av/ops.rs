//! The calls on an address vector, as C programs make them.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use oxifabric_abi::{
    FI_AV_USER_ID, FI_CLASS_AV, FI_FIREWALL_ADDR, FI_SYNC_ERR, fi_addr_t, fi_ops, fi_ops_av, fid,
    fid_av, fid_xpu_ctx,
};
use oxifabric_provider::log;
use oxifabric_types::{Address, Errno};

use super::shared::MOST;
use super::symmetric::pairs;
use super::{Av, Report};
use crate::absent::{self, no4, no5};
use crate::eq::Eq;
use crate::handle::{self, Object, Uses, checked, object, status};
use crate::info::address_to_c;
use crate::{av_set, misuse, sockaddr, text};

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Av {
    type Handle = fid_av;
    const CLASS: usize = FI_CLASS_AV;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

/// The base operations of a vector.
static BASE: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(bind),
    ..absent::BASE
};

/// The operations of a vector.
pub(super) static OPS: fi_ops_av = fi_ops_av {
    insert: Some(insert),
    insertsvc: Some(insertsvc),
    insertsym: Some(insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: Some(av_set::open),
    insert_auth_key: Some(no5),
    lookup_auth_key: Some(no4),
    set_user_id: Some(set_user_id),
    lookup2: Some(lookup2),
    ..fi_ops_av::NONE
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in the handles of vectors, and the application gives this one up.
    status(unsafe { handle::close::<Av>(fid) })
}

unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    // SAFETY: the table is only in the handles of vectors; the application binds an open object.
    let (av, eq) = unsafe { (object::<Av>(fid.cast()), checked::<Eq>(bfid)) };
    status(eq.and_then(|eq| av.bind(eq, flags)))
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of vectors.
    let av: &Av = unsafe { object(av) };
    if let Err(errno) = av.check_insert(flags, fi_addr, context) {
        return -errno.raw();
    }
    if (addr.is_null() && count != 0) || count > MOST {
        return -Errno::INVAL.raw();
    }
    let format = av.domain().info().addr_format;
    let mut at = addr.cast::<u8>();
    let addresses = (0..count).map(|entry| {
        // SAFETY: the application passes `count` addresses in the format of the domain, one after the other.
        unsafe {
            let read = sockaddr::read(at.cast(), format);
            if read.address.is_err() {
                let name = av.domain().fabric().entry().name;
                let bytes = (at.cast(), read.size);
                misuse::no_address(name, av.named(), (entry, count), bytes, format);
            }
            at = at.add(read.size);
            read.address
        }
    });
    // SAFETY: the application's places have room for `count` addresses.
    returned(unsafe { av.insert(addresses, &report(fi_addr, flags, context)) })
}

unsafe extern "C" fn insertsvc(
    av: *mut fid_av,
    node: *const c_char,
    service: *const c_char,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are those of `insertsym`.
    unsafe { insertsym(av, node, 1, service, 1, fi_addr, flags, context) }
}

unsafe extern "C" fn insertsym(
    av: *mut fid_av,
    node: *const c_char,
    nodecnt: usize,
    service: *const c_char,
    svccnt: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in the handles of vectors.
    let av: &Av = unsafe { object(av) };
    if let Err(errno) = av.check_insert(flags, fi_addr, context) {
        return -errno.raw();
    }
    // SAFETY: the application passes strings or null.
    let names = unsafe { (string(node), string(service)) };
    let pairs = match names {
        (Ok(Some(node)), Ok(service)) => pairs(node, nodecnt, service, svccnt),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
        (Ok(None), _) => Err(Errno::INVAL),
    };
    let addresses: Result<Vec<Address>, Errno> = pairs.and_then(|pairs| {
        pairs
            .iter()
            .map(|(node, service)| resolve(av, node, service.as_deref()))
            .collect()
    });
    match addresses {
        Ok(addresses) => {
            let addresses = addresses.into_iter().map(Ok);
            // SAFETY: the application's places have room for all addresses of the ranges.
            returned(unsafe { av.insert(addresses, &report(fi_addr, flags, context)) })
        }
        Err(errno) => -errno.raw(),
    }
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    fi_addr: *mut fi_addr_t,
    count: usize,
    flags: u64,
) -> c_int {
    if flags != 0 || (fi_addr.is_null() && count != 0) || count > MOST {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in the handles of vectors.
    let av: &Av = unsafe { object(av) };
    let mut result = Ok(());
    for at in (0..count).rev() {
        // SAFETY: the application passes `count` addresses.
        let removed = av.remove(unsafe { *fi_addr.add(at) });
        result = result.and(removed);
    }
    status(result)
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    fi_addr: fi_addr_t,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    if addrlen.is_null() {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in the handles of vectors.
    let av: &Av = unsafe { object(av) };
    let address = match av.address(fi_addr) {
        Ok(address) => address,
        Err(errno) => return -errno.raw(),
    };
    let (bytes, _) = address_to_c(&address);
    // SAFETY: the application passes a buffer of `*addrlen` bytes.
    unsafe {
        if !addr.is_null() {
            let fits = bytes.len().min(*addrlen);
            ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), fits);
        }
        *addrlen = bytes.len();
    }
    0
}

/// Looks an address up as [`lookup`] does; accelerators (`FI_XPU`), for which the flags ask, are not served.
unsafe extern "C" fn lookup2(
    av: *mut fid_av,
    fi_addr: fi_addr_t,
    buf: *mut c_void,
    len: *mut usize,
    flags: u64,
    _ctx: *mut fid_xpu_ctx,
) -> c_int {
    if flags != 0 {
        return -Errno::NOSYS.raw();
    }
    // SAFETY: the arguments are those of `lookup`.
    unsafe { lookup(av, fi_addr, buf, len) }
}

unsafe extern "C" fn straddr(
    av: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    if addr.is_null() || len.is_null() {
        return ptr::null();
    }
    // SAFETY: the table is only in the handles of vectors.
    let av: &Av = unsafe { object(av) };
    // SAFETY: the application passes an address in the format of the domain.
    let address = unsafe { sockaddr::read_any(addr, av.domain().info().addr_format) };
    let Some(address) = address else {
        return ptr::null();
    };
    let spelled = sockaddr::spell(&address);
    // SAFETY: the application passes a buffer of `*len` characters.
    unsafe {
        if !buf.is_null() && *len != 0 {
            text::copy(spelled.as_bytes(), buf, *len);
        }
        *len = spelled.len() + 1;
    }
    buf
}

unsafe extern "C" fn set_user_id(
    av: *mut fid_av,
    fi_addr: fi_addr_t,
    user_id: fi_addr_t,
    flags: u64,
) -> c_int {
    if flags != 0 {
        // FI_AUTH_KEY: there are no authorization keys.
        return -Errno::BADFLAGS.raw();
    }
    // SAFETY: the table is only in the handles of vectors.
    status(unsafe { object::<Av>(av) }.set_user(fi_addr, user_id))
}

fn report(addresses: *mut fi_addr_t, flags: u64, context: *mut c_void) -> Report {
    let errors = if flags & FI_SYNC_ERR != 0 {
        context.cast()
    } else {
        ptr::null_mut()
    };
    Report {
        addresses,
        errors,
        users: flags & FI_AV_USER_ID != 0,
        firewalled: flags & FI_FIREWALL_ADDR != 0,
        context,
    }
}

/// Asks the provider for the address of a node and service, the best if there are several.
fn resolve(av: &Av, node: &str, service: Option<&str>) -> Result<Address, Errno> {
    let domain = av.domain();
    let resolve = domain.fabric().entry().resolve;
    let found = resolve(Some(node), service, false, false, domain.info().addr_format);
    let found = found.map_err(|unresolved| {
        let vector = av.named();
        log::warn!(
            domain.fabric().entry().name,
            Av,
            "fi_av_insertsvc: {vector}: node {}",
            unresolved.why
        );
        unresolved.errno
    })?;
    found.into_iter().next().ok_or(Errno::NODATA)
}

/// Reads a string of the application; a null one is none.
///
/// # Safety
/// `text` is null or a string, which lives as long as the result.
unsafe fn string<'a>(text: *const c_char) -> Result<Option<&'a str>, Errno> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Errno::INVAL)
}

fn returned(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}
