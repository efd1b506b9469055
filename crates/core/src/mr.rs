//! Memory regions: fi_mr(3).
//!
//! The provider's domain makes the memory usable by its devices, and the table of regions gives it a key. To a software provider
//! any memory of the process is usable as it is, so that only the key remains.

mod attr;
pub(crate) mod persistent;
pub(crate) mod raw;
pub(crate) mod regions;
pub(crate) mod rma_targets;

use core::ffi::{c_int, c_void};
use std::sync::Mutex;

use libc::iovec;
use oxifabric_abi::{
    FI_CLASS_CNTR, FI_CLASS_EP, FI_CLASS_MR, FI_ENABLE, FI_GET_RAW_MR, FI_KEY_NOTAVAIL,
    FI_MR_COMPLETE, FI_REFRESH, FI_REMOTE_READ, FI_REMOTE_WRITE, fi_eq_entry, fi_mr_attr,
    fi_mr_modify, fi_ops, fi_ops_mr, fid, fid_domain, fid_mr,
};
use oxifabric_mem::{MAX_SEGMENTS, MemoryKind, RegionId, Registration};
use oxifabric_provider::domain::{Registered, RegistrationRequest};
use oxifabric_types::{Caps, Errno, Flags, MrMode};

use regions::Region;

use crate::absent;
use crate::cntr::Cntr;
use crate::domain::Domain;
use crate::handle::{self, Fid, Object, Ref, Uses, checked, hand_out, object, publish, status};
use crate::lock::lock;
use attr::MrRequest;

/// What peers may do with a region.
const REMOTE: Flags = Flags::REMOTE_READ.union(Flags::REMOTE_WRITE);

/// A registered region.
#[repr(C)]
pub(crate) struct Mr {
    fid: Fid<fid_mr>,
    uses: Uses,
    domain: Ref<Domain>,
    /// The region that this one is a part of.
    base: Option<Ref<Self>>,
    request: MrRequest,
    /// Its place in the table of regions, unless peers may do nothing with it.
    key: Option<u64>,
    /// The provider's number of it, if that needs one.
    registration: Option<RegionId>,
    state: Mutex<State>,
}

/// What changes of a region.
struct State {
    /// Peers may access it.
    enabled: bool,
    /// It was bound to an endpoint.
    bound: bool,
    /// Counters that are bound to it.
    counters: Vec<Ref<Cntr>>,
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Mr {
    type Handle = fid_mr;
    const CLASS: usize = FI_CLASS_MR;

    fn ops() -> &'static fi_ops {
        &BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.domain.regions().remove(key);
        }
        for counter in lock(&self.state).counters.drain(..) {
            self.domain.rma_targets().remove_counter(&counter);
        }
    }
}

/// Returns the provider's domain and its number of the region with this handle.
///
/// # Errors
/// `INVAL` for what is no region, or one that the provider has no number for.
///
/// # Safety
/// The handle is null or one of an open object.
pub(crate) unsafe fn registration(
    handle: *mut c_void,
) -> Result<oxifabric_provider::handles::Registration, Errno> {
    // SAFETY: the caller's contract.
    let mr: &Mr = unsafe { checked(handle.cast()) }?;
    let region = mr.registration.ok_or(Errno::INVAL)?;
    Ok((mr.domain.shared_provider(), region))
}

