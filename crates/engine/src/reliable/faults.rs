//! Faults on purpose: packets that a seed has lost, doubled or overtaken before they leave. Testing path.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use oxifabric_types::{Instant, PeerId};
use oxifabric_wire::reliable::packet::HEADER_LEN;

use super::link::PacketPort;

/// A late packet is overtaken by at most so many.
const LATE_MAX: u64 = 32;

/// Which share of the packets fares how: `drop=0.01,dup=0.001,reorder=0.02,seed=7`. What is not named does not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The share that is lost.
    pub drop: f64,
    /// The share that arrives twice.
    pub dup: f64,
    /// The share that later ones overtake.
    pub reorder: f64,
    /// What decides which: the same seed decides alike.
    pub seed: u64,
}

/// Why a text is no [`FaultPlan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlan {
    part: String,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = &self.part;
        write!(
            f,
            "{part:?} is none of drop=, dup=, reorder= with a share between 0 and 1, which add up to 1 at most, and seed= with a number"
        )
    }
}

impl FromStr for FaultPlan {
    type Err = NoPlan;

    fn from_str(text: &str) -> Result<Self, NoPlan> {
        let mut plan = Self::default();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            if !plan.take(part) || plan.drop + plan.dup + plan.reorder > 1.0 {
                let part = part.into();
                return Err(NoPlan { part });
            }
        }
        Ok(plan)
    }
}

impl FaultPlan {
    /// Takes a part of the text in; tells whether it is one.
    fn take(&mut self, part: &str) -> bool {
        let Some((name, value)) = part.split_once('=') else {
            return false;
        };
        if name == "seed" {
            return value.parse().map(|seed| self.seed = seed).is_ok();
        }
        let share = match name {
            "drop" => &mut self.drop,
            "dup" => &mut self.dup,
            "reorder" => &mut self.reorder,
            _ => return false,
        };
        match value.parse() {
            Ok(value) if (0.0..=1.0).contains(&value) => *share = value,
            _ => return false,
        }
        true
    }
}

/// A port whose packets fare as a plan says, if there is one.
#[derive(Debug)]
pub(super) struct Faulty<P> {
    pub(super) port: P,
    faults: Option<Box<Faults>>,
}

#[derive(Debug)]
struct Faults {
    plan: FaultPlan,
    random: u64,
    late: Vec<Late>,
}

/// A packet that waits until it was overtaken by so many.
#[derive(Debug)]
struct Late {
    by: u64,
    to: PeerId,
    header: [u8; HEADER_LEN],
    payload: Vec<u8>,
}

impl<P: PacketPort> Faulty<P> {
    pub(super) fn new(port: P, plan: Option<FaultPlan>) -> Self {
        let faults = plan.map(|plan| {
            Box::new(Faults {
                plan,
                random: plan.seed,
                late: Vec::new(),
            })
        });
        Self { port, faults }
    }
}

impl<P: PacketPort> PacketPort for Faulty<P> {
    fn longest(&self) -> usize {
        self.port.longest()
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.port.has_room()
    }

    #[inline]
    fn send(&mut self, to: PeerId, header: &[u8; HEADER_LEN], payload: &[u8]) {
        match &mut self.faults {
            None => self.port.send(to, header, payload),
            Some(faults) => faults.send(&mut self.port, to, header, payload),
        }
    }

    #[inline]
    fn flush(&mut self) {
        self.port.flush();
    }

    #[inline]
    fn next(&mut self) -> bool {
        self.port.next()
    }

    #[inline]
    fn packet(&self) -> (PeerId, &[u8]) {
        self.port.packet()
    }

    fn refused(&mut self) -> Option<PeerId> {
        self.port.refused()
    }

    fn secret(&mut self) -> u64 {
        self.port.secret()
    }

    #[inline]
    fn now(&self) -> Instant {
        self.port.now()
    }

    #[inline]
    fn begin(&mut self, coarse: Instant) -> Instant {
        self.port.begin(coarse)
    }

    #[inline]
    fn rest(&mut self, due: Instant) {
        self.port.rest(due);
    }
}

impl Faults {
    #[cold]
    fn send(
        &mut self,
        port: &mut impl PacketPort,
        to: PeerId,
        header: &[u8; HEADER_LEN],
        payload: &[u8],
    ) {
        let FaultPlan {
            drop, dup, reorder, ..
        } = self.plan;
        let chance = (self.random() >> 11) as f64 / (1u64 << 53) as f64;
        let mut copies = 1;
        if chance < drop {
            copies = 0;
        } else if chance < drop + dup {
            copies = 2;
        } else if chance < drop + dup + reorder {
            copies = 0;
            let by = 1 + self.random() % LATE_MAX;
            self.late.push(Late {
                by,
                to,
                header: *header,
                payload: payload.into(),
            });
        }
        for _ in 0..copies {
            port.send(to, header, payload);
            self.overtake(port);
        }
    }

    /// Lets the late ones leave that were overtaken often enough.
    fn overtake(&mut self, port: &mut impl PacketPort) {
        self.late.retain_mut(|late| {
            late.by -= 1;
            if late.by == 0 {
                port.send(late.to, &late.header, &late.payload);
            }
            late.by > 0
        });
    }

    /// The next number of splitmix64.
    const fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes down which packets leave.
    #[derive(Default)]
    struct Wire(Vec<u8>);

    impl PacketPort for Wire {
        fn longest(&self) -> usize {
            1500
        }
        fn has_room(&self) -> bool {
            true
        }
        fn send(&mut self, to: PeerId, _: &[u8; HEADER_LEN], payload: &[u8]) {
            assert_eq!(to, PeerId(u32::from(payload[0])));
            self.0.push(payload[0]);
        }
        fn flush(&mut self) {}
        fn next(&mut self) -> bool {
            false
        }
        fn packet(&self) -> (PeerId, &[u8]) {
            (PeerId(0), &[])
        }
        fn refused(&mut self) -> Option<PeerId> {
            None
        }
        fn secret(&mut self) -> u64 {
            1
        }
        fn now(&self) -> Instant {
            Instant::default()
        }
    }

    /// What leaves of 200 packets.
    fn play(plan: &str) -> Vec<u8> {
        let plan = plan.parse().expect("it is a plan");
        let mut port = Faulty::new(Wire::default(), Some(plan));
        for number in 0..200 {
            port.send(PeerId(u32::from(number)), &[0; HEADER_LEN], &[number]);
        }
        port.port.0
    }

    #[test]
    fn nothing_happens_that_is_not_planned() {
        let all: Vec<u8> = (0..200).collect();
        assert_eq!(play("seed=3"), all);
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

    #[test]
    fn what_is_no_plan_is_named() {
        for (text, part) in [
            ("drop", "drop"),
            ("drop=2", "drop=2"),
            ("drop=-0.1", "drop=-0.1"),
            ("drop=nan", "drop=nan"),
            ("drop=0.6,dup=0.6", "dup=0.6"),
            ("seed=1,loss=0.1", "loss=0.1"),
            ("seed=x", "seed=x"),
        ] {
            let part = part.into();
            assert_eq!(text.parse::<FaultPlan>(), Err(NoPlan { part }));
        }
        assert_eq!("".parse(), Ok(FaultPlan::default()));
    }
}
