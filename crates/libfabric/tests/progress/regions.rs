//! Regions that close while peers access them: fi_mr(3) "fi_close".

use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::world::{End, PROVIDERS, World, c};

/// Long enough for many turns.
const LENGTH: usize = 64 << 20;
const KEY: u64 = 7;

/// Starts to write all of a buffer to the region; the target confirms it.
fn write(a: &End, to: fi_addr_t, from: &mut [u8], base: u64) {
    let piece = libc::iovec {
        iov_base: from.as_mut_ptr().cast(),
        iov_len: from.len(),
    };
    let target = fi_rma_iov {
        addr: base,
        len: from.len(),
        key: KEY,
    };
    let msg = fi_msg_rma {
        msg_iov: &piece,
        desc: null_mut(),
        iov_count: 1,
        addr: to,
        rma_iov: &target,
        rma_iov_count: 1,
        context: null_mut(),
        data: 0,
    };
    let flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
    assert_eq!(c!(fi_writemsg(a.ep, &msg, flags)), 0);
}

/// Drives both until the write is over; returns its error.
fn outcome(a: &End, b: &End) -> i32 {
    loop {
        c!(fi_cq_read(b.cq, null_mut(), 0));
        let mut entry = fi_cq_tagged_entry::ZERO;
        match c!(fi_cq_read(a.cq, (&raw mut entry).cast(), 1)) {
            1 => return 0,
            code if code == -(FI_EAVAIL as isize) => {
                let mut failed = fi_cq_err_entry::ZERO;
                assert_eq!(c!(fi_cq_readerr(a.cq, &mut failed, 0)), 1);
                return failed.err;
            }
            _ => {}
        }
    }
}

#[test]
fn memory_of_a_closed_region_is_left_alone_although_a_write_was_under_way() {
    for provider in PROVIDERS {
        let world = World::open(provider, FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
        let (a, b) = (world.end(), world.end());
        let to = a.knows(&b);
        let mut from = vec![1u8; LENGTH];
        let mut memory = vec![0u8; LENGTH];
        let mut region = null_mut();
        let registered = c!(fi_mr_reg(
            world.domain,
            memory.as_mut_ptr().cast(),
            LENGTH,
            FI_REMOTE_WRITE,
            0,
            KEY,
            0,
            &mut region,
            null_mut()
        ));
        assert_eq!(registered, 0);
        // SAFETY: an info has all attributes.
        let mode = unsafe { (*(*world.info).domain_attr).mr_mode };
        let base = match mode & FI_MR_VIRT_ADDR {
            0 => 0,
            _ => memory.as_ptr().addr() as u64,
        };
        write(&a, to, &mut from, base);
        // SAFETY: the memory is there; the provider writes to it in calls of this thread only.
        while unsafe { memory.as_ptr().read_volatile() } == 0 {
            c!(fi_cq_read(b.cq, null_mut(), 0));
            c!(fi_cq_read(a.cq, null_mut(), 0));
        }
        assert_eq!(c!(fi_close(region.cast())), 0);
        memory.fill(2);
        assert_eq!(outcome(&a, &b), 0, "what had begun is completed");
        write(&a, to, &mut from[..8], base);
        assert_ne!(outcome(&a, &b), 0, "the region is gone");
        assert!(memory.iter().all(|&byte| byte == 2), "{provider:?}");
    }
}
