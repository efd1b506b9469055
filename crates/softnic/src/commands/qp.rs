//! Queue pairs: made, moved from state to state, and destroyed.

use std::ffi::c_int;

use super::{Answer, CAP_UNSOLICITED, MAX_RECV_SGE, MAX_RECV_WR, MAX_SEND_SGE, MAX_SEND_WR};
use crate::adapter::Adapter;
use crate::io::{Completion, INLINE_LEN, Op, RX_DESC_LEN, WQE_LEN};
use crate::memory::{self, Mapping};
use crate::objects::{Attributes, Capacity, Qp, RECV_DOORBELL, State};
use crate::uverbs::{CreateQp, ModifyQp};
use crate::wire::status;

/// Types of `enum ibv_qp_type`: datagrams, and whatever the driver means by it.
const UNRELIABLE_DATAGRAMS: u8 = 4;
const DRIVER: u8 = 0xff;

/// Makes a queue pair.
///
/// # Errors
/// `EINVAL` for what does not fit together or is too much, `EOPNOTSUPP` for other types, `ENOMEM` without a free number.
pub(super) fn create(
    adapter: &mut Adapter,
    context: u32,
    wanted: CreateQp,
) -> Result<Answer, c_int> {
    super::own_pd(adapter, context, wanted.pd)?;
    for cq in [wanted.send_cq, wanted.recv_cq] {
        let cq = adapter.cqs.get(cq).filter(|cq| cq.context == context);
        cq.ok_or(libc::EINVAL)?;
    }
    let nic = adapter.contexts.get(context).ok_or(libc::EIO)?.nic;
    let caps = adapter.nics.get(usize::from(nic)).map_or(0, |nic| nic.caps);
    check(&wanted, caps)?;
    let number = adapter.free_qp_number(nic).ok_or(libc::ENOMEM)?;
    let device = adapter.contexts.get_mut(context).ok_or(libc::EIO)?;
    let mut allocate = |len: u32| device.file.allocate(len as usize).map_err(|_| libc::ENOMEM);
    let mut ring = |len: u32| (len > 0).then(|| allocate(len)).transpose();
    let send_ring = ring(wanted.send_ring_len)?;
    let recv_ring = ring(wanted.recv_ring_len)?;
    let doorbells = allocate(memory::PAGE as u32)?;
    let qp = Qp {
        context,
        nic,
        pd: wanted.pd,
        number,
        is_reliable: wanted.qp_type == DRIVER,
        is_unsolicited: wanted.flags & 1 != 0,
        state: State::Reset,
        // Until the application says otherwise the device tries without end.
        attributes: Attributes {
            rnr_retry: 7,
            ..Attributes::default()
        },
        capacity: Capacity {
            send_wr: wanted.send_wr,
            recv_wr: wanted.recv_wr,
            send_sge: wanted.send_sge,
            recv_sge: wanted.recv_sge,
            inline: wanted.inline,
        },
        sq_sig_all: wanted.sq_sig_all,
        send_cq: wanted.send_cq,
        recv_cq: wanted.recv_cq,
        doorbells,
        send_ring,
        recv_ring,
        send_mask: mask(wanted.send_ring_len, WQE_LEN),
        recv_mask: mask(wanted.recv_ring_len, RX_DESC_LEN),
        send_head: 0,
        recv_head: 0,
    };
    Ok(insert(adapter, qp, wanted.is_extended))
}

fn mask(ring_len: u32, entry_len: usize) -> u16 {
    (ring_len as usize / entry_len).saturating_sub(1) as u16
}

fn insert(adapter: &mut Adapter, qp: Qp, is_extended: bool) -> Answer {
    let place = |ring: &Option<Mapping>| {
        let ring = ring.as_ref();
        ring.map_or((0, 0), |ring| (ring.offset, ring.len() as u64))
    };
    let (send, _) = place(&qp.send_ring);
    let (recv, recv_len) = place(&qp.recv_ring);
    let (nic, number, capacity, doorbells) = (qp.nic, qp.number, qp.capacity, qp.doorbells.offset);
    let handle = adapter.qps.insert(qp);
    adapter.by_number.insert((nic, number), handle);
    let mut answer = Answer::default();
    let core = answer.core.u32s([handle, number.into()]);
    core.u32s([capacity.send_wr, capacity.recv_wr]);
    core.u32s([capacity.send_sge, capacity.recv_sge, capacity.inline, 0]);
    if is_extended {
        core.u32s([0, 40]);
    }
    let driver = answer.driver.u32s([0, RECV_DOORBELL as u32, 0, 0]);
    driver.u64s([recv, recv_len, doorbells, doorbells, send]);
    driver.u16s([0, 0]).u32s([0]);
    answer
}

