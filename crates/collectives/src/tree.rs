//! Schedules along a binomial tree, whose root is the root of the collective.
//!
//! By relative rank, which counts from the root on, the subtree of a member is itself and the members right behind it: as many
//! as the lowest set bit of its relative rank says, or as there are left.

use super::schedule::{Buffer, Position, Schedule, Span};

/// A member's position in the tree.
struct Node {
    /// The relative rank: 0 is the root.
    number: usize,
    /// The bit that tells it from its parent; for the root, one above all relative ranks.
    bit: usize,
}

impl Node {
    fn of(position: &Position) -> Self {
        let number = position.relative();
        let bit = match number {
            0 => position.size.next_power_of_two(),
            number => 1 << number.trailing_zeros(),
        };
        Self { number, bit }
    }

    const fn parent(&self) -> Option<usize> {
        match self.number {
            0 => None,
            number => Some(number & !self.bit),
        }
    }

    /// Returns how many members the subtree has.
    fn weight(&self, position: &Position) -> usize {
        self.bit.min(position.size - self.number)
    }

    /// Lists the children, the largest subtree first: their relative ranks, and how many members their subtrees have.
    fn children(&self, position: &Position) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let (number, size) = (self.number, position.size);
        let bits = (0..self.bit.ilog2()).rev().map(|shift| 1 << shift);
        bits.filter(move |bit| number + bit < size)
            .map(move |bit: usize| (number + bit, bit.min(size - number - bit)))
    }
}

/// Makes a broadcast: data goes from the root down, to the largest subtree first.
pub(super) fn broadcast(schedule: &mut Schedule, position: &Position) {
    let node = Node::of(position);
    let buffer = position.slice(Buffer::Result, 0);
    if let Some(parent) = node.parent() {
        schedule.recv(position.absolute(parent), buffer);
        schedule.wait();
    }
    for (child, _) in node.children(position) {
        schedule.send(position.absolute(child), buffer);
    }
}

/// Makes a reduce: data goes from the leaves up, the smallest subtree first, because it is ready first.
pub(super) fn reduce(schedule: &mut Schedule, position: &Position) {
    let node = Node::of(position);
    let input = position.slice(Buffer::Input, 0);
    let is_leaf = node.children(position).next().is_none();
    let sum = match node.parent() {
        None => position.slice(Buffer::Result, 0),
        Some(_) if is_leaf => input,
        Some(_) => position.slice(Buffer::Partial, 0),
    };
    if sum != input {
        schedule.copy(input, sum);
    }
    let arrived = position.slice(Buffer::Scratch, 0);
    for (child, _) in node.children(position).rev() {
        schedule.recv(position.absolute(child), arrived);
        schedule.wait();
        schedule.combine(arrived, sum);
    }
    if let Some(parent) = node.parent() {
        schedule.send(position.absolute(parent), sum);
    }
}

/// Makes a scatter: from the root down, each subtree gets the slices of its members.
pub(super) fn scatter(schedule: &mut Schedule, position: &Position) {
    let node = Node::of(position);
    let Some(parent) = node.parent() else {
        return scatter_root(schedule, position, &node);
    };
    let weight = node.weight(position);
    let mine = match weight {
        1 => Buffer::Result,
        _ => Buffer::Scratch,
    };
    for part in parts(position, node.number, weight, parent, mine) {
        schedule.recv(position.absolute(parent), part.compact);
    }
    schedule.wait();
    for (child, weight) in node.children(position) {
        let from = position.slices(Buffer::Scratch, child - node.number, weight);
        schedule.send(position.absolute(child), from);
    }
    if weight > 1 {
        schedule.copy(
            position.slice(Buffer::Scratch, 0),
            position.slice(Buffer::Result, 0),
        );
    }
}

fn scatter_root(schedule: &mut Schedule, position: &Position, node: &Node) {
    for (child, weight) in node.children(position) {
        for part in parts(position, child, weight, 0, Buffer::Scratch) {
            let from = position.slices(Buffer::Input, part.rank, part.count);
            schedule.send(position.absolute(child), from);
        }
    }
    schedule.copy(
        position.slice(Buffer::Input, position.rank),
        position.slice(Buffer::Result, 0),
    );
}

/// Makes a gather: from the leaves up, each subtree sends the slices of its members.
pub(super) fn gather(schedule: &mut Schedule, position: &Position) {
    let node = Node::of(position);
    let Some(parent) = node.parent() else {
        return gather_root(schedule, position, &node);
    };
    let weight = node.weight(position);
    let mine = match weight {
        1 => Buffer::Input,
        _ => Buffer::Scratch,
    };
    if weight > 1 {
        schedule.copy(
            position.slice(Buffer::Input, 0),
            position.slice(Buffer::Scratch, 0),
        );
    }
    for (child, weight) in node.children(position) {
        let into = position.slices(Buffer::Scratch, child - node.number, weight);
        schedule.recv(position.absolute(child), into);
    }
    schedule.wait();
    for part in parts(position, node.number, weight, parent, mine) {
        schedule.send(position.absolute(parent), part.compact);
    }
}

fn gather_root(schedule: &mut Schedule, position: &Position, node: &Node) {
    for (child, weight) in node.children(position) {
        for part in parts(position, child, weight, 0, Buffer::Scratch) {
            let into = position.slices(Buffer::Result, part.rank, part.count);
            schedule.recv(position.absolute(child), into);
        }
    }
    schedule.copy(
        position.slice(Buffer::Input, 0),
        position.slice(Buffer::Result, position.rank),
    );
}

/// One message between a member and its parent about the member's subtree.
struct Part {
    /// The first rank that it is about.
    rank: usize,
    /// The number of ranks.
    count: usize,
    /// Where it is at the member.
    compact: Span,
}

/// Cuts what a member and its parent exchange: at the root, slices lie in the order of ranks, and a subtree may begin
/// at the last ranks and go on with the first.
fn parts(
    position: &Position,
    number: usize,
    weight: usize,
    parent: usize,
    buffer: Buffer,
) -> impl Iterator<Item = Part> {
    let rank = position.absolute(number);
    let first = match parent {
        0 => weight.min(position.size - rank),
        _ => weight,
    };
    let part = |rank: usize, at: usize, count: usize| {
        (count > 0).then(|| Part {
            rank,
            count,
            compact: position.slices(buffer, at, count),
        })
    };
    let both = [part(rank, 0, first), part(0, first, weight - first)];
    both.into_iter().flatten()
}