impl Mr {
    /// Registers memory under a key.
    fn register(
        domain: &Domain,
        request: MrRequest,
        base: Option<Ref<Self>>,
    ) -> Result<*mut fid_mr, Errno> {
        let mode = domain.info().domain.mr_mode;
        let later = mode.contains(MrMode::ENDPOINT)
            || (mode.contains(MrMode::RMA_EVENT) && request.counted);
        if request.persistent && !domain.info().caps.contains(Caps::RMA_PMEM) {
            return Err(Errno::BADFLAGS);
        }
        let registered = register_with_provider(domain, &request)?;
        if request.persistent {
            domain.rma_targets().watch();
        }
        let region = Region {
            pieces: request.pieces.clone(),
            access: if later {
                Flags::empty()
            } else {
                request.access
            },
            single_use: request.single_use,
            persistent: request.persistent,
            registration: registered.region.map(|region| Registration {
                region,
                kind: request.kind,
            }),
        };
        let key = match request.access.intersects(REMOTE) {
            true => Some(insert(domain, region, request.key, registered)?),
            false => None,
        };
        let context = request.context;
        let fid = fid_mr {
            fid: handle::new_fid::<Self>(context),
            mem_desc: core::ptr::null_mut(),
            key: match key {
                Some(key) if !mode.contains(MrMode::RAW) => key,
                _ => FI_KEY_NOTAVAIL,
            },
        };
        let mr = publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            domain: Ref::to(domain),
            base,
            request,
            key,
            registration: registered.region,
            state: Mutex::new(State {
                enabled: !later,
                bound: false,
                counters: Vec::new(),
            }),
        });
        // SAFETY: the handle is new, no other thread has it. Applications pass the descriptor back; it stands for itself.
        unsafe { (*mr).mem_desc = mr.cast() };
        report(domain, mr, context);
        Ok(mr)
    }

    /// Returns the registration that a descriptor names. `Some(None)`: the memory is usable without one, as the provider numbers no regions or the region is host memory of another domain.
    /// `None`: the descriptor is no region's, or one of another domain's region in the memory of a device.
    ///
    /// # Safety
    /// `desc` is that of an open region.
    #[inline]
    pub(crate) unsafe fn registration(
        domain: &Domain,
        desc: *mut c_void,
    ) -> Option<Option<Registration>> {
        // SAFETY: the caller's contract: descriptors are handles (`register`).
        let mr = unsafe { checked::<Self>(desc.cast()) }.ok()?;
        if !core::ptr::eq(&raw const *mr.domain, domain) {
            return (mr.request.kind == MemoryKind::Host).then_some(None);
        }
        let kind = mr.request.kind;
        Some(mr.registration.map(|region| Registration { region, kind }))
    }

    /// Returns whether the modes of the domain ask for fi_mr_enable(3), and it has been called.
    fn is_settled(&self, state: &State) -> bool {
        let modes = MrMode::ENDPOINT | MrMode::RMA_EVENT;
        state.enabled && self.domain.info().domain.mr_mode.intersects(modes)
    }

    fn bind_counter(&self, counter: &Cntr, flags: u64) -> Result<(), Errno> {
        if flags == 0 || flags & !(FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
            return Err(Errno::BADFLAGS);
        }
        if !core::ptr::eq(counter.domain(), &*self.domain) {
            return Err(Errno::DOMAIN);
        }
        let mut state = lock(&self.state);
        if self.is_settled(&state) && self.request.counted {
            return Err(Errno::OPBADSTATE);
        }
        let Some(key) = self.key else {
            // No peer has access, so there is nothing to count.
            return Ok(());
        };
        self.domain.rma_targets().add_counter(counter)?;
        state.counters.push(Ref::to(counter));
        let access = Flags::from_bits_retain(flags);
        self.domain.regions().count(key, access, Ref::to(counter));
        Ok(())
    }

    /// Regions belong to the whole domain, so that an endpoint is only noted.
    fn bind_endpoint(&self, flags: u64) -> Result<(), Errno> {
        if flags != 0 {
            return Err(Errno::BADFLAGS);
        }
        lock(&self.state).bound = true;
        Ok(())
    }

    /// Lets peers at it.
    fn enable(&self) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let by_endpoint = self.domain.info().domain.mr_mode.contains(MrMode::ENDPOINT);
        if by_endpoint && !state.bound {
            return Err(Errno::INVAL);
        }
        if !state.enabled
            && let Some(key) = self.key
        {
            self.domain.regions().permit(key, self.request.access);
        }
        state.enabled = true;
        Ok(())
    }

    /// Pages are looked up when they are accessed, so that there is nothing to refresh; the list is checked all the same.
    ///
    /// # Safety
    /// `modify` is null or the argument of fi_mr_refresh(3).
    unsafe fn refresh(&self, modify: *const fi_mr_modify) -> Result<(), Errno> {
        // SAFETY: the caller's contract.
        let Some(modify) = (unsafe { modify.as_ref() }) else {
            return Ok(());
        };
        if modify.flags != 0 {
            return Err(Errno::BADFLAGS);
        }
        let (iov, count) = (modify.attr.mr_iov, modify.attr.iov_count);
        if count > MAX_SEGMENTS {
            return Err(Errno::INVAL);
        }
        for at in (0..count).filter(|_| !iov.is_null()) {
            // SAFETY: the application promises `count` entries.
            let piece = unsafe { *iov.add(at) };
            if !self.holds(piece.iov_base.addr(), piece.iov_len) {
                return Err(Errno::INVAL);
            }
        }
        Ok(())
    }

    /// Returns whether one of its pieces has these bytes.
    fn holds(&self, addr: usize, len: usize) -> bool {
        self.request.pieces.iter().any(|piece| {
            let offset = addr.checked_sub(piece.base().addr());
            offset.is_some_and(|offset| offset <= piece.len() && len <= piece.len() - offset)
        })
    }

    /// Takes the region from peers, waits for what they have begun, and ends the provider's registration.
    ///
    /// # Errors
    /// `BUSY` when an access does not end, and what the provider says; peers have the region as before then.
    fn retire(&self) -> Result<(), Errno> {
        let Some(key) = self.key else {
            return self.deregister();
        };
        self.domain.regions().permit(key, Flags::empty());
        let retired = match self.domain.rma_targets().quiesce(key) {
            true => self.deregister(),
            false => Err(Errno::BUSY),
        };
        if retired.is_err() && lock(&self.state).enabled {
            self.domain.regions().permit(key, self.request.access);
        }
        retired
    }

    fn deregister(&self) -> Result<(), Errno> {
        match self.registration {
            Some(region) => self.domain.provider().deregister(region),
            None => Ok(()),
        }
    }
}

