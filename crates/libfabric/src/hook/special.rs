//! Hooked operations that do more than pass a call on: their arguments contain handles, or they open, close or change objects.

use core::ffi::{c_int, c_void};

use oxifabric_abi::*;

use super::Completion;
use super::shims::{fi_ops as base, fi_ops_cm, fi_ops_cq, fi_ops_domain, fi_ops_eq, fi_ops_fabric};
use super::wrapper::{Has, Wrapper, down, refresh, set_format, unwrap, up, wrap};

/// Closes the provider's object, and the wrapper with it. The hooks of a fabric report when it is closed.
///
/// # Safety
/// As for fi_close(3), with a wrapper.
pub(super) unsafe extern "C" fn close<T: Has<fi_ops>>(fid: *mut fid) -> c_int {
    // SAFETY: the caller's contract; after a success no thread uses the handle.
    unsafe {
        let class = (*fid).fclass;
        let code = base::close::<T>(fid);
        if code == 0 {
            let (hooks, open) = unwrap(fid.cast::<T>());
            if class == FI_CLASS_FABRIC {
                hooks.hooks().for_each(|hook| hook.finish(open));
            }
        }
        code
    }
}

/// Binds the provider's objects that two wrappers stand for.
///
/// # Safety
/// As for fi_bind, with wrappers.
pub(super) unsafe extern "C" fn bind<T: Has<fi_ops>>(
    fid: *mut fid,
    bfid: *mut fid,
    flags: u64,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let code = base::bind::<T>(fid, bfid, flags);
        refresh(fid.cast::<T>());
        code
    }
}

/// Passes a command on, with the handles in its argument. Source: fi_control(3).
///
/// # Safety
/// As for fi_control(3), with a wrapper.
pub(super) unsafe extern "C" fn control<T: Has<fi_ops>>(
    fid: *mut fid,
    command: c_int,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract says what the argument of a command is.
    unsafe {
        match command {
            FI_QUEUE_WORK if !arg.is_null() => lower_work(&mut *arg.cast()),
            FI_REFRESH if !arg.is_null() => {
                let attr = &mut (*arg.cast::<fi_mr_modify>()).attr;
                attr.base_mr = down(attr.base_mr.cast_mut());
            }
            FI_GET_MR_XPU_DESC if !arg.is_null() => {
                let desc = &mut *arg.cast::<fi_mr_xpu_desc>();
                desc.ctx = down(desc.ctx);
            }
            _ => {}
        }
        let code = base::control::<T>(fid, command, arg);
        let wrapper = Wrapper::of(fid.cast::<T>());
        if command == FI_ALIAS && code == 0 {
            let fi_alias { fid: place, flags } = *arg.cast::<fi_alias>();
            let alias = wrap((*place).cast::<T>(), wrapper.hooks());
            let same = FI_TRIGGER | wrapper.triggered();
            Wrapper::of(alias).set_default_flags(same);
            Wrapper::of(alias).set_default_flags(flags);
            *place = alias.cast();
        }
        if command == FI_SETOPSFLAG && code == 0 {
            wrapper.set_default_flags(*arg.cast::<u64>());
        }
        refresh(fid.cast::<T>());
        code
    }
}

/// Replaces the wrappers in deferred work by the provider's handles. The provider owns the structure until the work is done, so they stay replaced;
/// work that is queued again has the provider's handles already. Source: fi_trigger(3).
///
/// # Safety
/// The work is valid.
unsafe fn lower_work(work: &mut fi_deferred_work) {
    work.triggering_cntr = down(work.triggering_cntr);
    work.completion_cntr = down(work.completion_cntr);
    // SAFETY: the type of the operation tells which member is set.
    unsafe {
        match work.op_type {
            FI_OP_RECV | FI_OP_SEND => (*work.op.msg).ep = down((*work.op.msg).ep),
            FI_OP_TRECV | FI_OP_TSEND => (*work.op.tagged).ep = down((*work.op.tagged).ep),
            FI_OP_READ | FI_OP_WRITE => (*work.op.rma).ep = down((*work.op.rma).ep),
            FI_OP_ATOMIC => (*work.op.atomic).ep = down((*work.op.atomic).ep),
            FI_OP_FETCH_ATOMIC => (*work.op.fetch_atomic).ep = down((*work.op.fetch_atomic).ep),
            FI_OP_COMPARE_ATOMIC => {
                (*work.op.compare_atomic).ep = down((*work.op.compare_atomic).ep)
            }
            FI_OP_CNTR_SET | FI_OP_CNTR_ADD => (*work.op.cntr).cntr = down((*work.op.cntr).cntr),
            _ => {}
        }
    }
}

