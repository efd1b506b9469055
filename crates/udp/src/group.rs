//! Multicast groups that an endpoint listens to: fi_cm(3) "fi_join". Path class: setup.
//!
//! Each has a socket of its own, bound to the group's address: so it receives what is sent to the group and nothing else,
//! whatever the address of the endpoint, and many endpoints of a host listen to the same group (docs/protocol/udp.md
//! section 4).

use std::io;
use std::net::SocketAddr;

use crate::sys::{Interface, Socket};

/// A group, and how often it was joined.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) at: SocketAddr,
    pub(crate) socket: Socket,
    pub(crate) joins: usize,
}

impl Group {
    /// Listens to a group on an interface.
    pub(crate) fn open(at: SocketAddr, interface: &Interface) -> io::Result<Self> {
        let socket = Socket::open(&at)?;
        socket.share_address()?;
        socket.bind(&at)?;
        socket.join(&at, interface)?;
        Ok(Self {
            at,
            socket,
            joins: 1,
        })
    }
}
