//! Reads and writes of each other's memory: every access gets a region of its own, so that its content tells
//! whether it happened.

use std::cell::RefCell;
use std::rc::Rc;

use oxifabric_engine::{Completion, RmaOp, Target};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

use crate::app::Node;
use crate::check::{self, Book, Op, POISON, Verdict, ensure};
use crate::config::Config;
use crate::net::BROKEN;
use crate::rng::Rng;

/// The registered memory of all endpoints, by key.
pub(crate) type Regions = Rc<RefCell<Vec<Iov>>>;

/// Finds the memory that pieces name: they are one run of it.
pub(crate) fn find(regions: &Regions, targets: &[Target]) -> Result<Iov, Errno> {
    let first = targets.first().ok_or(Errno::INVAL)?;
    let len: u64 = targets.iter().map(|target| target.len).sum();
    let regions = regions.borrow();
    let region = regions.get(first.key as usize).ok_or(Errno::NOKEY)?;
    Ok(region.slice(first.addr as usize, len as usize))
}

/// A key that is not registered.
const NO_KEY: u64 = u64::MAX;

/// An access to memory of a peer.
pub(crate) struct Access {
    pub(crate) node: usize,
    pub(crate) peer: usize,
    pub(crate) flags: Flags,
    pub(crate) step: usize,
    pub(crate) ended: Option<Result<(), Errno>>,
    /// Memory of the initiator.
    local: Iov,
    /// Memory of the peer.
    region: Iov,
    key: u64,
    may_be_refused: bool,
    /// The target was told.
    told: bool,
}

impl Node {
    /// Reads or writes memory of a peer.
    pub(crate) fn access(
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
        let longest = rng.pick(&config.sizes);
        let len = rng.below(longest + 1);
        let write = rng.chance(50);
        let flags = access_flags(rng, write, len);
        let may_be_refused = !write && rng.chance(5);
        let memory = || Iov::zeroed(len).expect("accesses are short");
        let (local, region) = (memory(), memory());
        let (index, context) = (book.accesses.len(), book.ops.len() + 1);
        let source = if write { &local } else { &region };
        source.write(0, &content(index, len));
        let key = self.events.register(&region);
        let targets = targets(rng, len, if may_be_refused { NO_KEY } else { key });
        let op = RmaOp {
            peer: PeerId(peer as u32),
            targets: &targets,
            body: local.clone(),
            data: index as u64,
            flags,
            context,
        };
        book.ops.insert(context, Op::Access(index));
        book.accesses.push(Access {
            node: self.me,
            peer,
            flags,
            step,
            ended: None,
            local: local.clone(),
            region,
            key,
            may_be_refused,
            told: false,
        });
        let result = self.engine.rma(&mut self.link, &mut self.events, op);
        if flags.contains(Flags::INJECT) {
            check::fill(&local, POISON);
        }
        let full = self.may_refuse(config, flags);
        match result {
            Ok(()) => self.read_events(book),
            Err(Errno::AGAIN) if full => {
                book.accesses.pop();
                book.ops.insert(context, Op::Over);
                Ok(())
            }
            Err(other) => Err(format!("rma: {other}")),
        }
    }
}

impl Book {
    /// An access ended at its initiator.
    pub(crate) fn access_ended(
        &mut self,
        c: &Completion,
        index: usize,
        result: Result<(), Errno>,
    ) -> Verdict {
        self.ops.insert(c.context, Op::Over);
        let may_fail = self.access_may_fail(index);
        let access = &mut self.accesses[index];
        access.ended = Some(result);
        let what = access.flags & (Flags::RMA | Flags::READ | Flags::WRITE);
        let wanted = access.flags.contains(Flags::COMPLETION);
        ensure(c.flags == what && c.wanted == wanted, || {
            format!("flags of access {index}: {c:?}")
        })?;
        if access.is_write() {
            check::fill(&access.local, POISON);
        }
        match result {
            Ok(()) if !access.is_write() => access.check(index, &access.local),
            Ok(()) if access.flags.contains(Flags::DELIVERY_COMPLETE) && !self.ack_on_arrival => {
                access.check(index, &access.region)
            }
            Ok(()) => Ok(()),
            Err(Errno::NOKEY) => ensure(access.may_be_refused, || {
                format!("access {index} was refused")
            }),
            Err(BROKEN) => ensure(may_fail, || format!("access {index} failed without cause")),
            Err(other) => Err(format!("access {index} failed: {other}")),
        }
    }

