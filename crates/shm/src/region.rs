//! The memory of a connection: a few words and a lane in each direction, docs/protocol/shm.md "Memory".

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use oxifabric_sync::spsc::Layout;
use oxifabric_types::Errno;

use crate::params::{MAX_LAYOUT, MIN_LAYOUT, Params};
use crate::sys;
use crate::sys::memory::{Mapping, Rx, Tx};

/// Bytes before the lanes: doorbells, thresholds and claims.
const HEAD: usize = 8192;

/// Bytes of each byte ring that are mapped page by page when a connection opens, as are the cells; the others by
/// [`Region::map_rings`], or by the first body there. Their memory is reserved all the same.
const READY: usize = 4096;

/// Bytes of a byte ring up to which it may be mapped as a whole.
const USUAL_BYTES: usize = 256 * 1024;

/// Words between those of the two sides before the lanes, so that they share no cache line nor pair of lines.
const STRIDE: usize = 16;

/// Which of the two endpoints of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It connected, and made the memory.
    Initiator = 0,
    /// It was connected to.
    Acceptor = 1,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Acceptor,
            Self::Acceptor => Self::Initiator,
        }
    }

    /// Returns this side's word of a pair of words, of which the initiator's has the index `first`.
    #[inline]
    pub(crate) fn word(self, head: &Mapping, first: usize) -> &AtomicU64 {
        head.word(first + self as usize * STRIDE)
    }
}

/// The memory of a connection as one side sees it.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) tx: Tx,
    pub(crate) rx: Rx,
    /// Mapping whose words before the lanes hold doorbells, thresholds and claims.
    pub(crate) head: Arc<Mapping>,
    pub(crate) side: Side,
    pub(crate) layout: Layout,
}

/// Memory that was made for a peer to come.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) file: OwnedFd,
    layout: Layout,
}

/// Why there is no memory, or none that can be used.
#[derive(Debug)]
pub(crate) struct RegionError {
    pub(crate) errno: Errno,
    text: String,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Spare {
    /// Makes the memory of a connection.
    ///
    /// # Errors
    /// `NOSPC` with the size that is needed, when there is not enough; else the system's error.
    pub(crate) fn new(params: &Params) -> Result<Self, RegionError> {
        let layout = params.layout();
        let size = size(layout);
        let place = match &params.dir {
            Some(dir) => format!("in {} (FI_SHM_DIR)", dir.display()),
            None => "of memory".to_owned(),
        };
        let file = Self::file(params, size).map_err(|error| RegionError {
            errno: sys::errno(&error),
            text: format!(
                "a pair of shm endpoints needs {size} bytes {place}: {error}; make room or lower FI_SHM_LANE_BYTES"
            ),
        })?;
        Ok(Self { file, layout })
    }

    fn file(params: &Params, size: usize) -> io::Result<OwnedFd> {
        let Some(dir) = &params.dir else {
            let file = sys::memory::memfd()?;
            sys::memory::reserve(file.as_fd(), size)?;
            sys::memory::seal(file.as_fd())?;
            return Ok(file);
        };
        let file = sys::memory::tmpfile(dir)?;
        sys::memory::reserve(file.as_fd(), size)?;
        Ok(file)
    }

    /// Maps it for the initiator.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn map(&self) -> Result<Region, RegionError> {
        map(&self.file, self.layout, Side::Initiator)
    }
}

impl Region {
    /// Maps the memory that an initiator sent. A file that could become shorter, so that touching it would kill this
    /// process, is taken only if `unsealed` allows it.
    ///
    /// # Errors
    /// `INVAL` when it is not as the hello describes it; else the system's error.
    pub(crate) fn adopt(
        file: &OwnedFd,
        cells: u32,
        bytes: u32,
        unsealed: bool,
    ) -> Result<Self, RegionError> {
        let invalid = |text: String| RegionError {
            errno: Errno::INVAL,
            text,
        };
        let layout = Layout::new(cells as usize, bytes as usize)
            .filter(|layout| (MIN_LAYOUT.cells()..=MAX_LAYOUT.cells()).contains(&layout.cells()))
            .filter(|layout| (MIN_LAYOUT.bytes()..=MAX_LAYOUT.bytes()).contains(&layout.bytes()))
            .ok_or_else(|| {
                invalid(format!(
                    "lanes of {cells} cells and {bytes} bytes cannot be"
                ))
            })?;
        let plain = sys::memory::is_plain(file.as_fd()) && sys::memory::is_writable(file.as_fd());
        if !plain {
            return Err(invalid(
                "what came with the hello is no memory of small pages that can be written".into(),
            ));
        }
        let (len, backed) = sys::memory::sizes(file.as_fd())
            .map_err(|error| invalid(format!("what came with the hello is no memory: {error}")))?;
        let needed = size(layout) as u64;
        if len < needed || backed < needed {
            return Err(invalid(format!(
                "the memory has {backed} of {len} bytes where {needed} are needed"
            )));
        }
        if !unsealed && !sys::memory::is_sealed(file.as_fd()) {
            return Err(invalid(
                "the memory could shrink; set FI_SHM_DIR in both processes to allow that".into(),
            ));
        }
        map(file, layout, Side::Acceptor)
    }

