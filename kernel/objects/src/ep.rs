//! Active endpoints. Source: fi_endpoint(3).
//!
//! An endpoint has an engine, which does all of the protocol, and a device, which moves the frames. Its work polls the device in a
//! thread of the kernel whenever there is something to poll for, so that messages move without calls of the consumer.

mod access;
mod atomic;
mod cm;
mod flags;
mod messages;
mod post;
mod report;
mod state;

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::ffi::{c_int, c_void};

use oxifabric_abi::{
    FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EP, FI_CLASS_EQ, FI_ENABLE, fi_info, fi_ops,
    fi_ops_ep, fid, fid_domain, fid_ep, fid_t,
};
use oxifabric_kernel_sync::{Mutex, Task, Work};
use oxifabric_types::{Caps, EpType, Errno, Info};

use crate::domain::{Domain, Member};
use crate::handle::{
    Fid, Object, Ref, Uses, close, failed, new_fid, object, publish, status, table,
};
use crate::level;
use crate::operations::Operations;
use crate::pep;
use crate::provider::{Arrival, Provider};

pub(crate) use atomic::query as query_atomic;
use flags::Defaults;
use state::{Phase, State};

/// An open endpoint.
#[repr(C)]
pub(crate) struct Ep<P: Provider> {
    fid: Fid<fid_ep>,
    uses: Uses,
    domain: Ref<Domain>,
    info: Box<Info>,
    defaults: Defaults,
    state: Mutex<State<P>>,
    work: Option<Arc<Work>>,
}

// SAFETY: it begins with the handle, and only `open` makes one, of this type.
unsafe impl<P: Provider> Object for Ep<P> {
    type Handle = fid_ep;
    const CLASS: usize = FI_CLASS_EP;

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl<P: Provider> Task for Ep<P> {
    fn run(self: Arc<Self>) {
        self.state.lock().drive(self.fid.as_ptr().cast());
    }
}

impl<P: Provider> Member for Ep<P> {
    fn uses_region(&self, key: u64) -> bool {
        let mut state = self.state.lock();
        let engine = state.operations.engine();
        engine.is_some_and(|engine| engine.uses_region(key))
    }
}

impl<P: Provider> Ep<P> {
    const OPS: &'static fi_ops = &fi_ops {
        close: Some(Self::close),
        bind: Some(Self::bind),
        control: Some(Self::control),
        ..fi_ops::NONE
    };

