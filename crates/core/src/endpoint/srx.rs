//! Shared receive contexts: fi_srx_context(3). Several endpoints take receives from one list.
//!
//! Messages stay with the endpoint that got them: its engine takes a receive from here when it has none of its own.
//! Posting a receive therefore looks for a waiting message only if an endpoint has found no receive since it was last
//! fed.
//!
//! Order of locks: members, then an endpoint, then the list of receives.

mod calls;
mod receives;
mod sources;

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use oxifabric_abi::{
    FI_ADDR_UNSPEC, FI_CLASS_SRX_CTX, fi_addr_t, fi_ops, fi_ops_msg, fi_ops_tagged, fid_ep,
};
use oxifabric_engine::{Completion, Failure, RxOp};
use oxifabric_mem::Iov;
use oxifabric_sync::SwitchLock;
use oxifabric_types::{Caps, Errno, Flags, PeerId};

use super::call::RecvCall;
use super::config::{MIN_MULTI_RECV, directed};
use super::defaults::Defaults;
use super::memory::{Descriptors, Ignored, Read};
use crate::absent;
use crate::cq::{Cq, NO_SOURCE};
use crate::domain::Domain;
use crate::handle::{self, Fid, Object, Ref, Uses, publish, table};
use crate::lock::lock;
use calls::Calls;
pub(super) use receives::Found;
use receives::SharedReceives;
pub(super) use sources::SharedSources;

/// A shared receive context.
#[repr(C)]
pub(crate) struct Srx {
    fid: Fid<fid_ep>,
    uses: Uses,
    domain: Ref<Domain>,
    defaults: Defaults,
    /// Which receives must name their source (FI_EXACT_DIRECTED_RECV): `MSG`, `TAGGED`.
    exact: Flags,
    /// The source counts for an endpoint (FI_DIRECTED_RECV).
    directed: AtomicBool,
    min_multi_recv: AtomicUsize,
    receives: SwitchLock<SharedReceives>,
    members: SwitchLock<Vec<Member>>,
    /// Where receives that were cancelled or found nothing are reported, if the application chose a queue; otherwise at the first endpoint.
    cq: Mutex<Option<Ref<Cq>>>,
}

/// An endpoint that takes receives from here.
pub(super) trait Feed: Sync {
    /// Gives waiting messages what they find here.
    fn feed(&self);

    /// Returns whether the sources of receives count.
    fn counts_sources(&self) -> bool;

    /// Resolves the source that a receive names.
    fn learn(&self, source: fi_addr_t);

    /// Looks for a message that a receive with FI_PEEK or FI_CLAIM is about, and answers it if there is one.
    fn look(&self, recv: &RecvCall, body: &Iov) -> Option<Result<(), Errno>>;

    /// Reports a receive that was cancelled, or found nothing.
    fn report(&self, failure: Failure);
}

struct Member(NonNull<dyn Feed>);

// SAFETY: `Feed` is `Sync`, and the pointer stands for a shared reference.
unsafe impl Send for Member {}

impl Member {
    fn get(&self) -> &dyn Feed {
        // SAFETY: an endpoint that joined leaves before it goes (contract of `Srx::join`).
        unsafe { self.0.as_ref() }
    }

    fn is(&self, other: NonNull<dyn Feed>) -> bool {
        self.0.cast::<()>() == other.cast::<()>()
    }
}

// SAFETY: `repr(C)`, begins with its handle; `publish` boxes every one with `BASE`.
unsafe impl Object for Srx {
    type Handle = fid_ep;
    const CLASS: usize = FI_CLASS_SRX_CTX;

    fn ops() -> &'static fi_ops {
        &calls::BASE
    }

    fn uses(&self) -> &Uses {
        &self.uses
    }
}

/// Returns the calls that post receives.
fn tables<D: Descriptors>() -> (&'static fi_ops_msg, &'static fi_ops_tagged) {
    const { (&Calls::<D>::MSG, &Calls::<D>::TAGGED) }
}

impl Srx {
    /// Opens a context of a domain; `caps` are those asked of it, `op_flags` those of calls without flags.
    pub(crate) fn open(
        domain: &Domain,
        caps: Caps,
        op_flags: Flags,
        context: *mut c_void,
    ) -> *mut fid_ep {
        let (msg, tagged) = match domain.fabric().entry().reads_descriptors {
            true => tables::<Read>(),
            false => tables::<Ignored>(),
        };
        let fid = fid_ep {
            fid: handle::new_fid::<Self>(context),
            ops: table(&calls::EP),
            cm: table(&calls::CM),
            msg: table(msg),
            rma: table(&absent::RMA),
            tagged: table(tagged),
            atomic: table(&absent::ATOMIC),
            collective: table(&absent::COLLECTIVE),
        };
        let caps = caps | domain.info().caps | domain.info().rx.caps;
        let exact = match caps.contains(Caps::EXACT_DIRECTED_RECV) {
            true => directed(caps),
            false => Flags::empty(),
        };
        let locks = domain.locks();
        // SAFETY: with the locks off, the application promised that one thread at a time uses the domain's objects; the
        // list calls no other object, and no endpoint that is fed comes back to the members.
        let (receives, members) = unsafe {
            (
                SwitchLock::new(SharedReceives::default(), locks),
                SwitchLock::new(Vec::new(), locks),
            )
        };
        publish(Self {
            fid: Fid::new(fid),
            uses: Uses::none(),
            domain: Ref::to(domain),
            defaults: Defaults::new(Flags::empty(), op_flags),
            exact,
            directed: AtomicBool::new(false),
            min_multi_recv: AtomicUsize::new(MIN_MULTI_RECV),
            receives,
            members,
            cq: Mutex::default(),
        })
    }

