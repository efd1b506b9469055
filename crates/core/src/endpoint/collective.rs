//! Collectives, as C programs start them: fi_collective(3).
//!
//! `count` is the number of elements of one slice: what a member brings to a gather, gets of a scatter, or exchanges
//! with each other in an alltoall. Of a scatter, an alltoall and a reduce_scatter the input has as many slices as there
//! are members, of a gather, an allgather and an alltoall the result.
//!
//! Descriptors are not read: what members exchange is copied and calculated with on the way, so that it has to be memory of the host, and is
//! none of the registered memory when a device gets it.

use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null, null_mut};
use std::sync::atomic::Ordering;

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, FI_ADDR_UNSPEC, FI_ALLGATHER, FI_ALLREDUCE, FI_ALLTOALL, FI_COLLECTIVE,
    FI_GATHER, FI_NOOP, FI_RECV, FI_REDUCE_SCATTER, FI_SCATTER, FI_SEND, FI_VOID, fi_addr_t,
    fi_collective_addr, fi_collective_op, fi_datatype, fi_op, fi_ops_collective, fid_ep, fid_mc,
};
use oxifabric_collectives::Collective;
use oxifabric_engine::{CollectiveOp, Engine, GroupId};
use oxifabric_provider::device::{Device, Provider};
use oxifabric_provider::operations::Operations;
use oxifabric_types::{Caps, Errno, Flags, PeerId};

use super::Endpoint;
use super::memory::{Ignored, Lend, buffer};
use super::state::EndpointState;
use crate::absent::no6;
use crate::av_set::AvSet;
use crate::collective::{Group, Member, arithmetic, datatype, group, named};
use crate::domain::Domain;
use crate::eq::Eq;
use crate::handle::{self, Ref, checked, failed, hand_out, object};
use crate::misuse;

/// A collective as a call describes it.
struct Call {
    what: Collective,
    buf: *const c_void,
    result: *mut c_void,
    count: usize,
    group: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: Flags,
    context: *mut c_void,
}

impl<P: Provider> Member for Endpoint<P> {
    fn leave_group(&self, id: GroupId, handle: usize) {
        let state = &mut *self.state.lock();
        state.out.forget_join(handle);
        // Unknown, if joining it never began.
        let _ = state
            .operations
            .leave(&mut state.device, &mut state.out, id);
        state.note_posted();
        self.groups.fetch_sub(1, Ordering::Release);
    }
}

impl<P: Provider> Endpoint<P> {
    pub(super) const COLLECTIVE: fi_ops_collective = fi_ops_collective {
        barrier: Some(Self::barrier),
        broadcast: Some(Self::broadcast),
        alltoall: Some(Self::exchange::<FI_ALLTOALL>),
        allreduce: Some(Self::combine::<FI_ALLREDUCE>),
        allgather: Some(Self::exchange::<FI_ALLGATHER>),
        reduce_scatter: Some(Self::combine::<FI_REDUCE_SCATTER>),
        reduce: Some(Self::reduce),
        scatter: Some(Self::slices::<FI_SCATTER>),
        gather: Some(Self::slices::<FI_GATHER>),
        msg: Some(no6),
        barrier2: Some(Self::barrier2),
        ..fi_ops_collective::NONE
    };

    /// Joins a collective group, fi_join_collective, or one for multicast.
    pub(super) unsafe extern "C" fn join_group(
        ep: *mut fid_ep,
        addr: *const c_void,
        flags: u64,
        mc: *mut *mut fid_mc,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the table is only in the handles of this type.
        let endpoint = unsafe { Self::of(ep) };
        if flags & FI_COLLECTIVE == 0 && endpoint.has(Caps::MULTICAST) {
            // SAFETY: without FI_COLLECTIVE, the address is that of a group in the endpoint's format.
            return unsafe { Self::join_multicast(ep, addr, flags, mc, context) };
        }
        if flags & FI_COLLECTIVE == 0 || !endpoint.has(Caps::COLLECTIVE) {
            return -Errno::NOSYS.raw();
        }
        if flags & !(FI_COLLECTIVE | FI_SEND | FI_RECV) != 0 {
            return -Errno::BADFLAGS.raw();
        }
        // SAFETY: with the flag, the address is of that structure; the application passes a place for the handle.
        unsafe {
            let addr = addr.cast::<fi_collective_addr>().as_ref();
            hand_out(mc, || endpoint.join_set(addr, context))
        }
    }

