//! The ledger of the operations that a device's hardware queues carry out.

use oxifabric_engine::{AtomicOp, Completion, Completions, Config, Failure, RmaOp, RxOp, TxOp};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags, Instant, PeerId};

use super::table::WorkTable;
use super::{HardwareQueues, ReceivedMessage, WorkEnd, WorkError, WorkId};
use crate::operations::Operations;

/// The flags of an operation that its completion repeats.
const KIND: Flags = Flags::MSG
    .union(Flags::TAGGED)
    .union(Flags::RMA)
    .union(Flags::ATOMIC)
    .union(Flags::READ)
    .union(Flags::WRITE)
    .union(Flags::DEFERRED);

/// Flags of receives that need an engine, which matches messages; hardware queues refuse them.
const MATCHED: Flags = Flags::TAGGED
    .union(Flags::MULTI_RECV)
    .union(Flags::PEEK)
    .union(Flags::CLAIM)
    .union(Flags::DISCARD);

/// The operations of an endpoint whose device carries them out: the ledger only remembers each until the device reports its end.
#[derive(Debug)]
pub struct WorkLedger {
    config: Config,
    sends: WorkTable<Work>,
    receives: WorkTable<Work>,
}

/// An operation that was given to the device and has not ended.
#[derive(Debug)]
struct Work {
    context: usize,
    flags: Flags,
    len: usize,
    buf: usize,
    tag: u64,
    peer: PeerId,
    wanted: bool,
}

impl<D: HardwareQueues> Operations<D> for WorkLedger {
    const MATCHES: bool = false;

    fn new(config: Config) -> Self {
        Self {
            config,
            sends: WorkTable::new(),
            receives: WorkTable::new(),
        }
    }

    fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    fn send(&mut self, device: &mut D, _out: &mut impl Completions, op: TxOp) -> Result<(), Errno> {
        if op.flags.contains(Flags::TAGGED) {
            return Err(Errno::OPNOTSUPP);
        }
        let work = Work {
            tag: op.tag,
            ..Work::new(op.peer, op.flags | Flags::SEND, &op.body, op.context)
        };
        self.start(work, |id| device.post_send(&op, id))
    }

    fn recv(&mut self, device: &mut D, _out: &mut impl Completions, op: RxOp) -> Result<(), Errno> {
        if op.flags.intersects(MATCHED) {
            return Err(Errno::OPNOTSUPP);
        }
        if self.receives.len() >= self.config.rx_size {
            return Err(Errno::AGAIN);
        }
        let work = Work::new(op.from, op.flags | Flags::RECV, &op.body, op.context);
        let id = self.receives.insert(work);
        let posted = device.post_receive(&op, id);
        if posted.is_err() {
            self.receives.remove(id);
        }
        posted
    }

    fn access(
        &mut self,
        device: &mut D,
        _out: &mut impl Completions,
        op: RmaOp<'_>,
    ) -> Result<(), Errno> {
        let work = Work::new(op.peer, op.flags, &op.body, op.context);
        self.start(work, |id| device.post_access(&op, id))
    }

    fn atomic(
        &mut self,
        device: &mut D,
        _out: &mut impl Completions,
        op: AtomicOp,
    ) -> Result<(), Errno> {
        let work = Work::new(op.peer, op.flags, &op.operand, op.context);
        self.start(work, |id| device.post_atomic(&op, id))
    }

    fn cancel(
        &mut self,
        device: &mut D,
        _out: &mut impl Completions,
        context: usize,
    ) -> Result<(), Errno> {
        let has_it = |work: &Work| work.context == context;
        match self.receives.find(has_it) {
            Some(id) => device.cancel_receive(id),
            None if self.sends.find(has_it).is_some() => Err(Errno::NOSYS),
            None => Err(Errno::NOENT),
        }
    }

    fn cancel_receives(&mut self, device: &mut D, _out: &mut impl Completions) {
        device.flush_receives();
    }

    fn progress(&mut self, device: &mut D, out: &mut impl Completions, now: Instant) -> usize {
        let mut events = 0;
        device.poll_queues(now, &mut |end| {
            events += 1;
            self.end(end, out);
        });
        events
    }

