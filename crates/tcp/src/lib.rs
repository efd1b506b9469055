//! The tcp provider: reliable datagram and connected endpoints over TCP connections.
//!
//! The bytes on the wire are those of the C library's provider of the same name (docs/protocol/tcp.md), so that
//! endpoints of both talk with each other.
//!
//! - `endpoint`: an endpoint with its connections, as the link under an engine. [`TcpLink`] is a reliable datagram endpoint;
//!   `link/` has its parts, `peer` its peer table. `msg`: connected endpoints and their listeners.
//! - `driver`: the connection with one peer; `conn`: one in use. `conns`: what the connections of an endpoint
//!   share. `reactor`: poller, timer and time.
//! - `dial`, `acceptor`, `listen`: the sockets of connection management. What is said over sockets is in
//!   [`oxifabric_tcp_stream`], which a kernel's provider shares.
//! - `coalescer`: which frames leave together. `shared_tx`, `flusher`: a thread that sends what is held back for long.
//! - `info`, `params`: fi_info, and the parameters of the environment. `alias`: the provider under other names.
//! - `hostile`: a connection with an untrusted peer, for the fuzz targets.
//! - `sys`: all system calls; the only unsafe code.
#![deny(unsafe_code)]

mod acceptor;
pub mod alias;
mod coalescer;
mod conn;
mod conns;
mod dial;
mod driver;
mod endpoint;
mod flusher;
#[doc(hidden)]
pub mod hostile;
mod info;
mod link;
mod listen;
mod msg;
mod params;
mod peer;
mod reactor;
mod shared_tx;
#[allow(unsafe_code)]
mod sys;
mod traffic;

pub use link::TcpLink;
pub use msg::{TcpConnection, TcpListener};
use oxifabric_tcp_stream::{cm, rx};

use std::sync::Arc;

use oxifabric_provider::connection::{Listener, MsgProvider};
use oxifabric_provider::device::{Provider, Unresolved};
use oxifabric_provider::inet;
use oxifabric_provider::params::Parameter;
use oxifabric_types::{Address, Errno, Info};

use crate::params::Params;

/// The tcp provider.
#[derive(Clone, Copy, Debug)]
pub enum Tcp {}

impl Provider for Tcp {
    const NAME: &'static str = "tcp";
    type Device = TcpLink;

    fn parameters() -> &'static [Parameter] {
        &params::TABLE
    }

    fn infos() -> Vec<Info> {
        info::infos(Params::read())
    }

    fn resolve(
        node: Option<&str>,
        service: Option<&str>,
        source: bool,
        numeric: bool,
        addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved> {
        inet::resolve(node, service, source, numeric, addr_format)
    }

    fn source_for(dest: &Address) -> Option<Address> {
        inet::source_for(dest)
    }
}

impl MsgProvider for Tcp {
    type Connected = TcpConnection;
    type Listener = TcpListener;

    fn answer(
        info: &Info,
        _domain: &Arc<()>,
        request: <TcpListener as Listener>::Request,
    ) -> Result<TcpConnection, Errno> {
        TcpConnection::invited(request).map(|device| device.in_class_of(info))
    }

    fn take_over(
        info: &Info,
        _domain: &Arc<()>,
        listener: TcpListener,
    ) -> Result<TcpConnection, Errno> {
        TcpConnection::at(listener.into_socket()?).map(|device| device.in_class_of(info))
    }
}
