//! Carries out commands: makes, changes and destroys objects as the kernel and the device would, with their checks and error numbers.

use std::ffi::c_int;

use crate::adapter::Adapter;
use crate::event::{AsyncEvents, CompletionEvents};
use crate::files::{self, Owner};
use crate::io::{CQE_LEN, LONG_CQE_LEN};
use crate::memory;
use crate::objects::{Ah, Channel, Cq, MAX_AH, Mr, Pd, Polled, access};
use crate::sys;
use crate::uverbs::{Command, CreateCq, RegMr, Reply, Request, Writer};
use crate::wire::QPS_PER_SLOT;

mod qp;

/// Limits of the device.
const MAX_CQ: u32 = 512;
const MAX_CQE: u32 = 32768;
const MAX_MR: u32 = 32768;
const MAX_MR_LEN: u64 = 1 << 40;
const MAX_PD: u32 = 256;
const MAX_SEND_WR: u32 = 4096;
const MAX_RECV_WR: u32 = 32768;
const MAX_SEND_SGE: u32 = 2;
const MAX_RECV_SGE: u32 = 4;
const VENDOR: u32 = 0x1d0f;
const PART: u32 = 0xefa1;
/// Capabilities of `enum` EFA_QUERY_DEVICE_CAPS.
const CAP_READ: u32 = 1;
const CAP_NOTIFY: u32 = 1 << 2;
const CAP_SGID: u32 = 1 << 3;
const CAP_WRITE: u32 = 1 << 5;
const CAP_UNSOLICITED: u32 = 1 << 6;

/// An answer: what the core of the interface defines, and the driver's data behind it.
#[derive(Debug, Default)]
struct Answer {
    core: Writer,
    driver: Writer,
}

/// Carries out a command on an open device, and writes the answer to where the caller wants it.
///
/// # Errors
/// The error number of the command.
pub(crate) fn carry_out(
    adapter: &mut Adapter,
    context: u32,
    request: &Request,
) -> Result<(), c_int> {
    let answer = match request.command {
        Command::GetContext => get_context(adapter, context)?,
        Command::QueryDevice { is_extended } => query_device(adapter, context, is_extended)?,
        Command::QueryPort { port } => query_port(adapter, context, port)?,
        Command::AllocPd => alloc_pd(adapter, context)?,
        Command::DeallocPd { pd } => dealloc_pd(adapter, context, pd)?,
        Command::CreateAh { pd, gid, is_global } => {
            create_ah(adapter, context, pd, gid, is_global)?
        }
        Command::DestroyAh { ah } => destroy_ah(adapter, context, ah)?,
        Command::RegMr(wanted) => reg_mr(adapter, context, wanted)?,
        Command::DeregMr { mr } => dereg_mr(adapter, context, mr)?,
        Command::CreateChannel => create_channel(adapter)?,
        Command::CreateCq(wanted) => create_cq(adapter, context, wanted)?,
        Command::DestroyCq { cq } => destroy_cq(adapter, context, cq)?,
        Command::CreateQp(wanted) => qp::create(adapter, context, wanted)?,
        Command::ModifyQp(wanted) => qp::modify(adapter, context, wanted)?,
        Command::QueryQp { qp } => qp::query(adapter, context, qp)?,
        Command::DestroyQp { qp } => qp::destroy(adapter, context, qp)?,
    };
    deliver(request.reply, &answer);
    Ok(())
}

/// Copies an answer to the caller. It may want less of it than there is.
fn deliver(reply: Reply, answer: &Answer) {
    let core = &answer.core.0;
    let driver = &answer.driver.0;
    if let Some(driver_len) = reply.driver_len {
        memory::store(reply.addr, &core[..core.len().min(reply.core_len)]);
        let behind = reply.addr + reply.core_len as u64;
        memory::store(behind, &driver[..driver.len().min(driver_len)]);
    } else if !core.is_empty() {
        let all = [&core[..], driver].concat();
        memory::store(reply.addr, &all[..all.len().min(reply.core_len)]);
    }
}

fn get_context(adapter: &mut Adapter, context: u32) -> Result<Answer, c_int> {
    let context = adapter.contexts.get_mut(context).ok_or(libc::EIO)?;
    if context.events.is_some() {
        return Err(libc::EINVAL);
    }
    let events = AsyncEvents::create().map_err(|_| libc::EMFILE)?;
    let fd = events.fd;
    context.events = Some(events);
    let mut answer = Answer::default();
    answer.core.u32s([fd.cast_unsigned(), 1]);
    // No comp_mask; query_device and create_ah take the driver's data; one sub-queue in a completion queue; 32 bytes inline.
    let driver = answer.driver.u32s([0, 3]).u16s([1, 32]);
    driver.u32s([MAX_SEND_WR * 64]).u16s([64, 0]).u32s([0]);
    Ok(answer)
}

