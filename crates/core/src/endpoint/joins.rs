//! Joins of collective groups that have begun, and the events at their end: fi_collective(3) "Join Collective". Path
//! class: setup.

use core::ptr::without_provenance_mut;

use oxifabric_abi::{FI_JOIN_COMPLETE, fi_eq_entry};
use oxifabric_engine::GroupId;
use oxifabric_types::Errno;

use crate::eq::{Eq, EqFailure};
use crate::handle::Ref;

/// The joins of an endpoint.
#[derive(Default)]
pub(super) struct Joins(Vec<Join>);

struct Join {
    eq: Ref<Eq>,
    /// The group, as the address of its `fid`.
    handle: usize,
    context: usize,
}

impl Joins {
    pub(super) fn begin(&mut self, eq: Ref<Eq>, handle: usize, context: usize) {
        self.0.push(Join {
            eq,
            handle,
            context,
        });
    }

    /// Forgets a join whose group closes.
    pub(super) fn forget(&mut self, handle: usize) {
        drop(self.take(handle));
    }

    /// Reports the end of a join.
    pub(super) fn end(&mut self, handle: usize, group: GroupId, result: Result<(), Errno>) {
        let Some(join) = self.take(handle) else {
            return;
        };
        match result {
            Ok(()) => join.eq.post(
                FI_JOIN_COMPLETE,
                &fi_eq_entry {
                    fid: without_provenance_mut(join.handle),
                    context: without_provenance_mut(join.context),
                    data: group.0.into(),
                },
            ),
            Err(errno) => join.eq.post_failure(EqFailure {
                fid: join.handle,
                context: join.context,
                data: 0,
                errno,
                detail: Box::default(),
            }),
        }
    }

    fn take(&mut self, handle: usize) -> Option<Join> {
        let at = self.0.iter().position(|join| join.handle == handle)?;
        Some(self.0.swap_remove(at))
    }
}
