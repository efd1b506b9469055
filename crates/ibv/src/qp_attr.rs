//! What queue pairs are made with, and what changes their state.

/// A set of bits with a name for each.
macro_rules! bits {
    ($(#[$doc:meta])* $name:ident: $number:ty { $($(#[$bit_doc:meta])* $bit:ident = $value:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub $number);

        impl $name {
            $($(#[$bit_doc])* pub const $bit: Self = Self($value);)*

            /// Returns whether all bits of the other set are in this one.
            pub fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl ::std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}
pub(crate) use bits;

bits! {
    /// What may be done with a region: the bits of `enum ibv_access_flags`.
    Access: u32 {
        /// The device may write it, as for receives and for what reads bring.
        LOCAL_WRITE = 1;
        /// Peers may write it.
        REMOTE_WRITE = 1 << 1;
        /// Peers may read it.
        REMOTE_READ = 1 << 2;
    }
}

bits! {
    /// Which operations may be posted on a queue pair: bits of `enum ibv_qp_create_send_ops_flags`.
    SendOps: u64 {
        /// Writes of a peer's memory.
        RDMA_WRITE = 1;
        /// Writes that the peer is told of.
        RDMA_WRITE_WITH_IMM = 1 << 1;
        /// Messages.
        SEND = 1 << 2;
        /// Messages with immediate data.
        SEND_WITH_IMM = 1 << 3;
        /// Reads of a peer's memory.
        RDMA_READ = 1 << 4;
    }
}

/// What kind of transport a queue pair has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpKind {
    /// Scalable reliable datagrams of EFA.
    Srd,
    /// Datagrams that may be lost.
    Ud,
}

/// How much fits into the queues of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Sends that are posted and not completed.
    pub send_wr: u32,
    /// Receives that are posted and not completed.
    pub recv_wr: u32,
    /// Pieces of a send.
    pub send_sge: u32,
    /// Pieces of a receive.
    pub recv_sge: u32,
    /// Bytes that a send carries in its request.
    pub inline: u32,
}

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug)]
pub struct QpOptions {
    /// Its transport.
    pub kind: QpKind,
    /// Its queues.
    pub capacity: Capacity,
    /// What it sends.
    pub send_ops: SendOps,
    /// Writes with immediate data use up no receive ([`EfaCaps::UNSOLICITED_WRITE_RECV`](crate::EfaCaps::UNSOLICITED_WRITE_RECV)). Its queue has to tell
    /// of them ([`CqOptions::unsolicited`]).
    pub unsolicited: bool,
}

/// What a completion queue is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqOptions {
    /// How many completions have room, at least.
    pub entries: u32,
    /// It tells the addresses of peers without address handle ([`EfaCaps::CQ_WITH_SGID`](crate::EfaCaps::CQ_WITH_SGID)).
    pub sgid: bool,
    /// It tells which writes used up no receive ([`EfaCaps::UNSOLICITED_WRITE_RECV`](crate::EfaCaps::UNSOLICITED_WRITE_RECV)).
    pub unsolicited: bool,
}

/// A state of `enum ibv_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QpState {
    /// As made; nothing can be posted.
    Reset = 0,
    /// Receives can be posted.
    Init = 1,
    /// Messages are received.
    Rtr = 2,
    /// Messages are received and sent.
    Rts = 3,
    /// What is posted and will be comes back in error.
    Err = 6,
}

/// What goes with the way of a queue pair of datagrams from [`QpState::Reset`] to [`QpState::Rts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The key that messages to it have to have.
    pub qkey: u32,
    /// How often a send is tried again if its receiver is not ready, 7 for ever; `None` leaves it to the device.
    pub rnr_retry: Option<u8>,
}
