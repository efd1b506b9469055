//! A target that never polls, whose domain makes progress by itself.

use core::ffi::CStr;
use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::world::{End, PROVIDERS, World, c, number, patiently};

const LONG: usize = 4 << 20;

struct Pair {
    initiator: End,
    target: End,
    near: World,
    far: World,
    to: fi_addr_t,
}

fn pair(provider: &CStr) -> Pair {
    let near = World::open(provider, FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
    let far = World::open(provider, FI_THREAD_DOMAIN, FI_PROGRESS_AUTO);
    let (initiator, target) = (near.end(), far.end());
    let to = initiator.knows(&target);
    Pair {
        initiator,
        target,
        near,
        far,
        to,
    }
}

impl Pair {
    /// Starts an operation of the initiator and waits until it is complete.
    fn complete(&self, call: impl FnMut() -> isize) {
        patiently(&self.initiator, call, |end| assert!(end.read().is_none()));
        self.initiator.next();
    }

    fn close(self) {
        drop((self.initiator, self.target));
        drop((self.near, self.far));
    }
}

#[test]
fn memory_is_accessed_although_its_owner_never_polls() {
    for provider in PROVIDERS {
        let pair = pair(provider);
        let mut memory = vec![0u8; LONG];
        let mut region = null_mut();
        let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
        let registered = c!(fi_mr_reg(
            pair.far.domain,
            memory.as_ptr().cast(),
            memory.len(),
            access,
            0,
            7,
            0,
            &mut region,
            null_mut()
        ));
        assert_eq!(registered, 0);
        let key = c!(fi_mr_key(region));
        // SAFETY: an info has all attributes.
        let virtual_addresses =
            unsafe { (*(*pair.far.info).domain_attr).mr_mode } & FI_MR_VIRT_ADDR != 0;
        let base = if virtual_addresses {
            memory.as_ptr().addr() as u64
        } else {
            0
        };
        let ep = pair.initiator.ep;
        for (round, len) in [8, 4096, LONG, 8, 1 << 16].into_iter().enumerate() {
            let sent = vec![round as u8 + 1; len];
            let mut got = vec![0u8; len];
            let from = sent.as_ptr().cast();
            pair.complete(|| {
                c!(fi_write(
                    ep,
                    from,
                    len,
                    null_mut(),
                    pair.to,
                    base,
                    key,
                    null_mut()
                ))
            });
            let into = got.as_mut_ptr().cast();
            pair.complete(|| {
                c!(fi_read(
                    ep,
                    into,
                    len,
                    null_mut(),
                    pair.to,
                    base,
                    key,
                    null_mut()
                ))
            });
            assert!(got == sent, "{provider:?}, {len} bytes");
        }
        memory.fill(0);
        assert_eq!(c!(fi_close(region.cast())), 0);
        pair.close();
    }
}

#[test]
fn long_messages_arrive_although_their_receiver_never_polls() {
    for provider in PROVIDERS {
        let pair = pair(provider);
        let mut into = vec![0u8; LONG];
        for round in 1..4u8 {
            let posted = c!(fi_trecv(
                pair.target.ep,
                into.as_mut_ptr().cast(),
                into.len(),
                null_mut(),
                FI_ADDR_UNSPEC,
                9,
                0,
                number(1)
            ));
            assert_eq!(posted, 0);
            let sent = vec![round; LONG];
            let piece = libc::iovec {
                iov_base: sent.as_ptr().cast_mut().cast(),
                iov_len: sent.len(),
            };
            let msg = fi_msg_tagged {
                msg_iov: &piece,
                desc: null_mut(),
                iov_count: 1,
                addr: pair.to,
                tag: 9,
                ignore: 0,
                context: null_mut(),
                data: 0,
            };
            pair.complete(|| c!(fi_tsendmsg(pair.initiator.ep, &msg, FI_DELIVERY_COMPLETE)));
            // Delivered means that it is in the buffer, which is looked at before the first look at the queue.
            assert!(into == sent, "{provider:?}");
            assert_eq!(pair.target.next().len, LONG);
        }
        pair.close();
    }
}

#[test]
fn a_forked_child_may_leave() {
    for provider in PROVIDERS {
        let pair = pair(provider);
        // SAFETY: the child only leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: nothing of the parent is cleaned up here.
            unsafe { libc::_exit(0) };
        }
        let mut status = -1;
        assert_eq!(c!(libc::waitpid(child, &mut status, 0)), child);
        assert_eq!(status, 0);
        let mut into = [0u8; 1];
        let (ep, buf) = (pair.target.ep, into.as_mut_ptr().cast());
        let posted = c!(fi_recv(ep, buf, 1, null_mut(), FI_ADDR_UNSPEC, null_mut()));
        assert_eq!(posted, 0);
        let from = [5u8].as_ptr().cast();
        pair.complete(|| {
            c!(fi_send(
                pair.initiator.ep,
                from,
                1,
                null_mut(),
                pair.to,
                null_mut()
            ))
        });
        pair.target.next();
        assert_eq!(into, [5]);
        pair.close();
    }
}
