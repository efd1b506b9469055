//! The offer as the application gets it. Source: fi_getinfo(3) "Capabilities", fi_domain(3), fi_endpoint(3).

use super::{mr_mode, older_than};
use alloc::boxed::Box;

use crate::{AvType, EpType, Flags};
use crate::{Caps, DomainAttr, EpAttr, Info, MrMode, Order, Progress, RxAttr, Threading, TxAttr};

/// Capabilities that are on only if they were asked for.
const PRIMARY: Caps = Caps::MSG
    .union(Caps::RMA)
    .union(Caps::TAGGED)
    .union(Caps::ATOMIC)
    .union(Caps::MULTICAST)
    .union(Caps::READ)
    .union(Caps::WRITE)
    .union(Caps::SEND)
    .union(Caps::RECV)
    .union(Caps::REMOTE_READ)
    .union(Caps::REMOTE_WRITE)
    .union(Caps::COLLECTIVE)
    .union(Caps::NAMED_RX_CTX)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::TAGGED_DIRECTED_RECV)
    .union(Caps::EXACT_DIRECTED_RECV)
    .union(Caps::HMEM)
    .union(Caps::AV_USER_ID)
    .union(Caps::PEER);

/// Capabilities that a provider may report unasked.
const SECONDARY: Caps = Caps::MULTI_RECV
    .union(Caps::TAGGED_MULTI_RECV)
    .union(Caps::TRIGGER)
    .union(Caps::FENCE)
    .union(Caps::RMA_PMEM)
    .union(Caps::SOURCE)
    .union(Caps::SOURCE_ERR)
    .union(Caps::RMA_EVENT)
    .union(Caps::SHARED_AV)
    .union(Caps::LOCAL_COMM)
    .union(Caps::REMOTE_COMM);

/// Capabilities that are listed only if asked for: FI_SOURCE_ERR turns messages from unknown peers into errors,
/// FI_EXACT_DIRECTED_RECV forbids receives that do not name their source, and the rest is newer than most applications,
/// which reject capabilities that they do not know.
const ON_REQUEST: Caps = Caps::SOURCE_ERR
    .union(Caps::TAGGED_DIRECTED_RECV)
    .union(Caps::EXACT_DIRECTED_RECV)
    .union(Caps::TAGGED_MULTI_RECV);

const MSG_DIRECTIONS: Caps = Caps::SEND.union(Caps::RECV);
const RMA_DIRECTIONS: Caps = Caps::READ
    .union(Caps::WRITE)
    .union(Caps::REMOTE_READ)
    .union(Caps::REMOTE_WRITE);

/// Apart from its caller and on the heap, as descriptions are long and a kernel's stack is short.
#[inline(never)]
pub(super) fn narrow(offer: &Info, hints: Option<&Info>, version: u32) -> Box<Info> {
    let mut info = Box::new(offer.clone());
    info.caps = info_caps(offer, hints, version);
    if offer.domain.mr_mode.contains(MrMode::LOCAL) && wants_old_mr(hints, version) {
        info.mode |= mr_mode::LOCAL_MR;
    }
    narrow_domain(&mut info.domain, hints, info.caps, version);
    narrow_tx(&mut info.tx, hints.map(|hints| &hints.tx), info.caps);
    narrow_rx(&mut info.rx, hints.map(|hints| &hints.rx), info.caps);
    if let Some(hints) = hints {
        narrow_ep(&mut info.ep, &hints.ep, info.caps);
    }
    narrow_contexts(&mut info, hints);
    let asked = hints.map_or(Caps::empty(), |hints| hints.caps | hints.rx.caps);
    let unasked = ON_REQUEST.difference(asked);
    info.caps.remove(unasked);
    info.rx.caps.remove(unasked);
    info.fabric.api_version = version;
    info
}

