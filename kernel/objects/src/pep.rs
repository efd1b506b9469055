//! Passive endpoints: what connections are asked of. Source: fi_endpoint(3), fi_cm(3).

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use oxifabric_abi::{
    FI_CLASS_CONNREQ, FI_CLASS_EQ, FI_CLASS_PEP, FI_CONNREQ, FI_OPT_CM_DATA_SIZE, FI_OPT_ENDPOINT,
    fi_info, fi_ops, fi_ops_cm, fi_ops_ep, fid, fid_fabric, fid_pep, fid_t,
};
use oxifabric_info::address_from_c;
use oxifabric_kernel_sync::{Mutex, Task, Work};
use oxifabric_types::{EpType, Errno, Info};

use crate::av::copy_address;
use crate::eq::{Eq, Event};
use crate::fabric::Fabric;
use crate::handle::{Fid, Object, Ref, Uses, close, new_fid, object, publish, status, table};
use crate::level;
use crate::provider::{Arrival, Listener, Provider};

/// How many requests wait to be accepted or refused, beyond which more are refused.
const BACKLOG: usize = 128;

type ArrivalOf<P> = <<P as Provider>::Listener as Listener>::Arrival;

/// An open passive endpoint.
#[repr(C)]
pub(crate) struct Pep<P: Provider> {
    fid: Fid<fid_pep>,
    uses: Uses,
    fabric: Ref<Fabric>,
    info: Box<Info>,
    state: Mutex<State<P>>,
    work: Option<Arc<Work>>,
}

struct State<P: Provider> {
    listener: Option<P::Listener>,
    eq: Option<Ref<Eq>>,
    is_listening: bool,
    /// What the consumer was told of and has neither accepted nor refused.
    requests: Vec<Box<Request<P>>>,
}

/// A request for a connection, as `fi_info.handle` names it.
#[repr(C)]
pub(crate) struct Request<P: Provider> {
    fid: fid,
    arrival: Option<ArrivalOf<P>>,
}

// SAFETY: the handle in it names nothing; it is only compared.
unsafe impl<P: Provider> Send for Request<P> {}

// SAFETY: it begins with the handle, and only `open` makes one, of this type.
unsafe impl<P: Provider> Object for Pep<P> {
    type Handle = fid_pep;
    const CLASS: usize = FI_CLASS_PEP;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl<P: Provider> Task for Pep<P> {
    fn run(self: Arc<Self>) {
        self.take_requests();
    }
}

impl<P: Provider> Pep<P> {
    const OPS: &'static fi_ops = &fi_ops {
        close: Some(Self::close),
        bind: Some(Self::bind),
        ..fi_ops::NONE
    };

