//! Capabilities, operation flags and modes: the bits of the 64-bit flag words.
//!
//! Some bits carry two meanings, told apart by the call that takes them. Source: fi_getinfo(3), fi_endpoint(3), fi_cq(3).

// Capabilities and operation flags.
pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
pub const FI_TAGGED: u64 = 1 << 3;
pub const FI_ATOMIC: u64 = 1 << 4;
pub const FI_MULTICAST: u64 = 1 << 5;
pub const FI_COLLECTIVE: u64 = 1 << 6;
pub const FI_READ: u64 = 1 << 8;
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_REMOTE_READ: u64 = 1 << 12;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
pub const FI_MULTI_RECV: u64 = 1 << 16;
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub const FI_MORE: u64 = 1 << 18;
pub const FI_PEEK: u64 = 1 << 19;
pub const FI_TRIGGER: u64 = 1 << 20;
pub const FI_FENCE: u64 = 1 << 21;
pub const FI_COMPLETION: u64 = 1 << 24;
pub const FI_INJECT: u64 = 1 << 25;
pub const FI_INJECT_COMPLETE: u64 = 1 << 26;
pub const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub const FI_AFFINITY: u64 = 1 << 29;
pub const FI_COMMIT_COMPLETE: u64 = 1 << 30;
pub const FI_MATCH_COMPLETE: u64 = 1 << 31;
pub const FI_RESCAN: u64 = 1 << 35;
pub const FI_PEER_TRANSFER: u64 = 1 << 36;
pub const FI_AV_USER_ID: u64 = 1 << 41;
pub const FI_FIREWALL_ADDR: u64 = 1 << 42;
pub const FI_PEER: u64 = 1 << 43;
pub const FI_XPU: u64 = 1 << 44;
pub const FI_TAGGED_DIRECTED_RECV: u64 = 1 << 45;
pub const FI_TAGGED_MULTI_RECV: u64 = 1 << 46;
pub const FI_HMEM: u64 = 1 << 47;
pub const FI_EXACT_DIRECTED_RECV: u64 = 1 << 48;
pub const FI_RMA_PMEM: u64 = 1 << 49;
pub const FI_SOURCE_ERR: u64 = 1 << 50;
pub const FI_LOCAL_COMM: u64 = 1 << 51;
pub const FI_REMOTE_COMM: u64 = 1 << 52;
pub const FI_SHARED_AV: u64 = 1 << 53;
pub const FI_PROV_ATTR_ONLY: u64 = 1 << 54;
pub const FI_NUMERICHOST: u64 = 1 << 55;
pub const FI_RMA_EVENT: u64 = 1 << 56;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_NAMED_RX_CTX: u64 = 1 << 58;
pub const FI_DIRECTED_RECV: u64 = 1 << 59;

/// Older name of `FI_ATOMIC`.
pub const FI_ATOMICS: u64 = FI_ATOMIC;
/// Older name of `FI_SEND`.
pub const FI_TRANSMIT: u64 = FI_SEND;
/// `FI_COMPLETION` as a flag of event queues and address vectors.
pub const FI_EVENT: u64 = FI_COMPLETION;

// Peeked messages and completions.
pub const FI_CLAIM: u64 = 1 << 59;
pub const FI_DISCARD: u64 = 1 << 58;
pub const FI_AUTH_KEY: u64 = 1 << 57;

// Binding.
pub const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;

// Modes.
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_MSG_PREFIX: u64 = 1 << 58;
pub const FI_ASYNC_IOV: u64 = 1 << 57;
pub const FI_RX_CQ_DATA: u64 = 1 << 56;
pub const FI_LOCAL_MR: u64 = 1 << 55;
pub const FI_CONTEXT2: u64 = 1 << 52;

// Order of messages.
pub const FI_ORDER_RAR: u64 = 1 << 0;
pub const FI_ORDER_RAW: u64 = 1 << 1;
pub const FI_ORDER_RAS: u64 = 1 << 2;
pub const FI_ORDER_WAR: u64 = 1 << 3;
pub const FI_ORDER_WAW: u64 = 1 << 4;
pub const FI_ORDER_WAS: u64 = 1 << 5;
pub const FI_ORDER_SAR: u64 = 1 << 6;
pub const FI_ORDER_SAW: u64 = 1 << 7;
pub const FI_ORDER_SAS: u64 = 1 << 8;
pub const FI_ORDER_RMA_RAR: u64 = 1 << 32;
pub const FI_ORDER_RMA_RAW: u64 = 1 << 33;
pub const FI_ORDER_RMA_WAR: u64 = 1 << 34;
pub const FI_ORDER_RMA_WAW: u64 = 1 << 35;
pub const FI_ORDER_ATOMIC_RAR: u64 = 1 << 36;
pub const FI_ORDER_ATOMIC_RAW: u64 = 1 << 37;
pub const FI_ORDER_ATOMIC_WAR: u64 = 1 << 38;
pub const FI_ORDER_ATOMIC_WAW: u64 = 1 << 39;
pub const FI_ORDER_DATA: u64 = 1 << 16;

pub const FI_ORDER_NONE: u64 = 0;
pub const FI_ORDER_STRICT: u64 = 0x1ff;
