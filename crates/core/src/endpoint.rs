//! Active endpoints, reliable datagram, connected and datagram: fi_endpoint(3), over any provider's device.
//!
//! The kinds differ in how a peer is named: by an address vector, or by the connection that the device has.
//!
//! One lock guards engine and device. The tables of the C header are constants generated for each provider, so that the
//! call through a table leads straight into code that knows its device. While an endpoint is disabled, its tables of
//! data transfers are others, whose every call gives `-FI_EOPBADSTATE`; enabling exchanges them.

mod alias;
pub(crate) mod apart;
mod atomic;
mod bind;
mod bindings;
mod call;
pub(crate) mod cm;
mod collective;
mod config;
mod connection;
pub(crate) mod context_pair;
mod control;
mod datagram;
mod defaults;
mod disabled;
pub(crate) mod dispatch;
mod drain;
mod joins;
mod loop_clock;
mod memory;
mod msg;
mod multicast;
mod option;
pub(crate) mod option_value;
mod profile;
mod receives;
mod rma;
pub(crate) mod scalable;
pub(crate) mod srx;
mod state;
pub(crate) mod stx;
mod tagged;
mod transfer;
mod trigger;
mod watch;

use core::ffi::c_void;
use core::ptr::NonNull;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use oxifabric_abi::{FI_CLASS_EP, FI_MSG_PREFIX, fi_addr_t, fi_ops, fid, fid_cntr, fid_ep};
use oxifabric_engine::{Failure, MAX_ATOMIC_BYTES};
use oxifabric_mem::Iov;
use oxifabric_provider::connection::MsgProvider;
use oxifabric_provider::device::{Device, Provider};
use oxifabric_provider::faults;
use oxifabric_provider::operations::Operations;
use oxifabric_sync::SwitchLock;
use oxifabric_types::{Caps, EpType, Errno, Info};

use crate::absent;
use crate::domain::Domain;
use crate::drive::{Drive, SleepState, Visit};
use crate::handle::{Fid, Ref, table};
use crate::passive::{Taken, device_of};
use crate::provider_entry::msg::Msg;
use bindings::Bindings;
use call::RecvCall;
use config::{config, datagram_config, directed};
use defaults::Defaults;
use srx::Feed;
use state::EndpointState;

/// An active endpoint.
#[repr(C)]
pub(crate) struct Endpoint<P: Provider> {
    fid: Fid<fid_ep>,
    defaults: Defaults,
    sizes: Sizes,
    state: SwitchLock<EndpointState<P::Device>>,
    bindings: Mutex<Bindings>,
    info: Info,
    domain: Ref<Domain>,
    /// How many aliases are open.
    aliases: AtomicUsize,
    /// How many collective groups it has joined.
    groups: AtomicUsize,
}

/// Lengths of messages, in bytes.
struct Sizes {
    /// What buffers have in front of a message (FI_MSG_PREFIX); it does not count.
    prefix: usize,
    /// What the endpoint was opened for.
    limit: usize,
    max_msg: AtomicUsize,
    max_tagged: AtomicUsize,
    max_rma: AtomicUsize,
    inject_msg: AtomicUsize,
    inject_tagged: AtomicUsize,
    inject_rma: AtomicUsize,
    max_atomic: AtomicUsize,
    inject_atomic: AtomicUsize,
}

impl<P: Provider> Endpoint<P> {
    /// An engine matches messages.
    const MATCHES: bool = <P::Device as Device>::Operations::MATCHES;

    /// Messages may have tags.
    const HAS_TAGS: bool = Self::MATCHES && !P::Device::DATAGRAM;

    const BASE: fi_ops = fi_ops {
        close: Some(Self::close),
        bind: Some(Self::bind),
        control: Some(Self::control),
        ops_open: Some(Self::ops_open),
        ..absent::BASE
    };