    /// An access ended at its target.
    pub(crate) fn accessed(&mut self, node: usize, c: &Completion) -> Verdict {
        let has_data = c.flags.contains(Flags::REMOTE_CQ_DATA);
        ensure(c.wanted == has_data, || {
            format!("wanted at the target: {c:?}")
        })?;
        if !has_data {
            return Ok(());
        }
        let index = c.data as usize;
        let access = self.accesses.get_mut(index).filter(|a| a.peer == node);
        let access = access.ok_or_else(|| format!("no write did this: {c:?}"))?;
        ensure(access.is_write() && !access.told, || {
            format!("access {index} came twice")
        })?;
        access.told = true;
        ensure(c.context as u64 == access.key, || {
            format!("the key of access {index}: {c:?}")
        })?;
        access.check(index, &access.region)
    }

    /// Everything that ended well happened, and where data was sent with it, the target was told.
    pub(crate) fn writes_happened(&self) -> Verdict {
        for (index, access) in self.accesses.iter().enumerate() {
            let happened = access.ended == Some(Ok(())) && !self.pair_broke(access);
            if happened && access.is_write() {
                access.check(index, &access.region)?;
                let silent = !access.flags.contains(Flags::REMOTE_CQ_DATA);
                ensure(access.told || silent, || {
                    format!("the target of access {index} was not told")
                })?;
            }
        }
        Ok(())
    }

    fn pair_broke(&self, access: &Access) -> bool {
        let (node, peer) = (access.node, access.peer);
        let broken = self.broken.get(&(node.min(peer), node.max(peer)));
        broken.is_some_and(|&step| step >= access.step)
    }

    fn access_may_fail(&self, index: usize) -> bool {
        let access = &self.accesses[index];
        self.pair_broke(access)
            || self.is_told((access.node, access.peer), access.step, access.flags)
    }
}

impl Access {
    fn is_write(&self) -> bool {
        self.flags.contains(Flags::WRITE)
    }

    fn check(&self, index: usize, memory: &Iov) -> Verdict {
        let mut got = vec![0; memory.len()];
        memory.read(0, &mut got);
        ensure(got == content(index, memory.len()), || {
            format!("the data of access {index} is damaged")
        })
    }
}

fn content(index: usize, len: usize) -> Vec<u8> {
    let name = index + 1_000_000;
    (0..len).map(|at| check::byte(name, at)).collect()
}

/// Returns one or two pieces of a region.
fn targets(rng: &mut Rng, len: usize, key: u64) -> Box<[Target]> {
    let cut = rng.below(len + 1);
    let piece = |from: usize, to: usize| Target {
        addr: from as u64,
        len: (to - from) as u64,
        key,
    };
    if rng.chance(20) {
        Box::new([piece(0, cut), piece(cut, len)])
    } else {
        Box::new([piece(0, len)])
    }
}

fn access_flags(rng: &mut Rng, write: bool, len: usize) -> Flags {
    let mut flags = Flags::RMA;
    flags.set(Flags::COMPLETION, rng.chance(80));
    flags.set(Flags::MORE, rng.chance(20));
    if write {
        flags |= Flags::WRITE;
        flags.set(Flags::INJECT, len <= 100 && rng.chance(25));
        flags.set(Flags::REMOTE_CQ_DATA, rng.chance(30));
        flags.set(Flags::DELIVERY_COMPLETE, rng.chance(20));
    } else {
        flags |= Flags::READ;
    }
    flags
}
