//! Accesses to memory that a peer must not touch, and peers that try keys. Path class: failures.

use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::engine::Engine;
use crate::{Completions, Placement, Target};

/// Maximum number of accesses with an unknown key that are answered on a connection; the next one ends it. A program whose
/// region is closed too early gets the error of the first. Trying keys costs a connection for each few of them.
pub(crate) const UNKNOWN_KEYS_MAX: u32 = 16;

impl Engine {
    /// Finds memory for an access of a peer, or of this endpoint itself (`PeerId::ANY`).
    #[inline(always)]
    pub(crate) fn region(
        out: &mut impl Completions,
        from: PeerId,
        targets: &[Target],
        access: Flags,
    ) -> Result<Iov, Errno> {
        match out.region(targets, access) {
            Err(Errno::NOKEY) => out.guarded_region(from, targets, access),
            region => region,
        }
    }

    /// Returns what becomes of an access that is refused; `None` if its initiator is answered with the error.
    #[cold]
    pub(crate) fn refusal(&mut self, from: PeerId, errno: Errno) -> Option<Placement> {
        match errno {
            Errno::AGAIN => Some(self.stall(from)),
            Errno::NOKEY if self.peers.count_unknown_key(from) > UNKNOWN_KEYS_MAX => {
                Some(Placement::Refuse)
            }
            _ => None,
        }
    }

    /// Has the accesses delivered again that [`Completions::guarded_region`] answered with [`Errno::AGAIN`].
    pub fn reconsider(&mut self, link: &mut impl crate::Link) {
        self.retry_stalled = true;
        self.resume_stalled(link);
    }
}