fn query_device(adapter: &Adapter, context: u32, is_extended: bool) -> Result<Answer, c_int> {
    let number = adapter.contexts.get(context).ok_or(libc::EIO)?.nic;
    let nic = adapter.nics.get(usize::from(number)).ok_or(libc::ENODEV)?;
    let mut answer = Answer::default();
    let guid = u64::from_ne_bytes([2, 0, 0, 0, 0, 0, 0, number]);
    let core = answer.core.u64s([0, guid, guid, MAX_MR_LEN, 4096]);
    core.u32s([VENDOR, PART, 0, QPS_PER_SLOT.into(), MAX_SEND_WR, 0]);
    core.u32s([MAX_SEND_SGE, 1, MAX_CQ, MAX_CQE, MAX_MR, MAX_PD]);
    core.pad(144).u32s([MAX_AH.into()]);
    core.pad(168).u16s([1]).u8s([0, 1, 0, 0, 0, 0]);
    if is_extended {
        const LEN: u32 = 304;
        core.u32s([0, LEN]).pad(LEN as usize);
        let driver = answer.driver.u32s([0, MAX_SEND_WR, MAX_RECV_WR]);
        driver.u16s([MAX_SEND_SGE as u16, MAX_RECV_SGE as u16]);
        driver.u32s([nic.max_rdma, nic.caps]);
    }
    Ok(answer)
}

fn query_port(adapter: &Adapter, context: u32, port: u8) -> Result<Answer, c_int> {
    let nic = adapter.contexts.get(context).ok_or(libc::EIO)?.nic;
    let nic = adapter.nics.get(usize::from(nic)).ok_or(libc::ENODEV)?;
    if port != 1 {
        return Err(libc::EINVAL);
    }
    /// Numbers of `enum ibv_mtu` for lengths.
    const MTUS: [(u32, u8); 5] = [(4096, 5), (2048, 4), (1024, 3), (512, 2), (0, 1)];
    let mtu = MTUS.iter().find(|(len, _)| nic.mtu >= *len);
    let mtu = mtu.map_or(1, |(_, number)| *number);
    let mut answer = Answer::default();
    // Capabilities, longest message, two counters, GIDs; P_Keys, LIDs.
    let core = answer.core.u32s([0, nic.mtu, 0, 0, 1]).u16s([1, 0, 0]);
    // Active; MTUs; LMC, one virtual lane, SL, timeout, reply; 4 lanes of 25 Gb/s; link up; layer unspecified.
    core.u8s([4, mtu, mtu, 0, 1, 0, 0, 0, 2, 32, 5, 0, 0, 0]);
    Ok(answer)
}

fn alloc_pd(adapter: &mut Adapter, context: u32) -> Result<Answer, c_int> {
    if adapter.pds.iter().count() >= MAX_PD as usize {
        return Err(libc::ENOMEM);
    }
    let pd = adapter.pds.insert(Pd { context });
    let mut answer = Answer::default();
    answer.core.u32s([pd]);
    answer.driver.u32s([0]).u16s([pd as u16, 0]);
    Ok(answer)
}

/// Checks that a domain is one of the device's.
fn own_pd(adapter: &Adapter, context: u32, pd: u32) -> Result<(), c_int> {
    let pd = adapter.pds.get(pd);
    let is_own = pd.is_some_and(|pd| pd.context == context);
    is_own.then_some(()).ok_or(libc::EINVAL)
}

fn dealloc_pd(adapter: &mut Adapter, context: u32, pd: u32) -> Result<Answer, c_int> {
    own_pd(adapter, context, pd)?;
    let is_used = adapter.ahs.iter().any(|(_, ah)| ah.pd == pd)
        || adapter.qps.iter().any(|(_, qp)| qp.pd == pd)
        || (adapter.regions.by_handle.iter()).any(|(_, mr)| mr.pd == pd);
    if is_used {
        return Err(libc::EBUSY);
    }
    adapter.pds.remove(pd);
    Ok(Answer::default())
}

