//! Memory that only peers in the address vector may access (FI_OXI_REGIONS). Set-up and failure paths.
//!
//! Whether a peer is in the vector is found out by its address. What was found out counts until the vector changes, or the peer's
//! number means another one.

use std::sync::OnceLock;

use oxifabric_engine::Target;
use oxifabric_mem::Iov;
use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_provider::peer_directory::PeerDirectory;
use oxifabric_types::{Errno, Flags, PeerId};

use super::accesses::scattered_region;
use super::{CompletionDispatch, sources};
use crate::av::Av;
use crate::domain::Domain;
use crate::handle::Ref;

/// Whose accesses are granted.
pub(crate) static PARAMETERS: [Parameter; 1] = [Parameter {
    name: "oxi_regions",
    kind: ParameterKind::Text,
    help: "Which peers may read and write registered memory: all that name its key, or only those in the address vector (known)",
    default: "all",
}];

/// Returns whether only peers in the address vector may access memory, read once. What is neither word means the safer one.
pub(in crate::endpoint) fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let text = PARAMETERS[0].words("").unwrap_or_default();
        let text = text.trim();
        !text.is_empty() && !text.eq_ignore_ascii_case("all")
    })
}

/// Whose memory it is, and which peers may access it.
pub(in crate::endpoint) struct Guard {
    pub(super) domain: Ref<Domain>,
    av: Ref<Av>,
    /// [`Av::changes`] when it was found out.
    seen: u64,
    /// By peer, as far as it was asked.
    may: Vec<Option<bool>>,
}

impl Guard {
    pub(in crate::endpoint) const fn new(domain: Ref<Domain>, av: Ref<Av>) -> Self {
        Self {
            domain,
            av,
            seen: 0,
            may: Vec::new(),
        }
    }

    /// Returns whether a peer may access memory. The endpoint itself (`ANY`) may.
    fn may(&mut self, from: PeerId, directory: &PeerDirectory) -> bool {
        let changes = self.av.changes();
        if changes != self.seen {
            self.seen = changes;
            self.may.clear();
        }
        if from == PeerId::ANY {
            return true;
        }
        if self.may.len() <= from.index() {
            self.may.resize(from.index() + 1, None);
        }
        let may = &mut self.may[from.index()];
        *may.get_or_insert_with(|| sources::find(&self.av, directory, from).is_some())
    }

    /// Forgets what was found out about a peer.
    pub(super) fn forget(&mut self, peer: PeerId) {
        if let Some(may) = self.may.get_mut(peer.index()) {
            *may = None;
        }
    }
}

impl CompletionDispatch {
    /// As [`oxifabric_engine::Completions::guarded_region`].
    #[cold]
    pub(super) fn region_for(
        &mut self,
        from: PeerId,
        targets: &[Target],
        access: Flags,
    ) -> Result<Iov, Errno> {
        let guard = self.guard.as_mut().ok_or(Errno::NOKEY)?;
        match guard.may(from, &self.directory) {
            true => scattered_region(&guard.domain, targets, access),
            false => Err(Errno::NOKEY),
        }
    }
}