    const EP: &'static fi_ops_ep = &fi_ops_ep {
        cancel: Some(Self::cancel),
        getopt: Some(pep::getopt::<P>),
        ..fi_ops_ep::NONE
    };

    pub(crate) unsafe extern "C" fn open(
        domain: *mut fid_domain,
        info: *mut fi_info,
        place: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in handles of domains; the consumer passes an entry of fi_getinfo, or of a request.
        let (domain, handle) = unsafe {
            let handle = info
                .as_ref()
                .map_or(core::ptr::null_mut(), |info| info.handle);
            (Ref::<Domain>::of(domain), handle)
        };
        // The request is taken before anything can fail for want of memory: where the endpoint is not made, it is dropped and so refused.
        let opened = pep::take_request::<P>(&domain.fabric, handle).and_then(|request| {
            // SAFETY: as above.
            let info = unsafe { oxifabric_info::boxed_from_c(info) }?;
            let ep = Self::new(domain, info, context)?;
            ep.start(request)?;
            Ok(ep)
        });
        // SAFETY: the consumer passes a place for the handle.
        status(opened.map(|ep| unsafe { publish(ep, place) }))
    }

    /// Makes an endpoint without a device. Apart, as descriptions are long and a kernel's stack is short.
    #[inline(never)]
    fn new(domain: Ref<Domain>, info: Box<Info>, context: *mut c_void) -> Result<Arc<Self>, Errno> {
        if !matches!(info.ep.kind, EpType::Rdm | EpType::Msg) {
            return Err(Errno::INVAL);
        }
        let has = |caps: Caps| info.caps.contains(caps);
        let handle = fid_ep {
            fid: new_fid::<Self>(context, Self::OPS),
            ops: table(Self::EP),
            cm: table(Self::CM),
            msg: if has(Caps::MSG) {
                table(Self::MSG)
            } else {
                core::ptr::null_mut()
            },
            rma: if has(Caps::RMA) {
                table(Self::RMA)
            } else {
                core::ptr::null_mut()
            },
            tagged: if has(Caps::TAGGED) {
                table(Self::TAGGED)
            } else {
                core::ptr::null_mut()
            },
            atomic: if has(Caps::ATOMIC) {
                table(Self::ATOMIC)
            } else {
                core::ptr::null_mut()
            },
            collective: core::ptr::null_mut(),
        };
        let state = State::new(&info, domain.clone());
        let state = Mutex::new(level::ENDPOINT, state).ok_or(Errno::NOMEM)?;
        Ok(Arc::new_cyclic(|weak: &Weak<Self>| Self {
            fid: Fid::new(handle),
            uses: Uses::default(),
            domain,
            defaults: Defaults::new(info.tx.op_flags, info.rx.op_flags),
            info,
            state,
            work: Work::new(weak.clone()),
        }))
    }

    /// Gives it its device, that of a request if there is one.
    fn start(
        self: &Arc<Self>,
        request: Option<impl Arrival<Device = P::Device, Domain = P::Domain>>,
    ) -> Result<(), Errno> {
        match request {
            Some(request) => self.take_over(request)?,
            None => self.begin_anew()?,
        }
        let member: Weak<Self> = Arc::downgrade(self);
        self.domain.join(member)
    }

    /// Gives it the device of a request. Apart, as [`Ep::new`] is.
    #[inline(never)]
    fn take_over(
        &self,
        request: impl Arrival<Device = P::Device, Domain = P::Domain>,
    ) -> Result<(), Errno> {
        let work = self.work.as_ref().ok_or(Errno::NOMEM)?;
        let domain = self.domain.shared::<P>()?;
        let device = request.into_device(&domain, work)?;
        let mut state = self.state.lock();
        (state.device, state.phase) = (Some(device), Phase::Asked);
        Ok(())
    }

    /// Gives it a device of its own. Apart, as [`Ep::new`] is.
    #[inline(never)]
    fn begin_anew(&self) -> Result<(), Errno> {
        let work = self.work.as_ref().ok_or(Errno::NOMEM)?;
        let domain = self.domain.shared::<P>()?;
        let device = P::device(&self.info, &domain, work)?;
        self.state.lock().device = Some(device);
        Ok(())
    }

    /// Lets go of all that it has; operations that are outstanding end without completions.
    fn end(&self) -> Result<(), Errno> {
        if let Some(work) = &self.work {
            if work.is_current() {
                return Err(Errno::BUSY);
            }
            work.stop();
        }
        let left = self.state.lock().end();
        left.forget(self.fid.as_ptr().cast());
        Ok(())
    }

    unsafe extern "C" fn bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int {
        // SAFETY: the table is only in handles of this type; the other one is of an open object.
        let (ep, class) = unsafe { (object::<Self>(fid.cast()), (*bfid).fclass) };
        let mut state = ep.state.lock();
        if state.phase != Phase::Disabled && state.phase != Phase::Asked {
            return -Errno::OPBADSTATE.raw();
        }
        // SAFETY: the class says what it is.
        status(unsafe {
            match (class, &ep.work) {
                (FI_CLASS_CQ, Some(work)) => {
                    state.report.bind_cq(Ref::of(bfid.cast()), flags, work)
                }
                (FI_CLASS_CNTR, _) => state.report.bind_cntr(Ref::of(bfid.cast()), flags),
                (FI_CLASS_AV, _) => {
                    state.av = Some(Ref::of(bfid.cast()));
                    Ok(())
                }
                (FI_CLASS_EQ, _) => {
                    state.eq = Some(Ref::of(bfid.cast()));
                    Ok(())
                }
                _ => Err(Errno::INVAL),
            }
        })
    }

    unsafe extern "C" fn control(fid: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
        if command != FI_ENABLE {
            return -Errno::NOSYS.raw();
        }
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(fid.cast()) };
        let enabled = {
            let mut state = ep.state.lock();
            ep.defaults.select(state.report.selective());
            state.enable(&ep.info)
        };
        ep.poll_soon();
        status(enabled)
    }

    /// Has the device polled soon.
    fn poll_soon(&self) {
        if let Some(work) = &self.work {
            work.queue();
        }
    }

    unsafe extern "C" fn cancel(fid: fid_t, context: *mut c_void) -> isize {
        // SAFETY: the table is only in handles of this type.
        let ep = unsafe { object::<Self>(fid.cast()) };
        let mut state = ep.state.lock();
        let State {
            operations, report, ..
        } = &mut *state;
        match operations.cancel(report, context.addr()) {
            Ok(()) => 0,
            Err(errno) => failed(errno),
        }
    }

    unsafe extern "C" fn close(fid: *mut fid) -> c_int {
        // SAFETY: the table is only in handles of this type.
        unsafe { close::<Self>(fid, Self::end) }
    }
}
