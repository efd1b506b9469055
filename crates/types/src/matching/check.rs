//! Field by field: what the hints ask for and the offer has not, or the offer demands and the hints refuse.

use super::names::{flag_names, format_name, mode_names, provider_is_named};
use super::narrow::spelled_out;
use super::{Reason, mr_mode, older_than};
use crate::{Caps, DomainAttr, EpAttr, EpType, FabricAttr, Flags, Info, MrMode, Order};
use crate::{Progress, ResourceMgmt, RxAttr, Threading, TxAttr};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::LowerHex;

/// FI_SHARED_CONTEXT as a count of contexts.
const SHARED_CONTEXT: usize = usize::MAX;

/// Capabilities of the other side, which old applications set on both sides.
const NOT_OF_TX: Caps = Caps::REMOTE_READ
    .union(Caps::REMOTE_WRITE)
    .union(Caps::RECV)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::TAGGED_DIRECTED_RECV)
    .union(Caps::EXACT_DIRECTED_RECV)
    .union(Caps::MULTI_RECV)
    .union(Caps::TAGGED_MULTI_RECV)
    .union(Caps::SOURCE)
    .union(Caps::RMA_EVENT)
    .union(Caps::SOURCE_ERR);
const NOT_OF_RX: Caps = Caps::READ
    .union(Caps::WRITE)
    .union(Caps::SEND)
    .union(Caps::FENCE)
    .union(Caps::MULTICAST)
    .union(Caps::NAMED_RX_CTX);

/// Lists every field in which the offer does not fit the hints.
pub(super) fn shortcomings(offer: &Info, hints: &Info, version: u32) -> Vec<Reason> {
    let mut gaps = Gaps(Vec::new());
    gaps.fabric(&offer.fabric, &hints.fabric);
    gaps.ep_type(offer.ep.kind, hints.ep.kind);
    gaps.caps("caps", offer.caps, hints.caps);
    gaps.mode("mode", info_mode(offer, hints, version), hints.mode);
    if !formats_agree(offer.addr_format, hints.addr_format) {
        let (wanted, offered) = (hints.addr_format, offer.addr_format);
        gaps.lacks("addr_format", format_name(wanted), format_name(offered));
    }
    gaps.models(&offer.domain, &hints.domain);
    gaps.domain(offer, hints, version);
    gaps.ep(offer, hints);
    gaps.tx(&offer.tx, &hints.tx, hints.mode);
    gaps.rx(&offer.rx, &hints.rx, hints.mode);
    gaps.0
}

/// Returns the mode bits that the offer needs; FI_LOCAL_MR is one where the registration mode does not say it.
fn info_mode(offer: &Info, hints: &Info, version: u32) -> u64 {
    let by_mode = older_than(version, 1, 5) || !hints.domain.mr_mode.contains(MrMode::LOCAL);
    if offer.domain.mr_mode.contains(MrMode::LOCAL) && by_mode {
        offer.mode | mr_mode::LOCAL_MR
    } else {
        offer.mode
    }
}

/// Returns whether addresses of two formats can be the same; a general format agrees with its special cases.
fn formats_agree(a: u32, b: u32) -> bool {
    const SOCKADDR: u32 = 1;
    const SOCKADDR_IP: u32 = 17;
    let covers = |general: u32, special: u32| match general {
        0 => true,
        SOCKADDR => matches!(special, 1..=4 | SOCKADDR_IP),
        SOCKADDR_IP => matches!(special, 2 | 3 | SOCKADDR_IP),
        _ => general == special,
    };
    covers(a, b) || covers(b, a)
}

/// The shortcomings found so far.
struct Gaps(Vec<Reason>);

