//! The provider's parameters: one table, read once.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use oxifabric_provider::log;
use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_sync::spsc::Layout;
use oxifabric_wire::shm::cell::{MAX_TARGETS, TARGET};

use crate::NAME;
use crate::pull::CHUNK_ALIGN;

/// The values of the parameters. Programs that open links directly, such as benchmarks, may change them.
#[derive(Clone, Debug)]
pub struct Params {
    /// Outstanding sends.
    pub tx_size: usize,
    /// Expected posted receives.
    pub rx_size: usize,
    /// Never touch the other process's memory.
    pub disable_cma: bool,
    /// Where the memory of connections lies; `None` for memory without a file system.
    pub dir: Option<PathBuf>,
    /// Cells of a lane.
    pub lane_cells: usize,
    /// Bytes for bodies of a lane.
    pub lane_bytes: usize,
    /// Longest message that always goes in one frame.
    pub eager_size: usize,
    /// Longest message that does not wait for its receive; zero for what has been measured to be the faster way.
    pub segmented_size: usize,
    /// Longest part of a longer message.
    pub segment_size: usize,
    /// Shortest message that both sides copy, each a part.
    pub assist_size: usize,
    /// How many bytes are pulled in one poll.
    pub pull_chunk: usize,
    /// Users besides this one whose endpoints may be peers.
    pub users: Vec<u32>,
    /// How long a peer that is there may take to answer; `None`: as long as its process lives.
    pub connect_timeout: Option<Duration>,
    /// How long a peer that is not there may take to appear.
    pub absent_timeout: Duration,
}

/// What fi_inject(3) promises to take, and so the least that goes in one frame.
pub(crate) const INJECT_SIZE: usize = 4096;

/// What may precede a body in the byte ring.
pub(crate) const LISTS: usize = MAX_TARGETS * TARGET;

/// The smallest lane that peers may propose: an injected message fits, whatever precedes it.
pub(crate) const MIN_LAYOUT: Layout = match Layout::new(16, 8 * INJECT_SIZE) {
    Some(layout) => layout,
    None => panic!("powers of two"),
};

/// The largest lane that peers may propose, which is the largest that parameters ask for: mapping one takes time.
pub(crate) const MAX_LAYOUT: Layout = match Layout::new(1 << 16, 1 << 26) {
    Some(layout) => layout,
    None => panic!("powers of two"),
};

macro_rules! table {
    ($($name:ident: $kind:ident, $default:literal, $help:literal;)*) => {
        /// One index a parameter.
        #[allow(non_camel_case_types, dead_code, reason = "parameters by name, some without effect")]
        enum Row { $($name,)* }

        /// The table that `fi_info -e` prints.
        pub(crate) static TABLE: &[Parameter] = &[$(Parameter {
            name: stringify!($name),
            kind: ParameterKind::$kind,
            help: $help,
            default: $default,
        },)*];
    };
}

table! {
    tx_size: Size, "1024", "How many sends may be outstanding per endpoint";
    rx_size: Size, "1024", "How many receives are expected to be posted per endpoint";
    disable_cma: Bool, "false", "Copy long messages through shared memory even where one process may read the other's memory";
    dir: Text, "", "Folder whose file system provides the shared memory, for example /dev/shm; without it the kernel provides it unnamed";
    lane_cells: Size, "256", "Messages under way per peer and direction; a power of two";
    lane_bytes: Size, "131072", "Bytes of message bodies under way per peer and direction; a power of two";
    eager_size: Size, "6144", "Up to which length messages are always copied in one piece, in bytes; longer ones are where that is measured to be faster, up to a quarter of lane_bytes";
    segmented_size: Size, "0", "Longest message that is sent before its receive is matched, in bytes; 0: as long as shared memory is measured to be faster than reading the sender's, up to twice lane_bytes and 384 KiB";
    segment_size: Size, "8192", "Longest piece of a message that is copied in several, in bytes";
    assist_size: Size, "24576", "Shortest message that its sender helps to copy, in bytes, at least 8192";
    pull_chunk: Size, "1048576", "How many bytes of long messages are moved in one call, in bytes";
    connect_timeout_ms: Size, "0", "How long a peer may take to answer the first message, in milliseconds; 0: as long as its process lives";
    connect_patience_ms: Size, "2000", "How long a peer that is not there yet may take to appear, in milliseconds";
    users: Text, "", "Numbers of other users whose processes may be peers, with commas between; their long messages are copied through shared memory";
    use_dsa_sar: Bool, "false", "Of the C library, without effect: no accelerator copies";
    max_gdrcopy_size: Size, "3072", "Of the C library, without effect: there is no device memory";
    use_xpmem: Bool, "false", "Of the C library, without effect: the other process's memory is read with process_vm_readv";
    buffer_threshold: Size, "1", "Of the C library, without effect: messages wait within a budget of bytes";
}

