//! The side of user space, for tests: devices, connections and queues of one program, with the rules of reliable queue pairs.
//!
//! A message waits until the peer has a receive. An error breaks both queue pairs of a connection, and what is outstanding there ends as flushed.

mod world;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::vec;
use std::vec::Vec;

use oxifabric_kernel_sync::Work as Task;
use oxifabric_types::Errno;

use crate::parts::{DeviceFacts, Done, Ends, Piece, RawEvent, Work, kind};
use world::{Link, Owner, Region, event, keep, with};

/// The reason of an application that refuses.
const CONSUMER: i32 = 28;
/// What goes with a request whose last word is lost: the side that accepts is not told that the connection stands.
const DEAF: &[u8] = b"\x04deaf";

/// Two devices, of which the second has no regions.
pub(crate) fn devices() -> Vec<DeviceFacts> {
    let device = |name: &str, host: Ipv4Addr, regions| {
        let mut device = DeviceFacts {
            host: host.to_bits(),
            depth: 64,
            pieces: 8,
            read_pieces: 8,
            regions,
            region_pages: 512,
            queue_pairs: 100,
            queues: 100,
            longest: 1 << 23,
            ..DeviceFacts::NONE
        };
        device.name[..name.len()].copy_from_slice(name.as_bytes());
        device
    };
    vec![
        device("test0", Ipv4Addr::new(10, 0, 0, 1), 100),
        device("test1", Ipv4Addr::new(10, 0, 0, 2), 0),
    ]
}

#[derive(Debug)]
pub(crate) struct RawDomain(usize);

impl RawDomain {
    pub(crate) fn open(_name: &str) -> Result<Self, Errno> {
        Ok(Self(with(|world| {
            world.domains += 1;
            world.domains
        })))
    }

    /// Maps memory for the device; returns how many pieces it has.
    ///
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn map(
        &self,
        base: *mut u8,
        len: usize,
        _is_written: bool,
        to: &mut [Piece],
    ) -> Result<usize, Errno> {
        *to.first_mut().ok_or(Errno::MSGSIZE)? = Piece {
            addr: base as u64,
            len: len as u32,
            key: 0,
        };
        Ok(1)
    }

    pub(crate) fn unmap(&self, _is_written: bool, _list: &[Piece]) {}
}

#[derive(Debug)]
pub(crate) struct RawRegion(usize);

impl RawRegion {
    /// Registers memory for peers; returns it and its key.
    ///
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn new(
        domain: &RawDomain,
        base: *mut u8,
        len: usize,
        is_read: bool,
        is_written: bool,
    ) -> Result<(Self, u32), Errno> {
        let region = Region {
            domain: domain.0,
            base: base as u64,
            len: len as u64,
            is_read,
            is_written,
        };
        let at = with(|world| keep(&mut world.regions, region));
        Ok((Self(at), at as u32))
    }
}

impl Drop for RawRegion {
    fn drop(&mut self) {
        with(|world| world.regions[self.0] = None);
    }
}

#[derive(Debug)]
pub(crate) struct RawLink(usize);

impl RawLink {
    /// Makes a link, whose events queue the owner.
    ///
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn open(owner: *const Task) -> Result<Self, Errno> {
        Ok(Self(with(|world| keep(&mut world.links, Link::new(owner)))))
    }

    /// Gives the link another owner, which its events queue.
    ///
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn set_owner(&self, owner: *const Task) {
        with(|world| {
            let link = world.link(self.0);
            link.owner = Owner(owner);
            link.wake();
        });
    }

    pub(crate) fn bind(&self, at: SocketAddrV4) -> Result<(), Errno> {
        with(|world| {
            world.ports += 1;
            let port = match at.port() {
                0 => 1024 + world.ports,
                port => port,
            };
            world.link(self.0).own = SocketAddrV4::new(*at.ip(), port);
        });
        Ok(())
    }

    pub(crate) fn listen(&self, _backlog: i32) -> Result<(), Errno> {
        with(|world| {
            let at = world.link(self.0).own;
            if world.listener(at).is_some() {
                return Err(Errno::ADDRINUSE);
            }
            world.link(self.0).is_listening = true;
            Ok(())
        })
    }

    pub(crate) fn ends(&self) -> Ends {
        with(|world| {
            let link = world.link(self.0);
            Ends {
                own: link.own,
                peer: link.peer_at,
            }
        })
    }

    pub(crate) fn resolve(&self, to: SocketAddrV4) -> Result<(), Errno> {
        with(|world| {
            let link = world.link(self.0);
            link.peer_at = to;
            link.tell(event(kind::ADDR_RESOLVED, 0, &[]));
        });
        Ok(())
    }