fn check(wanted: &CreateQp, caps: u32) -> Result<(), c_int> {
    if !matches!(wanted.qp_type, UNRELIABLE_DATAGRAMS | DRIVER) || wanted.has_srq {
        return Err(libc::EOPNOTSUPP);
    }
    let is_whole = |len: u32, entry: usize| {
        let entries = len as usize / entry;
        len == 0 || ((len as usize).is_multiple_of(entry) && entries.is_power_of_two())
    };
    let fits = wanted.send_wr <= MAX_SEND_WR
        && wanted.recv_wr <= MAX_RECV_WR
        && wanted.send_sge <= MAX_SEND_SGE
        && wanted.recv_sge <= MAX_RECV_SGE
        && wanted.inline <= INLINE_LEN as u32
        && wanted.driver_type == 0
        && is_whole(wanted.send_ring_len, WQE_LEN)
        && is_whole(wanted.recv_ring_len, RX_DESC_LEN)
        && wanted.send_ring_len <= MAX_SEND_WR * WQE_LEN as u32
        && wanted.recv_ring_len <= 2 * MAX_RECV_WR * RX_DESC_LEN as u32
        && (wanted.flags & 1 == 0 || caps & CAP_UNSOLICITED != 0);
    fits.then_some(()).ok_or(libc::EINVAL)
}

/// Bits of `enum ibv_qp_attr_mask`.
mod attr {
    pub(super) const STATE: u32 = 1;
    pub(super) const CUR_STATE: u32 = 1 << 1;
    pub(super) const EN_SQD: u32 = 1 << 2;
    pub(super) const PKEY_INDEX: u32 = 1 << 4;
    pub(super) const PORT: u32 = 1 << 5;
    pub(super) const QKEY: u32 = 1 << 6;
    pub(super) const RNR_RETRY: u32 = 1 << 11;
    pub(super) const SQ_PSN: u32 = 1 << 16;
}

/// Returns which attributes a change of state needs, and which it may have besides; `None` if there is no such change.
fn change(from: State, to: State, is_reliable: bool) -> Option<(u32, u32)> {
    use State::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let address = attr::PKEY_INDEX | attr::PORT | attr::QKEY;
    let retry = if is_reliable { attr::RNR_RETRY } else { 0 };
    let later = attr::CUR_STATE | attr::QKEY;
    match (from, to) {
        (_, Reset | Err) => Some((0, 0)),
        (Reset, Init) => Some((address, 0)),
        (Init, Init) => Some((0, address)),
        (Init, Rtr) => Some((0, attr::PKEY_INDEX | attr::QKEY)),
        (Rtr, Rts) => Some((attr::SQ_PSN, later | retry)),
        (Rts | Sqd | Sqe, Rts) => Some((0, later)),
        (Rts, Sqd) => Some((0, attr::EN_SQD)),
        (Sqd, Sqd) => Some((0, attr::PKEY_INDEX | attr::QKEY)),
        _ => None,
    }
}

/// Changes a queue pair.
///
/// # Errors
/// `EINVAL` for a change that is none or lacks attributes, `EOPNOTSUPP` for attributes that datagrams have not.
pub(super) fn modify(
    adapter: &mut Adapter,
    context: u32,
    wanted: ModifyQp,
) -> Result<Answer, c_int> {
    let qp = adapter.qps.get_mut(wanted.qp);
    let qp = qp.filter(|qp| qp.context == context).ok_or(libc::EINVAL)?;
    let known = attr::STATE
        | attr::CUR_STATE
        | attr::EN_SQD
        | attr::PKEY_INDEX
        | attr::PORT
        | attr::QKEY
        | attr::RNR_RETRY
        | attr::SQ_PSN;
    if wanted.mask & !known != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let has = |bit: u32| wanted.mask & bit != 0;
    if has(attr::CUR_STATE) && State::from_number(wanted.current_state) != Some(qp.state) {
        return Err(libc::EINVAL);
    }
    let to = if has(attr::STATE) {
        State::from_number(wanted.state).ok_or(libc::EINVAL)?
    } else {
        qp.state
    };
    let change = change(qp.state, to, qp.is_reliable);
    let (needed, allowed) = change.ok_or(libc::EINVAL)?;
    let rest = wanted.mask & !(attr::STATE | needed);
    let is_port = !has(attr::PORT) || wanted.port == 1;
    let is_pkey = !has(attr::PKEY_INDEX) || wanted.pkey_index == 0;
    if wanted.mask & needed != needed || rest & !allowed != 0 || !is_port || !is_pkey {
        return Err(libc::EINVAL);
    }
    set_attributes(&mut qp.attributes, &wanted);
    let was = std::mem::replace(&mut qp.state, to);
    match to {
        State::Reset => {
            qp.reset();
            adapter.requester.drop_operations(wanted.qp);
        }
        State::Err if was != State::Err => flush(adapter, wanted.qp),
        _ => {}
    }
    Ok(Answer::default())
}

