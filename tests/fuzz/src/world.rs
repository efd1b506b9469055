//! An engine with operations under way, between a link that the input plays and memory that is exactly as long as it says.

use arbitrary::Arbitrary;
use oxifabric_collectives::arithmetic::{Datatype, Form, Operation};
use oxifabric_collectives::{Arithmetic, Collective};
use oxifabric_engine::{
    AtomicOp, CollectiveOp, Completion, Completions, Config, Engine, Failure, GroupId, Link, RmaOp,
    RxOp, Target, TxOp, Update,
};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, PeerId};

/// This endpoint, as a member of groups.
pub const ME: PeerId = PeerId(0);

/// Number of other peers, from 1.
pub const PEERS: u32 = 3;

/// The key of the memory that peers may reach.
pub const KEY: u64 = 7;

/// What the application does.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Call {
    /// fi_recv or fi_trecv.
    Recv {
        /// From one peer only.
        from: Option<u8>,
        /// The tag, of a tagged receive.
        tag: Option<u8>,
        /// Bytes of the buffer.
        len: u16,
        /// FI_MULTI_RECV.
        multi: bool,
    },
    /// fi_trecvmsg with FI_PEEK or FI_CLAIM.
    Look {
        /// The tag.
        tag: u8,
        /// Of the flags PEEK, CLAIM and DISCARD.
        flags: u8,
    },
    /// fi_send or fi_tsend.
    Send {
        /// The destination.
        to: u8,
        /// The tag, of a tagged message.
        tag: Option<u8>,
        /// Its length.
        len: u16,
        /// Bits that choose flags.
        flags: u8,
    },
    /// fi_read or fi_write.
    Access {
        /// The peer that has the memory.
        to: u8,
        /// The length.
        len: u16,
        /// It is a read.
        read: bool,
        /// Bits that choose flags.
        flags: u8,
    },
    /// fi_atomic and its like.
    Atomic {
        /// The peer that has the memory.
        to: u8,
        /// Number of elements.
        count: u8,
        /// Base, fetching or comparing.
        form: u8,
        /// FI_INT8 and so on.
        datatype: u8,
        /// FI_MIN and so on.
        operation: u8,
    },
    /// fi_join_collective with all.
    Join,
    /// A collective of a group.
    Collect {
        /// The group's number.
        group: u8,
        /// The collective's number.
        what: u8,
        /// Bytes of a slice.
        len: u8,
        /// Its root.
        root: u8,
    },
    /// fi_cancel.
    Cancel(u8),
}

/// What became of the operations, and the memory that peers may reach.
#[derive(Debug)]
pub struct Ledger {
    memory: Box<[u8]>,
    /// By context: how often it was reported that it is over.
    ended: Vec<u32>,
    groups: Vec<GroupId>,
}

/// An engine, its application and their memory.
#[derive(Debug)]
pub struct World {
    /// The engine.
    pub engine: Engine,
    /// What it reports.
    pub ledger: Ledger,
    /// Buffers, kept to the end; by context.
    buffers: Vec<Box<[u8]>>,
    /// Contexts of operations that were begun.
    begun: Vec<usize>,
    /// Number of bytes that each one of a message's length stands for.
    stretch: usize,
}

impl Default for World {
    fn default() -> Self {
        let mut engine = Engine::new(Config {
            tx_size: 16,
            rx_size: 16,
            unexpected_bytes: 1 << 14,
            unexpected_ceiling: 1 << 18,
            min_multi_recv: 32,
            directed_recv: true,
        });
        engine.set_self(ME);
        Self {
            engine,
            ledger: Ledger {
                memory: vec![0x5a; 256].into(),
                ended: Vec::new(),
                groups: Vec::new(),
            },
            buffers: Vec::new(),
            begun: Vec::new(),
            stretch: 1,
        }
    }
}

/// Flags of sends and accesses by the bits of a byte.
const FLAGS: [Flags; 5] = [
    Flags::COMPLETION,
    Flags::DELIVERY_COMPLETE,
    Flags::INJECT,
    Flags::REMOTE_CQ_DATA,
    Flags::FENCE,
];

impl World {
    /// Creates a world whose messages are `stretch` times as long as the calls say.
    pub fn stretched(stretch: usize) -> Self {
        Self {
            stretch,
            ..Self::default()
        }
    }