    pub(crate) fn route(&self) -> Result<(), Errno> {
        with(|world| world.link(self.0).tell(event(kind::ROUTE_RESOLVED, 0, &[])));
        Ok(())
    }

    pub(crate) fn connect(&self, data: &[u8]) -> Result<(), Errno> {
        with(|world| {
            let (own, to) = (world.link(self.0).own, world.link(self.0).peer_at);
            let Some(listener) = world.listener(to) else {
                return world.link(self.0).tell(event(kind::REJECTED, 8, &[]));
            };
            let mut other = Link::new(std::ptr::null());
            (other.own, other.peer_at, other.peer) = (to, own, Some(self.0));
            other.is_deaf = data == DEAF;
            let other = keep(&mut world.links, other);
            world.link(self.0).peer = Some(other);
            let listener = world.link(listener);
            let request = event(kind::CONNECT_REQUEST, 0, data);
            listener.arrivals.push_back((other, request));
            listener.wake();
        });
        Ok(())
    }

    pub(crate) fn accept(&self, data: &[u8]) -> Result<(), Errno> {
        with(|world| {
            let peer = world.link(self.0).peer.ok_or(Errno::CONNRESET)?;
            for (at, data) in [(self.0, &[][..]), (peer, data)] {
                let link = world.link(at);
                link.is_up = true;
                if !link.is_deaf {
                    link.tell(event(kind::ESTABLISHED, 0, data));
                }
            }
            Ok(())
        })
    }

    pub(crate) fn established(&self) {
        with(|world| world.link(self.0).tell(event(kind::ESTABLISHED, 0, &[])));
    }

    pub(crate) fn reject(&self, data: &[u8]) {
        with(|world| {
            if let Some(peer) = world.link(self.0).peer.take() {
                let other = world.link(peer);
                other.peer = None;
                other.tell(event(kind::REJECTED, CONSUMER, data));
            }
        });
    }

    pub(crate) fn disconnect(&self) {
        with(|world| world.disconnect(self.0));
    }

    pub(crate) fn arrival(&self, event: &mut RawEvent) -> Option<Self> {
        let (at, came) = with(|world| world.link(self.0).arrivals.pop_front())?;
        *event = came;
        Some(Self(at))
    }

    pub(crate) fn event(&self, event: &mut RawEvent) -> bool {
        let came = with(|world| world.link(self.0).events.pop_front());
        came.map(|came| *event = came).is_some()
    }

    /// Makes the queues.
    ///
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn open_queues(&self, of: &RawDomain, _: u32, _: u32) -> Result<(), Errno> {
        with(|world| world.link(self.0).domain = Some(of.0));
        Ok(())
    }

    pub(crate) fn close_queues(&self) {
        self.disconnect();
    }

    /// Gives work to the queue of sends.
    ///
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn post(&self, id: u64, list: &[Piece], work: Work) -> Result<(), Errno> {
        with(|world| {
            let link = world.link(self.0);
            link.sends.push_back((Work { id, ..work }, list.to_vec()));
            if link.is_broken {
                link.flush();
            }
            world.run(self.0);
        });
        Ok(())
    }

    /// Gives a receive to the device.
    ///
    /// # Safety
    /// As the kernel's.
    pub(crate) unsafe fn post_receive(&self, id: u64, list: &[Piece]) -> Result<(), Errno> {
        with(|world| {
            let link = world.link(self.0);
            link.receives.push_back((id, list.to_vec()));
            if link.is_broken {
                link.flush();
            }
            if let Some(peer) = link.peer.filter(|_| link.is_up) {
                world.run(peer);
            }
        });
        Ok(())
    }

    pub(crate) fn poll(&self, to: &mut [Done]) -> usize {
        with(|world| {
            let done = &mut world.link(self.0).done;
            let count = done.len().min(to.len());
            let taken = to.iter_mut().zip(done.drain(..count));
            taken.for_each(|(to, done)| *to = done);
            count
        })
    }

    pub(crate) fn arm(&self) -> bool {
        with(|world| {
            let link = world.link(self.0);
            link.is_armed = true;
            !link.done.is_empty()
        })
    }
}

impl Drop for RawLink {
    fn drop(&mut self) {
        let waiting = with(|world| {
            world.disconnect(self.0);
            let link = world.links[self.0].take();
            link.map(|link| link.arrivals).unwrap_or_default()
        });
        waiting.into_iter().for_each(|(at, _)| drop(Self(at)));
    }
}

pub(crate) fn warn(text: &str) {
    std::eprintln!("{text}");
}