fn set_attributes(attributes: &mut Attributes, wanted: &ModifyQp) {
    let has = |bit: u32| wanted.mask & bit != 0;
    if has(attr::QKEY) {
        attributes.qkey = wanted.qkey;
    }
    if has(attr::SQ_PSN) {
        attributes.sq_psn = wanted.sq_psn;
    }
    if has(attr::PORT) {
        attributes.port = wanted.port;
    }
    if has(attr::PKEY_INDEX) {
        attributes.pkey_index = wanted.pkey_index;
    }
    if has(attr::RNR_RETRY) {
        attributes.rnr_retry = wanted.rnr_retry;
    }
}

/// Completes all that is posted on a queue pair in error.
fn flush(adapter: &mut Adapter, number: u32) {
    for (req_id, op) in adapter.requester.drop_operations(number) {
        adapter.complete_send(number, req_id, op, status::FLUSHED);
    }
    while let Some(wqe) = adapter.qps.get_mut(number).and_then(Qp::next_send) {
        let op = wqe.op().unwrap_or(Op::Send);
        adapter.complete_send(number, wqe.req_id(), op, status::FLUSHED);
    }
    while let Some(qp) = adapter.qps.get_mut(number)
        && let Some(receive) = qp.peek_receive()
    {
        qp.consume_receive(receive.len());
        let completion = Completion {
            req_id: receive.first().map_or(0, |first| first.req_id),
            status: status::FLUSHED,
            is_receive: true,
            qp: qp.number,
            ..Completion::default()
        };
        let cq = qp.recv_cq;
        adapter.complete(cq, &completion);
    }
}

/// Returns a queue pair's state and attributes.
///
/// # Errors
/// `EINVAL` if there is none.
pub(super) fn query(adapter: &Adapter, context: u32, number: u32) -> Result<Answer, c_int> {
    let qp = adapter.qps.get(number);
    let qp = qp.filter(|qp| qp.context == context).ok_or(libc::EINVAL)?;
    let capacity = qp.capacity;
    let attributes = qp.attributes;
    let state = qp.state as u8;
    let mut answer = Answer::default();
    let core = answer.core.pad(64);
    core.u32s([capacity.send_wr, capacity.recv_wr, capacity.send_sge]);
    core.u32s([capacity.recv_sge, capacity.inline, attributes.qkey]);
    core.u32s([0, attributes.sq_psn, 0, 0]);
    core.u16s([attributes.pkey_index, 0]);
    // State twice; path MTU, migration, drained, three of reads and timers; port; two; retries; two; signals.
    core.u8s([state, state, 0, 0, 0, 0, 0, 0, attributes.port, 0, 0]);
    core.u8s([attributes.rnr_retry, 0, 0, qp.sq_sig_all, 0, 0, 0, 0, 0]);
    Ok(answer)
}

/// Destroys a queue pair. What it has under way is never completed.
///
/// # Errors
/// `EINVAL` if there is none.
pub(super) fn destroy(adapter: &mut Adapter, context: u32, number: u32) -> Result<Answer, c_int> {
    let found = adapter.qps.get(number);
    found
        .filter(|qp| qp.context == context)
        .ok_or(libc::EINVAL)?;
    let qp = adapter.qps.remove(number).ok_or(libc::EINVAL)?;
    adapter.requester.drop_operations(number);
    adapter.by_number.remove(&(qp.nic, qp.number));
    let device = adapter.contexts.get_mut(context).ok_or(libc::EIO)?;
    let rings = [Some(qp.doorbells), qp.send_ring, qp.recv_ring];
    for mapping in rings.into_iter().flatten() {
        device.file.release(mapping);
    }
    let mut answer = Answer::default();
    answer.core.u32s([0]);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_follow_each_other_as_in_the_kernel() {
        assert_eq!(change(State::Reset, State::Rtr, true), None);
        assert_eq!(change(State::Err, State::Rts, true), None);
        let (needed, _) = change(State::Reset, State::Init, true).expect("a change");
        assert_eq!(needed, attr::PKEY_INDEX | attr::PORT | attr::QKEY);
        let (_, allowed) = change(State::Rtr, State::Rts, true).expect("a change");
        assert_ne!(allowed & attr::RNR_RETRY, 0);
        let (_, allowed) = change(State::Rtr, State::Rts, false).expect("a change");
        assert_eq!(allowed & attr::RNR_RETRY, 0);
    }
}