fn info_caps(offer: &Info, hints: Option<&Info>, version: u32) -> Caps {
    let Some(hints) = hints else {
        return offer.caps;
    };
    let caps = narrow_caps(offer.caps, hints.caps, offer.caps);
    let (rules, asked) = (offer.domain.mr_mode & mr_mode::TARGET, hints.domain.mr_mode);
    let obeyed = rules.is_empty()
        || asked.contains(rules)
        || asked == MrMode::BASIC
        || (asked.is_empty() && older_than(version, 1, 5));
    if obeyed || !mr_mode::is_rma_target(caps) {
        return caps;
    }
    // The application did not say that it obeys the rules for targets of RMA, so it cannot be one.
    caps.difference(Caps::REMOTE_READ | Caps::REMOTE_WRITE)
}

/// Narrows the capabilities `offered` by one part of an endpoint to those asked for; `within` is what the whole has.
fn narrow_caps(within: Caps, asked: Caps, offered: Caps) -> Caps {
    let mut caps = offered & SECONDARY;
    // The one costs a look-up per message, the other locks: they are never given unasked.
    let costly = Caps::SOURCE | Caps::TRIGGER;
    if asked.is_empty() {
        caps |= within & offered & PRIMARY;
        caps.remove(costly.difference(within));
    } else {
        caps |= asked & PRIMARY;
        caps.remove(costly.difference(asked));
    }
    if caps.intersects(Caps::MSG | Caps::TAGGED) && !caps.intersects(MSG_DIRECTIONS) {
        caps |= offered & MSG_DIRECTIONS;
    }
    if caps.intersects(Caps::RMA | Caps::ATOMIC) && !caps.intersects(RMA_DIRECTIONS) {
        caps |= offered & RMA_DIRECTIONS;
    }
    caps
}

/// Returns whether the application counts on FI_LOCAL_MR, the form before API 1.5.
fn wants_old_mr(hints: Option<&Info>, version: u32) -> bool {
    older_than(version, 1, 5)
        || hints.is_some_and(|hints| hints.domain.mr_mode.intersects(mr_mode::OLD))
}

fn narrow_domain(attr: &mut DomainAttr, hints: Option<&Info>, caps: Caps, version: u32) {
    let hints = hints.map(|hints| &hints.domain);
    attr.mr_mode = mr_mode::narrowed(attr.mr_mode, hints.map(|h| h.mr_mode), caps, version);
    attr.caps = narrow_caps(caps, hints.map_or(Caps::empty(), |h| h.caps), attr.caps);
    for limit in [&mut attr.max_cntr_value, &mut attr.max_err_cntr_value] {
        if *limit == 0 {
            *limit = u64::MAX;
        }
    }
    narrow_progress(attr, hints);
    let Some(hints) = hints else {
        return;
    };
    if hints.threading != Threading::Unspec {
        attr.threading = hints.threading;
    }
    if attr.av_type == AvType::Unspec {
        attr.av_type = hints.av_type;
    }
    attr.tclass = hints.tclass;
    if hints.max_ep_auth_key != 0 {
        attr.max_ep_auth_key = hints.max_ep_auth_key;
    }
}

/// Narrows the progress models. An offer of automatic progress is what the provider can do; it takes a thread, so it is
/// never given unasked.
fn narrow_progress(attr: &mut DomainAttr, hints: Option<&DomainAttr>) {
    let data = hints.map_or(Progress::Unspec, |hints| hints.data_progress);
    let control = hints.map_or(Progress::Unspec, |hints| hints.control_progress);
    let unasked = |offered| match offered {
        Progress::Auto => Progress::Manual,
        other => other,
    };
    let control = if control == Progress::Unspec {
        data
    } else {
        control
    };
    for (progress, asked) in [
        (&mut attr.data_progress, data),
        (&mut attr.control_progress, control),
    ] {
        *progress = if asked == Progress::Unspec {
            unasked(*progress)
        } else {
            asked
        };
    }
}