    /// Makes a call, whatever it answers.
    pub fn call(&mut self, link: &mut impl Link, call: &Call) {
        let context = self.ledger.ended.len();
        self.ledger.ended.push(0);
        let result = match *call {
            Call::Join => {
                let members: Vec<PeerId> = (0..=PEERS).map(PeerId).collect();
                members.iter().for_each(|&member| self.engine.name(member));
                let joined = self
                    .engine
                    .join(link, &mut self.ledger, &members, usize::MAX);
                self.ledger.groups.extend(joined.ok());
                return;
            }
            Call::Cancel(which) => {
                let _ = self.engine.cancel(&mut self.ledger, which.into());
                return;
            }
            _ => self.start(link, call, context),
        };
        if result.is_ok() {
            self.begun.push(context);
        }
    }

    fn start(&mut self, link: &mut impl Link, call: &Call, context: usize) -> Result<(), Errno> {
        match *call {
            Call::Recv {
                from,
                tag,
                len,
                multi,
            } => {
                let multi = match multi && tag.is_none() {
                    true => Flags::MULTI_RECV,
                    false => Flags::empty(),
                };
                let op = RxOp {
                    from: from.map_or(PeerId::ANY, peer),
                    tag: tag.unwrap_or(0).into(),
                    ignore: 0,
                    body: self.buffer(usize::from(len) * self.stretch),
                    flags: class(tag) | Flags::COMPLETION | multi,
                    context,
                };
                self.engine.name(op.from);
                self.engine.recv(link, &mut self.ledger, op)
            }
            Call::Look { tag, flags } => {
                let looks = [Flags::PEEK, Flags::CLAIM, Flags::DISCARD];
                let op = RxOp {
                    from: PeerId::ANY,
                    tag: tag.into(),
                    ignore: 0,
                    body: Iov::empty(),
                    flags: Flags::TAGGED | Flags::COMPLETION | picked(&looks, flags),
                    context,
                };
                self.engine.recv(link, &mut self.ledger, op)
            }
            Call::Send {
                to,
                tag,
                len,
                flags,
            } => {
                let op = TxOp {
                    peer: peer(to),
                    tag: tag.unwrap_or(0).into(),
                    data: 5,
                    body: self.buffer(usize::from(len) * self.stretch),
                    flags: class(tag) | picked(&FLAGS, flags),
                    context,
                };
                self.engine.name(op.peer);
                self.engine.send(link, &mut self.ledger, op)
            }
            Call::Access {
                to,
                len,
                read,
                flags,
            } => {
                let (way, flags) = match read {
                    true => (Flags::READ, picked(&FLAGS[..2], flags)),
                    false => (Flags::WRITE, picked(&FLAGS, flags)),
                };
                let target = Target {
                    addr: 0,
                    len: len.into(),
                    key: KEY,
                };
                let op = RmaOp {
                    peer: peer(to),
                    targets: &[target],
                    body: self.buffer(len.into()),
                    data: 6,
                    flags: Flags::RMA | way | flags,
                    context,
                };
                self.engine.name(op.peer);
                self.engine.rma(link, &mut self.ledger, op)
            }
            Call::Atomic {
                to,
                count,
                form,
                datatype,
                operation,
            } => self.atomic(link, (to, count, form, datatype, operation), context),
            Call::Collect {
                group,
                what,
                len,
                root,
            } => self.collect(link, (group, what, len, root), context),
            Call::Join | Call::Cancel(_) => Ok(()),
        }
    }

    fn atomic(
        &mut self,
        link: &mut impl Link,
        (to, count, form, datatype, operation): (u8, u8, u8, u8, u8),
        context: usize,
    ) -> Result<(), Errno> {
        let form = [Form::Base, Form::Fetch, Form::Compare][usize::from(form) % 3];
        let datatype = Datatype::from_raw(datatype.into()).ok_or(Errno::INVAL)?;
        let operation = Operation::from_raw(operation.into()).ok_or(Errno::INVAL)?;
        let len = usize::from(count) * datatype.size();
        let way = match form {
            Form::Base => Flags::WRITE,
            _ => Flags::READ,
        };
        let target = Target {
            addr: 0,
            len: len as u64,
            key: KEY,
        };
        let op = AtomicOp {
            peer: peer(to),
            update: Update {
                form,
                datatype,
                operation,
            },
            targets: Box::new([target]),
            operand: self.buffer(len),
            compare: match form {
                Form::Compare => self.buffer(len),
                _ => Iov::empty(),
            },
            result: match form {
                Form::Base => Iov::empty(),
                _ => self.buffer(len),
            },
            data: 0,
            flags: Flags::ATOMIC | way | Flags::COMPLETION,
            context,
        };
        self.engine.name(op.peer);
        self.engine.atomic(link, &mut self.ledger, op)
    }

