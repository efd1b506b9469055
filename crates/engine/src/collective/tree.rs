//! Plans along a binomial tree, whose root is the root of the collective.
//!
//! In the circle of ranks that begins with the root, the subtree of a member is the members right behind it: as many
//! as its lowest set bit says, or as there are left.

use super::plan::{Buffer, Place, Plan, Span};

/// A member's place in the tree.
struct Node {
    /// The number in the circle that begins with the root.
    number: usize,
    /// The bit that tells it from its parent; beyond all numbers, for the root.
    bit: usize,
}

impl Node {
    fn of(place: &Place) -> Self {
        let number = place.relative();
        let bit = match number {
            0 => place.size.next_power_of_two(),
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

    /// Returns how many members there are from here down.
    fn weight(&self, place: &Place) -> usize {
        self.bit.min(place.size - self.number)
    }

    /// Lists the children from the heaviest: their numbers, and how many members there are from there down.
    fn children(&self, place: &Place) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let (number, size) = (self.number, place.size);
        let bits = (0..self.bit.ilog2()).rev().map(|shift| 1 << shift);
        bits.filter(move |bit| number + bit < size)
            .map(move |bit: usize| (number + bit, bit.min(size - number - bit)))
    }
}

/// From the root down, the heaviest subtree first.
pub(super) fn broadcast(plan: &mut Plan, place: &Place) {
    let node = Node::of(place);
    let buffer = place.slice(Buffer::Result, 0);
    if let Some(parent) = node.parent() {
        plan.recv(place.absolute(parent), buffer);
        plan.wait();
    }
    for (child, _) in node.children(place) {
        plan.send(place.absolute(child), buffer);
    }
}

/// From the leaves up, the lightest subtree first: it is ready first.
pub(super) fn reduce(plan: &mut Plan, place: &Place) {
    let node = Node::of(place);
    let input = place.slice(Buffer::Input, 0);
    let is_leaf = node.children(place).next().is_none();
    let sum = match node.parent() {
        None => place.slice(Buffer::Result, 0),
        Some(_) if is_leaf => input,
        Some(_) => place.slice(Buffer::Partial, 0),
    };
    if sum != input {
        plan.copy(input, sum);
    }
    let arrived = place.slice(Buffer::Scratch, 0);
    for (child, _) in node.children(place).rev() {
        plan.recv(place.absolute(child), arrived);
        plan.wait();
        plan.combine(arrived, sum);
    }
    if let Some(parent) = node.parent() {
        plan.send(place.absolute(parent), sum);
    }
}

/// From the root down, to each subtree what its members get.
pub(super) fn scatter(plan: &mut Plan, place: &Place) {
    let node = Node::of(place);
    let Some(parent) = node.parent() else {
        return scatter_root(plan, place, &node);
    };
    let weight = node.weight(place);
    let mine = match weight {
        1 => Buffer::Result,
        _ => Buffer::Scratch,
    };
    for part in parts(place, node.number, weight, parent, mine) {
        plan.recv(place.absolute(parent), part.compact);
    }
    plan.wait();
    for (child, weight) in node.children(place) {
        let from = place.slices(Buffer::Scratch, child - node.number, weight);
        plan.send(place.absolute(child), from);
    }
    if weight > 1 {
        plan.copy(
            place.slice(Buffer::Scratch, 0),
            place.slice(Buffer::Result, 0),
        );
    }
}

fn scatter_root(plan: &mut Plan, place: &Place, node: &Node) {
    for (child, weight) in node.children(place) {
        for part in parts(place, child, weight, 0, Buffer::Scratch) {
            let from = place.slices(Buffer::Input, part.rank, part.count);
            plan.send(place.absolute(child), from);
        }
    }
    plan.copy(
        place.slice(Buffer::Input, place.rank),
        place.slice(Buffer::Result, 0),
    );
}

/// From the leaves up, of each subtree what its members bring.
pub(super) fn gather(plan: &mut Plan, place: &Place) {
    let node = Node::of(place);
    let Some(parent) = node.parent() else {
        return gather_root(plan, place, &node);
    };
    let weight = node.weight(place);
    let mine = match weight {
        1 => Buffer::Input,
        _ => Buffer::Scratch,
    };
    if weight > 1 {
        plan.copy(
            place.slice(Buffer::Input, 0),
            place.slice(Buffer::Scratch, 0),
        );
    }
    for (child, weight) in node.children(place) {
        let into = place.slices(Buffer::Scratch, child - node.number, weight);
        plan.recv(place.absolute(child), into);
    }
    plan.wait();
    for part in parts(place, node.number, weight, parent, mine) {
        plan.send(place.absolute(parent), part.compact);
    }
}

fn gather_root(plan: &mut Plan, place: &Place, node: &Node) {
    for (child, weight) in node.children(place) {
        for part in parts(place, child, weight, 0, Buffer::Scratch) {
            let into = place.slices(Buffer::Result, part.rank, part.count);
            plan.recv(place.absolute(child), into);
        }
    }
    plan.copy(
        place.slice(Buffer::Input, 0),
        place.slice(Buffer::Result, place.rank),
    );
}

/// One message between a member and its parent about the member's subtree.
struct Part {
    /// The first rank that it is about.
    rank: usize,
    /// How many.
    count: usize,
    /// Where it is at the member.
    compact: Span,
}

/// Cuts what a member and its parent exchange: at the root, slices lie in the order of ranks, and a subtree may begin
/// at the last ranks and go on with the first.
fn parts(
    place: &Place,
    number: usize,
    weight: usize,
    parent: usize,
    buffer: Buffer,
) -> impl Iterator<Item = Part> {
    let rank = place.absolute(number);
    let first = match parent {
        0 => weight.min(place.size - rank),
        _ => weight,
    };
    let part = |rank: usize, at: usize, count: usize| {
        (count > 0).then(|| Part {
            rank,
            count,
            compact: place.slices(buffer, at, count),
        })
    };
    let both = [part(rank, 0, first), part(0, first, weight - first)];
    both.into_iter().flatten()
}
