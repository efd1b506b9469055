//! Fault injection: a plan says how many packets and posts fail, its seed which ones. Testing path.
//!
//! - [`FaultPlan`]: which faults are injected, and how often.
//! - `packets`: packets lost, duplicated and reordered before they leave ([`PacketFaults`]).
//! - `injector`: posts refused, connections broken and panics, over any link.

mod injector;
mod packets;

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use bitflags::bitflags;

pub(crate) use injector::FaultInjector;
pub use packets::PacketFaults;

bitflags! {
    /// Kinds of faults, named as in a plan.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FaultKinds: u8 {
        /// Packets are lost.
        const DROP = 1;
        /// Packets arrive twice.
        const DUP = 2;
        /// Packets are overtaken by later ones.
        const REORDER = 4;
        /// Posts are refused for the moment.
        const REFUSE = 8;
        /// Connections break.
        const BREAK = 16;
        /// The library panics.
        const PANIC = 32;
        /// The faults of packets.
        const PACKETS = Self::DROP.bits() | Self::DUP.bits() | Self::REORDER.bits();
        /// The faults of posts.
        const POSTS = Self::REFUSE.bits() | Self::BREAK.bits() | Self::PANIC.bits();
    }
}

impl fmt::Display for FaultKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (name, _) in NAMES.iter().filter(|(_, kind)| self.contains(*kind)) {
            write!(f, "{between}{name}")?;
            between = ", ";
        }
        Ok(())
    }
}

const NAMES: [(&str, FaultKinds); 6] = [
    ("drop", FaultKinds::DROP),
    ("dup", FaultKinds::DUP),
    ("reorder", FaultKinds::REORDER),
    ("refuse", FaultKinds::REFUSE),
    ("break", FaultKinds::BREAK),
    ("panic", FaultKinds::PANIC),
];

/// Shares of packets and posts into which faults are injected: `drop=0.01,dup=0.001,reorder=0.02,seed=7`,
/// `refuse=0.1,break=0.001`. A fault that is not named does not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The share of the packets that is lost.
    pub drop: f64,
    /// The share of the packets that arrives twice.
    pub dup: f64,
    /// The share of the packets that later ones overtake.
    pub reorder: f64,
    /// The share of the posts that the link refuses until a later poll, as if it were full.
    pub refuse: f64,
    /// The share of the posts at which the connection with the peer is lost.
    pub breaks: f64,
    /// The share of the posts at which the library panics, as by a defect of its own.
    pub panics: f64,
    /// The seed of the random numbers that decide which packets and posts fail: the same seed chooses the same ones.
    pub seed: u64,
}

/// The error of a text that is no [`FaultPlan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlan {
    part: String,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, kinds) = (&self.part, FaultKinds::all());
        write!(
            f,
            "{part:?} is none of {kinds} with \"=\" and a share between 0 and 1, those of packets and those of posts adding \
             up to 1 at most, and seed= with a number"
        )
    }
}

impl FromStr for FaultPlan {
    type Err = NoPlan;

    fn from_str(text: &str) -> Result<Self, NoPlan> {
        let mut plan = Self::default();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            let is_known = plan.take(part);
            let packets = plan.drop + plan.dup + plan.reorder;
            let posts = plan.refuse + plan.breaks + plan.panics;
            if !is_known || packets > 1.0 || posts > 1.0 {
                let part = part.into();
                return Err(NoPlan { part });
            }
        }
        Ok(plan)
    }
}

impl FaultPlan {
    /// Returns the kinds of faults that the plan has.
    pub fn kinds(&self) -> FaultKinds {
        let all = NAMES.into_iter().map(|(_, kind)| kind);
        let mut plan = *self;
        all.filter(|kind| *plan.share(*kind) > 0.0).collect()
    }

    /// Takes a part of the text in; returns whether it is one.
    fn take(&mut self, part: &str) -> bool {
        let Some((name, value)) = part.split_once('=') else {
            return false;
        };
        if name == "seed" {
            return value.parse().map(|seed| self.seed = seed).is_ok();
        }
        let Some((_, kind)) = NAMES.iter().find(|(known, _)| *known == name) else {
            return false;
        };
        match value.parse() {
            Ok(value) if (0.0..=1.0).contains(&value) => *self.share(*kind) = value,
            _ => return false,
        }
        true
    }

    /// Returns the share of one kind.
    const fn share(&mut self, kind: FaultKinds) -> &mut f64 {
        match kind {
            FaultKinds::DROP => &mut self.drop,
            FaultKinds::DUP => &mut self.dup,
            FaultKinds::REORDER => &mut self.reorder,
            FaultKinds::REFUSE => &mut self.refuse,
            FaultKinds::BREAK => &mut self.breaks,
            _ => &mut self.panics,
        }
    }
}

/// Numbers that look random and come from a seed: splitmix64.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    /// Returns a random number of [0, 1).
    const fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_is_no_plan_is_named() {
        for (text, part) in [
            ("drop", "drop"),
            ("drop=2", "drop=2"),
            ("drop=-0.1", "drop=-0.1"),
            ("drop=nan", "drop=nan"),
            ("drop=0.6,dup=0.6", "dup=0.6"),
            ("refuse=0.6,break=0.6", "break=0.6"),
            ("refuse=0.6,panic=0.6", "panic=0.6"),
            ("seed=1,loss=0.1", "loss=0.1"),
            ("seed=x", "seed=x"),
        ] {
            let part = part.into();
            assert_eq!(text.parse::<FaultPlan>(), Err(NoPlan { part }));
        }
        assert_eq!("".parse(), Ok(FaultPlan::default()));
    }

    #[test]
    fn a_plan_knows_what_happens_in_it() {
        let kinds = |text: &str| text.parse::<FaultPlan>().expect("it is a plan").kinds();
        assert_eq!(kinds("seed=3,drop=0"), FaultKinds::empty());
        assert_eq!(
            kinds("drop=0.9,refuse=0.9"),
            FaultKinds::DROP | FaultKinds::REFUSE
        );
        assert_eq!(kinds("dup=0.1,reorder=0.1,drop=0.1"), FaultKinds::PACKETS);
        assert_eq!(kinds("break=1").to_string(), "break");
        assert_eq!(FaultKinds::POSTS.to_string(), "refuse, break, panic");
    }
}
