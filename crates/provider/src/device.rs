//! The traits that a provider implements: [`Provider`] and [`Device`]. What connected endpoints need besides is in [`crate::connection`].

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use std::os::fd::RawFd;
use std::sync::Arc;

use oxifabric_engine::faults::FaultKinds;
use oxifabric_types::{Address, Caps, EpType, Errno, Info, PeerId};

use crate::connection::Connection;
use crate::domain::ProviderDomain;
use crate::operations::Operations;
use crate::params::Parameter;
use crate::peer_directory::PeerDirectory;

/// Capabilities for receives that every reliable datagram endpoint has, whatever its device.
pub const RECEIVING: Caps = Caps::RECV
    .union(Caps::MULTI_RECV)
    .union(Caps::TAGGED_MULTI_RECV)
    .union(Caps::DIRECTED_RECV)
    .union(Caps::TAGGED_DIRECTED_RECV)
    .union(Caps::EXACT_DIRECTED_RECV)
    .union(Caps::SOURCE)
    .union(Caps::SOURCE_ERR);

/// Capabilities of address vectors, whatever the provider.
pub const VECTORS: Caps = Caps::SHARED_AV.union(Caps::AV_USER_ID);

/// A provider: what it offers and how its endpoints are opened.
pub trait Provider: 'static {
    /// The name that applications ask for (`fabric_attr.prov_name`).
    const NAME: &'static str;
    /// Data travels through shared memory and no other way (FI_OPT_SHARED_MEMORY_PERMITTED).
    const IS_SHARED_MEMORY: bool = false;
    /// A peer depends on this end's answers even while the application does not poll: a thread of the domain makes progress,
    /// even if the application asks for manual progress.
    const REQUIRES_AUTO_PROGRESS: bool = false;
    /// fi_getinfo(3) returns its endpoints only if they are asked for by name, in the hints or by FI_PROVIDER.
    const BY_NAME_ONLY: bool = false;
    /// The device that is opened for each endpoint.
    type Device: Device;

    /// Lists the parameters that the provider reads.
    fn parameters() -> &'static [Parameter];

    /// Lists what the provider offers on this host: one entry for each usable local address (and each
    /// meaningful set of attributes), best first, with all its capabilities. Pure and fast: it opens no device.
    fn infos() -> Vec<Info>;

    /// Returns why the provider can offer nothing as it is set up, if so: `fi_info --why` shows that.
    fn obstacle() -> Option<String> {
        None
    }

    /// Adjusts an offer that fits what an application asked for, and was narrowed to that. `asked` are its hints.
    fn settle(info: &mut Info, asked: Option<&Info>) {
        let _ = (info, asked);
    }

    /// Resolves `node` and `service` of fi_getinfo(3) into addresses of this provider, best first.
    ///
    /// With `source` they name the local endpoint, otherwise the peer. `numeric` forbids name look-ups. None is returned where they say nothing of
    /// the local endpoint: it may be anywhere.
    ///
    /// # Errors
    /// The cause, for `fi_info --why`: it names what was looked up.
    fn resolve(
        node: Option<&str>,
        service: Option<&str>,
        source: bool,
        numeric: bool,
        addr_format: u32,
    ) -> Result<Vec<Address>, Unresolved>;

    /// Given the address of a peer, picks the local address to reach it from (for `Info::src`), if it matters.
    fn source_for(dest: &Address) -> Option<Address> {
        let _ = dest;
        Self::fresh_name()
    }

    /// Makes the name of a new endpoint when the application gave none and the provider's addresses are names;
    /// `None` when the device chooses at opening (sockets).
    fn fresh_name() -> Option<Address> {
        None
    }

    /// Returns the provider-specific operations of this name, for fi_open_ops(3) on a fabric, as [`Provider::ops`] does on an endpoint.
    fn fabric_ops(name: &CStr) -> Option<NonNull<c_void>> {
        let _ = name;
        None
    }

    /// Returns the provider-specific operations of this name, for fi_open_ops(3) on an endpoint: a structure of function pointers that lives
    /// as long as the process.
    fn ops(name: &CStr) -> Option<NonNull<c_void>> {
        let _ = name;
        None
    }
}

/// A provider with two kinds of unconnected endpoints: those of [`Provider::Device`], and others, which have an engine over a link.
/// Both share the provider's domain.
pub trait EngineProvider: Provider {
    /// The device of the others.
    type WithEngine: Device<Domain = <Self::Device as Device>::Domain>;

    /// Returns whether the endpoints of a domain that was opened with this description have an engine.
    fn has_engine(info: &Info) -> bool;
}