/// Makes memory usable by the provider's devices.
fn register_with_provider(domain: &Domain, request: &MrRequest) -> Result<Registered, Errno> {
    domain.provider().register(&RegistrationRequest {
        pieces: &request.pieces,
        access: request.access,
        kind: request.kind,
        device: request.device,
        key: (domain.regions().takes_requests()).then_some(request.key),
    })
}

/// Lets peers name a region: by the key that the provider made, or by one of ours. Where that fails, the provider's registration ends.
fn insert(
    domain: &Domain,
    region: Region,
    requested: u64,
    registered: Registered,
) -> Result<u64, Errno> {
    let inserted = match registered.key {
        Some(key) => domain.regions().insert_under(key, region),
        None => domain.regions().insert(region, requested),
    };
    if inserted.is_err()
        && let Some(region) = registered.region
    {
        // It was never used.
        let _ = domain.provider().deregister(region);
    }
    inserted
}

/// Reports to the event queue of a domain that was bound with `FI_REG_MR`.
fn report(domain: &Domain, mr: *mut fid_mr, context: *mut c_void) {
    if let Some(events) = domain.events().filter(|events| events.registrations) {
        let entry = fi_eq_entry {
            fid: mr.cast(),
            context,
            data: 0,
        };
        events.eq.post(FI_MR_COMPLETE, &entry);
    }
}

/// Registration calls of a domain.
pub(crate) static OPS: fi_ops_mr = fi_ops_mr {
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
    ..fi_ops_mr::NONE
};

static BASE: fi_ops = fi_ops {
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    ..absent::BASE
};

