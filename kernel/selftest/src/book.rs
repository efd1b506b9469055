//! Which message belongs into which receive, decided without looking at how messages travel.
//!
//! Messages of one sender keep their order, so a message belongs into the first receive that takes it, and a receive gets the first
//! message that it takes, whichever of the two is posted first: one pass over those that have not ended says which.

use alloc::vec::Vec;

/// A message as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    /// `None` for an untagged one.
    pub(crate) tag: Option<u64>,
    pub(crate) len: usize,
}

/// A receive as it was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) context: usize,
    /// The tag and the bits of it that do not matter; `None` for an untagged one.
    pub(crate) tag: Option<(u64, u64)>,
}

impl Wanted {
    fn takes(&self, message: &Sent) -> bool {
        match (self.tag, message.tag) {
            (None, None) => true,
            (Some((tag, ignore)), Some(sent)) => tag & !ignore == sent & !ignore,
            _ => false,
        }
    }
}

/// The messages of one direction, and the receives for them, that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Book {
    messages: Vec<Sent>,
    receives: Vec<Wanted>,
}

impl Book {
    /// Notes a message.
    pub(crate) fn sent(&mut self, message: Sent) {
        self.messages.push(message);
    }

    /// Notes a receive.
    pub(crate) fn wanted(&mut self, wanted: Wanted) {
        self.receives.push(wanted);
    }

    /// Takes out a receive that ended with a message, and that message; `None` if no message was for it.
    pub(crate) fn take(&mut self, context: usize) -> Option<Sent> {
        let receive = self.position(context)?;
        let message = *self.partners().get(receive)?;
        self.receives.remove(receive);
        message.map(|at| self.messages.remove(at))
    }

    /// Takes out a receive that was cancelled; returns whether it was there.
    pub(crate) fn cancel(&mut self, context: usize) -> bool {
        let receive = self.position(context);
        receive.map(|at| self.receives.remove(at)).is_some()
    }

    /// Returns the oldest message that no receive takes.
    pub(crate) fn first_unreceived(&self) -> Option<Sent> {
        let partners = self.partners();
        let is_free = |at: &usize| !partners.contains(&Some(*at));
        let at = (0..self.messages.len()).find(is_free)?;
        self.messages.get(at).copied()
    }

    /// Returns how many messages have not been received.
    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    fn position(&self, context: usize) -> Option<usize> {
        let is_it = |wanted: &Wanted| wanted.context == context;
        self.receives.iter().position(is_it)
    }

    /// Returns for each receive the message that belongs into it.
    fn partners(&self) -> Vec<Option<usize>> {
        let mut partners = Vec::new();
        partners.resize(self.receives.len(), None);
        for (at, message) in self.messages.iter().enumerate() {
            let mut open = self.receives.iter().zip(&mut partners);
            let first = open.find(|(wanted, matched)| matched.is_none() && wanted.takes(message));
            if let Some((_, matched)) = first {
                *matched = Some(at);
            }
        }
        partners
    }
}
