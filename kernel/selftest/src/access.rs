//! What the registered memory of one endpoint has to contain.
//!
//! Reads and writes each have a slot of the memory to themselves while they are under way, so their order does not matter. Sums all
//! go to the same two numbers, in the order in which they are posted: an integer that is fetched, and a float, which a kernel
//! computes without floating-point instructions.

use alloc::vec;
use alloc::vec::Vec;

use oxifabric_mem::Iov;

use crate::random::pattern;

/// Bytes of a slot.
pub(crate) const SLOT: usize = 4096;
const SLOTS: usize = 8;
/// Where the integer and the float are, in the first slot.
pub(crate) const INTEGER: u64 = 0;
pub(crate) const FLOAT: u64 = 8;
/// What is added to the float each time.
pub(crate) const STEP: f64 = 0.1;

/// The contents of the memory of one endpoint, as far as its peer has accessed it.
#[derive(Debug)]
pub(crate) struct Contents {
    bytes: Vec<u8>,
    busy: [bool; SLOTS],
    integer: u64,
    float: f64,
}

impl Contents {
    /// Makes the model of memory that is all zero; `None` when there is not enough of it.
    pub(crate) fn new() -> Option<Self> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(SLOT * SLOTS).ok()?;
        bytes.resize(SLOT * SLOTS, 0);
        Some(Self {
            bytes,
            busy: [false; SLOTS],
            integer: 0,
            float: 0.0,
        })
    }

    /// Returns memory of the size that is modelled.
    pub(crate) fn region() -> Option<Iov> {
        Iov::zeroed(SLOT * SLOTS)
    }

    /// Reserves a slot for an access; `None` while another one uses it. The first slot has the numbers.
    pub(crate) fn reserve(&mut self, random: u64) -> Option<usize> {
        let slot = 1 + random as usize % (SLOTS - 1);
        let busy = self.busy.get_mut(slot)?;
        (!core::mem::replace(busy, true)).then_some(slot)
    }

    /// Ends the access to a slot.
    pub(crate) fn release(&mut self, slot: usize) {
        if let Some(busy) = self.busy.get_mut(slot) {
            *busy = false;
        }
    }

    /// Notes a write that is complete.
    pub(crate) fn written(&mut self, slot: usize, number: u64, len: usize) {
        let place = self.bytes.iter_mut().skip(slot * SLOT).take(len);
        for (at, byte) in place.enumerate() {
            *byte = pattern(number, at);
        }
    }

    /// Returns whether what a read brought is what a slot begins with.
    pub(crate) fn is_read(&self, slot: usize, data: &Iov) -> bool {
        let mut found = vec![0; data.len()];
        data.read(0, &mut found);
        self.bytes.get(slot * SLOT..slot * SLOT + data.len()) == Some(&found[..])
    }

    /// Notes a sum that was posted, and returns what it has to find.
    pub(crate) fn added(&mut self, operand: u64) -> u64 {
        let before = self.integer;
        self.integer = before.wrapping_add(operand);
        before
    }

    /// Notes a float sum that was posted.
    pub(crate) fn added_float(&mut self) {
        self.float += STEP;
    }

    /// Returns whether memory has these contents.
    pub(crate) fn is_in(&self, region: &Iov) -> bool {
        let mut found = vec![0; region.len()];
        region.read(0, &mut found);
        let numbers = [
            self.integer.to_le_bytes(),
            self.float.to_bits().to_le_bytes(),
        ];
        found.starts_with(numbers.as_flattened()) && found.get(16..) == self.bytes.get(16..)
    }
}
