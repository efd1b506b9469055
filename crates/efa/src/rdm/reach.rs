//! With which peers the device reads and writes memory by itself, as their handshakes say.

use oxifabric_engine::OneSided;
use oxifabric_ibv::EfaCaps;
use oxifabric_types::{Caps, Info, ResourceMgmt};
use oxifabric_wire::efa::feature;

use crate::hardware::Hardware;
use crate::params::Params;

/// What devices do with each other, as the index of an array: any of the accesses of [`NATIVE`].
pub(super) const WAYS: usize = 1 << NATIVE.len();

/// The accesses that a device may carry out, in the order of the bits of an index. Completion data has 32 bits there.
const NATIVE: [OneSided; 3] = [OneSided::READ, OneSided::WRITE, OneSided::WRITE_SHORT_DATA];

/// The first generation of devices, which reads from others of its kind only, and is read by them only.
const FIRST: u32 = 0xefa0;

/// What the device of an endpoint does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// It reads, and writes, memory of peers.
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// Peers' devices may reach memory of this end. Not where the application wants to be told of what they did (FI_RMA_EVENT): no device says so.
    exposes: bool,
    /// The application wants to be told of what peers do.
    reports: bool,
    /// Writes with data use up no receive.
    pub(super) tells_unsolicited: bool,
    /// The application says that all peers have such a device, and use it as this end does.
    pub(super) peers_are_alike: bool,
    /// A message fails whose receiver is not ready: the application prevents that itself (FI_RM_DISABLED).
    pub(super) fails_not_ready: bool,
    part: u32,
    /// The version of the interface that the application has.
    pub(super) api_version: u32,
}

/// Returns the index of a set of accesses.
pub(super) fn index(accesses: OneSided) -> usize {
    let bits = NATIVE.iter().enumerate();
    bits.fold(0, |index, (bit, access)| {
        index | usize::from(accesses.contains(*access)) << bit
    })
}

/// Returns the set of accesses with an index.
pub(super) fn accesses(index: usize) -> OneSided {
    let bits = NATIVE.iter().enumerate();
    let set = bits.filter(|(bit, _)| index & 1 << bit != 0);
    set.map(|(_, access)| *access).collect()
}

impl Reach {
    /// Returns what the device of an endpoint with this description does.
    pub(super) fn new(info: &Info, hardware: &Hardware, tells_unsolicited: bool) -> Self {
        let part = hardware.attributes.part;
        let api_version = info.fabric.api_version;
        let mut reach = Self {
            reads: false,
            writes: false,
            exposes: false,
            reports: (info.caps | info.rx.caps).contains(Caps::RMA_EVENT),
            tells_unsolicited,
            peers_are_alike: false,
            fails_not_ready: info.domain.resource_mgmt == ResourceMgmt::Disabled,
            part,
            api_version,
        };
        reach.set(Params::read().uses_rdma(api_version, part), hardware);
        reach
    }

    /// Lets the device read and write memory, as far as it can, or not.
    pub(super) fn set(&mut self, uses_rdma: bool, hardware: &Hardware) {
        self.reads = uses_rdma && hardware.can(EfaCaps::RDMA_READ);
        self.writes = self.reads && hardware.can(EfaCaps::RDMA_WRITE);
        self.exposes = self.reads && !self.reports;
    }

    /// Returns what the handshakes of this end say of it: bits of [`feature`].
    pub(super) fn features(self) -> u64 {
        let mut features = 0;
        if self.exposes {
            features |= feature::RDMA_READ;
        }
        if self.exposes && self.writes {
            features |= feature::RDMA_WRITE;
        }
        if self.tells_unsolicited {
            features |= feature::UNSOLICITED;
        }
        features
    }

    /// Returns which accesses the device carries out with a peer whose handshake is not here.
    pub(super) fn before_handshake(self) -> OneSided {
        match self.peers_are_alike {
            true => self.with(self.features(), Some(self.part)),
            false => OneSided::empty(),
        }
    }

    /// Returns which accesses the device carries out with a peer whose handshake says this.
    pub(super) fn with(self, features: u64, part: Option<u32>) -> OneSided {
        let has = |feature| features & feature != 0;
        let is_first = self.part == FIRST;
        let mut accesses = OneSided::empty();
        let may_read = self.reads && is_first == (part == Some(FIRST));
        accesses.set(OneSided::READ, may_read && has(feature::RDMA_READ));
        let writes = self.writes && has(feature::RDMA_WRITE);
        accesses.set(OneSided::WRITE, writes);
        // The peer's device would use up a receive where that is not expected, or use up none.
        let agrees = has(feature::UNSOLICITED) == self.tells_unsolicited;
        accesses.set(OneSided::WRITE_SHORT_DATA, writes && agrees);
        accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = feature::RDMA_READ | feature::RDMA_WRITE | feature::UNSOLICITED;

    fn reach(part: u32) -> Reach {
        Reach {
            reads: true,
            writes: true,
            exposes: true,
            reports: false,
            tells_unsolicited: true,
            peers_are_alike: false,
            fails_not_ready: false,
            part,
            api_version: 0,
        }
    }

    #[test]
    fn an_index_stands_for_its_accesses() {
        for at in 0..WAYS {
            assert_eq!(index(accesses(at)), at);
        }
        assert_eq!(accesses(0), OneSided::empty());
    }

    #[test]
    fn both_ends_have_to_be_able() {
        let native = OneSided::READ | OneSided::WRITE | OneSided::WRITE_SHORT_DATA;
        assert_eq!(reach(1).with(ALL, Some(2)), native);
        assert_eq!(reach(1).with(0, Some(2)), OneSided::empty());
        let solicited = ALL - feature::UNSOLICITED;
        assert_eq!(
            reach(1).with(solicited, None),
            OneSided::READ | OneSided::WRITE
        );
        let only_reads = Reach {
            writes: false,
            ..reach(1)
        };
        assert_eq!(only_reads.with(ALL, None), OneSided::READ);
        assert_eq!(only_reads.features(), ALL - feature::RDMA_WRITE);
    }

    #[test]
    fn the_first_generation_reads_among_itself_only() {
        let reads = |own, peer| reach(own).with(ALL, Some(peer)).contains(OneSided::READ);
        assert!(reads(FIRST, FIRST) && reads(0xefa1, 0xefa2));
        assert!(!reads(FIRST, 0xefa1) && !reads(0xefa1, FIRST));
    }

    #[test]
    fn peers_that_are_alike_are_known_before_their_handshake() {
        let alike = |part| Reach {
            peers_are_alike: true,
            ..reach(part)
        };
        assert_eq!(reach(1).before_handshake(), OneSided::empty());
        for part in [FIRST, 0xefa1] {
            let known = alike(part).with(ALL, Some(part));
            assert_eq!(alike(part).before_handshake(), known);
            assert!(known.contains(OneSided::READ));
        }
    }

    #[test]
    fn an_endpoint_that_reports_accesses_is_reached_by_none() {
        let reporting = Reach {
            exposes: false,
            ..reach(1)
        };
        assert_eq!(reporting.features(), feature::UNSOLICITED);
    }
}