    /// Maps both byte rings page by page, unless they are longer than usual. A page that is left to the first body there takes as long
    /// as dozens of short messages; all of them together take as long as a handshake.
    pub(crate) fn map_rings(&self) {
        if self.layout.bytes() <= USUAL_BYTES {
            self.head.populate(0..size(self.layout));
        }
    }
}

/// Returns the size of a connection's memory in bytes.
fn size(layout: Layout) -> usize {
    (HEAD + 2 * layout.size()).next_multiple_of(4096)
}

fn map(file: &OwnedFd, layout: Layout, side: Side) -> Result<Region, RegionError> {
    let size = size(layout);
    let failed = |error: io::Error| RegionError {
        errno: sys::errno(&error),
        text: format!("{size} bytes of shared memory cannot be mapped: {error}"),
    };
    let mapping = Mapping::of_file(file.as_fd(), size).map_err(failed)?;
    let offset = |side: Side| HEAD + side as usize * layout.size();
    let ready = |side: Side| offset(side) + layout.size() - layout.bytes() + READY;
    mapping.populate(0..ready(Side::Initiator));
    mapping.populate(offset(Side::Acceptor)..ready(Side::Acceptor));
    let (tx, rx, head) = mapping
        .into_lanes(offset(side), offset(side.other()), layout)
        .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    Ok(Region {
        tx,
        rx,
        head,
        side,
        layout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adopt(file: &OwnedFd, cells: u32, bytes: u32) -> Result<Region, RegionError> {
        Region::adopt(file, cells, bytes, false)
    }

    #[test]
    fn both_sides_see_the_same_lanes() {
        let params = Params::of_environment();
        let layout = params.layout();
        let spare = Spare::new(params).expect("memory");
        let mut ours = spare.map().expect("a mapping");
        let theirs = adopt(&spare.file, layout.cells() as u32, layout.bytes() as u32)
            .expect("the memory as described");
        assert_eq!(ours.tx.reserve(0), Ok(Some(0)));
        ours.tx.push(&Default::default(), 0, false);
        assert!(theirs.rx.is_ready());
        assert!(!ours.rx.is_ready());
    }

    #[test]
    fn memory_that_is_too_small_is_refused() {
        let spare = Spare::new(Params::of_environment()).expect("memory");
        assert!(adopt(&spare.file, 1 << 20, 1 << 20).is_err());
        assert!(adopt(&spare.file, 3, 1 << 17).is_err());
        assert!(adopt(&spare.file, 16, 1024).is_err());
        let refused = adopt(&spare.file, 1 << 17, 1 << 17).expect_err("more than there ever is");
        assert!(refused.to_string().contains("cannot be"));
    }

    #[test]
    fn memory_that_could_shrink_is_refused() {
        let layout = Params::of_environment().layout();
        let file = sys::memory::memfd().expect("a memfd");
        sys::memory::reserve(file.as_fd(), size(layout)).expect("memory");
        let refused = adopt(&file, layout.cells() as u32, layout.bytes() as u32);
        assert!(refused.is_err_and(|error| error.to_string().contains("shrink")));
    }

    #[test]
    fn memory_that_cannot_be_written_or_is_none_is_refused() {
        let params = Params::of_environment();
        let layout = params.layout();
        let (cells, bytes) = (layout.cells() as u32, layout.bytes() as u32);
        let spare = Spare::new(params).expect("memory");
        let path = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&spare.file)
        );
        let read_only = std::fs::File::open(path).expect("a file of ours").into();
        let device = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/zero");
        let device = device.expect("it is everywhere").into();
        for file in [read_only, device] {
            let refused = Region::adopt(&file, cells, bytes, true);
            assert!(refused.is_err_and(|error| error.to_string().contains("no memory")));
        }
    }

    #[test]
    fn memory_of_huge_pages_is_refused() {
        let layout = Params::of_environment().layout();
        let Ok(file) = sys::memory::memfd_of_huge_pages() else {
            return println!("SKIP: the kernel has no huge pages");
        };
        let refused = adopt(&file, layout.cells() as u32, layout.bytes() as u32);
        assert!(refused.is_err_and(|error| error.to_string().contains("small pages")));
    }

    #[test]
    fn a_folder_without_room_is_named_with_the_size_needed() {
        let params = Params {
            dir: Some("/proc/self".into()),
            ..Params::of_environment().clone()
        };
        let error = Spare::new(&params).expect_err("no files can be made there");
        assert!(error.to_string().contains("/proc/self"));
    }
}