    const EP: &'static fi_ops_ep = &fi_ops_ep {
        getopt: Some(getopt::<P>),
        ..fi_ops_ep::NONE
    };

    const CM: &'static fi_ops_cm = &fi_ops_cm {
        setname: Some(Self::setname),
        getname: Some(Self::getname),
        listen: Some(Self::listen),
        reject: Some(Self::reject),
        ..fi_ops_cm::NONE
    };

    pub(crate) unsafe extern "C" fn open(
        fabric: *mut fid_fabric,
        info: *mut fi_info,
        place: *mut *mut fid_pep,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in handles of fabrics; the consumer passes an entry of fi_getinfo.
        let (fabric, info) = unsafe {
            (
                Ref::<Fabric>::of(fabric),
                oxifabric_info::boxed_from_c(info),
            )
        };
        let opened = info.and_then(|info| Self::new(fabric, info, context));
        // SAFETY: the consumer passes a place for the handle.
        status(opened.map(|pep| unsafe { publish(pep, place) }))
    }

    fn new(fabric: Ref<Fabric>, info: Box<Info>, context: *mut c_void) -> Result<Arc<Self>, Errno> {
        if info.ep.kind != EpType::Msg {
            return Err(Errno::OPNOTSUPP);
        }
        let handle = fid_pep {
            fid: new_fid::<Self>(context, Self::OPS),
            ops: table(Self::EP),
            cm: table(Self::CM),
        };
        let state = State {
            listener: None,
            eq: None,
            is_listening: false,
            requests: Vec::new(),
        };
        let state = Mutex::new(level::ENDPOINT, state).ok_or(Errno::NOMEM)?;
        let pep = Arc::new_cyclic(|weak: &Weak<Self>| Self {
            fid: Fid::new(handle),
            uses: Uses::default(),
            fabric,
            info,
            state,
            work: Work::new(weak.clone()),
        });
        let work = pep.work.as_ref().ok_or(Errno::NOMEM)?;
        pep.state.lock().listener = Some(P::listener(&pep.info, work)?);
        let passive: Weak<Self> = Arc::downgrade(&pep);
        pep.fabric.join(passive)?;
        Ok(pep)
    }

    /// Tells the event queue of each request that has come.
    fn take_requests(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (Some(listener), Some(eq)) = (&mut state.listener, &state.eq) else {
            return;
        };
        while let Some(arrival) = listener.next() {
            if state.requests.len() >= BACKLOG || state.requests.try_reserve(1).is_err() {
                arrival.reject(&[]);
                continue;
            }
            let mut described = copied(&self.info);
            (described.dest, described.src) = (Some(arrival.from()), Some(listener.address()));
            let data = arrival.data().to_vec();
            let mut request = Box::new(Request {
                fid: fid {
                    fclass: FI_CLASS_CONNREQ,
                    ..fid::ZERO
                },
                arrival: Some(arrival),
            });
            let info = oxifabric_info::to_c(&described);
            // SAFETY: null, or an entry of our own.
            if let Some(entry) = unsafe { info.as_mut() } {
                entry.handle = &raw mut request.fid;
            }
            let event = Event {
                kind: FI_CONNREQ,
                fid: self.fid.as_ptr().cast(),
                info,
                data,
                errno: None,
            };
            // A request that the queue does not take is dropped, which refuses it.
            if !info.is_null() && eq.push(event) {
                state.requests.push(request);
            }
        }
    }

    /// Takes the request that a handle names.
    fn take(&self, handle: fid_t) -> Option<ArrivalOf<P>> {
        let mut state = self.state.lock();
        let mut fids = state.requests.iter().map(|request| &raw const request.fid);
        let at = fids.position(|fid| core::ptr::eq(fid, handle))?;
        state.requests.swap_remove(at).arrival.take()
    }

    fn with_listener<R>(
        &self,
        call: impl FnOnce(&mut P::Listener) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut state = self.state.lock();
        call(state.listener.as_mut().ok_or(Errno::OPBADSTATE)?)
    }

    fn start(&self) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.eq.is_none() {
            return Err(Errno::NOEQ);
        }
        if state.is_listening {
            return Err(Errno::OPBADSTATE);
        }
        state.listener.as_mut().ok_or(Errno::OPBADSTATE)?.listen()?;
        state.is_listening = true;
        Ok(())
    }

    fn end(&self) -> Result<(), Errno> {
        if let Some(work) = &self.work {
            if work.is_current() {
                return Err(Errno::BUSY);
            }
            work.stop();
        }
        let (listener, eq, requests) = {
            let mut state = self.state.lock();
            let requests = core::mem::take(&mut state.requests);
            (state.listener.take(), state.eq.take(), requests)
        };
        drop((listener, requests));
        if let Some(eq) = eq {
            eq.forget(self.fid.as_ptr().cast());
        }
        Ok(())
    }

    unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, _flags: u64) -> c_int {
        // SAFETY: the table is only in handles of this type; the other one is of an open object.
        let (pep, class) = unsafe { (object::<Self>(fid.cast()), (*bfid).fclass) };
        if class != FI_CLASS_EQ {
            return -Errno::INVAL.raw();
        }
        // SAFETY: it is an event queue.
        pep.state.lock().eq = Some(unsafe { Ref::of(bfid.cast()) });
        0
    }

    unsafe extern "C" fn setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int {
        // SAFETY: the table is only in handles of this type; the consumer passes an address.
        let (pep, address) = unsafe {
            let pep = object::<Self>(fid.cast());
            (pep, address_from_c(addr, addrlen, pep.info.addr_format))
        };
        let address = address.and_then(|address| address.ok_or(Errno::INVAL));
        status(
            address
                .and_then(|address| pep.with_listener(|listener| listener.set_address(&address))),
        )
    }

    unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int {
        // SAFETY: the table is only in handles of this type.
        let pep = unsafe { object::<Self>(fid.cast()) };
        let address = pep.with_listener(|listener| Ok(listener.address()));
        // SAFETY: the consumer passes room for `addrlen` bytes.
        status(address.and_then(|address| unsafe { copy_address(&address, addr, addrlen) }))
    }

    unsafe extern "C" fn listen(pep: *mut fid_pep) -> c_int {
        // SAFETY: the table is only in handles of this type.
        status(unsafe { object::<Self>(pep) }.start())
    }

    unsafe extern "C" fn reject(
        pep: *mut fid_pep,
        handle: fid_t,
        param: *const c_void,
        paramlen: usize,
    ) -> c_int {
        // SAFETY: the table is only in handles of this type; the consumer passes data of that length.
        let (pep, data) = unsafe { (object::<Self>(pep), data::<P>(param, paramlen)) };
        let arrival = pep.take(handle).ok_or(Errno::INVAL);
        status(data.and_then(|data| arrival.map(|arrival| arrival.reject(data))))
    }

    unsafe extern "C" fn close(fid: *mut fid) -> c_int {
        // SAFETY: the table is only in handles of this type.
        unsafe { close::<Self>(fid, Self::end) }
    }
}