    fn abandon(&mut self, _out: &mut impl Completions) {
        self.sends.clear();
        self.receives.clear();
    }

    fn is_idle(&self) -> bool {
        self.sends.len() == 0
    }

    fn is_sending(&self) -> bool {
        self.sends.len() != 0
    }

    fn pending_tx(&self) -> usize {
        self.sends.len()
    }

    fn pending_rx(&self) -> usize {
        self.receives.len()
    }
}

impl WorkLedger {
    /// Notes an operation and gives it to the device.
    fn start(
        &mut self,
        work: Work,
        post: impl FnOnce(WorkId) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if work.peer == PeerId::ANY {
            return Err(Errno::INVAL);
        }
        if self.sends.len() >= self.config.tx_size {
            return Err(Errno::AGAIN);
        }
        let id = self.sends.insert(work);
        let posted = post(id);
        if posted.is_err() {
            self.sends.remove(id);
        }
        posted
    }

    /// Reports the end of an operation; the end of one that was abandoned is ignored.
    fn end(&mut self, end: WorkEnd, out: &mut impl Completions) {
        match end {
            WorkEnd::Sent { id, result } => {
                if let Some(work) = self.sends.remove(id) {
                    work.end(result.map(|()| work.completion()), out);
                }
            }
            WorkEnd::Received { id, result } => {
                if let Some(work) = self.receives.remove(id) {
                    work.end(result.map(|message| work.received(&message)), out);
                }
            }
            WorkEnd::Written {
                receive,
                from,
                len,
                data,
            } => out.complete(Completion {
                context: receive
                    .and_then(|id| self.receives.remove(id))
                    .map_or(0, |work| work.context),
                flags: Flags::RMA | Flags::REMOTE_WRITE | Flags::REMOTE_CQ_DATA,
                len: len as u64,
                buf: 0,
                data,
                tag: 0,
                from,
                wanted: true,
            }),
        }
    }
}

impl Work {
    fn new(peer: PeerId, flags: Flags, body: &Iov, context: usize) -> Self {
        Self {
            context,
            flags: flags & (KIND | Flags::SEND | Flags::RECV),
            len: body.len(),
            buf: body.base().addr(),
            tag: 0,
            peer,
            wanted: flags.contains(Flags::COMPLETION),
        }
    }

    /// Returns the completion of an operation that succeeded. It names no peer, unlike a failure or a received message.
    fn completion(&self) -> Completion {
        Completion {
            context: self.context,
            flags: self.flags,
            len: self.len as u64,
            buf: self.buf,
            data: 0,
            tag: self.tag,
            from: PeerId::ANY,
            wanted: self.wanted,
        }
    }

    fn received(&self, message: &ReceivedMessage) -> Completion {
        let data = match message.data {
            Some(_) => Flags::REMOTE_CQ_DATA,
            None => Flags::empty(),
        };
        Completion {
            flags: self.flags | data,
            len: message.len as u64,
            data: message.data.unwrap_or(0),
            from: message.from,
            ..self.completion()
        }
    }

