//! Which descriptors of the process are ours. Looked at in every call of write and the like, so without locks.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// Descriptors beyond these are never ours.
const DESCRIPTORS: usize = 1 << 16;

/// Entry of a descriptor: what it is in the two lowest bits, the object's number above.
static OURS: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];

/// What a descriptor of ours belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An open device, by the number of its context.
    Context(u32),
    /// A completion channel.
    Channel(u32),
    /// A device that was opened before fork(2): nothing can be done with it but closing.
    Parent,
}

/// Returns what a descriptor belongs to, if it is ours.
pub(crate) fn owner(fd: c_int) -> Option<Owner> {
    let entry = OURS.get(usize::try_from(fd).ok()?)?.load(Ordering::Acquire);
    match entry & 3 {
        1 => Some(Owner::Context(entry >> 2)),
        2 => Some(Owner::Channel(entry >> 2)),
        3 => Some(Owner::Parent),
        _ => None,
    }
}

/// Notes a descriptor. Returns false if its number is too large.
pub(crate) fn note(fd: c_int, owner: Owner) -> bool {
    let entry = match owner {
        Owner::Context(number) => number << 2 | 1,
        Owner::Channel(number) => number << 2 | 2,
        Owner::Parent => 3,
    };
    let place = usize::try_from(fd).ok().and_then(|fd| OURS.get(fd));
    place.is_some_and(|place| {
        place.store(entry, Ordering::Release);
        true
    })
}

/// Forgets a descriptor, and returns what it belonged to.
pub(crate) fn forget(fd: c_int) -> Option<Owner> {
    let owner = owner(fd)?;
    OURS.get(usize::try_from(fd).ok()?)?
        .store(0, Ordering::Release);
    Some(owner)
}

/// Notes after fork(2) that the devices are the parent's.
pub(crate) fn disown() {
    for entry in &OURS {
        if entry.load(Ordering::Relaxed) != 0 {
            entry.store(3, Ordering::Relaxed);
        }
    }
}