/// Asks for several objects whether the caller may sleep. Source: fi_poll(3).
///
/// # Safety
/// As for fi_trywait.
pub(super) unsafe extern "C" fn trywait(
    fabric: *mut fid_fabric,
    fids: *mut *mut fid,
    count: c_int,
) -> c_int {
    let Some(many) = usize::try_from(count).ok().filter(|_| !fids.is_null()) else {
        // SAFETY: the caller's contract.
        return unsafe { fi_ops_fabric::trywait::<fid_fabric>(fabric, fids, count) };
    };
    // SAFETY: the application passes that many handles.
    unsafe {
        let handles = core::slice::from_raw_parts(fids, many).iter();
        let mut inner: Vec<*mut fid> = handles.map(|&fid| down(fid)).collect();
        fi_ops_fabric::trywait::<fid_fabric>(fabric, inner.as_mut_ptr(), count)
    }
}

/// Opens a completion queue and remembers its format.
///
/// # Safety
/// As for fi_cq_open.
pub(super) unsafe extern "C" fn cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let code = fi_ops_domain::cq_open::<fid_domain>(domain, attr, cq, context);
        if code == 0 {
            let format = if attr.is_null() {
                FI_CQ_FORMAT_UNSPEC
            } else {
                (*attr).format
            };
            set_format(*cq, format);
        }
        code
    }
}

/// Opens an endpoint and remembers its default flags.
///
/// # Safety
/// As for fi_endpoint(3).
pub(super) unsafe extern "C" fn endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let code = fi_ops_domain::endpoint::<fid_domain>(domain, info, ep, context);
        note_flags(code, info, ep);
        code
    }
}

/// As [`endpoint`], with flags, which say whether the attributes name the context of an accelerator.
///
/// # Safety
/// As for fi_endpoint2.
pub(super) unsafe extern "C" fn endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        if flags & FI_XPU == 0 || info.is_null() || (*info).ep_attr.is_null() {
            let code = fi_ops_domain::endpoint2::<fid_domain>(domain, info, ep, flags, context);
            note_flags(code, info, ep);
            return code;
        }
        let place = &raw mut (*(*info).ep_attr).xpu_ctx;
        let named = place.replace(down(*place));
        let code = fi_ops_domain::endpoint2::<fid_domain>(domain, info, ep, flags, context);
        note_flags(code, info, ep);
        place.write(named);
        code
    }
}

/// Remembers the default flags in the attributes of an endpoint; they are in the same place in every API version.
///
/// # Safety
/// If the call succeeded, its arguments are valid.
unsafe fn note_flags(code: c_int, info: *const fi_info, ep: *mut *mut fid_ep) {
    if code != 0 {
        return;
    }
    // SAFETY: the caller's contract; attributes are null or valid.
    unsafe {
        let wrapper = Wrapper::of(*ep);
        for (way, flags) in [
            (
                FI_TRANSMIT,
                (*info).tx_attr.as_ref().map(|attr| attr.op_flags),
            ),
            (FI_RECV, (*info).rx_attr.as_ref().map(|attr| attr.op_flags)),
        ] {
            wrapper.set_default_flags(way | flags.unwrap_or(0) & FI_TRIGGER);
        }
    }
}

/// Joins a group; the address of a collective one holds the handle of a set. Source: fi_collective(3).
///
/// # Safety
/// As for fi_join.
pub(super) unsafe extern "C" fn join(
    ep: *mut fid_ep,
    addr: *const c_void,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    // SAFETY: with FI_COLLECTIVE the address is such a structure; the copy outlives the call.
    unsafe {
        if flags & FI_COLLECTIVE == 0 || addr.is_null() {
            return fi_ops_cm::join::<fid_ep>(ep, addr, flags, mc, context);
        }
        let mut group = *addr.cast::<fi_collective_addr>();
        group.set = down(group.set.cast_mut());
        fi_ops_cm::join::<fid_ep>(ep, (&raw const group).cast(), flags, mc, context)
    }
}

