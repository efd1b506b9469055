//! What the provider offers: what any reliable endpoint over packets can do. Set-up path; source: fi_getinfo(3).

use oxifabric_provider::device::VECTORS;
use oxifabric_provider::packets;
use oxifabric_types::{Caps, DomainAttr, FabricAttr, Info};

use crate::NAME;

/// FI_ADDR_STR.
pub(crate) const ADDR_STR: u32 = 9;
/// Advisable number of objects of a kind.
const OBJECTS: usize = 1 << 16;

/// Describes the endpoints.
pub(crate) fn info() -> Info {
    let any = packets::info(NAME);
    Info {
        caps: any.caps | Caps::LOCAL_COMM,
        addr_format: ADDR_STR,
        domain: DomainAttr {
            name: NAME.into(),
            cq_cnt: OBJECTS,
            ep_cnt: OBJECTS,
            tx_ctx_cnt: OBJECTS,
            rx_ctx_cnt: OBJECTS,
            cntr_cnt: OBJECTS,
            caps: Caps::LOCAL_COMM | VECTORS,
            ..any.domain
        },
        fabric: FabricAttr {
            name: NAME.into(),
            ..any.fabric
        },
        ..any
    }
}
