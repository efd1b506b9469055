//! The packets that the device may fill: buffers of registered memory, posted as receives. Path class: hot.
//!
//! A buffer is the device's from its post to its completion, and can be read from then until it is posted again.

use std::sync::Arc;

use oxifabric_ibv::{Access, Mr, Pd, Qp};
use oxifabric_mem::Iov;
use oxifabric_types::Errno;

use crate::post::RECEIVE;

/// The receives of an endpoint.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    memory: Mr,
    /// Where the memory begins, described as memory that is lent.
    start: Iov,
    packet: usize,
    is_posted: Vec<bool>,
    /// Buffers that are not posted, and whose packets are not needed.
    idle: Vec<u32>,
    /// How many are posted together: the device hears of so many at once.
    together: usize,
}

/// The share of all buffers that is idle at most before it is posted.
const IDLE_SHARE: usize = 8;

impl ReceiveBuffers {
    /// Makes a number of buffers for packets of this length.
    ///
    /// # Errors
    /// `NOMEM`, and what the device says.
    pub(crate) fn new(pd: &Arc<Pd>, count: usize, packet: usize) -> Result<Self, Errno> {
        let len = count.checked_mul(packet).ok_or(Errno::NOMEM)?;
        let memory = pd.allocate(len, Access::LOCAL_WRITE)?;
        // SAFETY: the region owns the memory and lives as long as this description, which does not leave this structure and tells the address alone.
        let start = unsafe { Iov::contiguous(memory.memory().base(), memory.len()) };
        Ok(Self {
            memory,
            start,
            packet,
            is_posted: vec![false; count],
            idle: (0..count as u32).collect(),
            together: together(count),
        })
    }

    /// Returns whether there are so many idle buffers that they are to be posted.
    #[inline]
    pub(crate) const fn is_due(&self) -> bool {
        self.idle.len() >= self.together
    }

    /// Posts all idle buffers, as far as the queue takes them.
    #[inline(always)]
    pub(crate) fn post(&mut self, qp: &Qp) {
        while !self.idle.is_empty() {
            let from = self.idle.len().saturating_sub(Qp::RECEIVES);
            let receives = self.idle[from..].iter().map_while(|&at| {
                let piece = self.memory.piece(at as usize * self.packet, self.packet)?;
                Some((u64::from(at) | RECEIVE, piece))
            });
            let posted = qp.post_recvs(receives);
            for at in self.idle.drain(from..from + posted) {
                self.is_posted[at as usize] = true;
            }
            // Further ones have no room.
            if self.idle.len() > from {
                return;
            }
        }
    }

    /// Takes a buffer back from the device, which has completed the receive into it; returns its number, `None` if it was not posted.
    pub(crate) fn ended(&mut self, wr_id: u64) -> Option<u32> {
        let at = u32::try_from(wr_id & !RECEIVE).ok()?;
        let is_posted = self.is_posted.get_mut(at as usize)?;
        std::mem::take(is_posted).then_some(at)
    }

    /// Returns the bytes of a buffer that was taken back.
    pub(crate) fn packet(&self, at: u32, len: usize) -> &[u8] {
        let is_here = self.is_posted.get(at as usize) == Some(&false);
        let (start, len) = (at as usize * self.packet, len.min(self.packet));
        if !is_here {
            return &[];
        }
        // SAFETY: the bytes are in the region's memory, which it owns and which lives as long as it; they are initialized, since the
        // memory was zeroed. The device writes to posted buffers only, and this one is not: its receive was completed, and a new
        // post of it needs this structure mutably. No code of this side writes to the memory.
        unsafe { std::slice::from_raw_parts(self.start.base().add(start), len) }
    }

    /// Gives a buffer back whose packet is no longer needed.
    pub(crate) fn release(&mut self, at: u32) {
        self.idle.push(at);
    }
}

/// Returns how many of so many buffers are posted together.
fn together(count: usize) -> usize {
    Qp::RECEIVES.min(count / IDLE_SHARE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_buffers_are_idle_before_they_are_posted() {
        assert_eq!(together(1024), Qp::RECEIVES);
        assert_eq!([0, 1, 8, 16, 63].map(together), [1, 1, 1, 2, 7]);
    }
}
