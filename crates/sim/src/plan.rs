//! What is simulated: the network and its faults, docs/sim.md. Set-up path.

use serde::Deserialize;

/// A network, and what goes wrong in it. What a plan does not set is as in [`Plan::default`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// What decides all that happens at random: the same seed decides alike.
    pub seed: u64,
    /// The clock of the network.
    pub time: Time,
    /// Time after which a peer that leaves everything unanswered counts as gone, in milliseconds of the network's clock.
    pub patience_ms: Patience,
    /// The links: one in each direction between a node and its switch.
    pub link: LinkPlan,
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
pub struct Patience(pub u64);

impl Default for Patience {
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
}

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
    fn a_plan_is_read_and_the_rest_is_as_usual() {
        let plan = Plan::parse(
            "seed = 7\ntime = 'real'\n[link]\ndrop = 0.01\n[rack]\nnodes = 32\ngbps = 400\n[[cut]]\nnodes = [3]\nfrom_ms = 10\n",
        )
        .expect("it is a plan");
        assert_eq!((plan.seed, plan.time), (7, Time::Real));
        assert_eq!(plan.patience_ms, Patience(10_000));
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
        ] {
            let why = Plan::parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
            assert_eq!(why.lines().count(), 1, "{text}: {why}");
        }
        let why = Plan::parse("seed = 1\n[link]\nlatency = 3\n").expect_err("no such key");
        assert!(why.starts_with("line 3: unknown field `latency`"), "{why}");
    }
}