fn create_ah(
    adapter: &mut Adapter,
    context: u32,
    pd: u32,
    gid: [u8; 16],
    is_global: bool,
) -> Result<Answer, c_int> {
    own_pd(adapter, context, pd)?;
    if !is_global {
        return Err(libc::EINVAL);
    }
    let number = adapter.destinations.add(pd, gid).ok_or(libc::ENOMEM)?;
    let ah = Ah { context, pd, gid };
    let handle = adapter.ahs.insert(ah);
    let mut answer = Answer::default();
    answer.core.u32s([handle]);
    answer.driver.u32s([0]).u16s([number, 0]);
    Ok(answer)
}

fn destroy_ah(adapter: &mut Adapter, context: u32, ah: u32) -> Result<Answer, c_int> {
    let found = adapter.ahs.get(ah).filter(|ah| ah.context == context);
    let (pd, gid) = found.map(|ah| (ah.pd, ah.gid)).ok_or(libc::EINVAL)?;
    adapter.destinations.remove(pd, gid);
    adapter.ahs.remove(ah);
    Ok(Answer::default())
}

fn reg_mr(adapter: &mut Adapter, context: u32, wanted: RegMr) -> Result<Answer, c_int> {
    own_pd(adapter, context, wanted.pd)?;
    let nic = adapter.contexts.get(context).ok_or(libc::EIO)?.nic;
    let nic = adapter.nics.get(usize::from(nic)).ok_or(libc::EIO)?;
    let (caps, most) = (nic.caps, nic.regions);
    let page = memory::PAGE as u64;
    let writes = access::LOCAL_WRITE | access::REMOTE_WRITE;
    // As the kernel checks for every driver: same place within a page, and no remote writes without local ones.
    if wanted.start % page != wanted.iova % page || wanted.access & writes == access::REMOTE_WRITE {
        return Err(libc::EINVAL);
    }
    let mut rights = access::LOCAL_WRITE | access::OPTIONAL;
    if caps & CAP_READ != 0 {
        rights |= access::REMOTE_READ;
    }
    if caps & CAP_WRITE != 0 {
        rights |= access::REMOTE_WRITE;
    }
    if wanted.access & !rights != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if wanted.len == 0 || wanted.len > MAX_MR_LEN || wanted.start.checked_add(wanted.len).is_none()
    {
        return Err(libc::EINVAL);
    }
    if !memory::is_mapped(wanted.start, wanted.len) {
        return Err(libc::EFAULT);
    }
    if adapter.regions.by_handle.iter().count() >= most as usize {
        return Err(libc::ENOMEM);
    }
    let key = adapter.free_key().ok_or(libc::ENOMEM)?;
    let handle = adapter.regions.insert(Mr {
        context,
        pd: wanted.pd,
        key,
        iova: wanted.iova,
        start: wanted.start,
        len: wanted.len,
        access: wanted.access,
    });
    let mut answer = Answer::default();
    answer.core.u32s([handle, key, key]);
    Ok(answer)
}

fn dereg_mr(adapter: &mut Adapter, context: u32, mr: u32) -> Result<Answer, c_int> {
    let found = adapter.regions.by_handle.get(mr);
    found
        .filter(|mr| mr.context == context)
        .ok_or(libc::EINVAL)?;
    adapter.regions.remove(mr);
    Ok(Answer::default())
}

fn create_channel(adapter: &mut Adapter) -> Result<Answer, c_int> {
    let events = CompletionEvents::create().map_err(|_| libc::EMFILE)?;
    let fd = events.fd;
    let channel = adapter.channels.insert(Channel { events });
    if !files::note(fd, Owner::Channel(channel)) {
        adapter.channels.remove(channel);
        sys::close_number(fd);
        return Err(libc::EMFILE);
    }
    let mut answer = Answer::default();
    answer.core.u32s([fd.cast_unsigned()]);
    Ok(answer)
}

