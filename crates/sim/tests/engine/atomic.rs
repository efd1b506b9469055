//! Atomics: all endpoints add ones to cells that all share. What was fetched tells every addition from every other
//! one, and in which order they were carried out.

use std::collections::HashSet;

use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_engine::{AtomicOp, Completion, Target, Update};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::app::Node;
use crate::check::{self, Book, Op, POISON, Verdict, ensure};
use crate::config::Config;
use crate::net::BROKEN;
use crate::rng::Rng;

/// Number of cells that every endpoint has: with all of them an operand is longer than a frame of messages.
const CELLS: usize = 3;
const CELL: usize = size_of::<u64>();

/// What is done to the cells: they grow by one, or stay.
const KINDS: [(Form, Operation); 4] = [
    (Form::Base, Operation::Sum),
    (Form::Fetch, Operation::Sum),
    (Form::Fetch, Operation::Read),
    (Form::Compare, Operation::Cswap),
];

/// An atomic on cells of a peer.
pub(crate) struct Atomic {
    pub(crate) node: usize,
    pub(crate) peer: usize,
    pub(crate) ended: Option<Result<(), Errno>>,
    step: usize,
    update: Update,
    flags: Flags,
    /// Number of cells, from the first on.
    cells: usize,
    result: Iov,
    told: bool,
}

impl Atomic {
    fn adds(&self) -> bool {
        self.update.operation == Operation::Sum
    }

    /// Returns what it fetched, if it ended well.
    fn fetched(&self) -> Option<Vec<u64>> {
        let fetches = self.update.form != Form::Base && self.ended == Some(Ok(()));
        fetches.then(|| values(&self.result))
    }
}

/// Returns the cells of an endpoint, all zero.
pub(crate) fn cells() -> Iov {
    Iov::zeroed(CELLS * CELL).expect("there are few")
}

impl Node {
    /// Adds to cells of a peer, or fetches them.
    pub(crate) fn update(
        &mut self,
        config: &Config,
        rng: &mut Rng,
        book: &mut Book,
        step: usize,
    ) -> Verdict {
        let peer = rng.below(config.nodes);
        if peer == self.me && !config.loopback {
            return Ok(());
        }
        let (form, operation) = rng.pick(&KINDS);
        let datatype = Datatype::Uint64;
        let update = Update {
            form,
            datatype,
            operation,
        };
        let cells = 1 + rng.below(CELLS);
        let operand = filled(
            if operation == Operation::Read {
                0
            } else {
                cells
            },
            1,
        );
        let result = filled(if form == Form::Base { 0 } else { cells }, 0);
        let (index, context) = (book.atomics.len(), book.ops.len() + 1);
        let flags = flags(rng, form);
        let op = AtomicOp {
            peer: PeerId(peer as u32),
            update,
            targets: Box::new([Target {
                addr: 0,
                len: (cells * CELL) as u64,
                key: peer as u64,
            }]),
            operand: operand.clone(),
            // No cell ever gets there, so nothing is swapped.
            compare: filled(if form == Form::Compare { cells } else { 0 }, u64::MAX),
            result: result.clone(),
            data: index as u64,
            flags,
            context,
        };
        book.ops.insert(context, Op::Atomic(index));
        book.atomics.push(Atomic {
            node: self.me,
            peer,
            ended: None,
            step,
            update,
            flags,
            cells,
            result,
            told: false,
        });
        let begun = self.engine.atomic(&mut self.link, &mut self.events, op);
        if flags.contains(Flags::INJECT) {
            check::fill(&operand, POISON);
        }
        let full = self.may_refuse(config, flags);
        match begun {
            Ok(()) => self.read_events(book),
            Err(Errno::AGAIN) if full => {
                book.atomics.pop();
                book.ops.insert(context, Op::Over);
                Ok(())
            }
            Err(other) => Err(format!("atomic: {other}")),
        }
    }
}

impl Book {
    /// An atomic ended at its initiator.
    pub(crate) fn atomic_ended(
        &mut self,
        c: &Completion,
        index: usize,
        result: Result<(), Errno>,
    ) -> Verdict {
        self.ops.insert(c.context, Op::Over);
        let may_fail = self.atomic_may_be_lost(index) || self.atomic_may_fail(index);
        let atomic = &mut self.atomics[index];
        atomic.ended = Some(result);
        let what = atomic.flags & (Flags::ATOMIC | Flags::READ | Flags::WRITE);
        let wanted = atomic.flags.contains(Flags::COMPLETION);
        ensure(c.flags == what && c.wanted == wanted, || {
            format!("flags of atomic {index}: {c:?}")
        })?;
        match result {
            Ok(()) => Ok(()),
            Err(BROKEN) => ensure(may_fail, || format!("atomic {index} failed without cause")),
            Err(other) => Err(format!("atomic {index} failed: {other}")),
        }
    }

