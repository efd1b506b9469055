//! The man pages in scope, a module each; a long page has one for each part.

mod fi_atomic;
mod fi_atomic_operations;
mod fi_av;
mod fi_av_set;
mod fi_cm;
mod fi_cntr;
mod fi_collective;
mod fi_cq;
mod fi_domain;
mod fi_domain_progress;
mod fi_endpoint;
mod fi_endpoint_contexts;
mod fi_endpoint_sizes;
mod fi_eq;
mod fi_fabric;
mod fi_getinfo;
mod fi_mr;
mod fi_msg;
mod fi_poll;
mod fi_profile;
mod fi_rma;
mod fi_tagged;
mod fi_trigger;
mod fi_udp;
mod fi_version;
mod fi_xpu;

use crate::Page;

/// All pages.
pub const PAGES: &[Page] = &[
    fi_version::PAGE,
    fi_getinfo::PAGE,
    fi_fabric::PAGE,
    fi_domain::PAGE,
    fi_domain_progress::PAGE,
    fi_endpoint::PAGE,
    fi_endpoint_contexts::PAGE,
    fi_endpoint_sizes::PAGE,
    fi_av::PAGE,
    fi_cq::PAGE,
    fi_eq::PAGE,
    fi_cntr::PAGE,
    fi_poll::PAGE,
    fi_mr::PAGE,
    fi_msg::PAGE,
    fi_tagged::PAGE,
    fi_rma::PAGE,
    fi_atomic::PAGE,
    fi_atomic_operations::PAGE,
    fi_cm::PAGE,
    fi_trigger::PAGE,
    fi_av_set::PAGE,
    fi_collective::PAGE,
    fi_profile::PAGE,
    fi_udp::PAGE,
    fi_xpu::PAGE,
];