fn create_cq(adapter: &mut Adapter, context: u32, wanted: CreateCq) -> Result<Answer, c_int> {
    let device = adapter.contexts.get_mut(context).ok_or(libc::EIO)?;
    let nic = adapter.nics.get(usize::from(device.nic));
    let caps = nic.map_or(0, |nic| nic.caps);
    let has_gids = wanted.flags & 2 != 0;
    let is_known_len = match wanted.entry_len as usize {
        CQE_LEN => !has_gids,
        LONG_CQE_LEN => true,
        _ => false,
    };
    let is_refused = !wanted.entries.is_power_of_two()
        || wanted.entries > MAX_CQE
        || wanted.sub_queues != 1
        || wanted.vector != 0
        || !is_known_len
        || (has_gids && caps & CAP_SGID == 0);
    if is_refused {
        return Err(libc::EINVAL);
    }
    let channel = if wanted.channel < 0 {
        None
    } else if caps & CAP_NOTIFY == 0 {
        return Err(libc::EOPNOTSUPP);
    } else {
        match files::owner(wanted.channel) {
            Some(Owner::Channel(channel)) => Some(channel),
            _ => return Err(libc::EINVAL),
        }
    };
    if adapter.cqs.iter().count() >= MAX_CQ as usize {
        return Err(libc::ENOMEM);
    }
    let entry_len = wanted.entry_len as usize;
    let no_memory = |_| libc::ENOMEM;
    let len = wanted.entries as usize * entry_len;
    let ring = device.file.allocate(len).map_err(no_memory)?;
    let doorbell = device.file.allocate(memory::PAGE).map_err(no_memory)?;
    let places = [ring.offset, ring.len() as u64, doorbell.offset];
    let number = adapter.cqs.insert(Cq {
        context,
        user_handle: wanted.user_handle,
        channel,
        entries: wanted.entries,
        entry_len,
        ring,
        doorbell,
        produced: 0,
        polled: Polled::default(),
        is_overrun: false,
        events: 0,
        fired: None,
    });
    let mut answer = Answer::default();
    answer.core.u32s([number, wanted.entries]);
    if wanted.is_extended {
        answer.core.u32s([0, 16]);
    }
    let [ring, ring_len, doorbell] = places;
    // The mask says that there is a doorbell, which is at the beginning of its page.
    let driver = answer.driver.u32s([1, 0]).u64s([ring, ring_len]);
    driver.u16s([number as u16, 0]).u32s([0]).u64s([doorbell]);
    Ok(answer)
}

fn destroy_cq(adapter: &mut Adapter, context: u32, cq: u32) -> Result<Answer, c_int> {
    let found = adapter.cqs.get(cq).filter(|cq| cq.context == context);
    found.ok_or(libc::EINVAL)?;
    if (adapter.qps.iter()).any(|(_, qp)| qp.send_cq == cq || qp.recv_cq == cq) {
        return Err(libc::EBUSY);
    }
    let found = adapter.cqs.remove(cq).ok_or(libc::EINVAL)?;
    let channel = found
        .channel
        .and_then(|channel| adapter.channels.get_mut(channel));
    let unread = channel.map_or(0, |channel| channel.events.withdraw(found.user_handle));
    let context = adapter.contexts.get_mut(context).ok_or(libc::EIO)?;
    let errors = u32::from(found.is_overrun);
    let events = context.events.as_mut();
    let unread_errors = events.map_or(0, |events| events.withdraw(found.user_handle));
    context.file.release(found.ring);
    context.file.release(found.doorbell);
    let mut answer = Answer::default();
    let read = [
        found.events - unread.min(found.events),
        errors - unread_errors.min(errors),
    ];
    answer.core.u32s(read);
    Ok(answer)
}

/// Forgets a completion channel whose descriptor is closed. libibverbs does not count the completion queues that libefa makes, so some may
/// still use it.
pub(crate) fn close_channel(adapter: &mut Adapter, channel: u32) {
    adapter.channels.remove(channel);
    for number in adapter.cqs.numbers(|cq| cq.channel == Some(channel)) {
        if let Some(cq) = adapter.cqs.get_mut(number) {
            cq.channel = None;
        }
    }
}

/// Destroys all that was made through an open device.
pub(crate) fn close_context(adapter: &mut Adapter, context: u32) {
    for number in adapter.qps.numbers(|qp| qp.context == context) {
        let _ = qp::destroy(adapter, context, number);
    }
    for number in adapter.cqs.numbers(|cq| cq.context == context) {
        let _ = destroy_cq(adapter, context, number);
    }
    for number in adapter.ahs.numbers(|ah| ah.context == context) {
        let _ = destroy_ah(adapter, context, number);
    }
    for number in (adapter.regions.by_handle).numbers(|mr| mr.context == context) {
        let _ = dereg_mr(adapter, context, number);
    }
    for number in adapter.pds.numbers(|pd| pd.context == context) {
        let _ = dealloc_pd(adapter, context, number);
    }
    adapter.contexts.remove(context);
}
