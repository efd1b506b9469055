//! What is simulated: the network and its faults, docs/sim.md. Set-up path.

use oxifabric_engine::{MAX_ATOMIC_BYTES, OneSided};
use serde::Deserialize;

/// A network, and what goes wrong in it. What a plan does not set is as in [`Plan::default`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// The seed of all random decisions: the same seed makes the same ones.
    pub seed: u64,
    /// The clock of the network.
    pub time: Time,
    /// Time after which a peer that leaves everything unanswered counts as gone, in milliseconds of the network's clock.
    #[serde(alias = "patience_ms")]
    pub peer_timeout_ms: PeerTimeout,
    /// The links: one in each direction between a node and its switch.
    pub link: LinkPlan,
    /// Adapters that carry messages, and perhaps accesses, by themselves. Without them endpoints have reliable channels over packets.
    pub nic: Option<NicPlan>,
    /// Racks of nodes under switches of their own, which one more switch connects. Without it all nodes have one switch.
    pub rack: Option<RackPlan>,
    /// Times in which nodes are cut off.
    pub cut: Vec<Cut>,
}

/// The clock of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// Virtual time, which goes on to the next event whenever no endpoint has anything to do.
    #[default]
    Virtual,
    /// Real time, that of the clock.
    Real,
}

/// A number of milliseconds, 10,000 unless set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct PeerTimeout(pub u64);

impl Default for PeerTimeout {
    fn default() -> Self {
        Self(10_000)
    }
}

/// A link in one direction, with the queue in front of it. Shares are between 0 and 1 and are drawn once for a packet,
/// however many links it takes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkPlan {
    /// Propagation delay, in microseconds.
    pub latency_us: f64,
    /// Gigabits (10^9) that leave in a second.
    pub gbps: f64,
    /// Maximum number of bytes that wait; what comes then is lost.
    pub queue_bytes: u64,
    /// The longest packet in bytes.
    pub mtu: usize,
    /// Packets that are longer vanish, though endpoints may send them: a black hole of path MTU discovery.
    pub carries: usize,
    /// The share of the packets that is lost.
    pub drop: f64,
    /// The share that arrives twice.
    pub dup: f64,
    /// The share that is late, so that later ones overtake it.
    pub reorder: f64,
    /// Longest delay of a reordered packet, in microseconds.
    pub late_us: f64,
}

impl Default for LinkPlan {
    fn default() -> Self {
        Self {
            latency_us: 1.0,
            gbps: 100.0,
            queue_bytes: 1 << 20,
            mtu: 4096,
            carries: 65_536,
            drop: 0.0,
            dup: 0.0,
            reorder: 0.0,
            late_us: 20.0,
        }
    }
}

/// Adapters of the nodes: whatever they send arrives once, so that no protocol for losses is needed above them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NicPlan {
    /// The order in which packets of one endpoint arrive at another.
    pub order: PacketOrder,
    /// Accesses to memory of peers that they carry out by themselves.
    pub one_sided: Vec<AccessPlan>,
}

/// The order of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PacketOrder {
    /// They arrive in the order of sending.
    #[default]
    Ordered,
    /// They overtake each other: each is late by a random time up to [`LinkPlan::late_us`].
    Unordered,
}

/// A kind of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessPlan {
    /// Reads, and with them the bodies of long messages.
    Read,
    /// Writes, with and without data.
    Write,
    /// Atomics.
    Atomic,
}

impl NicPlan {
    /// Returns the accesses that the adapters carry out by themselves.
    pub fn one_sided(&self) -> OneSided {
        let access = |kind: &AccessPlan| match kind {
            AccessPlan::Read => OneSided::READ,
            AccessPlan::Write => {
                OneSided::WRITE | OneSided::WRITE_DATA | OneSided::WRITE_SHORT_DATA
            }
            AccessPlan::Atomic => OneSided::ATOMIC,
        };
        self.one_sided.iter().map(access).collect()
    }

    /// Checks that the links of the plan suit adapters, between which no packet is lost, and that the adapters' own settings agree.
    fn check(&self, link: &LinkPlan) -> Result<(), String> {
        let usual = LinkPlan::default();
        if [link.drop, link.dup, link.reorder] != [0.0; 3] {
            return Err("with [nic] every packet arrives once: link.drop and link.dup are 0, and nic.order says what link.reorder would".into());
        }
        if (link.queue_bytes, link.carries) != (usual.queue_bytes, usual.carries) {
            return Err(
                "with [nic] no packet is lost: link.queue_bytes and link.carries are not set"
                    .into(),
            );
        }
        if link.mtu < MAX_ATOMIC_BYTES {
            return Err(format!(
                "with [nic] link.mtu is {MAX_ATOMIC_BYTES} at least: an atomic is one packet"
            ));
        }
        if self.order == PacketOrder::Unordered && link.late_us <= 0.0 {
            return Err("packets of nic.order = \"unordered\" are late by up to link.late_us, which is not 0".into());
        }
        let mut before = self.one_sided.iter().enumerate();
        match before.any(|(at, kind)| self.one_sided[..at].contains(kind)) {
            true => Err("nic.one_sided names each kind of access once".into()),
            false => Ok(()),
        }
    }
}

