//! Writes to and reads from the peer's memory, and the counter that counts them.

use crate::node::Node;
use crate::{check, pattern};
use ofi_libfabric_sys::bindgen::*;
use std::ptr;

/// Bytes of the region that each process lends to the other.
const REGION: usize = 256 << 10;

/// Tags of the messages that say where a region is, and that all is done.
const REGION_TAG: u64 = 1 << 60;
const DONE_TAG: u64 = 2 << 60;

/// Memory that the peer may access.
struct Region {
    memory: Vec<u8>,
    mr: *mut fid_mr,
}

impl Region {
    fn register(node: &Node) -> Self {
        let mut memory = vec![0u8; REGION];
        let mut mr = ptr::null_mut();
        let access = u64::from(FI_REMOTE_READ | FI_REMOTE_WRITE);
        // SAFETY: the memory stays where it is until the region is closed; only the peer touches it meanwhile.
        let result = unsafe {
            fi_mr_reg(
                node.domain,
                memory.as_mut_ptr().cast(),
                REGION,
                access,
                0,
                77,
                0,
                &mut mr,
                ptr::null_mut(),
            )
        };
        check("fi_mr_reg", result);
        Self { memory, mr }
    }

    /// What the peer needs: key and address.
    fn invitation(&self, node: &Node) -> Vec<u8> {
        // SAFETY: the region is open.
        let key = unsafe { fi_mr_key(self.mr) };
        let is_virtual = node.mr_mode & FI_MR_VIRT_ADDR != 0;
        let address = if is_virtual {
            self.memory.as_ptr() as u64
        } else {
            0
        };
        [key.to_ne_bytes(), address.to_ne_bytes()].concat()
    }

    fn close(self) -> Vec<u8> {
        // SAFETY: the region is open, and the peer has said that it is done.
        check("fi_close", unsafe { fi_close(&mut (*self.mr).fid) });
        self.memory
    }
}

/// Writes to the peer's region, and reads it back.
pub fn lead(node: &Node, peer: fi_addr_t) {
    let invitation = node.receive(peer, REGION_TAG, 16);
    let word =
        |at: usize| u64::from_ne_bytes(invitation[at..at + 8].try_into().expect("eight bytes"));
    let (key, address) = (word(0), word(8));
    let none = ptr::null_mut();
    let data = pattern(3, REGION);
    let mut back = vec![0u8; REGION];
    let into = back.as_mut_ptr();
    let half = REGION / 2;
    // SAFETY: all buffers live until the completions that are waited for.
    unsafe {
        node.start("fi_write", |context| {
            fi_write(
                node.ep,
                data.as_ptr().cast(),
                half,
                none,
                peer,
                address,
                key,
                context,
            )
        });
        let rest = run_of(&data[half..]);
        node.start("fi_writev", |context| {
            fi_writev(
                node.ep,
                (&raw const rest).cast(),
                ptr::null_mut(),
                1,
                peer,
                address + half as u64,
                key,
                context,
            )
        });
        node.start("fi_read", |context| {
            fi_read(
                node.ep,
                into.cast(),
                REGION,
                none,
                peer,
                address,
                key,
                context,
            )
        });
    }
    assert!(back == data, "what was written is not what was read");
    counter(node, 3);
    node.send(peer, DONE_TAG, b"done");
    node.receive(peer, DONE_TAG, 0);
}

/// Lends memory, and looks at what the peer has left there.
pub fn follow(node: &Node, peer: fi_addr_t) {
    let region = Region::register(node);
    node.send(peer, REGION_TAG, &region.invitation(node));
    node.receive(peer, DONE_TAG, 4);
    assert!(
        region.close() == pattern(3, REGION),
        "the peer wrote something else"
    );
    node.send(peer, DONE_TAG, b"");
}

/// The counter has counted the accesses, and can be set.
fn counter(node: &Node, accesses: u64) {
    let counter = node.accesses;
    // SAFETY: the counter is open.
    unsafe {
        check("fi_cntr_wait", fi_cntr_wait(counter, accesses, 10_000));
        assert_eq!(
            fi_cntr_read(counter),
            accesses,
            "accesses that the counter saw"
        );
        assert_eq!(fi_cntr_readerr(counter), 0, "errors that the counter saw");
        check("fi_cntr_add", fi_cntr_add(counter, 4));
        check("fi_cntr_wait", fi_cntr_wait(counter, accesses + 4, 10_000));
        check("fi_cntr_set", fi_cntr_set(counter, 1));
        assert_eq!(fi_cntr_read(counter), 1, "a counter that was set");
    }
}

/// A run of bytes as C describes it.
#[repr(C)]
struct Iovec {
    base: *const u8,
    length: usize,
}

fn run_of(bytes: &[u8]) -> Iovec {
    Iovec {
        base: bytes.as_ptr(),
        length: bytes.len(),
    }
}
