//! For whom somebody waits. A link that hears of a death by silence alone asks such peers whether they are there, and
//! leaves the others in peace.

use oxifabric_types::PeerId;

use crate::engine::Engine;

impl Engine {
    /// Names each peer without which something under way cannot end: it owes an answer or the rest of a message, or a
    /// receive takes from it alone. A peer may be named several times.
    pub(crate) fn awaited(&self, each: &mut dyn FnMut(PeerId)) {
        let sends = self.sends.iter().map(|(_, send)| send);
        for send in sends.filter(|send| send.awaits_answer()) {
            each(send.peer);
        }
        self.posted.sources().for_each(&mut *each);
        self.unexpected.unfinished().for_each(&mut *each);
        self.collectives.awaited().for_each(each);
    }
}