    fn collect(
        &mut self,
        link: &mut impl Link,
        (group, what, len, root): (u8, u8, u8, u8),
        context: usize,
    ) -> Result<(), Errno> {
        let groups = &self.ledger.groups;
        let at = usize::from(group) % groups.len().max(1);
        let group = *groups.get(at).ok_or(Errno::INVAL)?;
        let what = Collective::ALL[usize::from(what) % Collective::ALL.len()];
        let root = PeerId(u32::from(root) % (PEERS + 1));
        let (size, len) = (PEERS as usize + 1, usize::from(len));
        let arithmetic = Arithmetic {
            datatype: Datatype::Uint8,
            operation: Operation::Sum,
        };
        let op = CollectiveOp {
            group,
            what,
            root,
            len,
            input: self.buffer(len * what.brings(size, root == ME)),
            result: self.buffer(len * what.gets(size, root == ME)),
            arithmetic: what.reduces().then_some(arithmetic),
            flags: Flags::COMPLETION,
            context,
        };
        self.engine.collective(link, &mut self.ledger, op)
    }

    /// Lends a buffer of exactly this length.
    fn buffer(&mut self, len: usize) -> Iov {
        self.buffers.push(vec![0xb0; len].into());
        let base = self
            .buffers
            .last_mut()
            .map_or(std::ptr::null_mut(), |buffer| buffer.as_mut_ptr());
        // SAFETY: the buffer is as long, and is kept until the engine is gone.
        unsafe { Iov::contiguous(base, len) }
    }

    /// Checks the end: the engine has lost all peers, nothing is left to wait for, and nothing ended twice.
    pub fn close(&mut self) {
        self.engine.cancel_receives(&mut self.ledger);
        assert_eq!(self.engine.pending_tx(), 0, "operations that never end");
        assert!(
            self.ledger.ended.iter().all(|&times| times <= 1),
            "an operation ended twice: {:?}",
            self.ledger.ended
        );
    }
}

/// Returns a peer of this number.
pub fn peer(number: u8) -> PeerId {
    PeerId(1 + u32::from(number) % PEERS)
}

fn class(tag: Option<u8>) -> Flags {
    match tag {
        Some(_) => Flags::TAGGED,
        None => Flags::MSG,
    }
}

fn picked(flags: &[Flags], bits: u8) -> Flags {
    let chosen = (0..).zip(flags).filter(|(bit, _)| bits >> bit & 1 != 0);
    chosen.fold(Flags::empty(), |all, (_, &flag)| all | flag)
}

impl Ledger {
    fn end(&mut self, completion: &Completion) {
        // A multi-receive is over with its last message; what a peer did here has no context of ours.
        let is_part = completion
            .flags
            .intersects(Flags::REMOTE_READ | Flags::REMOTE_WRITE)
            || completion.flags.contains(Flags::RECV | Flags::MSG)
                && !completion.flags.contains(Flags::MULTI_RECV);
        if !is_part && let Some(times) = self.ended.get_mut(completion.context) {
            *times += 1;
        }
    }
}

impl Completions for Ledger {
    fn complete(&mut self, completion: Completion) {
        self.end(&completion);
    }

    fn fail(&mut self, failure: Failure) {
        self.end(&failure.op);
    }

    fn region(&self, targets: &[Target], _: Flags) -> Result<Iov, Errno> {
        let mut pieces = Vec::new();
        for target in targets {
            if target.key != KEY {
                return Err(Errno::NOKEY);
            }
            let (start, len) = (target.addr as usize, target.len as usize);
            let end = start.checked_add(len).ok_or(Errno::ACCES)?;
            let part = self.memory.get(start..end).ok_or(Errno::ACCES)?;
            pieces.push(oxifabric_mem::IovSegment::new(
                part.as_ptr().cast_mut(),
                len,
            ));
        }
        // SAFETY: the memory lives as long as the engine, and nothing else accesses it.
        unsafe { Iov::scattered(&pieces) }.ok_or(Errno::ACCES)
    }
}
