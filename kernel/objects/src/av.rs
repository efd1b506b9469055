//! Address vectors: numbers for the addresses of peers. Source: fi_av(3).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, FI_ADDR_STR, FI_CLASS_AV, fi_addr_t, fi_av_attr, fi_ops, fi_ops_av, fid,
    fid_av, fid_domain,
};
use oxifabric_info::{address_from_bytes, address_to_c};
use oxifabric_kernel_sync::Mutex;
use oxifabric_types::{Address, Errno};

use crate::domain::Domain;
use crate::handle::{Fid, Object, Ref, Uses, close, new_fid, object, publish, status, table};
use crate::level;

/// How many bytes of a string address are looked at.
const LONGEST_NAME: usize = 256;
/// Bytes of socket addresses, `struct sockaddr_in` and `struct sockaddr_in6`.
const SOCKET_ADDRESSES: [(u32, usize); 2] = [(2, 16), (3, 28)];

/// An open address vector: an address for each number that was given out; removed ones leave a gap.
#[repr(C)]
pub(crate) struct Av {
    fid: Fid<fid_av>,
    uses: Uses,
    domain: Ref<Domain>,
    rows: Mutex<Vec<Option<Address>>>,
    /// Changes with the rows.
    version: AtomicU64,
}

// SAFETY: it begins with the handle, and only `open` makes one, of this type.
unsafe impl Object for Av {
    type Handle = fid_av;
    const CLASS: usize = FI_CLASS_AV;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

static OPS: fi_ops = fi_ops {
    close: Some(close_av),
    ..fi_ops::NONE
};

static TABLE: fi_ops_av = fi_ops_av {
    insert: Some(insert),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    ..fi_ops_av::NONE
};

impl Av {
    pub(crate) unsafe extern "C" fn open(
        domain: *mut fid_domain,
        attr: *mut fi_av_attr,
        place: *mut *mut fid_av,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in handles of domains; the consumer passes attributes, or null.
        let (domain, attr) = unsafe { (Ref::<Domain>::of(domain), attr.as_ref()) };
        if attr.is_some_and(|attr| !attr.name.is_null() || attr.flags != 0) {
            return -Errno::NOSYS.raw();
        }
        let opened = Self::new(domain, context);
        // SAFETY: the consumer passes a place for the handle.
        status(opened.map(|av| unsafe { publish(av, place) }))
    }

    fn new(domain: Ref<Domain>, context: *mut c_void) -> Result<Arc<Self>, Errno> {
        let handle = fid_av {
            fid: new_fid::<Self>(context, &OPS),
            ops: table(&TABLE),
        };
        Ok(Arc::new(Self {
            fid: Fid::new(handle),
            uses: Uses::default(),
            domain,
            rows: Mutex::new(level::TABLE, Vec::new()).ok_or(Errno::NOMEM)?,
            version: AtomicU64::new(0),
        }))
    }

    /// Returns the address with this number.
    pub(crate) fn address(&self, number: fi_addr_t) -> Option<Address> {
        let rows = self.rows.lock();
        rows.get(usize::try_from(number).ok()?)?.clone()
    }

    /// Returns the number of an address, or `FI_ADDR_NOTAVAIL`.
    pub(crate) fn number(&self, address: &Address) -> fi_addr_t {
        let rows = self.rows.lock();
        let found = rows.iter().position(|row| row.as_ref() == Some(address));
        found.map_or(FI_ADDR_NOTAVAIL, |at| at as fi_addr_t)
    }

    /// Returns a number that changes with what is in it.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn add(&self, address: Address) -> Result<fi_addr_t, Errno> {
        let mut rows = self.rows.lock();
        rows.try_reserve(1).map_err(|_| Errno::NOMEM)?;
        rows.push(Some(address));
        self.version.fetch_add(1, Ordering::Release);
        Ok(rows.len() as fi_addr_t - 1)
    }