    /// Joins the group of a set.
    ///
    /// # Safety
    /// The address names an open set.
    unsafe fn join_set(
        &self,
        addr: Option<&fi_collective_addr>,
        context: *mut c_void,
    ) -> Result<*mut fid_mc, Errno> {
        let addr = addr.ok_or(Errno::INVAL)?;
        // SAFETY: the caller's contract.
        let set: &AvSet = unsafe { checked(addr.set.cast_mut().cast()) }?;
        let eq = self.events().ok_or(Errno::NOEQ)?;
        if !self.state.lock().enabled {
            return Err(Errno::OPBADSTATE);
        }
        // A program that waits for the event reads nothing else.
        // SAFETY: the endpoint is boxed, leaves the queue before it goes, and excludes threads since it has collectives.
        unsafe { eq.join(self.driven()) }?;
        // SAFETY: the endpoint is boxed, and does not close as long as it has groups.
        let handle = unsafe { Group::open(NonNull::from(self as &dyn Member), context) };
        self.groups.fetch_add(1, Ordering::Relaxed);
        match self.join_members(set, addr.coll_addr, handle.addr(), context.addr(), eq) {
            Ok(id) => {
                // SAFETY: the handle was just made.
                unsafe { object::<Group>(handle) }.name(id);
                Ok(handle)
            }
            Err(errno) => {
                // SAFETY: as above, and no other thread has it.
                unsafe { handle::close::<Group>(handle.cast()) }?;
                Err(errno)
            }
        }
    }

    /// Begins to join the group whose handle is `handle`.
    fn join_members(
        &self,
        set: &AvSet,
        address: fi_addr_t,
        handle: usize,
        context: usize,
        eq: Ref<Eq>,
    ) -> Result<GroupId, Errno> {
        let state = &mut *self.state.lock();
        if !state.enabled {
            return Err(Errno::OPBADSTATE);
        }
        if !state.av.as_ref().is_some_and(|av| set.is_of(av)) {
            return Err(Errno::INVAL);
        }
        if ![set.address(), FI_ADDR_NOTAVAIL].contains(&address) {
            // The members of a larger group found a smaller one.
            engine(state)?.group_shape(group(address)?)?;
        }
        let members = set.members().into_iter();
        let members: Result<Vec<_>, _> = members
            .map(|member| state.target(member, misuse::Call::Named("fi_join_collective")))
            .collect();
        let members = members?;
        state.out.expect_join(eq, handle, context);
        let joined = state
            .operations
            .join(&mut state.device, &mut state.out, &members, handle);
        state.note_posted();
        joined
    }

    fn start_collective(&self, call: &Call) -> isize {
        let state = &mut *self.state.lock();
        if !state.enabled {
            return failed(Errno::OPBADSTATE);
        }
        match start(&self.domain, state, call) {
            Ok(()) => 0,
            Err(errno) => failed(errno),
        }
    }

    /// Returns the flags of a call without flags; what is injected can only be sent.
    fn collective_flags(&self) -> Flags {
        self.defaults.tx.plain().difference(Flags::INJECT)
    }

    unsafe extern "C" fn barrier(
        ep: *mut fid_ep,
        coll_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        ep.start_collective(&Call {
            flags: ep.collective_flags(),
            ..Call::new(Collective::Barrier, coll_addr, context)
        })
    }

    unsafe extern "C" fn barrier2(
        ep: *mut fid_ep,
        coll_addr: fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        ep.start_collective(&Call {
            flags: ep.defaults.tx.given(flags),
            ..Call::new(Collective::Barrier, coll_addr, context)
        })
    }

    unsafe extern "C" fn broadcast(
        ep: *mut fid_ep,
        buf: *mut c_void,
        count: usize,
        _desc: *mut c_void,
        coll_addr: fi_addr_t,
        root_addr: fi_addr_t,
        datatype: fi_datatype,
        flags: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        ep.start_collective(&Call {
            result: buf,
            count,
            root: root_addr,
            datatype,
            flags: ep.defaults.tx.given(flags),
            ..Call::new(Collective::Broadcast, coll_addr, context)
        })
    }

    /// All-to-all and allgather: no member differs from the others, and nothing is combined.
    unsafe extern "C" fn exchange<const WHAT: fi_collective_op>(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        _desc: *mut c_void,
        result: *mut c_void,
        _result_desc: *mut c_void,
        coll_addr: fi_addr_t,
        datatype: fi_datatype,
        flags: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        ep.start_collective(&Call {
            buf,
            result,
            count,
            datatype,
            flags: ep.defaults.tx.given(flags),
            ..Call::new(const { known(WHAT) }, coll_addr, context)
        })
    }

