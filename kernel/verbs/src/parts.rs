//! What is said between this crate and what it runs on; the structures are those of `verbs_core.h`.

use core::net::SocketAddrV4;

/// Most pieces of one work.
pub(crate) const MOST_PIECES: usize = 32;

/// Most that a connection manager brings along with an event.
pub(crate) const EVENT_DATA: usize = 256;

/// A device of the host, and what it can do.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct DeviceFacts {
    /// Its name, up to the first zero.
    pub(crate) name: [u8; 64],
    /// An IPv4 address at which others reach it.
    pub(crate) host: u32,
    /// Work in a queue.
    pub(crate) depth: u32,
    /// Pieces of memory of a work.
    pub(crate) pieces: u32,
    /// Pieces of memory of a read.
    pub(crate) read_pieces: u32,
    /// Regions of memory that peers reach; zero where the device registers none.
    pub(crate) regions: u32,
    /// Pages of a region.
    pub(crate) region_pages: u32,
    pub(crate) queue_pairs: u32,
    pub(crate) queues: u32,
    /// Longest message, in bytes.
    pub(crate) longest: u64,
}

impl DeviceFacts {
    pub(crate) const NONE: Self = Self {
        name: [0; 64],
        host: 0,
        depth: 0,
        pieces: 0,
        read_pieces: 0,
        regions: 0,
        region_pages: 0,
        queue_pairs: 0,
        queues: 0,
        longest: 0,
    };

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        let len = self.name.iter().position(|&byte| byte == 0);
        let bytes = &self.name[..len.unwrap_or(self.name.len())];
        core::str::from_utf8(bytes).unwrap_or("")
    }
}

/// A piece of memory as a device sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) key: u32,
}

/// What a work for the queue of sends does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Opcode {
    Send,
    Write,
    Read,
}

/// The flags of a work: data goes with it; it begins when the reads before it have ended; its end is not reported unless it fails.
pub(crate) const WITH_DATA: u32 = 1;
pub(crate) const FENCE: u32 = 2;
pub(crate) const UNSIGNALED: u32 = 4;

/// Work for the queue of sends.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Work {
    pub(crate) id: u64,
    pub(crate) list: *const Piece,
    pub(crate) remote: u64,
    pub(crate) count: u32,
    pub(crate) key: u32,
    pub(crate) opcode: Opcode,
    pub(crate) flags: u32,
    pub(crate) data: u32,
    pub(crate) reserved: u32,
}

/// The flags of work that has ended well: a message was received; a write of the peer has taken a receive; data came along; the peer has
/// taken a key of ours back.
#[cfg_attr(target_os = "none", allow(dead_code))]
pub(crate) const IS_MESSAGE: u32 = 1;
pub(crate) const IS_WRITE: u32 = 2;
pub(crate) const HAS_DATA: u32 = 4;
pub(crate) const HAS_TAKEN_KEY: u32 = 8;

/// `IB_WC_WR_FLUSH_ERR`: the queue pair had ended before the work began.
pub(crate) const FLUSHED: u32 = 5;
/// `IB_WC_LOC_ACCESS_ERR`.
const ACCESS: u32 = 8;

/// Work that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Done {
    pub(crate) id: u64,
    /// Zero, or an `ib_wc_status`.
    pub(crate) status: u32,
    pub(crate) len: u32,
    pub(crate) data: u32,
    pub(crate) flags: u32,
}

impl Done {
    /// Returns it with the status that it has here: a message that takes back a key of ours, which no peer may do, is a failed access.
    pub(crate) fn judged(self) -> Self {
        let is_broken = self.status == 0 && self.flags & HAS_TAKEN_KEY != 0;
        Self {
            status: if is_broken { ACCESS } else { self.status },
            ..self
        }
    }
}

/// What has become of a connection; the numbers are those of `rdma_cm_event_type`.
pub(crate) mod kind {
    pub(crate) const ADDR_RESOLVED: u32 = 0;
    pub(crate) const ADDR_ERROR: u32 = 1;
    pub(crate) const ROUTE_RESOLVED: u32 = 2;
    pub(crate) const ROUTE_ERROR: u32 = 3;
    #[cfg_attr(target_os = "none", allow(dead_code))]
    pub(crate) const CONNECT_REQUEST: u32 = 4;
    pub(crate) const CONNECT_ERROR: u32 = 6;
    pub(crate) const UNREACHABLE: u32 = 7;
    pub(crate) const REJECTED: u32 = 8;
    pub(crate) const ESTABLISHED: u32 = 9;
    pub(crate) const DISCONNECTED: u32 = 10;
    pub(crate) const DEVICE_REMOVAL: u32 = 11;
}

/// An event of a connection.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct RawEvent {
    pub(crate) kind: u32,
    pub(crate) status: i32,
    pub(crate) len: u32,
    pub(crate) data: [u8; EVENT_DATA],
}

impl RawEvent {
    pub(crate) const NONE: Self = Self {
        kind: 0,
        status: 0,
        len: 0,
        data: [0; EVENT_DATA],
    };

    /// Returns the data of the connection manager that came along.
    pub(crate) fn data(&self) -> &[u8] {
        let len = (self.len as usize).min(EVENT_DATA);
        self.data.get(..len).unwrap_or(&[])
    }
}

/// The two ends of a connection, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) own: SocketAddrV4,
    pub(crate) peer: SocketAddrV4,
}
