//! Beginning an operation of a group.

use oxifabric_collectives::Arithmetic;
use oxifabric_collectives::schedule::{Position, schedule};
use oxifabric_mem::Iov;
use oxifabric_types::Errno;

use super::CollectiveOp;
use super::active::ActiveCollective;
use super::group::Stage;
use crate::engine::Engine;
use crate::{Completions, Link};

impl Engine {
    /// Starts a collective, fi_collective(3). All members of a group start the same ones in the same order.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for an unknown group, a root that is no member, or buffers that are not as long as the
    /// collective asks; [`Errno::OPBADSTATE`] while the group is being joined; what broke the group, if something did;
    /// [`Errno::AGAIN`] when [`crate::Config::tx_size`] collectives are under way; [`Errno::NOMEM`].
    pub fn collective(
        &mut self,
        link: &mut impl Link,
        out: &mut impl Completions,
        op: CollectiveOp,
    ) -> Result<(), Errno> {
        let position = self.position_in(&op)?;
        if self.collectives.active.len() >= self.config.tx_size {
            return Err(Errno::AGAIN);
        }
        let mut active =
            ActiveCollective::new(op.group, schedule(op.what, &position), op.input, op.result)?;
        active.arithmetic = op.arithmetic;
        active.flags = op.flags;
        active.context = op.context;
        let state = &mut self.collectives;
        let group = state.groups.get_mut(&op.group).ok_or(Errno::INVAL)?;
        active.serial = group.serial;
        let key = state.active.insert(active).ok_or(Errno::AGAIN)?;
        group.serial = group.serial.wrapping_add(1);
        group.active += 1;
        state.ready.push_back(key);
        self.settle_collectives(link, out);
        Ok(())
    }

    /// Checks an operation, and finds this member's position in it.
    fn position_in(&self, op: &CollectiveOp) -> Result<Position, Errno> {
        let group = self.collectives.groups.get(&op.group);
        let group = group.filter(|group| !group.left).ok_or(Errno::INVAL)?;
        if let Some(errno) = group.broken {
            return Err(errno);
        }
        if !matches!(group.stage, Stage::Joined { .. }) {
            return Err(Errno::OPBADSTATE);
        }
        let root = match op.what.has_root() {
            true => *group.ranks.get(&op.root).ok_or(Errno::INVAL)?,
            false => 0,
        };
        let position = Position {
            rank: group.me,
            size: group.peers.len(),
            root,
            len: op.len,
            element: op.arithmetic.map_or(1, |how| how.datatype.size()),
        };
        let is_root = position.rank == root;
        let whole = op.len.checked_mul(position.size);
        let fits = |buffer: &Iov, slices: usize| op.len.checked_mul(slices) == Some(buffer.len());
        let is_right = whole.is_some_and(|len| isize::try_from(len).is_ok())
            && fits(&op.input, op.what.brings(position.size, is_root))
            && fits(&op.result, op.what.gets(position.size, is_root))
            && op.len.is_multiple_of(position.element)
            && op.what.reduces() == op.arithmetic.is_some_and(Arithmetic::is_valid);
        is_right.then_some(position).ok_or(Errno::INVAL)
    }
}
