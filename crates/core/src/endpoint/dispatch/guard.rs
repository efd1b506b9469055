//! Memory that only peers in the address vector may access (FI_OXI_REGIONS). Set-up and failure paths.
//!
//! Whether a peer is in the vector is found out by its address, which the device knows. While that is being polled, the access
//! waits; what was found out counts until the vector changes, or the peer's number means another one.

use std::sync::OnceLock;

use oxifabric_engine::{Completion, Target};
use oxifabric_mem::Iov;
use oxifabric_provider::device::Device;
use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_types::{Errno, Flags, PeerId};

use super::{CompletionDispatch, Unsettled, count_regions, scattered_region};
use crate::av::Av;
use crate::domain::Domain;
use crate::handle::Ref;
use crate::mr::persistent::write_back;

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
    /// Something was found out that accesses wait for.
    news: bool,
}

impl Guard {
    pub(in crate::endpoint) const fn new(domain: Ref<Domain>, av: Ref<Av>) -> Self {
        Self {
            domain,
            av,
            seen: 0,
            may: Vec::new(),
            news: false,
        }
    }

    /// Returns whether a peer may access memory, if that is known. The endpoint itself (`ANY`) may.
    fn may(&mut self, from: PeerId) -> Option<bool> {
        let changes = self.av.changes();
        if changes != self.seen {
            self.seen = changes;
            self.may.clear();
        }
        match from {
            PeerId::ANY => Some(true),
            from => self.may.get(from.index()).copied().flatten(),
        }
    }

    fn set(&mut self, peer: PeerId, may: Option<bool>) {
        if self.may.len() <= peer.index() {
            self.may.resize(peer.index() + 1, None);
        }
        self.may[peer.index()] = may;
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
        match guard.may(from) {
            Some(true) => scattered_region(&guard.domain, targets, access),
            Some(false) => Err(Errno::NOKEY),
            None => {
                self.unsettled.push(Unsettled::Asked(from));
                Err(Errno::AGAIN)
            }
        }
    }

    /// Counts an access where a guard is.
    #[cold]
    pub(super) fn accessed_guarded(&self, access: &Completion, targets: &[Target]) {
        if let Some(guard) = &self.guard
            && guard.domain.rma_targets().is_watched()
        {
            write_back(&guard.domain, access, targets);
            count_regions(&guard.domain, access, targets);
        }
    }

    /// Finds out whether a peer may access memory.
    pub(super) fn judge(&mut self, peer: PeerId, device: &impl Device) {
        if let Some(guard) = &mut self.guard {
            let address = device.address(peer);
            let may = address.is_some_and(|address| guard.av.source(address).is_some());
            guard.set(peer, Some(may));
            guard.news = true;
        }
    }

    /// Returns whether accesses wait for what was found out, once.
    pub(in crate::endpoint) fn has_verdicts(&mut self) -> bool {
        let news = |guard: &mut Guard| std::mem::take(&mut guard.news);
        self.guard.as_deref_mut().is_some_and(news)
    }
}