impl Gaps {
    fn fabric(&mut self, offer: &FabricAttr, hints: &FabricAttr) {
        if !hints.prov_name.is_empty() && !provider_is_named(&hints.prov_name, &offer.prov_name) {
            let (wanted, offered) = (hints.prov_name.clone(), offer.prov_name.clone());
            self.lacks("fabric_attr.prov_name", wanted, offered);
        }
        self.name("fabric_attr.name", &offer.name, &hints.name);
        if hints.prov_version > offer.prov_version {
            let (wanted, offered) = (hints.prov_version, offer.prov_version);
            self.lacks("fabric_attr.prov_version", dotted(wanted), dotted(offered));
        }
    }

    fn ep_type(&mut self, offered: EpType, asked: EpType) {
        if asked != EpType::Unspec && offered != EpType::Unspec && asked != offered {
            self.lacks("ep_attr.type", asked.name().into(), offered.name().into());
        }
    }

    fn models(&mut self, offer: &DomainAttr, hints: &DomainAttr) {
        self.name("domain_attr.name", &offer.name, &hints.name);
        if threading_rank(hints.threading) < threading_rank(offer.threading) {
            let (wanted, offered) = (hints.threading.name(), offer.threading.name());
            self.lacks("domain_attr.threading", wanted.into(), offered.into());
        }
        if progress_rank(hints.data_progress) < progress_rank(offer.data_progress) {
            let (wanted, offered) = (hints.data_progress.name(), offer.data_progress.name());
            self.lacks("domain_attr.progress", wanted.into(), offered.into());
        }
        let (rm, offered_rm) = (hints.resource_mgmt, offer.resource_mgmt);
        if rm == ResourceMgmt::Enabled && offered_rm == ResourceMgmt::Disabled {
            let (wanted, offered) = (rm.name(), offered_rm.name());
            self.lacks("domain_attr.resource_mgmt", wanted.into(), offered.into());
        }
        let (av, offered_av) = (hints.av_type, offer.av_type);
        if !offered_av.serves(av) {
            let (wanted, offered) = (av.name(), offered_av.name());
            self.lacks("domain_attr.av_type", wanted.into(), offered.into());
        }
    }

    fn domain(&mut self, offer: &Info, hints: &Info, version: u32) {
        if let Some(missing) = mr_mode::unmet(offer, hints, version) {
            self.0.push(Reason::Demands {
                field: "domain_attr.mr_mode",
                needed: flag_names("FI_MR_", missing),
                accepted: flag_names("FI_MR_", hints.domain.mr_mode),
            });
        }
        let (offer, hints) = (&offer.domain, &hints.domain);
        let sizes = [(
            "domain_attr.cq_data_size",
            offer.cq_data_size,
            hints.cq_data_size,
        )];
        self.at_most(&sizes);
        // Applications before API 1.5 do not have the fields that follow.
        if older_than(version, 1, 5) {
            return;
        }
        self.caps("domain_attr.caps", offer.caps, hints.caps);
        self.mode("domain_attr.mode", offer.mode, hints.mode);
        let keys = [
            (offer.auth_key_size, hints.auth_key_size),
            (offer.max_ep_auth_key, hints.max_ep_auth_key),
        ];
        self.at_most(&[
            ("domain_attr.cntr_cnt", offer.cntr_cnt, hints.cntr_cnt),
            (
                "domain_attr.mr_iov_limit",
                offer.mr_iov_limit,
                hints.mr_iov_limit,
            ),
            (
                "domain_attr.max_err_data",
                offer.max_err_data,
                hints.max_err_data,
            ),
            ("domain_attr.mr_cnt", offer.mr_cnt, hints.mr_cnt),
            ("domain_attr.auth_key_size", keys[0].0, keys[0].1),
            ("domain_attr.max_ep_auth_key", keys[1].0, keys[1].1),
        ]);
        for (field, limit, asked) in [
            (
                "domain_attr.max_cntr_value",
                offer.max_cntr_value,
                hints.max_cntr_value,
            ),
            (
                "domain_attr.max_err_cntr_value",
                offer.max_err_cntr_value,
                hints.max_err_cntr_value,
            ),
        ] {
            if limit != 0 && asked > limit {
                self.lacks(field, asked.to_string(), limit.to_string());
            }
        }
    }

