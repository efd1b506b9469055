//! Buffers that packets are put together in: registered memory of this end. Path class: hot.

use std::sync::Arc;

use oxifabric_ibv::{Access, Mr, Pd, Piece};
use oxifabric_mem::Iov;
use oxifabric_types::Errno;

/// The buffers of an endpoint, by number.
#[derive(Debug)]
pub(crate) struct SendBuffers {
    /// The memory of the region, described as memory that is lent: copies to and from it take no lock, as it has one user.
    memory: Iov,
    region: Mr,
    packet: usize,
}

impl SendBuffers {
    /// Makes a number of buffers for packets of this length.
    ///
    /// # Errors
    /// `NOMEM`, and what the device says.
    pub(crate) fn new(pd: &Arc<Pd>, count: usize, packet: usize) -> Result<Self, Errno> {
        let len = count.checked_mul(packet).ok_or(Errno::NOMEM)?;
        let region = pd.allocate(len, Access::LOCAL_WRITE)?;
        // SAFETY: the region owns the memory and lives as long as this description, which does not leave this structure. Nothing else copies to or from it; what the
        // device reads or writes meanwhile decides which bytes are found, and nothing else.
        let memory = unsafe { Iov::contiguous(region.memory().base(), region.len()) };
        Ok(Self {
            memory,
            region,
            packet,
        })
    }

    /// Returns how many bytes a buffer has.
    pub(crate) const fn packet(&self) -> usize {
        self.packet
    }

    /// Describes the first bytes of a buffer as requests name them; `None` if it has fewer.
    #[inline]
    pub(crate) fn piece(&self, at: u32, len: usize) -> Option<Piece> {
        match len <= self.packet {
            true => self.region.piece(self.start(at), len),
            false => None,
        }
    }

    /// Writes a header into a buffer, and behind it a body; nothing if they do not fit.
    #[inline]
    pub(crate) fn write(&mut self, at: u32, header: &[u8], body: &Iov) {
        if header.len() + body.len() <= self.packet {
            let start = self.start(at);
            self.memory.write(start, header);
            if !body.is_empty() {
                self.memory.copy_from(start + header.len(), body);
            }
        }
    }

    /// Reads the first bytes of a buffer.
    #[inline]
    pub(crate) fn read(&self, at: u32, into: &mut [u8]) {
        let len = into.len().min(self.packet);
        self.memory.read(self.start(at), &mut into[..len]);
    }

    /// Copies the first bytes of a buffer to where they belong.
    pub(crate) fn copy_out(&self, at: u32, into: &Iov) {
        let len = into.len().min(self.packet);
        into.copy_from(0, &self.memory.slice(self.start(at), len));
    }

    fn start(&self, at: u32) -> usize {
        at as usize * self.packet
    }
}