    fn remove(&self, number: fi_addr_t) -> Result<(), Errno> {
        let mut rows = self.rows.lock();
        let row = usize::try_from(number).ok().and_then(|at| rows.get_mut(at));
        row.and_then(Option::take).ok_or(Errno::INVAL)?;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// Reads the address at `at`, and returns it with how many bytes it takes.
///
/// # Safety
/// There is an address of that format; zero stands for strings.
pub(crate) unsafe fn read_address(format: u32, at: *const u8) -> Option<(Address, usize)> {
    let fixed = SOCKET_ADDRESSES.iter().find(|(known, _)| *known == format);
    let len = match fixed {
        Some((_, len)) => *len,
        None => {
            // SAFETY: the caller's contract: a string ends with a zero byte.
            let mut bytes = (0..LONGEST_NAME).map(|at_byte| unsafe { *at.add(at_byte) });
            bytes.position(|byte| byte == 0)? + 1
        }
    };
    // SAFETY: the caller's contract.
    let bytes = unsafe { core::slice::from_raw_parts(at, len) };
    let format = if format == 0 { FI_ADDR_STR } else { format };
    Some((address_from_bytes(bytes, format)?, len))
}

/// Adds addresses, one behind the other, and returns how many are valid; the others get `FI_ADDR_NOTAVAIL`.
unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut fi_addr_t,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the table is only in handles of address vectors.
    let av = unsafe { object::<Av>(av) };
    let (mut at, mut added) = (addr.cast::<u8>(), 0);
    for row in 0..count {
        // SAFETY: the consumer passes `count` addresses.
        let number = match unsafe { read_address(av.domain.info.addr_format, at) } {
            Some((address, len)) => {
                at = at.wrapping_add(len);
                av.add(address).ok()
            }
            None => None,
        };
        added += c_int::from(number.is_some());
        if !fi_addr.is_null() {
            // SAFETY: the consumer passes room for `count` numbers, or null.
            unsafe { fi_addr.add(row).write(number.unwrap_or(FI_ADDR_NOTAVAIL)) };
        }
    }
    added
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    fi_addr: *mut fi_addr_t,
    count: usize,
    _flags: u64,
) -> c_int {
    // SAFETY: the table is only in handles of address vectors; the consumer passes `count` numbers.
    let (av, numbers) = unsafe {
        if fi_addr.is_null() {
            return -Errno::INVAL.raw();
        }
        (
            object::<Av>(av),
            core::slice::from_raw_parts(fi_addr, count),
        )
    };
    status(numbers.iter().try_for_each(|number| av.remove(*number)))
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    fi_addr: fi_addr_t,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    // SAFETY: the table is only in handles of address vectors.
    let Some(address) = (unsafe { object::<Av>(av) }).address(fi_addr) else {
        return -Errno::INVAL.raw();
    };
    // SAFETY: the consumer passes room for `addrlen` bytes. An address that does not fit is cut off, and its length told.
    unsafe { _ = copy_address(&address, addr, addrlen) };
    0
}

/// Copies an address out as fi_getname does: as much as fits, and its length.
///
/// # Errors
/// `TOOSMALL` when it does not fit.
///
/// # Safety
/// `addrlen` may be read and written, and `addr` has room for as many bytes as it says.
pub(crate) unsafe fn copy_address(
    address: &Address,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> Result<(), Errno> {
    let (bytes, _) = address_to_c(address);
    // SAFETY: the caller's contract.
    unsafe {
        let room = addrlen.replace(bytes.len());
        let fitting = room.min(bytes.len());
        if !addr.is_null() {
            addr.cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), fitting);
        }
        match fitting < bytes.len() {
            true => Err(Errno::TOOSMALL),
            false => Ok(()),
        }
    }
}

unsafe extern "C" fn straddr(
    av: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: the table is only in handles of address vectors; the consumer passes an address, and room for `len` characters.
    unsafe {
        let Some((address, _)) =
            read_address(object::<Av>(av).domain.info.addr_format, addr.cast())
        else {
            return core::ptr::null();
        };
        let text = alloc::format!("{address}\0");
        let room = len.replace(text.len());
        if room > 0 && !buf.is_null() {
            let fitting = room.min(text.len());
            buf.cast::<u8>()
                .copy_from_nonoverlapping(text.as_ptr(), fitting);
            buf.add(fitting - 1).write(0);
        }
        buf
    }
}

unsafe extern "C" fn close_av(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in handles of address vectors.
    unsafe { close::<Av>(fid, |_| Ok(())) }
}