    fn end(&self, result: Result<Completion, WorkError>, out: &mut impl Completions) {
        match result {
            Ok(completion) => out.complete(completion),
            Err(error) => out.fail(Failure {
                op: Completion {
                    len: 0,
                    from: self.peer,
                    ..self.completion()
                },
                errno: error.errno,
                overflow: 0,
                code: error.code,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that has what it was given until the test says how it ended.
    #[derive(Default)]
    struct Queues {
        given: Vec<WorkId>,
        ends: Vec<WorkEnd>,
        full: bool,
    }

    impl Queues {
        fn take(&mut self, id: WorkId) -> Result<(), Errno> {
            match self.full {
                true => Err(Errno::AGAIN),
                false => {
                    self.given.push(id);
                    Ok(())
                }
            }
        }
    }

    impl HardwareQueues for Queues {
        fn post_send(&mut self, _send: &TxOp, id: WorkId) -> Result<(), Errno> {
            self.take(id)
        }

        fn post_receive(&mut self, _receive: &RxOp, id: WorkId) -> Result<(), Errno> {
            self.take(id)
        }

        fn flush_receives(&mut self) {}

        fn poll_queues(&mut self, _now: Instant, ended: &mut impl FnMut(WorkEnd)) {
            self.ends.drain(..).for_each(ended);
        }
    }

    #[derive(Default)]
    struct Results(Vec<Result<usize, (usize, Errno)>>);

    impl Completions for Results {
        fn complete(&mut self, completion: Completion) {
            self.0.push(Ok(completion.context));
        }

        fn fail(&mut self, failure: Failure) {
            self.0.push(Err((failure.op.context, failure.errno)));
        }
    }

    fn ledger() -> WorkLedger {
        Operations::<Queues>::new(Config {
            tx_size: 2,
            rx_size: 2,
            unexpected_bytes: 0,
            unexpected_ceiling: 0,
            min_multi_recv: 0,
            directed_recv: false,
        })
    }

    fn send(ledger: &mut WorkLedger, queues: &mut Queues, context: usize) -> Result<(), Errno> {
        let op = TxOp {
            peer: PeerId(0),
            tag: 0,
            data: 0,
            body: Iov::empty(),
            flags: Flags::MSG | Flags::COMPLETION,
            context,
        };
        ledger.send(queues, &mut Results::default(), op)
    }

    fn poll(ledger: &mut WorkLedger, queues: &mut Queues) -> Vec<Result<usize, (usize, Errno)>> {
        let mut out = Results::default();
        ledger.progress(queues, &mut out, Instant::default());
        out.0
    }

    fn ended(id: WorkId, result: Result<(), Errno>) -> WorkEnd {
        WorkEnd::Sent {
            id,
            result: result.map_err(WorkError::from),
        }
    }

    #[test]
    fn an_operation_ends_once_whatever_the_device_says() {
        let (mut ledger, mut queues) = (ledger(), Queues::default());
        assert_eq!(send(&mut ledger, &mut queues, 1), Ok(()));
        assert_eq!(send(&mut ledger, &mut queues, 2), Ok(()));
        let (a, b) = (queues.given[0], queues.given[1]);
        let nothing = WorkId::from_raw(u64::MAX);
        queues.ends = vec![
            ended(b, Err(Errno::IO)),
            ended(b, Ok(())),
            ended(nothing, Ok(())),
            WorkEnd::Received {
                id: a,
                result: Err(Errno::TRUNC.into()),
            },
            ended(a, Ok(())),
        ];
        let results = poll(&mut ledger, &mut queues);
        assert_eq!(results, [Err((2, Errno::IO)), Ok(1)]);
        assert_eq!(Operations::<Queues>::pending_tx(&ledger), 0);
    }

    #[test]
    fn what_the_device_refuses_was_not_started() {
        let (mut ledger, mut queues) = (ledger(), Queues::default());
        queues.full = true;
        assert_eq!(send(&mut ledger, &mut queues, 1), Err(Errno::AGAIN));
        assert_eq!(Operations::<Queues>::pending_tx(&ledger), 0);
        queues.full = false;
        assert_eq!(send(&mut ledger, &mut queues, 1), Ok(()));
        assert_eq!(send(&mut ledger, &mut queues, 2), Ok(()));
        assert_eq!(send(&mut ledger, &mut queues, 3), Err(Errno::AGAIN));
        assert_eq!(queues.given.len(), 2, "the device was not asked");
    }

    #[test]
    fn nothing_is_told_of_what_was_abandoned() {
        let (mut ledger, mut queues) = (ledger(), Queues::default());
        assert_eq!(send(&mut ledger, &mut queues, 1), Ok(()));
        Operations::<Queues>::abandon(&mut ledger, &mut Results::default());
        queues.ends = vec![ended(queues.given[0], Ok(()))];
        assert_eq!(poll(&mut ledger, &mut queues), []);
        assert_eq!(send(&mut ledger, &mut queues, 2), Ok(()));
        queues.ends = vec![ended(queues.given[1], Ok(()))];
        assert_eq!(poll(&mut ledger, &mut queues), [Ok(2)]);
    }
}