/// Reads an event, which names one of the application's objects.
///
/// # Safety
/// As for fi_eq_read.
pub(super) unsafe extern "C" fn eq_read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        let read = fi_ops_eq::read::<fid_eq>(eq, event, buf, len, flags);
        raise_event(event, buf, read);
        read
    }
}

/// As [`eq_read`], after waiting.
///
/// # Safety
/// As for fi_eq_sread.
pub(super) unsafe extern "C" fn eq_sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        let read = fi_ops_eq::sread::<fid_eq>(eq, event, buf, len, timeout, flags);
        raise_event(event, buf, read);
        read
    }
}

/// Reads an error, which names one of the application's objects.
///
/// # Safety
/// As for fi_eq_readerr.
pub(super) unsafe extern "C" fn eq_readerr(
    eq: *mut fid_eq,
    buf: *mut fi_eq_err_entry,
    flags: u64,
) -> isize {
    // SAFETY: the caller's contract.
    unsafe {
        let read = fi_ops_eq::readerr::<fid_eq>(eq, buf, flags);
        if read > 0 {
            (*buf).fid = up((*buf).fid);
        }
        read
    }
}

/// Replaces the provider's handle in an event by the application's. All events but FI_NOTIFY, which the application writes, begin with one.
///
/// # Safety
/// `read` bytes of an event are in `buf`.
unsafe fn raise_event(event: *mut u32, buf: *mut c_void, read: isize) {
    // SAFETY: the caller's contract.
    unsafe {
        if read < size_of::<*mut fid>() as isize || *event == FI_NOTIFY {
            return;
        }
        let place: *mut *mut fid = buf.cast();
        let inner = place.read_unaligned();
        let handle = up(inner);
        if handle == inner || handle.is_null() {
            return;
        }
        place.write_unaligned(handle);
        match (*handle).fclass {
            FI_CLASS_MR => refresh(handle.cast::<fid_mr>()),
            FI_CLASS_MC => refresh(handle.cast::<fid_mc>()),
            _ => {}
        }
    }
}

/// Reads of a completion queue, after which the hooks see the entries.
macro_rules! cq_reads {
    ($($name:ident: $op:ident($($arg:ident: $ty:ty),*);)*) => { $(
        /// Reads completions and shows the hooks what was read. Source: fi_cq(3).
        ///
        /// # Safety
        /// As for the operation.
        pub(super) unsafe extern "C" fn $name(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize $(, $arg: $ty)*
        ) -> isize {
            // SAFETY: the caller's contract.
            unsafe {
                let read = fi_ops_cq::$op::<fid_cq>(cq, buf, count $(, $arg)*);
                show(cq, buf, read);
                read
            }
        }
    )* };
}

cq_reads! {
    cq_read: read();
    cq_readfrom: readfrom(addr: *mut fi_addr_t);
    cq_sread: sread(cond: *const c_void, timeout: c_int);
    cq_sreadfrom: sreadfrom(addr: *mut fi_addr_t, cond: *const c_void, timeout: c_int);
}

/// Shows the hooks the completions that were read.
///
/// # Safety
/// `read` entries of the queue's format are in `buf`, if it is positive.
unsafe fn show(cq: *mut fid_cq, buf: *mut c_void, read: isize) {
    // SAFETY: the caller's contract.
    unsafe {
        let wrapper = Wrapper::of(cq);
        let format = wrapper.format();
        let stride = match format {
            FI_CQ_FORMAT_CONTEXT => size_of::<fi_cq_entry>(),
            FI_CQ_FORMAT_MSG => size_of::<fi_cq_msg_entry>(),
            FI_CQ_FORMAT_DATA => size_of::<fi_cq_data_entry>(),
            FI_CQ_FORMAT_TAGGED => size_of::<fi_cq_tagged_entry>(),
            _ => return,
        };
        for at in 0..usize::try_from(read).unwrap_or(0) {
            let entry = buf.byte_add(at * stride);
            let mut completion = Completion {
                format,
                flags: 0,
                len: 0,
            };
            if format != FI_CQ_FORMAT_CONTEXT {
                // The longer entries begin like this one.
                let entry: fi_cq_msg_entry = entry.cast::<fi_cq_msg_entry>().read();
                (completion.flags, completion.len) = (entry.flags, entry.len);
            }
            wrapper
                .hooks()
                .hooks()
                .for_each(|hook| hook.completed(completion));
        }
    }
}