    /// Opens an endpoint in a domain, disabled.
    ///
    /// # Errors
    /// `INVAL` for another kind of endpoint, and what the device says.
    pub(crate) fn open(
        domain: &Domain,
        mut info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_ep, Errno> {
        if !P::Device::serves(info.ep.kind) && info.ep.kind != EpType::Unspec {
            return Err(Errno::INVAL);
        }
        info.src = info.src.or_else(P::fresh_name);
        let device = P::Device::open(&info, &domain.provider_domain()?)?;
        Self::with_device(domain, info, context, device, None)
    }

    /// Opens an endpoint over a device; `taken` is the request that the device was made from.
    fn with_device(
        domain: &Domain,
        info: Info,
        context: *mut c_void,
        device: P::Device,
        taken: Option<Taken>,
    ) -> Result<*mut fid_ep, Errno> {
        let faults = faults::planned_for::<P::Device>(P::NAME)?;
        let exact = (info.caps | info.rx.caps).contains(Caps::EXACT_DIRECTED_RECV);
        let config = match P::Device::DATAGRAM {
            false => config(&info),
            true => datagram_config(&info),
        };
        let directed = directed(info.caps | info.rx.caps);
        let progress = Arc::clone(domain.progress());
        let state =
            EndpointState::new(device, config, directed, exact, progress).with_faults(faults);
        // SAFETY: with the lock off, the application promised that one thread at a time uses the domain's objects;
        // neither engine nor device call back into the endpoint.
        let state = unsafe { SwitchLock::new(state, domain.locks()) };
        let rma = match (info.caps | info.tx.caps | info.rx.caps).contains(Caps::RMA) {
            true => &disabled::RMA,
            false => &disabled::NO_RMA,
        };
        let atomic = match (info.caps | info.tx.caps | info.rx.caps).contains(Caps::ATOMIC) {
            true => &disabled::ATOMIC,
            false => &absent::ATOMIC,
        };
        let groups = (info.caps | info.tx.caps | info.rx.caps).contains(Caps::COLLECTIVE);
        let collective = match Self::MATCHES && groups {
            true => const { &Self::COLLECTIVE },
            false => &absent::COLLECTIVE,
        };
        let fid = fid_ep {
            fid: fid {
                fclass: FI_CLASS_EP,
                context,
                ops: table(const { &Self::BASE }),
            },
            ops: table(const { &Self::EP }),
            cm: table(const { &Self::CM }),
            msg: table(&disabled::MSG),
            rma: table(rma),
            tagged: table(match Self::HAS_TAGS {
                true => &disabled::TAGGED,
                false => &absent::TAGGED,
            }),
            atomic: table(atomic),
            collective: table(collective),
        };
        let endpoint = Box::new(Self {
            fid: Fid::new(fid),
            defaults: Defaults::new(info.tx.op_flags, info.rx.op_flags),
            sizes: Sizes::new(&info, Self::inject_rma(&info)),
            state,
            bindings: Mutex::new(Bindings::answering(taken)),
            domain: Ref::to(domain),
            info,
            aliases: AtomicUsize::new(0),
            groups: AtomicUsize::new(0),
        });
        Ok(Box::into_raw(endpoint).cast())
    }

    /// Returns the endpoint of a handle.
    ///
    /// # Safety
    /// The handle was made by [`Endpoint::open`] of this very type and is open.
    #[inline]
    unsafe fn of<'a>(handle: *mut fid_ep) -> &'a Self {
        // SAFETY: the caller's contract; the type is `repr(C)` and begins with its handle.
        unsafe { &*handle.cast::<Self>() }
    }

    /// Returns whether the endpoint was opened for any of these capabilities.
    fn has(&self, caps: Caps) -> bool {
        (self.info.caps | self.info.tx.caps | self.info.rx.caps).intersects(caps)
    }

    /// Returns the endpoint as its queues see it.
    fn driven(&self) -> NonNull<dyn Drive> {
        NonNull::from(self)
    }
}

impl<P: MsgProvider> Endpoint<Msg<P>> {
    /// Opens a connected endpoint in a domain, disabled: to connect, to answer the request that is `handle`, or to connect
    /// from the address of the passive endpoint that is `handle`.
    ///
    /// # Errors
    /// `INVAL` for a handle of another kind, and in a domain that was opened without connections in view for serial use:
    /// its objects exclude no threads, but an event queue drives connections on any.
    ///
    /// # Safety
    /// `handle` is null or an open object of this provider.
    pub(crate) unsafe fn open_connected(
        domain: &Domain,
        info: Info,
        handle: *mut fid,
        context: *mut c_void,
    ) -> Result<*mut fid_ep, Errno> {
        if !domain.locks() {
            return Err(Errno::INVAL);
        }
        let shared = domain.provider_domain()?;
        let (device, taken) = match handle.is_null() {
            true => (P::Connected::open(&info, &shared)?, None),
            // SAFETY: the caller's contract.
            false => unsafe { device_of::<P>(&info, &shared, handle) }?,
        };
        Self::with_device(domain, info, context, device, taken)
    }
}

impl<P: Provider> Drive for Endpoint<P> {
    fn progress(&self) -> usize {
        self.state.with(EndpointState::progress)
    }

