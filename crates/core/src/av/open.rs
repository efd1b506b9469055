//! Opening address vectors: fi_av(3) "fi_av_open".

use core::ffi::{CStr, c_void};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use oxifabric_abi::{FI_AV_USER_ID, FI_EVENT, FI_READ, FI_SYMMETRIC, fi_av_attr, fid_av};
use oxifabric_types::{AvType, Caps, Errno};

use super::Av;
use super::ops::OPS;
use super::shared::Shared;
use super::table::Table;
use crate::domain::Domain;
use crate::handle::{self, Fid, Ref, Uses, publish, table};
use crate::sockaddr;

/// How many bits of an address may name a receive context.
const MAX_CONTEXT_BITS: u32 = 16;

/// Opens a vector in a domain. An unspecified type is chosen and returned in the attributes, as is the place of the
/// addresses of a named vector.
///
/// # Errors
/// `INVAL` without attributes or for what the domain does not have, and as [`Shared::open`].
pub(crate) fn open(
    domain: &Domain,
    attr: Option<&mut fi_av_attr>,
    context: *mut c_void,
) -> Result<*mut fid_av, Errno> {
    let attr = attr.ok_or(Errno::INVAL)?;
    if attr.flags & !(FI_EVENT | FI_SYMMETRIC | FI_READ | FI_AV_USER_ID) != 0 {
        return Err(Errno::INVAL);
    }
    let caps = domain.info().caps | domain.info().domain.caps;
    let named_by_user = attr.flags & FI_AV_USER_ID != 0;
    if named_by_user && !caps.contains(Caps::AV_USER_ID) {
        return Err(Errno::INVAL);
    }
    if !sockaddr::format_is_known(domain.info().addr_format) {
        return Err(Errno::NOSYS);
    }
    let context_bits = u32::try_from(attr.rx_ctx_bits).map_err(|_| Errno::INVAL)?;
    if context_bits > MAX_CONTEXT_BITS {
        return Err(Errno::INVAL);
    }
    choose_type(domain.info().domain.av_type, attr)?;
    let shared = open_shared(domain, attr)?;
    let fid = fid_av {
        fid: handle::new_fid::<Av>(context),
        ops: table(&OPS),
    };
    Ok(publish(Av {
        fid: Fid::new(fid),
        uses: Uses::none(),
        domain: Ref::to(domain),
        table: Mutex::new(Table::new(attr.count)),
        changes: AtomicU64::new(1),
        removals: AtomicU64::new(1),
        asynchronous: attr.flags & FI_EVENT != 0,
        context_bits,
        named_by_user,
        shared,
        eq: Mutex::new(None),
    }))
}

/// Opens the memory that processes share, if the vector has a name.
fn open_shared(domain: &Domain, attr: &mut fi_av_attr) -> Result<Option<Shared>, Errno> {
    let read_only = attr.flags & FI_READ != 0;
    if attr.name.is_null() {
        return if read_only {
            Err(Errno::INVAL)
        } else {
            Ok(None)
        };
    }
    // SAFETY: the application passes a string.
    let name = unsafe { CStr::from_ptr(attr.name) }.to_str();
    let name = name.map_err(|_| Errno::INVAL)?;
    let scope = format!(
        "{}/{}",
        domain.fabric().entry().name,
        domain.info().domain.name
    );
    let shared = Shared::open(&scope, name, attr.count, read_only)?;
    attr.map_addr = shared.names().cast();
    Ok(Some(shared))
}

/// Settles the type of a vector: the domain's, if that does for the application, or else the application's.
fn choose_type(domain: AvType, attr: &mut fi_av_attr) -> Result<(), Errno> {
    let wanted = AvType::from_raw(attr.type_).ok_or(Errno::INVAL)?;
    if !domain.serves(wanted) {
        return Err(Errno::INVAL);
    }
    let chosen = match (domain, wanted) {
        (AvType::Unspec, AvType::Unspec) => AvType::Table,
        (AvType::Unspec, wanted) => wanted,
        (domain, _) => domain,
    };
    attr.type_ = chosen.raw();
    Ok(())
}