/// Applications take limits of contexts for advice, so that only those that ask for contexts are told what there is (docs/adr/0025).
/// They limit nothing.
fn narrow_contexts(info: &mut Info, hints: Option<&Info>) {
    if hints.is_some_and(asks_for_contexts) {
        return;
    }
    let domain = &mut info.domain;
    for limit in [&mut domain.max_ep_tx_ctx, &mut domain.max_ep_rx_ctx] {
        *limit = (*limit).min(1);
    }
    domain.max_ep_stx_ctx = 0;
    if info.ep.kind != EpType::Msg {
        domain.max_ep_srx_ctx = 0;
    }
}

fn asks_for_contexts(hints: &Info) -> bool {
    let (ep, domain) = (&hints.ep, &hints.domain);
    let of_its_own = [
        ep.tx_ctx_cnt,
        ep.rx_ctx_cnt,
        domain.max_ep_tx_ctx,
        domain.max_ep_rx_ctx,
    ];
    of_its_own.iter().any(|&count| count > 1)
        || domain.max_ep_stx_ctx.max(domain.max_ep_srx_ctx) > 0
        || hints.caps.contains(Caps::NAMED_RX_CTX)
}

fn narrow_ep(attr: &mut EpAttr, hints: &EpAttr, caps: Caps) {
    if caps.intersects(Caps::RMA | Caps::ATOMIC) {
        replace(&mut attr.max_order_raw_size, hints.max_order_raw_size);
        replace(&mut attr.max_order_war_size, hints.max_order_war_size);
        replace(&mut attr.max_order_waw_size, hints.max_order_waw_size);
    }
    replace(&mut attr.tx_ctx_cnt, hints.tx_ctx_cnt);
    replace(&mut attr.rx_ctx_cnt, hints.rx_ctx_cnt);
}

fn narrow_tx(attr: &mut TxAttr, hints: Option<&TxAttr>, caps: Caps) {
    attr.caps = narrow_caps(caps, hints.map_or(Caps::empty(), |h| h.caps), attr.caps);
    attr.msg_order = spelled_out(attr.msg_order);
    attr.op_flags = hints.map_or(Flags::empty(), |h| h.op_flags);
    attr.max_size = 0;
    if let Some(hints) = hints {
        replace(&mut attr.inject_size, hints.inject_size);
        replace(&mut attr.size, hints.size);
        replace(&mut attr.iov_limit, hints.iov_limit);
        replace(&mut attr.rma_iov_limit, hints.rma_iov_limit);
        attr.tclass = hints.tclass;
    }
}

fn narrow_rx(attr: &mut RxAttr, hints: Option<&RxAttr>, caps: Caps) {
    attr.caps = narrow_caps(caps, hints.map_or(Caps::empty(), |h| h.caps), attr.caps);
    attr.msg_order = spelled_out(attr.msg_order);
    attr.op_flags = hints.map_or(Flags::empty(), |h| h.op_flags);
    attr.max_size = 0;
    if let Some(hints) = hints {
        replace(&mut attr.size, hints.size);
        replace(&mut attr.iov_limit, hints.iov_limit);
    }
}

/// Adds the orders among RMA and among atomic operations that the general ones imply. Source: fi_endpoint(3).
pub(super) fn spelled_out(order: Order) -> Order {
    const IMPLIED: [(Order, Order, Order); 4] = [
        (Order::RAR, Order::RMA_RAR, Order::ATOMIC_RAR),
        (Order::RAW, Order::RMA_RAW, Order::ATOMIC_RAW),
        (Order::WAR, Order::RMA_WAR, Order::ATOMIC_WAR),
        (Order::WAW, Order::RMA_WAW, Order::ATOMIC_WAW),
    ];
    IMPLIED
        .iter()
        .filter(|(general, ..)| order.contains(*general))
        .fold(order, |all, &(_, rma, atomic)| all | rma | atomic)
}

fn replace(value: &mut usize, asked: usize) {
    if asked != 0 {
        *value = asked;
    }
}