/// Topology of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackPlan {
    /// Number of nodes in a rack: nodes are assigned to racks in order of their numbers.
    pub nodes: u32,
    /// Gigabits that leave a rack in a second, and that enter it.
    pub gbps: f64,
}

/// A time in which packets between some nodes and the others are lost: a partition, a link that flaps, the death of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cut {
    /// The nodes that are cut off from all others, together.
    pub nodes: Vec<u32>,
    /// Begin, in milliseconds from the beginning of time.
    pub from_ms: f64,
    /// Duration in milliseconds; for ever, if not given.
    pub for_ms: Option<f64>,
    /// Period in milliseconds after which the fault begins again; it happens once, if not given.
    pub every_ms: Option<f64>,
}

impl Plan {
    /// Reads a plan in TOML.
    ///
    /// # Errors
    /// One line that says where in the text something is wrong, and what.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plan: Self = toml::from_str(text).map_err(|error| in_one_line(text, &error))?;
        plan.check().map(|()| plan)
    }

    /// Checks what the type does not rule out.
    ///
    /// # Errors
    /// A sentence that describes what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let LinkPlan {
            drop, dup, reorder, ..
        } = self.link;
        let shares = [drop, dup, reorder];
        if !shares.iter().all(|share| (0.0..=1.0).contains(share))
            || shares.iter().sum::<f64>() > 1.0
        {
            return Err("link.drop, link.dup and link.reorder are shares between 0 and 1, which add up to 1 at most".into());
        }
        let speeds = [Some(self.link.gbps), self.rack.map(|rack| rack.gbps)];
        if !speeds
            .iter()
            .flatten()
            .all(|gbps| (0.000_001..=1e6).contains(gbps))
        {
            return Err("a speed (gbps) is between 0.000001 and 1000000".into());
        }
        let spans = [self.link.latency_us, self.link.late_us];
        if !spans.iter().all(|us| (0.0..=1e9).contains(us)) {
            return Err("link.latency_us and link.late_us are between 0 and 1000000000".into());
        }
        if !(256..=65_536).contains(&self.link.mtu) {
            return Err("link.mtu is between 256 and 65536".into());
        }
        if self.rack.is_some_and(|rack| rack.nodes == 0) {
            return Err("a rack has at least one node".into());
        }
        if let Some(nic) = &self.nic {
            nic.check(&self.link)?;
        }
        match self.cut.iter().all(Cut::is_sound) {
            true => Ok(()),
            false => {
                Err("times of a cut are not negative, and every_ms is longer than for_ms".into())
            }
        }
    }

    /// Returns whether packets between two nodes are lost at a time, in milliseconds.
    pub(crate) fn is_cut(&self, a: u32, b: u32, at_ms: f64) -> bool {
        let is_apart = |cut: &Cut| cut.nodes.contains(&a) != cut.nodes.contains(&b);
        self.cut.iter().any(|cut| is_apart(cut) && cut.is_on(at_ms))
    }

    /// Returns when packets between two nodes, which are cut off from each other at a time, pass again; `None` for never.
    pub(crate) fn heals_at(&self, a: u32, b: u32, mut at_ms: f64) -> Option<f64> {
        let is_apart = |cut: &&Cut| cut.nodes.contains(&a) != cut.nodes.contains(&b);
        for _ in 0..CUTS_IN_A_ROW {
            let on = self.cut.iter().filter(is_apart);
            match on
                .filter(|cut| cut.is_on(at_ms))
                .map(|cut| cut.ends_at(at_ms))
                .next()
            {
                None => return Some(at_ms),
                Some(end) => at_ms = end?,
            }
        }
        None
    }
}

/// Maximum number of cuts in a row, without a gap, that are followed: two nodes that are cut off longer count as apart for ever.
const CUTS_IN_A_ROW: usize = 1000;

/// Spells an error with the number of its line in the text.
fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.as_bytes().iter().take(start);
    let line = 1 + before.filter(|byte| **byte == b'\n').count();
    let what: Vec<&str> = error.message().lines().collect();
    format!("line {line}: {}", what.join("; "))
}

impl Cut {
    fn is_sound(&self) -> bool {
        let times = [Some(self.from_ms), self.for_ms, self.every_ms];
        let lasts = self.for_ms.unwrap_or(f64::INFINITY);
        times.iter().flatten().all(|ms| (0.0..=1e15).contains(ms))
            && self.every_ms.is_none_or(|every| every > lasts)
    }

    /// Returns when a cut that is on at a time ends; `None` for never.
    fn ends_at(&self, at_ms: f64) -> Option<f64> {
        let since = at_ms - self.from_ms;
        let since = self.every_ms.map_or(since, |every| since % every);
        Some(at_ms - since + self.for_ms?)
    }