    /// Returns the domain.
    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Lets an endpoint take receives from here.
    ///
    /// # Safety
    /// The endpoint stays where it is until it leaves.
    pub(super) unsafe fn join(&self, endpoint: NonNull<dyn Feed>) {
        let mut members = self.members.lock();
        if !members.iter().any(|member| member.is(endpoint)) {
            let member = Member(endpoint);
            if member.get().counts_sources() {
                self.directed.store(true, Ordering::Relaxed);
                let sources = self.receives.lock().sources();
                sources.iter().for_each(|&name| member.get().learn(name));
            }
            members.push(member);
        }
    }

    /// Ends what [`Srx::join`] began.
    pub(super) fn leave(&self, endpoint: NonNull<dyn Feed>) {
        self.members.lock().retain(|member| !member.is(endpoint));
    }

    /// Takes the first receive that a message takes; `accepts` judges the source.
    pub(super) fn take(
        &self,
        class: Flags,
        tag: u64,
        len: usize,
        accepts: impl Fn(fi_addr_t) -> bool,
    ) -> Found {
        self.receives.lock().take(class, tag, len, accepts)
    }

    /// Takes note of what became of a piece of a multi-receive buffer: `piece` becomes what the application sees. Returns
    /// the failure of the buffer, if that follows.
    pub(super) fn ended(&self, piece: &mut Completion) -> Option<Failure> {
        self.receives.lock().ended(piece)
    }

    /// Returns the room below which a multi-receive buffer that is posted now is released (FI_OPT_MIN_MULTI_RECV).
    fn min_multi_recv(&self) -> usize {
        self.min_multi_recv.load(Ordering::Relaxed)
    }

    /// Adds a receive, and gives it to a message that waits for one.
    ///
    /// # Errors
    /// `INVAL` without a source where it must be named; `AGAIN` when no more can be kept.
    fn post(&self, op: RxOp, source: fi_addr_t) -> Result<(), Errno> {
        if source == FI_ADDR_UNSPEC && op.flags.intersects(self.exact) {
            return Err(Errno::INVAL);
        }
        if source != FI_ADDR_UNSPEC && self.directed.load(Ordering::Relaxed) {
            self.learn(source);
        }
        let starved = self
            .receives
            .lock()
            .add(op, source, self.min_multi_recv())?;
        if starved {
            self.feed();
        }
        Ok(())
    }

    /// Looks for a message at the endpoints (FI_PEEK, FI_CLAIM, FI_DISCARD): the first that has one answers.
    ///
    /// # Errors
    /// `INVAL` for FI_DISCARD alone, and without a source where it must be named.
    fn look(&self, recv: &RecvCall, body: &Iov) -> Result<(), Errno> {
        let unnamed = recv.from == FI_ADDR_UNSPEC && recv.flags.intersects(self.exact);
        if unnamed || !recv.flags.intersects(Flags::PEEK | Flags::CLAIM) {
            return Err(Errno::INVAL);
        }
        let answered = {
            let members = self.members.lock();
            members
                .iter()
                .find_map(|member| member.get().look(recv, body))
        };
        answered.unwrap_or_else(|| {
            self.report(Failure {
                op: Completion {
                    context: recv.context.addr(),
                    flags: recv.flags & (Flags::MSG | Flags::TAGGED) | Flags::RECV,
                    len: 0,
                    buf: 0,
                    data: 0,
                    tag: recv.tag,
                    from: PeerId::ANY,
                    wanted: true,
                },
                errno: Errno::NOMSG,
                overflow: 0,
                code: 0,
            });
            Ok(())
        })
    }

    #[cold]
    fn learn(&self, source: fi_addr_t) {
        let members = self.members.lock();
        for member in members.iter() {
            member.get().learn(source);
        }
    }

    #[cold]
    fn feed(&self) {
        let members = self.members.lock();
        for member in members.iter() {
            member.get().feed();
        }
    }

    /// Takes a receive off the list and reports it as cancelled.
    fn cancel(&self, context: usize) -> Result<(), Errno> {
        if let Some(failure) = self.receives.lock().cancel(context)? {
            self.report(failure);
        }
        Ok(())
    }

    /// Reports what belongs to no endpoint.
    fn report(&self, failure: Failure) {
        if let Some(cq) = &*lock(&self.cq) {
            cq.push_failure(&failure, NO_SOURCE, None);
        } else if let Some(member) = self.members.lock().first() {
            member.get().report(failure);
        }
    }

    /// Reports what is cancelled to this queue.
    fn bind_cq(&self, cq: &Cq) -> Result<(), Errno> {
        if !core::ptr::eq(cq.domain(), self.domain()) {
            return Err(Errno::DOMAIN);
        }
        let mut bound = lock(&self.cq);
        if bound.is_some() {
            return Err(Errno::INVAL);
        }
        *bound = Some(Ref::to(cq));
        Ok(())
    }
}
