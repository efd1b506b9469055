//! Regions in persistent memory: what a peer has written there is made durable before the peer gets its acknowledgement.
//! Source: fi_mr(3) "FI_RMA_PMEM", fi_rma(3) "FI_COMMIT_COMPLETE".
//!
//! A mapped file may be on a device or be persistent memory itself; msync(2) is right for both, and for memory that is
//! neither it does nothing. Large path: only domains with such regions come here.

use core::ffi::c_void;
use std::io;

use oxifabric_engine::{Completion, Target};
use oxifabric_mem::IovSegment;
use oxifabric_provider::log;
use oxifabric_types::Flags;

use crate::domain::Domain;

/// Makes durable what an access has written to regions in persistent memory.
///
/// It runs before the answer to the access leaves, which the same call of progress sends later.
pub(crate) fn write_back(domain: &Domain, access: &Completion, targets: &[Target]) {
    if !access.flags.contains(Flags::REMOTE_WRITE) {
        return;
    }
    let regions = domain.regions();
    if targets.len() > 1 {
        for target in targets {
            if regions.persistent(target.key).is_some() {
                // The region may have been closed since: then nothing is promised any more.
                let _ = regions.each_piece(target, Flags::REMOTE_WRITE, |piece| {
                    sync(&piece);
                    Ok(())
                });
            }
        }
        return;
    }
    match regions.persistent(access.context as u64) {
        Some([_]) => write_back_range(access.buf, access.len as usize),
        // Where the access begins is known, but not in which piece it ends.
        Some(pieces) => pieces.iter().for_each(sync),
        None => {}
    }
}

fn sync(piece: &IovSegment) {
    write_back_range(piece.base().addr(), piece.len());
}

/// Writes the pages of a range back; a failure is logged.
fn write_back_range(base: usize, len: usize) {
    if let Err(error) = pages(base, len).map_or(Ok(()), synced) {
        log::warn!(
            "",
            Mr,
            "memory that is registered as persistent cannot be written back: {error}"
        );
    }
}

/// Returns the pages that a range touches: the address of the first, and how many bytes they have. `None` for no bytes.
fn pages(base: usize, len: usize) -> Option<(usize, usize)> {
    // SAFETY: `sysconf` has no preconditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let first = base & !(page - 1);
    let end = base.checked_add(len)?;
    (len > 0).then_some((first, end - first))
}

fn synced((first, len): (usize, usize)) -> io::Result<()> {
    let place: *mut c_void = core::ptr::with_exposed_provenance_mut(first);
    // SAFETY: the call reads and writes no memory of the process; a range that is not mapped is an error.
    match unsafe { libc::msync(place, len, libc::MS_SYNC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_widened_to_pages() {
        assert_eq!(pages(0x2_0000, 0), None);
        assert_eq!(pages(0x2_0000, 10), Some((0x2_0000, 10)));
        assert_eq!(pages(0x2_0007, 10), Some((0x2_0000, 17)));
        assert_eq!(pages(usize::MAX, 2), None);
    }

    #[test]
    fn memory_of_any_kind_is_written_back_and_what_is_none_is_an_error() {
        let bytes = vec![1_u8; 10_000];
        let at = |base: usize| pages(base, 9000).expect("some bytes");
        assert!(synced(at(bytes.as_ptr().addr() + 100)).is_ok());
        assert!(synced(at(0x1000)).is_err());
    }
}