    fn ep(&mut self, offer: &Info, hints: &Info) {
        let (ep, asked) = (&offer.ep, &hints.ep);
        if asked.protocol != 0 && asked.protocol != ep.protocol {
            let (wanted, offered) = (asked.protocol, ep.protocol);
            self.lacks(
                "ep_attr.protocol",
                format!("protocol {wanted}"),
                format!("protocol {offered}"),
            );
        }
        if asked.protocol_version > ep.protocol_version {
            let (wanted, offered) = (asked.protocol_version, ep.protocol_version);
            self.lacks(
                "ep_attr.protocol_version",
                wanted.to_string(),
                offered.to_string(),
            );
        }
        self.at_most(&[
            ("ep_attr.max_msg_size", ep.max_msg_size, asked.max_msg_size),
            (
                "ep_attr.auth_key_size",
                ep.auth_key_size,
                asked.auth_key_size,
            ),
        ]);
        let domain = &offer.domain;
        let tx = (asked.tx_ctx_cnt, ep.tx_ctx_cnt);
        self.contexts(
            "ep_attr.tx_ctx_cnt",
            tx,
            domain.max_ep_tx_ctx,
            domain.max_ep_stx_ctx,
        );
        let rx = (asked.rx_ctx_cnt, ep.rx_ctx_cnt);
        self.contexts(
            "ep_attr.rx_ctx_cnt",
            rx,
            domain.max_ep_rx_ctx,
            domain.max_ep_srx_ctx,
        );
        if hints.caps.intersects(Caps::RMA | Caps::ATOMIC) {
            self.ordered_sizes(ep, asked);
        }
        let (tags, offered) = (tag_bits(asked.mem_tag_format), tag_bits(ep.mem_tag_format));
        if hints.caps.contains(Caps::TAGGED) && tags > offered {
            let (wanted, offered) = (format!("a tag of {tags} bits"), format!("{offered} bits"));
            self.lacks("ep_attr.mem_tag_format", wanted, offered);
        }
    }

    fn ordered_sizes(&mut self, ep: &EpAttr, asked: &EpAttr) {
        let (raw, war, waw) = (
            asked.max_order_raw_size,
            asked.max_order_war_size,
            asked.max_order_waw_size,
        );
        self.at_most(&[
            ("ep_attr.max_order_raw_size", ep.max_order_raw_size, raw),
            ("ep_attr.max_order_war_size", ep.max_order_war_size, war),
            ("ep_attr.max_order_waw_size", ep.max_order_waw_size, waw),
        ]);
    }

    /// Checks a count of contexts; `counts` holds what was asked for and what the endpoint has by itself.
    fn contexts(&mut self, field: &'static str, counts: (usize, usize), max: usize, shared: usize) {
        let (asked, own) = counts;
        if asked == 0 && own == SHARED_CONTEXT {
            self.0.push(Reason::Demands {
                field,
                needed: "FI_SHARED_CONTEXT".to_owned(),
                accepted: "contexts of the endpoint's own".to_owned(),
            });
        } else if asked == SHARED_CONTEXT {
            if shared == 0 && max < asked {
                self.lacks(field, "FI_SHARED_CONTEXT".to_owned(), max.to_string());
            }
        } else if asked > max {
            self.lacks(field, asked.to_string(), max.to_string());
        }
    }

    fn tx(&mut self, offer: &TxAttr, hints: &TxAttr, info_mode: u64) {
        self.caps("tx_attr.caps", offer.caps, hints.caps.difference(NOT_OF_TX));
        self.mode("tx_attr.mode", offer.mode, or(hints.mode, info_mode));
        self.op_flags("tx_attr.op_flags", offer.op_flags, hints.op_flags);
        self.order("tx_attr.msg_order", offer.msg_order, hints.msg_order);
        self.order("tx_attr.comp_order", Order::empty(), hints.comp_order);
        self.at_most(&[
            ("tx_attr.inject_size", offer.inject_size, hints.inject_size),
            ("tx_attr.size", offer.size.max(offer.max_size), hints.size),
            ("tx_attr.iov_limit", offer.iov_limit, hints.iov_limit),
            (
                "tx_attr.rma_iov_limit",
                offer.rma_iov_limit,
                hints.rma_iov_limit,
            ),
        ]);
    }