    /// Allreduce and reduce-scatter: no member differs from the others.
    unsafe extern "C" fn combine<const WHAT: fi_collective_op>(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        _desc: *mut c_void,
        result: *mut c_void,
        _result_desc: *mut c_void,
        coll_addr: fi_addr_t,
        datatype: fi_datatype,
        op: fi_op,
        flags: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        ep.start_collective(&Call {
            buf,
            result,
            count,
            datatype,
            op,
            flags: ep.defaults.tx.given(flags),
            ..Call::new(const { known(WHAT) }, coll_addr, context)
        })
    }

    /// Scatter and gather: one member differs from the others, and nothing is combined.
    unsafe extern "C" fn slices<const WHAT: fi_collective_op>(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        _desc: *mut c_void,
        result: *mut c_void,
        _result_desc: *mut c_void,
        coll_addr: fi_addr_t,
        root_addr: fi_addr_t,
        datatype: fi_datatype,
        flags: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        ep.start_collective(&Call {
            buf,
            result,
            count,
            root: root_addr,
            datatype,
            flags: ep.defaults.tx.given(flags),
            ..Call::new(const { known(WHAT) }, coll_addr, context)
        })
    }

    unsafe extern "C" fn reduce(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        _desc: *mut c_void,
        result: *mut c_void,
        _result_desc: *mut c_void,
        coll_addr: fi_addr_t,
        root_addr: fi_addr_t,
        datatype: fi_datatype,
        op: fi_op,
        flags: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the table is only in the handles of this type.
        let ep = unsafe { Self::of(ep) };
        ep.start_collective(&Call {
            buf,
            result,
            count,
            root: root_addr,
            datatype,
            op,
            flags: ep.defaults.tx.given(flags),
            ..Call::new(Collective::Reduce, coll_addr, context)
        })
    }
}

impl Call {
    /// Makes the call of a collective without data.
    const fn new(what: Collective, group: fi_addr_t, context: *mut c_void) -> Self {
        Self {
            what,
            buf: null(),
            result: null_mut(),
            count: 0,
            group,
            root: FI_ADDR_UNSPEC,
            datatype: FI_VOID,
            op: FI_NOOP,
            flags: Flags::empty(),
            context,
        }
    }
}

/// Returns the collective of a table's function; the compiler refuses a number that is none.
const fn known(what: fi_collective_op) -> Collective {
    named(what).expect("it is the number of a collective")
}

/// Returns the engine, which knows the groups.
fn engine<D: Device>(state: &EndpointState<D>) -> Result<&Engine, Errno> {
    state.operations.engine().ok_or(Errno::NOSYS)
}

/// Starts a collective.
fn start<D: Device>(
    domain: &Domain,
    state: &mut EndpointState<D>,
    call: &Call,
) -> Result<(), Errno> {
    let id = group(call.group)?;
    let (rank, size) = engine(state)?.group_shape(id)?;
    let root = match call.what.has_root() {
        true => state.target(call.root, misuse::Call::Named("fi_collective"))?,
        false => PeerId::ANY,
    };
    let is_root = engine(state)?.rank_of(id, root) == Some(rank);
    let element = match call.what {
        Collective::Barrier => 1,
        _ => datatype(call.datatype)?.size(),
    };
    let arithmetic = match call.what.reduces() {
        true => Some(arithmetic(call.datatype, call.op)?),
        false => None,
    };
    let len = call.count.checked_mul(element).ok_or(Errno::MSGSIZE)?;
    let all = |slices: usize| len.checked_mul(slices).ok_or(Errno::MSGSIZE);
    let (brings, gets) = (
        all(call.what.brings(size, is_root))?,
        all(call.what.gets(size, is_root))?,
    );
    // SAFETY: the application leaves the buffers to the operation (fi_collective(3)).
    let (input, result) = unsafe {
        (
            buffer::<Ignored>(domain, call.buf, brings, null_mut()),
            buffer::<Ignored>(domain, call.result, gets, null_mut()),
        )
    };
    let mut input = input.ok_or(Errno::INVAL)?.lend();
    let mut result = result.ok_or(Errno::INVAL)?.lend();
    if call.flags.contains(Flags::INJECT) {
        input = input.duplicate().ok_or(Errno::NOMEM)?;
        if call.what == Collective::Broadcast && is_root {
            result = result.duplicate().ok_or(Errno::NOMEM)?;
        }
    }
    let op = CollectiveOp {
        group: id,
        what: call.what,
        root,
        len,
        input,
        result,
        arithmetic,
        flags: call.flags,
        context: call.context.addr(),
    };
    let begun = state
        .operations
        .collective(&mut state.device, &mut state.out, op);
    state.note_posted();
    if begun == Err(Errno::AGAIN) {
        state.progress();
    }
    begun
}
