//! Options of one operation. Source: fi_msg(3), fi_cq(3) "Completion levels".

use oxifabric_abi::{
    FI_DELIVERY_COMPLETE, FI_FENCE, FI_INJECT_COMPLETE, FI_REMOTE_CQ_DATA, FI_TRANSMIT_COMPLETE,
};

/// The completion level of a send or a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// Completes at the endpoint's default level.
    #[default]
    Default,
    /// Completes when the buffer may be reused.
    Inject,
    /// Completes when the message no longer depends on this endpoint.
    Transmit,
    /// Completes when the message has arrived in the peer's buffer.
    Delivery,
}

impl Level {
    pub(crate) fn flags(self) -> u64 {
        match self {
            Self::Default => 0,
            Self::Inject => FI_INJECT_COMPLETE,
            Self::Transmit => FI_TRANSMIT_COMPLETE,
            Self::Delivery => FI_DELIVERY_COMPLETE,
        }
    }
}

/// The options of a send or a write: `SendOptions::new().tag(7).level(Level::Delivery)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendOptions {
    /// The tag; without one it is an untagged message. Writes have none.
    pub tag: Option<u64>,
    /// Remote completion data.
    pub data: Option<u64>,
    /// The completion level.
    pub level: Level,
    /// Whether it waits for all earlier operations to the same peer.
    pub fence: bool,
}

impl SendOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self {
            tag: None,
            data: None,
            level: Level::Default,
            fence: false,
        }
    }

    /// Sends a tagged message.
    pub const fn tag(mut self, tag: u64) -> Self {
        self.tag = Some(tag);
        self
    }

    /// Adds remote completion data.
    pub const fn data(mut self, data: u64) -> Self {
        self.data = Some(data);
        self
    }

    /// Sets the completion level.
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Makes the operation wait for all earlier operations to the same peer.
    pub const fn fence(mut self) -> Self {
        self.fence = true;
        self
    }

    pub(super) fn flags(&self) -> u64 {
        let data = self.data.map_or(0, |_| FI_REMOTE_CQ_DATA);
        let fence = if self.fence { FI_FENCE } else { 0 };
        self.level.flags() | data | fence
    }
}
