//! Two processes that play over shared memory with settings of their own. They wait for orders, so that teams with different
//! settings can take turns.

use clap::Args;
use oxifabric::Backend;

use super::Cost;
use crate::oxi::Trouble;
use crate::oxi::companion::{Companion, end_with_starter};
use crate::oxi::machine::{pin, two_cpus};
use crate::oxi::measure::{Effort, Pair};

/// What is tuned, so far.
const PROVIDER: &str = "shm";

/// How the first process of a team is started.
#[derive(Args)]
pub(in crate::oxi) struct Options {
    /// Measure for a few milliseconds only
    #[arg(long)]
    quick: bool,
}

/// A team, as the process sees it that compares them.
pub(super) struct Team(Companion);

impl Team {
    /// Starts a team with these settings. What the environment says is what they add to, whatever libfabric.conf prefers.
    pub(super) fn start(settings: &[(&str, String)], quick: bool) -> Result<Self, Trouble> {
        let mut variables = settings.to_vec();
        if !settings.is_empty() {
            variables.push(("FI_PREFER_SYSCONFIG", "no".to_owned()));
        }
        let mut arguments = vec!["team".to_owned()];
        arguments.extend(quick.then(|| "--quick".to_owned()));
        Ok(Self(Companion::start(&arguments, &variables)?))
    }

    /// Lets it play one size.
    pub(super) fn play(&mut self, size: usize) -> Result<Cost, Trouble> {
        self.0.say(&size.to_string())?;
        let answer = self.0.answer()?;
        parse(&answer).ok_or_else(|| format!("the other process said {answer:?}").into())
    }

    pub(super) fn dismiss(self) -> Result<(), Trouble> {
        self.0.dismiss()
    }
}

/// Is the first process of a team: plays sizes until the pipe closes.
pub(in crate::oxi) fn serve(options: &Options) -> Result<(), Trouble> {
    end_with_starter()?;
    let cpus = two_cpus();
    if let Some((cpu, _)) = cpus {
        pin(cpu)?;
    }
    let mut pair = Pair::start(Backend::from_env()?, PROVIDER, cpus)?;
    let effort = match options.quick {
        true => Effort::BLINK,
        false => Effort::GLANCE,
    };
    for line in std::io::stdin().lines() {
        let size = line?.parse()?;
        let (latency_us, wrong) = pair.latency_us(size, effort)?;
        let (rate, also_wrong) = pair.rate(size, effort)?;
        if wrong + also_wrong > 0 {
            return Err(format!("messages of {size} bytes were wrong").into());
        }
        println!("{}", spell(Cost { latency_us, rate }));
    }
    pair.dismiss()
}

fn spell(cost: Cost) -> String {
    format!("{} {}", cost.latency_us, cost.rate)
}

fn parse(line: &str) -> Option<Cost> {
    let (latency_us, rate) = line.split_once(' ')?;
    Some(Cost {
        latency_us: latency_us.parse().ok()?,
        rate: rate.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_survive_the_pipe() {
        let cost = Cost {
            latency_us: 1.25,
            rate: 1e6 / 3.0,
        };
        assert_eq!(parse(&spell(cost)), Some(cost));
        for line in ["", "1", "1 x", "x 1"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
