//! Accelerators that start transfers by themselves, which no provider here offers: every call says so.

use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, close};
use oxifabric_fixtures::{PROVIDERS, c, refused};

use crate::requirements;

requirements! { "fi_xpu(3)" on PROVIDERS;

/// Endpoints for accelerators are offered only where there are some: -FI_ENODATA.
fn no_endpoints_for_accelerators(subject) {
    let mut hints = subject.hints();
    hints.first_mut().caps |= FI_XPU;
    assert_eq!(subject.try_query(&hints, None, 0).err(), Some(-FI_ENODATA));
}

/// A domain without them says that it has room for no context.
fn a_domain_says_how_many_contexts_it_takes(subject) {
    let fixture = Fixture::new(subject);
    let info = fixture.info.first();
    assert_eq!(info.caps & FI_XPU, 0);
    assert_eq!(c!((*info.domain_attr).max_xpu_ctx_cnt), 0);
    assert!(c!((*info.ep_attr).xpu_ctx).is_null());
}

/// A domain without them opens no context: -FI_ENOSYS.
fn no_context_is_opened(subject) {
    let fixture = Fixture::new(subject);
    let (mut attr, mut ctx) = (fi_xpu_attr::ZERO, null_mut());
    let opened = c!(fi_xpu_ctx(fixture.domain, &mut attr, &mut ctx, null_mut()));
    assert_eq!((opened, ctx), (-FI_ENOSYS, null_mut()));
}

/// Objects that are not made for accelerators are not exported: -FI_ENOSYS.
fn nothing_is_exported(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let (mut ep, mut cq) = (fid_xpu_ep::ZERO, fid_xpu_cq::ZERO);
    assert_eq!(c!(fi_ep_export_xpu(end.ep, 0, &mut ep)), -FI_ENOSYS);
    assert_eq!(c!(fi_cq_export_xpu(end.cq, 0, &mut cq)), -FI_ENOSYS);
    drop(end);
    let (cntr, mut exported) = (fixture.cntr(FI_WAIT_NONE), fid_xpu_cntr::ZERO);
    assert_eq!(c!(fi_cntr_export_xpu(cntr, 0, &mut exported)), -FI_ENOSYS);
    assert_eq!(close(cntr), 0);
}

/// Queues, counters and endpoints for accelerators are refused.
fn nothing_is_opened_for_accelerators(subject) {
    let fixture = Fixture::new(subject);
    let (mut cq, mut cntr, mut ep) = (null_mut(), null_mut(), null_mut());
    let mut attr = fi_cq_attr { flags: FI_XPU, ..fi_cq_attr::ZERO };
    refused!(c!(fi_cq_open(fixture.domain, &mut attr, &mut cq, null_mut())), FI_EINVAL);
    let mut attr = fi_cntr_attr { flags: FI_XPU, ..fi_cntr_attr::ZERO };
    refused!(c!(fi_cntr_open(fixture.domain, &mut attr, &mut cntr, null_mut())), FI_EBADFLAGS);
    let info = fixture.info.as_ptr();
    refused!(c!(fi_endpoint2(fixture.domain, info, &mut ep, FI_XPU, null_mut())), FI_EBADFLAGS);
}

/// A region has no descriptor for accelerators: -FI_ENOSYS.
fn a_region_has_no_descriptor_for_accelerators(subject) {
    let fixture = Fixture::new(subject);
    let (mut memory, mut mr) = ([0_u8; 64], null_mut());
    let (buf, len) = (memory.as_mut_ptr().cast(), memory.len());
    let code = c!(fi_mr_reg(fixture.domain, buf, len, FI_SEND, 0, 0, 0, &mut mr, null_mut()));
    assert_eq!(code, 0);
    let (mut desc, mut room) = ([0_u8; 64], 64);
    let code = c!(fi_mr_get_xpu_desc(mr, desc.as_mut_ptr().cast(), &mut room, FI_XPU, null_mut()));
    assert_eq!(code, -FI_ENOSYS);
    assert_eq!(close(mr), 0);
}

/// An address is looked up for the host as by fi_av_lookup; for an accelerator, it is not.
fn an_address_is_looked_up_for_the_host(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let (mut name, mut length) = ([0_u8; 256], 256);
    assert_eq!(c!(fi_getname(end.ep.cast(), name.as_mut_ptr().cast(), &mut length)), 0);
    let mut at = FI_ADDR_UNSPEC;
    let inserted = c!(fi_av_insert(end.av, name.as_ptr().cast(), 1, &mut at, 0, null_mut()));
    assert_eq!(inserted, 1);
    let look_up = |flags| {
        let (mut found, mut room) = ([0_u8; 256], 256);
        let code = c!(fi_av_lookup2(end.av, at, found.as_mut_ptr().cast(), &mut room, flags, null_mut()));
        (code, found, room)
    };
    assert_eq!(look_up(0), (0, name, length));
    assert_eq!(look_up(FI_XPU).0, -FI_ENOSYS);
}
}
