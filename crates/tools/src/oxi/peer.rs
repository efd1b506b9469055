//! The other process of the main job: started, spoken to, and ended by the first.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::Args;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use oxifabric::{Address, Backend};

use super::Trouble;
use super::machine::pin;
use super::orders::{Order, parse_address, spell_address};
use super::player::Player;
use super::providers::{Opened, offer};

/// How the other process is started.
#[derive(Args)]
pub(super) struct Options {
    /// Provider to play over
    #[arg(long)]
    provider: String,
    /// Processor to run on
    #[arg(long)]
    cpu: Option<usize>,
}

/// The other process, as the first one sees it; killed when dropped.
pub(super) struct PeerProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl PeerProcess {
    /// Starts it and returns its address.
    pub(super) fn start(provider: &str, cpu: Option<usize>) -> Result<(Self, Address), Trouble> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["peer", "--provider", provider]);
        if let Some(cpu) = cpu {
            command.arg(format!("--cpu={cpu}"));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the second process: {error}"))?;
        let orders = child.stdin.take();
        let answers = child
            .stdout
            .take()
            .ok_or("the second process has no pipe")?;
        let mut peer = Self {
            child,
            orders,
            answers: BufReader::new(answers).lines(),
        };
        let address = parse_address(&peer.answer()?)?;
        Ok((peer, address))
    }

    /// Tells it our address.
    pub(super) fn introduce(&mut self, address: &Address) -> Result<(), Trouble> {
        self.say(&spell_address(address))
    }

    pub(super) fn order(&mut self, order: Order) -> Result<(), Trouble> {
        self.say(&order.to_string())
    }

    /// Waits for the end of an order, and returns how many messages were wrong.
    pub(super) fn wrong(&mut self) -> Result<usize, Trouble> {
        let answer = self.answer()?;
        let wrong = answer.parse();
        wrong.map_err(|_| format!("the second process said {answer:?}").into())
    }

    fn say(&mut self, line: &str) -> Result<(), Trouble> {
        let orders = self.orders.as_mut().ok_or("the pipe is closed")?;
        writeln!(orders, "{line}")
            .map_err(|error| format!("the second process is gone: {error}").into())
    }

    fn answer(&mut self) -> Result<String, Trouble> {
        match self.answers.next() {
            Some(line) => Ok(line?),
            None => Err("the second process ended too early".into()),
        }
    }

    /// Lets it end by itself.
    pub(super) fn dismiss(mut self) -> Result<(), Trouble> {
        self.orders = None;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the second process ended with {status}").into())
        }
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to do about anything else.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Is the other process: follows orders until the pipe closes.
pub(super) fn serve(options: &Options) -> Result<(), Trouble> {
    // The pipe ends us too, but not while we wait for a message that never comes.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if let Some(cpu) = options.cpu {
        pin(cpu)?;
    }
    let info = offer(Backend::from_env()?, &options.provider)?;
    let opened = Opened::open(&info)?;
    println!("{}", spell_address(&opened.endpoint.address()?));
    let mut lines = std::io::stdin().lines();
    let Some(address) = lines.next() else {
        return Ok(());
    };
    let to = opened.meet(&parse_address(&address?)?)?;
    let mut player = Player::new(opened, to, options.cpu.is_none());
    for line in lines {
        match line?.parse()? {
            Order::Pong(round) => player.pong(round)?,
            Order::Drain(round, window) => player.drain(round, window)?,
        }
        println!("{}", player.take_wrong());
    }
    Ok(())
}