/// Copies a description. Apart, as it is long and a kernel's stack is short.
#[inline(never)]
fn copied(info: &Info) -> Box<Info> {
    Box::new(info.clone())
}

/// Takes the request that `fi_info.handle` names, to become an endpoint. The handle is compared and not followed: a request that was accepted or
/// refused is found no more.
///
/// # Errors
/// `INVAL` when no passive endpoint of the fabric has it.
pub(crate) fn take_request<P: Provider>(
    fabric: &Fabric,
    handle: fid_t,
) -> Result<Option<ArrivalOf<P>>, Errno> {
    if handle.is_null() {
        return Ok(None);
    }
    let peps = fabric.passive::<P>();
    let found = peps.iter().find_map(|pep| pep.take(handle));
    found.map(Some).ok_or(Errno::INVAL)
}

/// Returns the data of a call.
///
/// # Errors
/// `INVAL` when there is too much.
///
/// # Safety
/// `param` is null or has `len` readable bytes.
pub(crate) unsafe fn data<'a, P: Provider>(
    param: *const c_void,
    len: usize,
) -> Result<&'a [u8], Errno> {
    match (param.is_null(), len) {
        (true, _) | (_, 0) => Ok(&[]),
        (false, _) if len <= P::CM_DATA => {
            // SAFETY: the caller's contract.
            Ok(unsafe { core::slice::from_raw_parts(param.cast(), len) })
        }
        _ => Err(Errno::INVAL),
    }
}

/// Tells how much data may go with a connection.
pub(crate) unsafe extern "C" fn getopt<P: Provider>(
    _fid: fid_t,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut usize,
) -> c_int {
    if level != FI_OPT_ENDPOINT || optname != FI_OPT_CM_DATA_SIZE {
        return -Errno::NOPROTOOPT.raw();
    }
    // SAFETY: the consumer passes room for `optlen` bytes.
    unsafe {
        if optlen.replace(size_of::<usize>()) < size_of::<usize>() {
            return -Errno::TOOSMALL.raw();
        }
        optval.cast::<usize>().write(P::CM_DATA);
    }
    0
}
