//! The packets that the device may fill: buffers of registered memory, posted as receives. Path class: hot.
//!
//! A buffer is the device's from its post to its completion, and can be read from then until it is posted again.

use std::sync::Arc;

use oxifabric_ibv::{Access, Completion, Mr, Pd, Qp};
use oxifabric_types::Errno;

use crate::post::RECEIVE;

/// The receives of an endpoint.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    memory: Mr,
    packet: usize,
    is_posted: Vec<bool>,
    /// Buffers that are not posted, and whose packets are not needed.
    idle: Vec<u32>,
}

impl ReceiveBuffers {
    /// Makes a number of buffers for packets of this length.
    ///
    /// # Errors
    /// `NOMEM`, and what the device says.
    pub(crate) fn new(pd: &Arc<Pd>, count: usize, packet: usize) -> Result<Self, Errno> {
        let len = count.checked_mul(packet).ok_or(Errno::NOMEM)?;
        Ok(Self {
            memory: pd.allocate(len, Access::LOCAL_WRITE)?,
            packet,
            is_posted: vec![false; count],
            idle: (0..count as u32).collect(),
        })
    }

    /// Returns whether there is a buffer to post.
    #[inline]
    pub(crate) const fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Posts all idle buffers, as far as the queue takes them.
    pub(crate) fn post(&mut self, qp: &Qp) {
        while let Some(&at) = self.idle.last() {
            let Some(piece) = self.memory.piece(at as usize * self.packet, self.packet) else {
                return;
            };
            if qp.post_recv(u64::from(at) | RECEIVE, &[piece]).is_err() {
                return;
            }
            self.is_posted[at as usize] = true;
            self.idle.pop();
        }
    }

    /// Takes a buffer back from the device, which has completed the receive into it; returns its number, `None` if it was not posted.
    pub(crate) fn ended(&mut self, completion: &Completion) -> Option<u32> {
        let at = u32::try_from(completion.wr_id & !RECEIVE).ok()?;
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
        unsafe { std::slice::from_raw_parts(self.memory.memory().base().add(start), len) }
    }

    /// Gives a buffer back whose packet is no longer needed.
    pub(crate) fn release(&mut self, at: u32) {
        self.idle.push(at);
    }
}