/// Why a node or service could not be resolved.
#[derive(Clone, Debug)]
pub struct Unresolved {
    /// What to return to C callers.
    pub errno: Errno,
    /// A sentence for people.
    pub why: String,
}

/// Counts of the connections of a device since it was opened. Source: fi_profile(3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that came into use, whichever end opened them.
    pub established: u64,
    /// Requests that were sent to peers.
    pub requested: u64,
    /// Requests of peers that were accepted.
    pub accepted: u64,
    /// Requests of peers that were refused.
    pub rejected: u64,
}

impl Connections {
    /// Returns the difference to an earlier count.
    pub fn since(self, earlier: &Self) -> Self {
        Self {
            established: self.established - earlier.established,
            requested: self.requested - earlier.requested,
            accepted: self.accepted - earlier.accepted,
            rejected: self.rejected - earlier.rejected,
        }
    }
}

/// The value of an option that only one provider has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnValue {
    /// A truth value (`bool`).
    Bool(bool),
    /// A size or count (`size_t`).
    Size(usize),
}

/// The device of one endpoint: its address, its peers, and the descriptor to sleep on. Its link or its hardware queues move data
/// ([`Device::Operations`]).
///
/// Peers are numbered densely as they are first named or a frame of theirs first arrives. Peers that were named keep their
/// number until the device closes; the number of others may be reused when they are gone
/// ([`oxifabric_engine::Sink::forget_peer`]). Dropping the device closes every connection and leaves nothing behind.
pub trait Device: Connection + Send + Sized + 'static {
    /// Each message is one datagram, which may be lost, duplicated or overtaken, and which no peer acknowledges: FI_EP_DGRAM. The
    /// link keeps to less than [`oxifabric_engine::Link`] promises, and frames are whole untagged messages without acknowledgement.
    const DATAGRAM: bool = false;

    /// Faults that can be injected (`FI_OXI_FAULTS`). The device does not open while others are asked for: a test that
    /// relies on fault injection must not run without it. Refused posts and panics are possible over any link, broken connections
    /// where there is [`Link::disconnect`](oxifabric_engine::Link::disconnect).
    const FAULTS: FaultKinds = FaultKinds::REFUSE.union(FaultKinds::PANIC);

    /// Frames may be coalesced: they wait for more to leave with them, until the next poll at the latest ([`Device::holds_back`]).
    const COALESCES: bool = false;

    /// Connections to peers are counted: [`Device::connections`].
    const COUNTS_CONNECTIONS: bool = false;

    /// Operations name the registrations of their memory ([`oxifabric_mem::Iov::registration`]), as the descriptors of the
    /// application say; the domain numbers each. Without it endpoints ignore descriptors.
    const READS_DESCRIPTORS: bool = false;

    /// Reads and writes may be injected, as messages may: FI_OPT_INJECT_RMA_SIZE is 0 without it.
    const INJECTS_ACCESSES: bool = true;

    /// The options of fi_endpoint(3) that only this provider has, by their numbers in the C headers.
    const OWN_OPTIONS: &'static [i32] = &[];

    /// What carries out operations: an [`oxifabric_engine::Engine`] over a device that is a [`oxifabric_engine::Link`], or the
    /// [`WorkLedger`](crate::queues::WorkLedger) of one with hardware queues.
    type Operations: Operations<Self>;

    /// What the devices of a domain share; `()` where that is nothing.
    type Domain: ProviderDomain;

    /// Returns whether endpoints of this kind have such a device.
    fn serves(kind: EpType) -> bool {
        match Self::DATAGRAM {
            false => kind == EpType::Rdm,
            true => kind == EpType::Dgram,
        }
    }

    /// Opens a device at `info.src`, or anywhere when that is `None`, in a domain. No peer can reach it before
    /// [`Device::enable`].
    ///
    /// # Errors
    /// `ADDRINUSE`, `NOSPC` (shared memory), or what the operating system said.
    fn open(info: &Info, domain: &Arc<Self::Domain>) -> Result<Self, Errno>;

    /// Starts to accept peers. `waits` says that threads may sleep on [`Device::fd`]; a second call says so later.
    ///
    /// # Errors
    /// As [`Device::open`]; the second time `OPBADSTATE` when peers already have the answer that no thread sleeps
    /// here, so that the device must be polled.
    fn enable(&mut self, waits: bool) -> Result<(), Errno>;

    /// Returns the address that peers use.
    fn name(&self) -> Address;

    /// Returns the value of one of [`Device::OWN_OPTIONS`].
    ///
    /// # Errors
    /// `NOPROTOOPT` for one that can only be set.
    fn own_option(&self, name: i32) -> Result<OwnValue, Errno> {
        let _ = name;
        Err(Errno::NOPROTOOPT)
    }

    /// Sets one of [`Device::OWN_OPTIONS`].
    ///
    /// # Errors
    /// `NOPROTOOPT` for one that can only be read, `INVAL` for a value of another type, and what the provider's manual page says.
    fn set_own_option(&mut self, name: i32, value: OwnValue) -> Result<(), Errno> {
        let _ = (name, value);
        Err(Errno::NOPROTOOPT)
    }

    /// Changes the address (fi_setname), before the device is enabled.
    ///
    /// # Errors
    /// `ADDRINUSE`, `INVAL`, or `OPBADSTATE` once enabled.
    fn rename(&mut self, name: Address) -> Result<(), Errno>;

    /// Returns the number of the peer with this address, making one if there is none; no I/O happens.
    ///
    /// # Errors
    /// `INVAL` for an address of the wrong kind, `NOMEM`.
    fn peer(&mut self, address: &Address) -> Result<PeerId, Errno>;

    /// Returns the directory in which each peer is listed once it has a number, with its address, and with the reason before any
    /// operation fails because the connection to it did.
    fn directory(&self) -> &PeerDirectory;

    /// Returns the file descriptor to sleep on: it is readable when [`oxifabric_engine::Link::poll`] has something to do, if
    /// [`Device::arm`] was called after the last poll. Valid while the device is open; may be nested in epoll.
    fn fd(&self) -> RawFd;

    /// Gets ready for sleep: afterwards an event makes [`Device::fd`] readable. Returns false when something
    /// is there already, so that the caller polls instead of sleeping.
    fn arm(&mut self) -> bool;

    /// Notes that something was posted, or else became due, outside of [`oxifabric_engine::Link::poll`]: a thread that sleeps since
    /// [`Device::arm`] is to wake in time for it.
    #[inline]
    fn posted(&mut self) {}

    /// Returns whether everything that [`oxifabric_engine::Link::post`] answered with `Done` has left: closing waits for it, for a while.
    fn idle(&self) -> bool {
        true
    }

    /// Takes from all peers what lets them access memory of this process by themselves ([`oxifabric_engine::Sink::open_region`]), before a
    /// region is closed or begins to be watched. Until [`Device::is_accessed`] returns false, an access that had begun may be under way.
    fn revoke_access(&mut self) {}

    /// Returns whether a peer may be in an access that it had begun by itself before [`Device::revoke_access`].
    fn is_accessed(&mut self) -> bool {
        false
    }

    /// Takes note that the endpoint begins to close. Returns whether operations of the application that have not ended are dropped at once
    /// ([`crate::operations::Operations::discard_lent`]); what it has lent for them is not touched any more then. Else closing waits for them, for a while.
    fn discards(&mut self) -> bool {
        false
    }

    /// Announces to all peers that the endpoint closes; nothing more can be sent.
    fn close(&mut self) {}

    /// Returns whether frames that [`oxifabric_engine::Link::post`] answered with `Done` wait for the next [`oxifabric_engine::Link::flush`]. Completions are
    /// not read before that.
    fn holds_back(&self) -> bool {
        false
    }

    /// Returns how many packets were retransmitted since the device was opened; zero where the device does not know. Cheap enough to be called
    /// ten times a second.
    fn repeated(&self) -> u64 {
        0
    }

    /// Begins to receive what is sent to a multicast group (fi_join); each call counts.
    ///
    /// # Errors
    /// `INVAL` for an address that is none of a group, what the operating system says; `NOSYS` where there are no groups.
    fn join(&mut self, group: &Address) -> Result<(), Errno> {
        let _ = group;
        Err(Errno::NOSYS)
    }

    /// Leaves a multicast group: undoes one call of [`Device::join`].
    fn leave(&mut self, group: &Address) {
        let _ = group;
    }

    /// Returns whether peers cannot connect to this end, which it announces when it connects (FI_OPT_FIREWALL_ADDR); `None`
    /// where peers do not connect.
    fn is_behind_firewall(&self) -> Option<bool> {
        None
    }

    /// Notes that a peer cannot be connected to (FI_FIREWALL_ADDR): where there is no connection that it has made, posts to it end with
    /// `FIREWALLADDR`. Nothing changes where data travels without a connection.
    fn set_firewalled(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// Returns the counts of connections so far, with [`Device::COUNTS_CONNECTIONS`].
    fn connections(&self) -> Connections {
        Connections::default()
    }

    /// Returns what a cause of the device's own means ([`WorkError::code`](crate::queues::WorkError::code)) for an operation with a peer at
    /// this address, or with any.
    fn explain(code: u32, peer: Option<&Address>) -> Option<String> {
        let _ = (code, peer);
        None
    }
}
