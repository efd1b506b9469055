//! What a network is like and does to packets, as a file says (docs/softnic.md).

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::wire::{CHUNK, status};

/// A plan. What the file leaves out is as here by default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) hosts: u8,
    /// NICs of each host.
    pub(crate) nics: u8,
    pub(crate) mtu: u32,
    pub(crate) max_rdma: u32,
    /// The most regions that a process registers.
    pub(crate) regions: u32,
    pub(crate) caps: Vec<Capability>,
    /// The share of packets that others overtake.
    pub(crate) reorder: f64,
    /// By how many packets at most, and how long they wait for that at most.
    pub(crate) reorder_window: u32,
    pub(crate) reorder_us: u32,
    /// How long a packet takes: at least, and at most.
    pub(crate) delay_us: [u32; 2],
    /// The share of messages for which their receiver is not ready.
    pub(crate) rnr: f64,
    /// Numbers of destroyed queue pairs and of dead processes are used again at once.
    pub(crate) qpn_reuse: bool,
    pub(crate) error: Vec<Error>,
    pub(crate) dead: Vec<Dead>,
    pub(crate) kill: Vec<Kill>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 1,
            hosts: 1,
            nics: 1,
            mtu: 8928,
            max_rdma: 1 << 30,
            regions: 32768,
            caps: Capability::ALL.to_vec(),
            reorder: 0.25,
            reorder_window: 16,
            reorder_us: 200,
            delay_us: [0, 0],
            rnr: 0.0,
            qpn_reuse: false,
            error: Vec::new(),
            dead: Vec::new(),
            kill: Vec::new(),
        }
    }
}

/// What a device can do.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Capability {
    Read,
    RnrRetry,
    Notify,
    Sgid,
    Write,
    Unsolicited,
}

impl Capability {
    const ALL: [Self; 6] = [
        Self::Read,
        Self::RnrRetry,
        Self::Notify,
        Self::Sgid,
        Self::Write,
        Self::Unsolicited,
    ];

    /// Returns the bit of `enum` EFA_QUERY_DEVICE_CAPS in rdma/efa-abi.h.
    pub(crate) fn bit(self) -> u32 {
        match self {
            Self::Read => 1,
            Self::RnrRetry => 1 << 1,
            Self::Notify => 1 << 2,
            Self::Sgid => 1 << 3,
            Self::Write => 1 << 5,
            Self::Unsolicited => 1 << 6,
        }
    }
}

/// A share of requests fails.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Error {
    pub(crate) status: Cause,
    pub(crate) share: f64,
    /// The request is carried out, and its sender is told that it was not.
    #[serde(default)]
    pub(crate) delivered: bool,
}

/// A cause that a remote side or the network has.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cause {
    BadAddress,
    Abort,
    BadDestQpn,
    BadLength,
    BadStatus,
    Unresponsive,
    UnknownPeer,
    Unreachable,
}

impl Cause {
    /// Returns the number of `enum efa_io_comp_status`.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::BadAddress => status::REMOTE_BAD_ADDRESS,
            Self::Abort => status::REMOTE_ABORT,
            Self::BadDestQpn => status::REMOTE_BAD_DEST_QPN,
            Self::BadLength => status::REMOTE_BAD_LENGTH,
            Self::BadStatus => status::REMOTE_BAD_STATUS,
            Self::Unresponsive => status::UNRESPONSIVE_REMOTE,
            Self::UnknownPeer => status::REMOTE_UNKNOWN_PEER,
            Self::Unreachable => status::UNREACHABLE_REMOTE,
        }
    }
}

/// A host falls silent after so many packets of the whole network.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dead {
    pub(crate) host: u8,
    pub(crate) after: u64,
}

/// A process is killed (SIGKILL) after so many packets of its own; processes are counted from 0 in the order in which they open devices.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kill {
    pub(crate) process: u32,
    pub(crate) after: u64,
}

impl Plan {
    /// Reads a plan; without a file it is the default one.
    ///
    /// # Errors
    /// The file cannot be read, or is no plan.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, String> {
        let Some(file) = file else {
            return Ok(Self::default());
        };
        let text = fs::read_to_string(file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Checks what the form alone does not say.
    ///
    /// # Errors
    /// A number is out of its range.
    pub(crate) fn check(&self) -> Result<(), String> {
        let errors = self.error.iter().map(|error| error.share);
        let shares = [self.reorder, self.rnr].into_iter().chain(errors);
        let [shortest, longest] = self.delay_us;
        let rules = [
            (
                shares.into_iter().all(|share| (0.0..=1.0).contains(&share)),
                "a share is from 0 to 1",
            ),
            ((1..=64).contains(&self.hosts), "there are 1 to 64 hosts"),
            ((1..=8).contains(&self.nics), "a host has 1 to 8 NICs"),
            ((256..=CHUNK).contains(&self.mtu), "mtu is 256 to 32768"),
            (shortest <= longest, "delay_us is [at least, at most]"),
            (
                longest.max(self.reorder_us) <= 10_000_000,
                "no packet takes more than 10 s",
            ),
            (self.reorder_window >= 1, "reorder_window is at least 1"),
            (
                self.dead.iter().all(|dead| dead.host < self.hosts),
                "a host that dies is one of the hosts",
            ),
        ];
        let broken = rules.iter().find(|(holds, _)| !holds);
        broken.map_or(Ok(()), |(_, rule)| Err((*rule).to_owned()))
    }

    /// Returns the bits of the devices' capabilities.
    pub(crate) fn caps(&self) -> u32 {
        self.caps
            .iter()
            .map(|cap| cap.bit())
            .fold(0, |all, bit| all | bit)
    }
}

/// Returns the address of a NIC, as that of a link-local IPv6 interface.
pub(crate) fn gid(host: u8, nic: u8) -> [u8; 16] {
    [
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, host, 0xff, 0xfe, nic, 0, 1,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_what_differs_from_the_default() {
        let text = r#"
            seed = 7
            hosts = 2
            caps = ["read", "rnr-retry"]
            delay_us = [10, 20]
            [[error]]
            status = "unresponsive"
            share = 0.5
            [[dead]]
            host = 1
            after = 100
        "#;
        let plan: Plan = toml::from_str(text).expect("a plan");
        assert_eq!((plan.seed, plan.caps(), plan.mtu), (7, 3, 8928));
        assert_eq!(plan.error[0].status.number(), 13);
        plan.check().expect("it is sound");
    }

    #[test]
    fn what_a_plan_cannot_mean_is_refused() {
        for (text, rule) in [
            ("reorder = 1.5", "a share is from 0 to 1"),
            ("hosts = 0", "there are 1 to 64 hosts"),
            ("mtu = 100", "mtu is 256 to 32768"),
            ("delay_us = [5, 4]", "delay_us is [at least, at most]"),
            (
                "[[dead]]\nhost = 1\nafter = 0",
                "a host that dies is one of the hosts",
            ),
        ] {
            let plan: Plan = toml::from_str(text).expect(text);
            assert_eq!(plan.check(), Err(rule.to_owned()));
        }
        assert!(toml::from_str::<Plan>("reordering = 1").is_err());
    }
}
