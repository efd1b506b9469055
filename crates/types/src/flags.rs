//! Capability, operation, ordering and registration bits, with the values of the C headers.

use bitflags::bitflags;

bitflags! {
    /// Capabilities of an endpoint or domain, fi_getinfo(3) "Capabilities".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Caps: u64 {
        /// Untagged messages.
        const MSG = 1 << 1;
        /// Remote memory access.
        const RMA = 1 << 2;
        /// Tagged messages.
        const TAGGED = 1 << 3;
        /// Atomic operations.
        const ATOMIC = 1 << 4;
        /// Multicast.
        const MULTICAST = 1 << 5;
        /// Collective operations.
        const COLLECTIVE = 1 << 6;
        /// Initiates RMA or atomic reads.
        const READ = 1 << 8;
        /// Initiates RMA or atomic writes.
        const WRITE = 1 << 9;
        /// Receives messages.
        const RECV = 1 << 10;
        /// Sends messages.
        const SEND = 1 << 11;
        /// Is the target of reads.
        const REMOTE_READ = 1 << 12;
        /// Is the target of writes.
        const REMOTE_WRITE = 1 << 13;
        /// One posted buffer takes several messages.
        const MULTI_RECV = 1 << 16;
        /// Triggered operations.
        const TRIGGER = 1 << 20;
        /// Fenced operations.
        const FENCE = 1 << 21;
        /// Shared address vectors.
        const SHARED_AV = 1 << 53;
        /// Talks with other nodes.
        const REMOTE_COMM = 1 << 52;
        /// Talks with endpoints of the same node.
        const LOCAL_COMM = 1 << 51;
        /// Completions name the source.
        const SOURCE = 1 << 57;
        /// Receive buffers may name the source that they accept.
        const DIRECTED_RECV = 1 << 59;
        /// The application's own numbers stand for peers in completions.
        const AV_USER_ID = 1 << 41;
        /// Works as a peer of another provider.
        const PEER = 1 << 43;
        /// Accelerators start transfers by themselves.
        const XPU = 1 << 44;
        /// Directed receives, of tagged messages only.
        const TAGGED_DIRECTED_RECV = 1 << 45;
        /// Multi-receive buffers for tagged messages.
        const TAGGED_MULTI_RECV = 1 << 46;
        /// Transfers from and to device memory.
        const HMEM = 1 << 47;
        /// Directed receives must name their source.
        const EXACT_DIRECTED_RECV = 1 << 48;
        /// RMA to persistent memory.
        const RMA_PMEM = 1 << 49;
        /// Completions give the raw address of an unknown source.
        const SOURCE_ERR = 1 << 50;
        /// The target of an RMA operation gets a completion or a count.
        const RMA_EVENT = 1 << 56;
        /// Messages may name a receive context of the peer.
        const NAMED_RX_CTX = 1 << 58;
    }
}

