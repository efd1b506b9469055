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
        let Some((in_flight, completion)) = self.in_flight(completion) else {
            return;
        };
        if let Some(cntr) = &in_flight.cntr {
            cntr.count(completion.len);
        }
        if let Some(counter) = self.counter(completion.flags) {
            counter.note(completion.len);
        }
        if let Some(cq) = &self.side(completion.flags).cq
            && in_flight.reported
        {
            cq.push(&completion, source.0);
        }
    }

    /// Finds the deferred work whose operation ended, and gives the result the application's context.
    pub(super) fn in_flight(&self, op: &Completion) -> Option<(InFlight, Completion)> {
        let in_flight = self.progress.as_ref()?.deferred_work().ended(op.context)?;
        let mut shown = *op;
        shown.context = in_flight.context;
        shown.flags.remove(Flags::DEFERRED);
        Some((in_flight, shown))
    }
}