    fn arm(&self) -> bool {
        self.state.lock().sleep()
    }

    fn visit(&self, turn: &mut u32) -> Visit {
        let state = self.state.try_lock();
        state.map_or(Visit::Attended, |mut state| state.visit(turn))
    }

    fn prepare_to_sleep(&self, turn: &mut u32) -> SleepState {
        let state = self.state.try_lock();
        state.map_or(SleepState::Attended, |mut state| {
            state.prepare_to_sleep(turn)
        })
    }

    fn fd(&self) -> RawFd {
        self.state.lock().device.fd()
    }

    fn is_left_unread(&self) -> bool {
        self.state.lock().out.is_left_unread()
    }

    fn uses_region(&self, key: u64) -> bool {
        let mut state = self.state.lock();
        let engine = state.operations.engine();
        engine.is_some_and(|engine| engine.uses_region(key)) || state.device.is_accessed()
    }

    fn revoke_access(&self) {
        self.state.lock().device.revoke_access();
    }

    fn is_accessed(&self) -> bool {
        self.state.lock().device.is_accessed()
    }

    fn open_access(&self, is_open: bool) {
        let mut state = self.state.lock();
        state.out.opens_regions = is_open;
        if !is_open {
            state.device.revoke_access();
        }
    }

    fn is_bound_to(&self, counter: *const fid_cntr) -> bool {
        self.state.lock().out.counts_on(counter)
    }
}

impl<P: Provider> Feed for Endpoint<P> {
    fn feed(&self) {
        self.state.lock().feed();
    }

    fn counts_sources(&self) -> bool {
        self.state.lock().out.shared_sources.count()
    }

    fn learn(&self, source: fi_addr_t) {
        self.state.lock().learn_source(source);
    }

    fn look(&self, recv: &RecvCall, body: &Iov) -> Option<Result<(), Errno>> {
        let mut state = self.state.lock();
        let sees = state.sees(recv);
        sees.then(|| state.recv(recv, body.clone()))
    }

    fn report(&self, failure: Failure) {
        self.state.lock().report_failure(failure);
    }
}

impl Sizes {
    fn new(info: &Info, inject_rma: usize) -> Self {
        // Longer buffers cannot exist.
        let max = match info.ep.max_msg_size {
            0 => isize::MAX as usize,
            size => size.min(isize::MAX as usize),
        };
        Self {
            prefix: match info.mode & FI_MSG_PREFIX {
                0 => 0,
                _ => info.ep.msg_prefix_size,
            },
            limit: max,
            max_msg: AtomicUsize::new(max),
            max_tagged: AtomicUsize::new(max),
            max_rma: AtomicUsize::new(max),
            inject_msg: AtomicUsize::new(info.tx.inject_size),
            inject_tagged: AtomicUsize::new(info.tx.inject_size),
            inject_rma: AtomicUsize::new(inject_rma),
            max_atomic: AtomicUsize::new(MAX_ATOMIC_BYTES),
            inject_atomic: AtomicUsize::new(info.tx.inject_size.min(MAX_ATOMIC_BYTES)),
        }
    }
}
