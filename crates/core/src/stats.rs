//! Figures that a process publishes of its endpoints while it runs (`FI_OXI_STATS`), for `oxi top`. The layout is in
//! [`oxifabric_types::stats`], the reasons in docs/adr/0032.
//!
//! One file in memory for a process, without a name: the kernel shows it among the descriptors of the process to the same user
//! only, it cannot be replaced by a link, its size cannot be changed, and it is gone with the process. It is made for the
//! first endpoint, and given back with the last.

mod board;

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use oxifabric_provider::environment;
use oxifabric_provider::log;
use oxifabric_provider::params::{Parameter, ParameterKind};
use oxifabric_types::stats::{Figures, IDENTITY_WORDS, Identity};
use oxifabric_types::{Address, EpType};

use board::Board;

/// The parameters of all endpoints.
pub(crate) static PARAMETERS: [Parameter; 1] = [Parameter {
    name: "oxi_stats",
    kind: ParameterKind::Bool,
    help: "Let oxi top, run by the same user, see what the endpoints of this process do",
    default: "0",
}];

/// The place where one endpoint publishes its figures. Dropped, it is free again.
#[derive(Debug)]
pub(crate) struct Slot {
    board: Arc<Board>,
    at: usize,
}

impl Slot {
    /// Takes a slot for an endpoint if it is asked for, and there is one. Programs that run with another user's rights publish nothing,
    /// even if libfabric.conf asks.
    pub(crate) fn take(provider: &str, kind: EpType, address: &Address) -> Option<Self> {
        if !environment::is_trusted() || !PARAMETERS[0].bool("") {
            return None;
        }
        let board = Board::of_process()
            .inspect_err(|error| {
                let variable = PARAMETERS[0].variable("");
                log::warn!("core", Core, "{variable}: nothing can be told: {error}");
            })
            .ok()?;
        let (at, id) = board.take()?;
        let slot = Self { board, at };
        let identity = Identity {
            id,
            kind,
            provider: provider.to_owned(),
            address: address.to_string(),
        };
        slot.write(1, &identity.encode()[1..]);
        Some(slot)
    }

    /// Publishes the current figures.
    pub(crate) fn publish(&mut self, figures: &Figures) {
        self.write(IDENTITY_WORDS, &figures.encode());
    }

    /// Changes words of the slot, between two changes of its first. A forked child leaves the slots of its parent alone.
    fn write(&self, from: usize, values: &[u64]) {
        if !self.board.is_own() {
            return;
        }
        let words = self.board.slot(self.at);
        let sequence = words[0].load(Ordering::Relaxed);
        words[0].store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in words[from..].iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
        words[0].store(sequence.wrapping_add(2), Ordering::Release);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.write(1, &[0]);
        self.board.give_back(self.at);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use oxifabric_types::stats::{Head, MAX_SLOTS, SLOT_BYTES, Slot as Decoded};

    use super::*;

    /// What a reader sees of a slot.
    fn read(board: &Board, at: usize) -> (Head, Decoded) {
        let file = board.file();
        let mut bytes = [[0; SLOT_BYTES]; 2];
        file.read_exact_at(&mut bytes[0], 0).expect("a head");
        let head = Head::decode(&bytes[0]).expect("a head");
        for bytes in &mut bytes {
            let offset = SLOT_BYTES * (1 + at);
            file.read_exact_at(bytes, offset as u64).expect("a slot");
        }
        (head, Decoded::decode(&bytes[0], &bytes[1]))
    }

    fn slot_of(board: &Arc<Board>) -> Option<Slot> {
        let (at, id) = board.take()?;
        let slot = Slot {
            board: Arc::clone(board),
            at,
        };
        let identity = Identity {
            id,
            kind: EpType::Rdm,
            provider: "mock".into(),
            address: "here".into(),
        };
        slot.write(1, &identity.encode()[1..]);
        Some(slot)
    }

    #[test]
    fn a_slot_is_published_until_it_is_dropped() {
        let board = Arc::new(Board::new().expect("a board"));
        let mut slot = slot_of(&board).expect("there is room");
        let figures = Figures {
            sends: 3,
            ..Figures::default()
        };
        slot.publish(&figures);
        let (head, told) = read(&board, slot.at);
        assert_eq!(
            (head.pid, head.used, head.missed),
            (std::process::id(), 1, 0)
        );
        match told {
            Decoded::Of(identity, told) => {
                assert_eq!((identity.id, identity.provider.as_str()), (1, "mock"));
                assert_eq!(told, figures);
            }
            other => panic!("{other:?}"),
        }
        let at = slot.at;
        drop(slot);
        assert_eq!(read(&board, at).1, Decoded::Free);
        let again = slot_of(&board).expect("there is room");
        assert_eq!(again.at, at, "it is used again");
        assert!(
            matches!(read(&board, at).1, Decoded::Of(identity, _) if identity.id == 2),
            "by another endpoint"
        );
    }

    #[test]
    fn endpoints_beyond_the_last_slot_are_counted_only() {
        let board = Arc::new(Board::new().expect("a board"));
        let slots: Vec<Slot> = (0..MAX_SLOTS)
            .map(|_| slot_of(&board).expect("there is room"))
            .collect();
        assert!(slot_of(&board).is_none());
        let (head, _) = read(&board, 0);
        assert_eq!((head.used, head.missed), (MAX_SLOTS, 1));
        drop(slots);
    }

    #[test]
    fn the_file_cannot_be_cut_off_and_nothing_is_published_unasked() {
        let board = Board::new().expect("a board");
        let file = board.file();
        assert!(file.set_len(0).is_err());
        let here = Address::Name("here".into());
        assert!(Slot::take("mock", EpType::Rdm, &here).is_none());
    }
}
