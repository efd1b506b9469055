//! Memory registration modes: the bits of API 1.5 and the three old modes. Source: fi_mr(3), fi_domain(3).

use super::older_than;
use crate::{Caps, Info, MrMode};

/// FI_LOCAL_MR of `fi_info.mode`, the old form of [`MrMode::LOCAL`].
pub(super) const LOCAL_MR: u64 = 1 << 55;

/// The old modes, which exclude every other bit.
pub(super) const OLD: MrMode = MrMode::BASIC.union(MrMode::SCALABLE);

/// Rules that concern only the target of RMA.
pub(super) const TARGET: MrMode = MrMode::RAW
    .union(MrMode::VIRT_ADDR)
    .union(MrMode::PROV_KEY)
    .union(MrMode::RMA_EVENT);

/// Returns what the hints lack of the rules that the offer imposes, or `None` if they accept all.
pub(super) fn unmet(offer: &Info, hints: &Info, version: u32) -> Option<MrMode> {
    let (offered, asked) = (offer.domain.mr_mode, hints.domain.mr_mode);
    let local_accepted = hints.mode & LOCAL_MR != 0 || asked.contains(MrMode::LOCAL);
    if offered.contains(MrMode::LOCAL) && !local_accepted {
        return Some(MrMode::LOCAL);
    }
    if older_than(version, 1, 5) {
        return unmet_before_1_5(offered, asked);
    }
    if asked.intersects(OLD) {
        let alone = asked == MrMode::BASIC || asked == MrMode::SCALABLE;
        return (!alone || !offered.contains(asked)).then(|| offered.difference(OLD));
    }
    let needed = needed_for(hints.caps, offered);
    (!asked.is_empty() && !asked.contains(needed)).then(|| needed.difference(asked))
}

fn unmet_before_1_5(offered: MrMode, asked: MrMode) -> Option<MrMode> {
    let met = match asked {
        none if none.is_empty() => offered.intersects(OLD),
        old if old == MrMode::BASIC || old == MrMode::SCALABLE => offered.contains(old),
        _ => false,
    };
    (!met).then(|| offered.difference(OLD))
}

/// Returns the rules that an endpoint with these capabilities has to obey.
pub(super) fn needed_for(caps: Caps, offered: MrMode) -> MrMode {
    let mut mode = offered.difference(OLD);
    if !caps.contains(Caps::HMEM) {
        mode.remove(MrMode::HMEM);
    }
    if !is_rma_target(caps) {
        if !mode.intersects(MrMode::LOCAL | MrMode::HMEM) {
            return MrMode::empty();
        }
        mode.remove(TARGET);
    }
    mode
}

/// Returns whether an endpoint with these capabilities may be the target of RMA or atomics.
pub(super) fn is_rma_target(caps: Caps) -> bool {
    const DIRECTIONS: Caps = Caps::READ
        .union(Caps::WRITE)
        .union(Caps::REMOTE_READ)
        .union(Caps::REMOTE_WRITE);
    caps.intersects(Caps::RMA | Caps::ATOMIC)
        && (caps.intersects(Caps::REMOTE_READ | Caps::REMOTE_WRITE) || !caps.intersects(DIRECTIONS))
}

/// Returns the registration mode of the narrowed offer, whose capabilities are `caps`.
pub(super) fn narrowed(offered: MrMode, hints: Option<MrMode>, caps: Caps, version: u32) -> MrMode {
    let asked = hints.unwrap_or_default();
    if asked.intersects(OLD) {
        return asked;
    }
    if older_than(version, 1, 5) {
        return if offered.is_empty() || offered == MrMode::SCALABLE {
            MrMode::SCALABLE
        } else {
            MrMode::BASIC
        };
    }
    let mode = offered.difference(OLD);
    match hints {
        Some(asked) if !asked.contains(mode) => needed_for(caps, mode & asked),
        _ => mode,
    }
}
