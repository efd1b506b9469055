//! The other process of a measurement: started, spoken to, and ended by the first.
//!
//! It is the same program, with the command `peer --provider NAME [--cpu NUMBER]`, which calls [`serve`].

use oxifabric::{Address, Backend};

use crate::Trouble;
use crate::child::{ChildProcess, end_with_starter};
use crate::commands::{WorkerCommand, parse_address, spell_address};
use crate::machine::pin;
use crate::providers::{Opened, offer};
use crate::worker::Worker;

/// The other process, as the first one sees it.
pub(crate) struct PeerProcess(ChildProcess);

impl PeerProcess {
    /// Starts the process and returns the address of its endpoint.
    pub(crate) fn start(provider: &str, cpu: Option<usize>) -> Result<(Self, Address), Trouble> {
        let mut arguments = ["peer", "--provider", provider].map(str::to_owned).to_vec();
        arguments.extend(cpu.map(|cpu| format!("--cpu={cpu}")));
        let mut child = ChildProcess::start(&arguments, &[])?;
        let address = parse_address(&child.answer()?)?;
        Ok((Self(child), address))
    }

    /// Sends the process the address of this one's endpoint.
    pub(crate) fn introduce(&mut self, address: &Address) -> Result<(), Trouble> {
        self.0.say(&spell_address(address))
    }

    pub(crate) fn command(&mut self, command: WorkerCommand) -> Result<(), Trouble> {
        self.0.say(&command.to_string())
    }

    /// Waits for the end of a command, and returns how many messages were wrong.
    pub(crate) fn wrong(&mut self) -> Result<usize, Trouble> {
        let answer = self.0.answer()?;
        let wrong = answer.parse();
        wrong.map_err(|_| format!("the other process said {answer:?}").into())
    }

    /// Waits until the process ends by itself.
    pub(crate) fn dismiss(self) -> Result<(), Trouble> {
        self.0.dismiss()
    }
}

/// Runs the other process: follows commands until the pipe closes.
///
/// # Errors
/// The provider is not here, or an operation failed.
pub fn serve(provider: &str, cpu: Option<usize>) -> Result<(), Trouble> {
    end_with_starter()?;
    if let Some(cpu) = cpu {
        pin(cpu)?;
    }
    let info = offer(Backend::from_env()?, provider)?;
    let opened = Opened::open(&info)?;
    println!("{}", spell_address(&opened.endpoint.address()?));
    let mut lines = std::io::stdin().lines();
    let Some(address) = lines.next() else {
        return Ok(());
    };
    let to = opened.meet(&parse_address(&address?)?)?;
    let mut worker = Worker::new(opened, to, cpu.is_none());
    for line in lines {
        match line?.parse()? {
            WorkerCommand::Pong(round) => worker.pong(round)?,
            WorkerCommand::Drain(round, window) => worker.drain(round, window)?,
        }
        println!("{}", worker.take_wrong());
    }
    Ok(())
}