impl Params {
    /// Returns what the environment asks for, as it was when the provider was first used.
    pub fn of_environment() -> &'static Self {
        static PARAMS: OnceLock<Params> = OnceLock::new();
        PARAMS.get_or_init(Self::read)
    }

    fn read() -> Self {
        let size = |row: Row| TABLE[row as usize].size(NAME);
        let text = |row: Row| TABLE[row as usize].text(NAME);
        Self {
            tx_size: size(Row::tx_size).max(1),
            rx_size: size(Row::rx_size).max(1),
            disable_cma: TABLE[Row::disable_cma as usize].bool(NAME),
            dir: text(Row::dir)
                .filter(|dir| !dir.is_empty())
                .map(PathBuf::from),
            lane_cells: size(Row::lane_cells),
            lane_bytes: size(Row::lane_bytes),
            eager_size: size(Row::eager_size),
            segmented_size: size(Row::segmented_size),
            segment_size: size(Row::segment_size),
            // A shorter message has no second page that its sender could copy.
            assist_size: size(Row::assist_size).max(2 * CHUNK_ALIGN),
            pull_chunk: size(Row::pull_chunk).max(4096),
            users: text(Row::users).map_or_else(Vec::new, |list| users(&list)),
            connect_timeout: Some(Duration::from_millis(size(Row::connect_timeout_ms) as u64))
                .filter(|timeout| !timeout.is_zero()),
            absent_timeout: Duration::from_millis(size(Row::connect_patience_ms) as u64),
        }
    }

    /// Returns the size of a lane, rounded to what is possible.
    pub(crate) fn layout(&self) -> Layout {
        let round =
            |size: usize, least: usize, most: usize| size.clamp(least, most).next_power_of_two();
        let cells = round(self.lane_cells, MIN_LAYOUT.cells(), MAX_LAYOUT.cells());
        let bytes = round(self.lane_bytes, MIN_LAYOUT.bytes(), MAX_LAYOUT.bytes());
        Layout::new(cells, bytes).unwrap_or(MIN_LAYOUT)
    }
}

/// Reads a list of users' numbers. What is no number admits no user.
fn users(list: &str) -> Vec<u32> {
    let items = list.split(',').map(str::trim);
    let named = items.filter(|item| !item.is_empty());
    let read = named.filter_map(|item| match item.parse() {
        Ok(user) => Some(user),
        Err(_) => {
            log::warn!(NAME, Core, "FI_SHM_USERS: {item} is no user's number");
            None
        }
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_numbers_with_commas_between() {
        assert_eq!(users(" 0, 1000,"), [0, 1000]);
        assert_eq!(users("root,-1,5"), [5]);
    }

    #[test]
    fn every_default_is_a_value() {
        let params = Params::read();
        assert_eq!((params.tx_size, params.rx_size), (1024, 1024));
        assert!(params.eager_size >= INJECT_SIZE);
        assert_eq!(params.connect_timeout, None);
    }

    #[test]
    fn whatever_the_c_library_reads_is_listed() {
        for name in [
            "tx_size",
            "rx_size",
            "disable_cma",
            "use_dsa_sar",
            "max_gdrcopy_size",
            "use_xpmem",
            "buffer_threshold",
        ] {
            assert!(
                TABLE.iter().any(|parameter| parameter.name == name),
                "{name}"
            );
        }
    }

    #[test]
    fn sizes_of_lanes_are_rounded_to_possible_ones() {
        let params = Params {
            lane_cells: 1,
            lane_bytes: 100_000,
            ..Params::read()
        };
        assert_eq!(
            (params.layout().cells(), params.layout().bytes()),
            (16, 131_072)
        );
    }
}