bitflags! {
    /// Operation and completion flags, fi_endpoint(3), fi_msg(3), fi_tagged(3), fi_cq(3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u64 {
        /// An untagged message.
        const MSG = 1 << 1;
        /// A remote memory access.
        const RMA = 1 << 2;
        /// A tagged message.
        const TAGGED = 1 << 3;
        /// An atomic operation.
        const ATOMIC = 1 << 4;
        /// An operation of all members of a group.
        const COLLECTIVE = 1 << 6;
        /// A read.
        const READ = 1 << 8;
        /// A write.
        const WRITE = 1 << 9;
        /// A receive.
        const RECV = 1 << 10;
        /// A send.
        const SEND = 1 << 11;
        /// The target of a read.
        const REMOTE_READ = 1 << 12;
        /// The target of a write.
        const REMOTE_WRITE = 1 << 13;
        /// The receive buffer takes several messages; on a completion: it was released.
        const MULTI_RECV = 1 << 16;
        /// Remote completion data travels with the operation.
        const REMOTE_CQ_DATA = 1 << 17;
        /// More operations follow at once.
        const MORE = 1 << 18;
        /// Look for a message without receiving it.
        const PEEK = 1 << 19;
        /// The operation waits for a trigger.
        const TRIGGER = 1 << 20;
        /// The operation waits for all earlier ones to the same peer.
        const FENCE = 1 << 21;
        /// A completion is wanted.
        const COMPLETION = 1 << 24;
        /// The buffer may be reused as soon as the call returns.
        const INJECT = 1 << 25;
        /// Complete when the buffer may be reused.
        const INJECT_COMPLETE = 1 << 26;
        /// Complete when the message no longer depends on the local endpoint.
        const TRANSMIT_COMPLETE = 1 << 27;
        /// Complete when the message has been placed at the peer.
        const DELIVERY_COMPLETE = 1 << 28;
        /// Complete when the message has been matched at the peer.
        const MATCH_COMPLETE = 1 << 31;
        /// Complete when the data is durable at the peer.
        const COMMIT_COMPLETE = 1 << 30;
        /// A deferred work: what becomes of it goes where the work says, fi_trigger(3). No bit of the C headers.
        const DEFERRED = 1 << 61;
        /// Receive the message that an earlier peek claimed.
        const CLAIM = 1 << 59;
        /// Drop the message.
        const DISCARD = 1 << 58;
    }
}

bitflags! {
    /// Ordering guarantees (FI_ORDER_*), fi_endpoint(3) "Message Ordering".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Order: u64 {
        /// Read after read.
        const RAR = 1 << 0;
        /// Read after write.
        const RAW = 1 << 1;
        /// Read after send.
        const RAS = 1 << 2;
        /// Write after read.
        const WAR = 1 << 3;
        /// Write after write.
        const WAW = 1 << 4;
        /// Write after send.
        const WAS = 1 << 5;
        /// Send after read.
        const SAR = 1 << 6;
        /// Send after write.
        const SAW = 1 << 7;
        /// Send after send.
        const SAS = 1 << 8;
        /// RMA read after RMA read.
        const RMA_RAR = 1 << 32;
        /// RMA read after RMA write.
        const RMA_RAW = 1 << 33;
        /// RMA write after RMA read.
        const RMA_WAR = 1 << 34;
        /// RMA write after RMA write.
        const RMA_WAW = 1 << 35;
        /// Atomic read after atomic read.
        const ATOMIC_RAR = 1 << 36;
        /// Atomic read after atomic write.
        const ATOMIC_RAW = 1 << 37;
        /// Atomic write after atomic read.
        const ATOMIC_WAR = 1 << 38;
        /// Atomic write after atomic write.
        const ATOMIC_WAW = 1 << 39;
    }
}

impl Order {
    /// All orders among atomics: they are carried out one after the other.
    pub const ATOMICS: Self = Self::ATOMIC_RAR
        .union(Self::ATOMIC_RAW)
        .union(Self::ATOMIC_WAR)
        .union(Self::ATOMIC_WAW);
}

bitflags! {
    /// Memory registration modes (FI_MR_*), fi_mr(3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MrMode: i32 {
        /// The old basic mode.
        const BASIC = 1;
        /// The old scalable mode.
        const SCALABLE = 1 << 1;
        /// Local buffers must be registered.
        const LOCAL = 1 << 2;
        /// Keys wider than 64 bits.
        const RAW = 1 << 3;
        /// Remote addresses are virtual addresses.
        const VIRT_ADDR = 1 << 4;
        /// Registered memory must be backed by pages.
        const ALLOCATED = 1 << 5;
        /// The provider chooses keys.
        const PROV_KEY = 1 << 6;
        /// Remote memory is accessible only after an explicit notification.
        const MMU_NOTIFY = 1 << 7;
        /// Regions carry RMA events.
        const RMA_EVENT = 1 << 8;
        /// Regions are bound to an endpoint.
        const ENDPOINT = 1 << 9;
        /// Device memory.
        const HMEM = 1 << 10;
        /// Collective buffers must be registered.
        const COLLECTIVE = 1 << 11;
        /// Accelerators need a descriptor of their own.
        const XPU_DESC = 1 << 12;
    }
}
