//! Results whose context is not the application's: of deferred work, which has an entry of its own, and of messages in pieces of a
//! shared multi-receive buffer.

use oxifabric_engine::{Completion, Failure, PIECE};
use oxifabric_types::{FiAddr, Flags};

use super::CompletionDispatch;
use crate::cq::NO_SOURCE;
use crate::work::InFlight;

impl CompletionDispatch {
    /// Routes a result whose context is not the application's.
    #[cold]
    pub(super) fn route_separate(&self, completion: &Completion, source: FiAddr) {
        match completion.flags.contains(PIECE) {
            true => self.route_piece(completion, source),
            false => self.route_deferred(completion, source),
        }
    }

    /// Routes a message in a piece of a shared multi-receive buffer.
    fn route_piece(&self, piece: &Completion, source: FiAddr) {
        let mut shown = *piece;
        let failure = self.ended(&mut shown);
        self.route(&shown, source);
        if let Some(failure) = failure {
            self.route_end(&failure);
        }
    }

    /// Gives a piece of a shared multi-receive buffer back, and the application's context to its result.
    pub(super) fn ended(&self, piece: &mut Completion) -> Option<Failure> {
        piece.flags.remove(PIECE);
        self.shared.as_ref()?.ended(piece)
    }

    /// Reports a buffer that was cancelled, behind the last message in it.
    pub(super) fn route_end(&self, failure: &Failure) {
        if let Some(counter) = &self.rx.counter {
            counter.count_error();
        }
        if let Some(cq) = &self.rx.cq {
            cq.push_failure(failure, NO_SOURCE, None);
        }
    }

    /// Routes the result of deferred work: to the counter that it names, and to the queue only if it asked for that
    /// (fi_trigger(3)).
    fn route_deferred(&self, completion: &Completion, source: FiAddr) {
        self.end_deferred(completion, |in_flight, completion| {
            if let Some(cntr) = &in_flight.cntr {
                cntr.count(completion.len);
            }
            if let Some(counter) = self.counter(completion.flags) {
                counter.note(completion.len);
            }
            if let Some(cq) = &self.side(completion.flags).cq
                && in_flight.reported
            {
                cq.push(completion, source.0);
            }
        });
    }

    /// Has the end of an operation of deferred work reported, with the application's context.
    pub(super) fn end_deferred(
        &self,
        op: &Completion,
        report: impl FnOnce(&InFlight, &Completion),
    ) {
        let Some(progress) = &self.progress else {
            return;
        };
        progress.deferred_work().end(op.context, |in_flight| {
            let shown = Completion {
                context: in_flight.context,
                flags: op.flags.difference(Flags::DEFERRED),
                ..*op
            };
            report(in_flight, &shown);
        });
    }
}