    /// An atomic was carried out at its target.
    pub(crate) fn updated(&mut self, node: usize, c: &Completion) -> Verdict {
        let has_data = c.flags.contains(Flags::REMOTE_CQ_DATA);
        ensure(c.wanted == has_data && c.context == node, || {
            format!("an atomic at its target: {c:?}")
        })?;
        if !has_data {
            return Ok(());
        }
        let index = c.data as usize;
        let atomic = self.atomics.get_mut(index).filter(|a| a.peer == node);
        let atomic = atomic.ok_or_else(|| format!("no operation asked for this: {c:?}"))?;
        ensure(!atomic.told, || format!("atomic {index} came twice"))?;
        atomic.told = true;
        Ok(())
    }

    /// Every addition that ended well has happened once, and what was fetched agrees with that.
    pub(crate) fn atomics_add_up(&self, all: &[Iov]) -> Verdict {
        for (peer, memory) in all.iter().enumerate() {
            for (cell, value) in values(memory).into_iter().enumerate() {
                let additions = self.atomics.iter().enumerate();
                let additions = additions
                    .filter(|(_, a)| a.peer == peer && a.adds() && cell < a.cells)
                    .map(|(index, _)| self.has_happened(index));
                let sure = additions.clone().filter(|happened| *happened).count() as u64;
                let most = additions.count() as u64;
                ensure((sure..=most).contains(&value), || {
                    format!("cell {cell} of {peer} is {value}, not {sure} to {most}")
                })?;
                self.fetches_agree(peer, cell, value)?;
            }
        }
        Ok(())
    }

    /// No two additions fetched the same, and those of one endpoint fetched in the order of their posting where there is one.
    fn fetches_agree(&self, peer: usize, cell: usize, value: u64) -> Verdict {
        let mut seen = HashSet::new();
        let mut least = [0u64; 16];
        for (index, atomic) in self.atomics.iter().enumerate() {
            if atomic.peer != peer || cell >= atomic.cells {
                continue;
            }
            let Some(fetched) = atomic.fetched() else {
                continue;
            };
            let found = fetched[cell];
            let added = u64::from(atomic.adds());
            let is_new = added == 0 || seen.insert(found);
            ensure(is_new && found + added <= value, || {
                format!("atomic {index} fetched {found} of {value}, new: {is_new}")
            })?;
            let least = &mut least[atomic.node];
            ensure(self.unordered || found >= *least, || {
                format!("atomic {index} fetched {found} after {least}")
            })?;
            *least = found + added;
        }
        Ok(())
    }

    /// Returns whether an addition is known to have been carried out.
    fn has_happened(&self, index: usize) -> bool {
        let atomic = &self.atomics[index];
        let is_certain = atomic.update.form == Form::Fetch
            || atomic.flags.contains(Flags::DELIVERY_COMPLETE)
            || !self.atomic_may_be_lost(index);
        atomic.told || (atomic.ended == Some(Ok(())) && is_certain)
    }

    fn atomic_may_be_lost(&self, index: usize) -> bool {
        let Atomic {
            node, peer, step, ..
        } = self.atomics[index];
        let broken = self.broken.get(&(node.min(peer), node.max(peer)));
        broken.is_some_and(|&at| at >= step)
    }

    fn atomic_may_fail(&self, index: usize) -> bool {
        let atomic = &self.atomics[index];
        self.is_told((atomic.node, atomic.peer), atomic.step, atomic.flags)
    }
}

fn values(memory: &Iov) -> Vec<u64> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes);
    let cells = bytes.as_chunks().0.iter();
    cells.map(|cell| u64::from_ne_bytes(*cell)).collect()
}

fn filled(cells: usize, with: u64) -> Iov {
    let memory = Iov::zeroed(cells * CELL).expect("there are few");
    memory.write(0, &with.to_ne_bytes().repeat(cells));
    memory
}

fn flags(rng: &mut Rng, form: Form) -> Flags {
    let mut flags = Flags::ATOMIC;
    flags.set(Flags::COMPLETION, rng.chance(80));
    flags.set(Flags::MORE, rng.chance(20));
    flags.set(Flags::INJECT, rng.chance(25));
    flags.set(Flags::REMOTE_CQ_DATA, rng.chance(30));
    flags.set(Flags::DELIVERY_COMPLETE, rng.chance(20));
    flags
        | match form {
            Form::Base => Flags::WRITE,
            _ => Flags::READ,
        }
}
