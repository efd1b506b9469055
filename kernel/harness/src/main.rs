//! Builds the kernel modules with Debian's packages, and runs them in a guest of QEMU: `cargo xtask kernel`, `cargo xtask guest`.
//!
//! Nothing is installed but QEMU itself: the packages are downloaded and unpacked in target/kernel.
//!
//! - [`packages`]: the kernel, its headers, Debian's Rust.
//! - [`toolchain`]: core and alloc for the kernel, and how its Rust code is compiled.
//! - [`module`]: a module out of a Rust crate and a C file.
//! - [`guest`]: a command in a guest that has the modules.
//! - [`peers`]: programs in user space that talk with the modules.
//! - [`programs`]: programs of Debian in a guest.
//! - [`compare`]: the disk against NVMe over fabrics.
//! - [`code`]: what the modules' code may not have: vector instructions, large frames.
//! - [`promises`]: what is run in a guest, and what has to come of it.
#![forbid(unsafe_code)]

mod code;
mod command;
mod compare;
mod guest;
mod module;
mod packages;
mod peers;
mod place;
mod programs;
mod promises;
mod toolchain;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::guest::Job;
use crate::place::Place;
use crate::promises::DiskTest;

#[derive(Parser)]
#[command(name = "kernel", about = "Kernel modules of oxifabric")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the modules; print where they are
    Build,
    /// Run a shell command in a guest that has the modules in /mod; without one, the tests
    Guest {
        /// Have fio in the guest, and without a command also try the disk for minutes
        #[arg(long)]
        disk: bool,
        /// Hold messages over kofi_tcp against kernel sockets, and the disk over kofi_verbs against NVMe over fabrics, for minutes
        #[arg(long)]
        compare: bool,
        /// Try the disk, or compare, over this provider only
        #[arg(long, value_parser = promises::providers())]
        provider: Option<String>,
        /// What the guest's shell runs
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(&Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("kernel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<ExitCode, Box<dyn Error>> {
    let place = Place::new()?;
    packages::unpack(&place)?;
    toolchain::prepare(&place)?;
    let modules = module::build_all(&place)?;
    match task {
        Task::Build => {
            for module in &modules {
                println!("{}", module.display());
            }
            code::check(&modules)?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Guest {
            compare,
            provider,
            command,
            ..
        } if *compare => {
            let settings = command.join(" ");
            compare::run(&place, &modules, provider.as_deref(), &settings)
        }
        Task::Guest {
            disk,
            provider,
            command,
            ..
        } if command.is_empty() => {
            code::check(&modules)?;
            let of_disk = DiskTest {
                provider: provider.as_deref(),
                is_heavy: *disk,
            };
            promises::run(&place, &modules, &of_disk)
        }
        Task::Guest { disk, command, .. } => {
            let job = Job {
                commands: &command.join(" "),
                has_fio: *disk,
                is_measured: false,
            };
            guest::run(&place, &modules, &job, &mut |line| println!("{line}"))
        }
    }
}
