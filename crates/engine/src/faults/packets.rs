//! Fault injection into packets: lost, doubled or overtaken before they leave.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Dice, FaultKinds, FaultPlan};

/// Maximum number of packets that may overtake a late one.
const LATE_MAX: u64 = 32;

/// Injected packet faults. A delayed packet is dropped if no later packet is sent.
#[derive(Debug)]
pub struct PacketFaults<T> {
    plan: FaultPlan,
    dice: Dice,
    late: Vec<Late<T>>,
}

/// A packet that waits until `by` later ones have overtaken it.
#[derive(Debug)]
struct Late<T> {
    by: u64,
    packet: T,
}

impl<T> PacketFaults<T> {
    /// Returns the packet faults of a plan, if it has any.
    pub fn of(plan: Option<FaultPlan>) -> Option<Box<Self>> {
        let plan = plan.filter(|plan| plan.kinds().intersects(FaultKinds::PACKETS))?;
        Some(Box::new(Self {
            plan,
            dice: Dice(plan.seed),
            late: Vec::new(),
        }))
    }

    /// Lets a packet leave as often as is planned, and those behind it that were overtaken often enough.
    #[cold]
    pub fn pass(&mut self, packet: T, mut send: impl FnMut(&T)) {
        let FaultPlan {
            drop, dup, reorder, ..
        } = self.plan;
        let chance = self.dice.share();
        let mut copies = 1;
        if chance < drop {
            copies = 0;
        } else if chance < drop + dup {
            copies = 2;
        } else if chance < drop + dup + reorder {
            let by = 1 + self.dice.number() % LATE_MAX;
            self.late.push(Late { by, packet });
            return;
        }
        for _ in 0..copies {
            send(&packet);
            self.overtake(&mut send);
        }
    }

    fn overtake(&mut self, send: &mut impl FnMut(&T)) {
        self.late.retain_mut(|late| {
            late.by -= 1;
            if late.by == 0 {
                send(&late.packet);
            }
            late.by > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what leaves of 200 packets.
    fn play(plan: &str) -> Vec<u8> {
        let plan = plan.parse().expect("it is a plan");
        let mut faults = PacketFaults::of(Some(plan)).expect("packets fare somehow");
        let mut left = Vec::new();
        for number in 0..200u8 {
            faults.pass(number, |packet| left.push(*packet));
        }
        left
    }

    #[test]
    fn nothing_happens_that_is_not_planned() {
        let none = |text: &str| PacketFaults::<u8>::of(text.parse().ok()).is_none();
        assert!(none("seed=3") && none("refuse=1"));
        assert_eq!(play("drop=1"), []);
        assert_eq!(play("dup=1").len(), 400);
    }

    #[test]
    fn each_fault_takes_its_share() {
        let left = play("drop=0.2,seed=1");
        assert!((140..180).contains(&left.len()), "{}", left.len());
        assert!(left.is_sorted(), "none is overtaken");
        let left = play("dup=0.2,seed=1");
        assert!((220..260).contains(&left.len()), "{}", left.len());
        let mut left = play("reorder=0.2,seed=1");
        assert!(!left.is_sorted());
        assert!(left.len() >= 200 - LATE_MAX as usize, "{}", left.len());
        left.sort_unstable();
        left.dedup();
        assert!(left.len() >= 200 - LATE_MAX as usize, "none is doubled");
    }

    #[test]
    fn a_seed_decides_alike() {
        let plan = "drop=0.1,dup=0.1,reorder=0.1,seed=";
        let of = |seed: u32| play(&alloc::format!("{plan}{seed}"));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
