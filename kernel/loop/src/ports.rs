//! The names under which endpoints are reached, and what waits at each.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use oxifabric_kernel_link::LoopLink;
use oxifabric_kernel_objects::level;
use oxifabric_kernel_sync::{Global, Guard, Mutex, Work};
use oxifabric_types::{Address, Errno};

use crate::PREFIX;

static PORTS: Global<Mutex<Ports>> = Global::new();

/// Longest name, in bytes.
const LONGEST: usize = 200;

pub(crate) fn init() -> bool {
    Mutex::new(level::PROVIDER, Ports::default()).is_some_and(|ports| PORTS.set(ports))
}

/// Releases the table of ports, when the module is unloaded.
///
/// # Safety
/// No port is open any more.
pub(crate) unsafe fn exit() {
    // SAFETY: the caller's contract.
    unsafe { PORTS.clear() }
}

/// Locks the ports.
///
/// # Errors
/// `NODEV` when the provider was not prepared.
pub(crate) fn lock() -> Result<Guard<'static, Ports>, Errno> {
    PORTS.get().map(Mutex::lock).ok_or(Errno::NODEV)
}

#[derive(Default)]
pub(crate) struct Ports {
    rows: BTreeMap<Address, Port>,
    next: u64,
}

/// A name at which endpoints are reached.
pub(crate) struct Port {
    /// It takes requests for connections; otherwise messages.
    listens: bool,
    pub(crate) incoming: VecDeque<Incoming>,
    work: Arc<Work>,
}

/// The end of a link that another endpoint has made.
pub(crate) struct Incoming {
    pub(crate) from: Address,
    pub(crate) link: LoopLink,
    pub(crate) data: Vec<u8>,
}

impl Ports {
    /// Returns a name that no endpoint has.
    pub(crate) fn fresh(&mut self) -> Address {
        loop {
            self.next += 1;
            let name = Address::Name(format!("{PREFIX}auto/{}", self.next).into());
            if !self.rows.contains_key(&name) {
                return name;
            }
        }
    }

    /// Opens a port.
    pub(crate) fn open(
        &mut self,
        name: &Address,
        listens: bool,
        work: &Arc<Work>,
    ) -> Result<(), Errno> {
        if self.rows.contains_key(name) {
            return Err(Errno::ADDRINUSE);
        }
        let port = Port {
            listens,
            incoming: VecDeque::new(),
            work: Arc::clone(work),
        };
        self.rows.insert(name.clone(), port);
        Ok(())
    }

    /// Closes a port and returns it, to be dropped without the lock.
    pub(crate) fn close(&mut self, name: &Address) -> Option<Port> {
        self.rows.remove(name)
    }

    /// Returns an open port.
    pub(crate) fn get(&mut self, name: &Address) -> Option<&mut Port> {
        self.rows.get_mut(name)
    }

    /// Hands the end of a new link to the endpoint with a name, if it takes this kind.
    pub(crate) fn deliver(
        &mut self,
        to: &Address,
        listens: bool,
        incoming: Incoming,
    ) -> Result<(), Errno> {
        let port = self.rows.get_mut(to).filter(|port| port.listens == listens);
        let port = port.ok_or(Errno::CONNREFUSED)?;
        port.incoming.try_reserve(1).map_err(|_| Errno::NOMEM)?;
        port.incoming.push_back(incoming);
        port.work.queue();
        Ok(())
    }
}

/// Checks a name that an application chose.
pub(crate) fn check(name: &Address) -> Result<(), Errno> {
    match name {
        Address::Name(text) if text.starts_with(PREFIX) && text.len() <= LONGEST => Ok(()),
        _ => Err(Errno::INVAL),
    }
}
