//! Duration of operations: none that a peer has to answer outlives its deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use oxifabric_types::Instant;

use crate::check::{Book, Op, Verdict, ensure};

/// Since when operations are under way, by context.
#[derive(Default)]
pub(crate) struct Clocks {
    since: BTreeMap<usize, Instant>,
    /// The operations of the book that were looked at; they are numbered from 1 on.
    seen: usize,
}

impl Clocks {
    /// Looks at the operations that have begun since the last look, and at those that have not ended.
    pub(crate) fn look(&mut self, book: &Book, now: Instant, limit: Duration) -> Verdict {
        let is_open = |context: &usize| {
            let op = book.ops.get(context);
            matches!(op, Some(Op::Send(_) | Op::Access(_) | Op::Atomic(_)))
        };
        let begun = self.seen + 1..=book.ops.len();
        self.since
            .extend(begun.filter(is_open).map(|context| (context, now)));
        self.seen = book.ops.len();
        self.since.retain(|context, _| is_open(context));
        let late = self
            .since
            .iter()
            .find(|(_, since)| now.since(**since) > limit);
        ensure(late.is_none(), || {
            format!("an operation takes longer than {limit:?}: {late:?}")
        })
    }
}
