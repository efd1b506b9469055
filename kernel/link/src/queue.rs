//! Frames on their way in one direction. No allocation here may fail loudly: a kernel has no spare memory to fall back on, so a
//! frame for which there is no memory is refused like one for which there is no room.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use oxifabric_engine::{Frame, Header, RemoteIov, Target};

/// A frame with a copy of its body.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) targets: Vec<Target>,
    /// The body stays where it is, for the receiver to pull.
    pub(crate) remote: Option<RemoteIov>,
}

impl Stored {
    /// Copies a frame; `None` when there is not enough memory.
    pub(crate) fn copy(frame: &Frame<'_>, remote: Option<RemoteIov>) -> Option<Self> {
        let mut body = Vec::new();
        if frame.header.kind.carries_body() {
            body.try_reserve_exact(frame.len).ok()?;
            body.resize(frame.len, 0);
            frame.body.read(frame.offset, &mut body);
        }
        let mut targets = Vec::new();
        targets.try_reserve_exact(frame.targets.len()).ok()?;
        targets.extend_from_slice(frame.targets);
        Some(Self {
            header: frame.header,
            body,
            targets,
            remote,
        })
    }
}

/// The frames of one direction, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Queue(VecDeque<Stored>);

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a frame; `None` when there is not enough memory.
    pub(crate) fn push(&mut self, stored: Stored) -> Option<()> {
        self.0.try_reserve(1).ok()?;
        self.0.push_back(stored);
        Some(())
    }

    /// Takes the oldest frame.
    pub(crate) fn pop(&mut self) -> Option<Stored> {
        self.0.pop_front()
    }

    /// Makes a frame that was just taken the oldest again, in the place that it left.
    pub(crate) fn put_back(&mut self, stored: Stored) {
        self.0.push_front(stored);
    }
}