    fn rx(&mut self, offer: &RxAttr, hints: &RxAttr, info_mode: u64) {
        self.caps("rx_attr.caps", offer.caps, hints.caps.difference(NOT_OF_RX));
        self.mode("rx_attr.mode", offer.mode, or(hints.mode, info_mode));
        self.op_flags("rx_attr.op_flags", offer.op_flags, hints.op_flags);
        self.order("rx_attr.msg_order", offer.msg_order, hints.msg_order);
        self.order("rx_attr.comp_order", Order::empty(), hints.comp_order);
        let buffered = (offer.total_buffered_recv, hints.total_buffered_recv);
        self.at_most(&[
            ("rx_attr.total_buffered_recv", buffered.0, buffered.1),
            ("rx_attr.size", offer.size.max(offer.max_size), hints.size),
            ("rx_attr.iov_limit", offer.iov_limit, hints.iov_limit),
        ]);
    }

    fn caps(&mut self, field: &'static str, offered: Caps, asked: Caps) {
        self.missing(field, "FI_", asked.difference(offered));
    }

    fn op_flags(&mut self, field: &'static str, offered: Flags, asked: Flags) {
        self.missing(field, "FI_", asked.difference(offered));
    }

    fn order(&mut self, field: &'static str, offered: Order, asked: Order) {
        let missing = asked.difference(spelled_out(offered));
        self.missing(field, "FI_ORDER_", missing);
    }

    /// Notes which flags of a set are missing, if any are. The reason does not list what is offered, which would hide them.
    fn missing<F: bitflags::Flags<Bits: LowerHex>>(
        &mut self,
        field: &'static str,
        prefix: &str,
        missing: F,
    ) {
        if !missing.is_empty() {
            let missing = flag_names(prefix, missing);
            self.0.push(Reason::Missing { field, missing });
        }
    }

    fn mode(&mut self, field: &'static str, needed: u64, accepted: u64) {
        if needed & !accepted != 0 {
            self.0.push(Reason::Demands {
                field,
                needed: mode_names(needed & !accepted),
                accepted: mode_names(accepted),
            });
        }
    }

    fn name(&mut self, field: &'static str, offered: &str, asked: &str) {
        if !asked.is_empty() && !asked.eq_ignore_ascii_case(offered) {
            self.lacks(field, asked.to_owned(), offered.to_owned());
        }
    }

    /// Checks rows of field, what is offered, what is asked.
    fn at_most(&mut self, sizes: &[(&'static str, usize, usize)]) {
        for &(field, offered, asked) in sizes {
            if asked > offered {
                self.lacks(field, asked.to_string(), offered.to_string());
            }
        }
    }

    fn lacks(&mut self, field: &'static str, wanted: String, offered: String) {
        self.0.push(Reason::Lacks {
            field,
            wanted,
            offered,
        });
    }
}

/// Ranks threading models by how little they ask of the application.
fn threading_rank(threading: Threading) -> u8 {
    match threading {
        Threading::Safe => 1,
        Threading::Fid => 2,
        Threading::Endpoint => 3,
        Threading::Completion => 4,
        Threading::Domain => 5,
        Threading::Unspec => 6,
    }
}

/// Ranks progress models by how little they ask of the application.
fn progress_rank(progress: Progress) -> u8 {
    match progress {
        Progress::Auto => 1,
        Progress::Manual => 2,
        Progress::ControlUnified => 3,
        Progress::Unspec => 4,
    }
}

/// Returns how many bits the largest tag of a format has.
fn tag_bits(format: u64) -> u32 {
    u64::BITS - format.leading_zeros()
}

fn or(own: u64, general: u64) -> u64 {
    if own != 0 { own } else { general }
}

fn dotted(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}