    fn is_on(&self, at_ms: f64) -> bool {
        let since = at_ms - self.from_ms;
        let since = match self.every_ms {
            Some(every) if since >= 0.0 => since % every,
            _ => since,
        };
        since >= 0.0 && self.for_ms.is_none_or(|lasts| since < lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_former_name_of_a_part_is_taken() {
        for name in ["peer_timeout_ms", "patience_ms"] {
            let plan = Plan::parse(&format!("{name} = 5")).expect("a plan");
            assert_eq!(plan.peer_timeout_ms, PeerTimeout(5));
        }
    }

    #[test]
    fn a_plan_is_read_and_the_rest_is_as_usual() {
        let plan = Plan::parse(
            "seed = 7\ntime = 'real'\n[link]\ndrop = 0.01\n[rack]\nnodes = 32\ngbps = 400\n[[cut]]\nnodes = [3]\nfrom_ms = 10\n",
        )
        .expect("it is a plan");
        assert_eq!((plan.seed, plan.time), (7, Time::Real));
        assert_eq!(plan.peer_timeout_ms, PeerTimeout(10_000));
        let link = LinkPlan {
            drop: 0.01,
            ..LinkPlan::default()
        };
        assert_eq!(plan.link, link);
        assert_eq!(plan.rack.map(|rack| rack.nodes), Some(32));
        assert!(plan.is_cut(3, 4, 10.0) && plan.is_cut(4, 3, 1e9));
        assert!(!plan.is_cut(3, 4, 9.9) && !plan.is_cut(1, 2, 11.0) && !plan.is_cut(3, 3, 11.0));
    }

    #[test]
    fn a_flapping_link_comes_back_again_and_again() {
        let cut = Cut {
            nodes: vec![1],
            from_ms: 10.0,
            for_ms: Some(2.0),
            every_ms: Some(5.0),
        };
        let on: Vec<bool> = [9.0, 10.0, 11.9, 12.0, 14.9, 15.0, 16.9, 17.0]
            .map(|at| cut.is_on(at))
            .into();
        assert_eq!(on, [false, true, true, false, false, true, true, false]);
    }

    #[test]
    fn a_cut_heals_when_no_other_follows() {
        let plan = Plan::parse(
            "[[cut]]\nnodes = [1]\nfrom_ms = 10\nfor_ms = 2\nevery_ms = 5\n[[cut]]\nnodes = [1]\nfrom_ms = 16\nfor_ms = 2\n[[cut]]\nnodes = [2]\nfrom_ms = 1",
        )
        .expect("it is a plan");
        assert_eq!(plan.heals_at(1, 3, 11.0), Some(12.0));
        assert_eq!(plan.heals_at(3, 1, 15.5), Some(18.0));
        assert_eq!(plan.heals_at(2, 3, 7.0), None);
        assert_eq!(plan.heals_at(3, 4, 7.0), Some(7.0));
    }

    #[test]
    fn adapters_carry_out_what_the_plan_says() {
        let plan = Plan::parse("[nic]\norder = 'unordered'\none_sided = ['read', 'write']")
            .expect("it is a plan");
        let nic = plan.nic.expect("it has adapters");
        assert_eq!(nic.order, PacketOrder::Unordered);
        assert_eq!(nic.one_sided(), OneSided::all() - OneSided::ATOMIC);
        assert_eq!(Plan::default().nic, None);
    }

    #[test]
    fn what_is_no_plan_is_refused_with_a_reason() {
        for (text, part) in [
            ("speed = 1", "speed"),
            ("[link]\ndrop = 1.5", "shares"),
            ("[link]\ndrop = 0.6\ndup = 0.6", "shares"),
            ("[link]\ngbps = 0", "gbps"),
            ("[link]\nmtu = 64", "mtu"),
            ("[rack]\nnodes = 0\ngbps = 1", "rack"),
            ("[[cut]]\nnodes = [1]\nevery_ms = 5", "every_ms"),
            ("time = 'lunch'", "virtual"),
            ("[nic]\n[link]\ndrop = 0.1\nmtu = 8192", "link.drop"),
            ("[nic]\n[link]\nreorder = 0.1", "nic.order"),
            ("[nic]\n[link]\nqueue_bytes = 10000", "link.queue_bytes"),
            ("[nic]\n[link]\nmtu = 1024", "link.mtu"),
            (
                "[nic]\norder = 'unordered'\n[link]\nlate_us = 0",
                "link.late_us",
            ),
            ("[nic]\norder = 'any'", "unordered"),
            ("[nic]\none_sided = ['read', 'read']", "once"),
            ("[nic]\none_sided = ['send']", "send"),
        ] {
            let why = Plan::parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
            assert_eq!(why.lines().count(), 1, "{text}: {why}");
        }
        let why = Plan::parse("seed = 1\n[link]\nlatency = 3\n").expect_err("no such key");
        assert!(why.starts_with("line 3: unknown field `latency`"), "{why}");
    }
}