unsafe extern "C" fn reg(
    domain: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let piece = iovec {
        iov_base: buf.cast_mut(),
        iov_len: len,
    };
    // SAFETY: one piece, alive during the call; the rest is the application's.
    unsafe {
        regv(
            domain,
            &piece,
            1,
            access,
            offset,
            requested_key,
            flags,
            mr,
            context,
        )
    }
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let attr = fi_mr_attr {
        mr_iov: iov,
        iov_count: count,
        access,
        offset,
        requested_key,
        context,
        ..fi_mr_attr::ZERO
    };
    // SAFETY: the attributes are alive during the call; the rest is the application's.
    unsafe { regattr(domain, &attr, flags, mr) }
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the table is only in the handles of domains.
    let domain: &Domain = unsafe { object(domain.cast::<fid_domain>()) };
    let register = || {
        // SAFETY: the application passes attributes of its version with a list of pieces, or null.
        let request = unsafe { MrRequest::read(attr, flags, domain.fabric().api_version()) }?;
        let requested_key = request.key;
        // SAFETY: the application passes an open region or null.
        let base = unsafe { base_of(&request, domain) }?;
        Mr::register(domain, request, base).inspect_err(|&cause| {
            let asked =
                format!("key {requested_key}; keys that a program chooses differ within a domain");
            domain.log_not_opened("fi_mr_reg", &asked, cause);
        })
    };
    // SAFETY: the application passes a place for the handle.
    unsafe { hand_out(mr, register) }
}

/// Finds the region that another one is to be a part of, fi_mr(3) "base_mr".
///
/// # Errors
/// `INVAL` when it is not one of this domain, or has not all of the memory.
///
/// # Safety
/// The base is null or an open region of some provider.
unsafe fn base_of(request: &MrRequest, domain: &Domain) -> Result<Option<Ref<Mr>>, Errno> {
    if request.base.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    let base = unsafe { checked::<Mr>(request.base.cast_mut().cast()) }?;
    let holds = request
        .pieces
        .iter()
        .all(|piece| base.holds(piece.base().addr(), piece.len()));
    match core::ptr::eq(&*base.domain, domain) && holds {
        true => Ok(Some(Ref::to(base))),
        false => Err(Errno::INVAL),
    }
}

/// fi_mr(3) "fi_close": waits for accesses that have begun, docs/adr/0005.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    {
        // SAFETY: the table is only in the handles of regions.
        let mr: &Mr = unsafe { object(fid.cast()) };
        if mr.uses.any() {
            return -Errno::BUSY.raw();
        }
        if let Err(errno) = mr.retire() {
            return -errno.raw();
        }
    }
    // SAFETY: the application gives the region up, and no access to it is under way.
    status(unsafe { handle::close::<Mr>(fid) })
}

/// fi_mr(3) "fi_mr_bind": a counter of remote accesses, or the endpoint that may be accessed.
unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
    if bfid.is_null() {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in the handles of regions; the application binds an open object.
    let (mr, class) = unsafe { (object::<Mr>(fid.cast()), (*bfid).fclass) };
    status(match class {
        FI_CLASS_CNTR => {
            // SAFETY: as above.
            unsafe { checked::<Cntr>(bfid) }.and_then(|cntr| mr.bind_counter(cntr, flags))
        }
        FI_CLASS_EP => mr.bind_endpoint(flags),
        _ => Err(Errno::INVAL),
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the table is only in the handles of regions.
    let mr: &Mr = unsafe { object(fid.cast()) };
    status(match command {
        FI_ENABLE => mr.enable(),
        // SAFETY: the application passes what the command takes.
        FI_REFRESH => unsafe { mr.refresh(arg.cast()) },
        FI_GET_RAW_MR => mr.key.ok_or(Errno::INVAL).and_then(|key| {
            let base = mr.domain.regions().base(key);
            // SAFETY: the application passes what the command takes.
            unsafe { raw::describe(arg.cast(), base, key) }
        }),
        _ => Err(Errno::NOSYS),
    })
}
