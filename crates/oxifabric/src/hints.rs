//! Requests for endpoints. Source: fi_getinfo(3).

mod attributes;

use std::ffi::CString;

use oxifabric_abi::{
    FI_CONTEXT, FI_CONTEXT2, FI_NUMERICHOST, FI_PROV_ATTR_ONLY, FI_SOURCE, FI_VERSION,
};
use oxifabric_types::{Caps, DomainAttr, EpAttr, EpType, Errno, MrMode, Threading};

use crate::raw::HintsImage;
use crate::{Address, AddressFormat, Backend, Info, Kind, Rejection, WhyNot};

/// A request for offers ([`Info`]).
///
/// [`Hints::new`] asks for what [`Domain::open`](crate::Domain::open) takes: reliable datagram endpoints that threads may share.
/// [`Hints::anything`] asks for everything there is. Each method adds a requirement, or replaces what the same method asked for
/// before. Everything else is left to the provider; [`Info`] returns its choice. Names that contain a zero byte match nothing.
///
/// ```
/// use oxifabric::{Backend, Caps, Hints, Order, Progress};
///
/// let hints = Hints::new()
///     .caps(Caps::TAGGED | Caps::RMA)
///     .order(Order::SAS)
///     .progress(Progress::Auto)
///     .inject_size(64)
///     .max_message_size(1 << 30);
/// match hints.best(Backend::builtin()) {
///     Ok(info) => println!("{} injects {} bytes", info.provider(), info.inject_size()),
///     Err(why) => println!("{why}"),
/// }
/// ```
///
/// Fields of `struct fi_info` for which there is no method belong to what this crate does not do: scattered buffers, contexts of
/// scalable endpoints, message prefixes, and default flags of operations other than the completion level.
#[derive(Clone, Debug, Default)]
pub struct Hints(pub(crate) HintsImage);

impl Hints {
    /// Asks for reliable datagram endpoints with untagged messages that this crate can open.
    pub fn new() -> Self {
        Self(HintsImage {
            any: true,
            caps: Caps::MSG.bits(),
            mode: FI_CONTEXT | FI_CONTEXT2,
            ep: EpAttr {
                kind: EpType::Rdm,
                ..EpAttr::default()
            },
            domain: DomainAttr {
                threading: Threading::Safe,
                mr_mode: MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY,
                ..DomainAttr::default()
            },
            ..HintsImage::default()
        })
    }

    /// Asks for everything: passes no hints until a method adds one.
    ///
    /// The offers may need modes and registrations that [`Domain::open`](crate::Domain::open) refuses.
    pub fn anything() -> Self {
        let deprecated = MrMode::BASIC | MrMode::SCALABLE;
        Self(HintsImage {
            mode: u64::MAX,
            domain: DomainAttr {
                mode: u64::MAX,
                mr_mode: MrMode::from_bits_retain(!deprecated.bits()),
                ..DomainAttr::default()
            },
            ..HintsImage::default()
        })
    }

    fn set(mut self, set: impl FnOnce(&mut HintsImage)) -> Self {
        set(&mut self.0);
        self
    }

    /// Changes the hints, which are passed from now on.
    fn ask(self, ask: impl FnOnce(&mut HintsImage)) -> Self {
        self.set(|hints| {
            hints.any = true;
            ask(hints);
        })
    }

    /// Asks for these capabilities, in place of those asked for before.
    pub fn caps(self, caps: Caps) -> Self {
        self.ask(|hints| hints.caps = caps.bits())
    }

    /// Sets the modes (`FI_CONTEXT` and its like, as bits) that the program supports.
    ///
    /// [`Hints::new`] sets all that [`Domain::open`](crate::Domain::open) supports.
    pub fn mode(self, bits: u64) -> Self {
        self.ask(|hints| hints.mode = bits)
    }

    /// Asks for endpoints of a type, by its Rust type: `hints.kind::<Msg>()`.
    pub fn kind<K: Kind>(self) -> Self {
        self.ep_type(K::EP_TYPE)
    }

    /// Asks for objects that only one thread uses and that need no locks; see [`Domain::open_local`](crate::Domain::open_local).
    pub fn one_thread(self) -> Self {
        self.ask(|hints| hints.domain.threading = Threading::Domain)
    }

    /// Asks for endpoints of a type.
    pub fn ep_type(self, kind: EpType) -> Self {
        self.ask(|hints| hints.ep.kind = kind)
    }

    /// Asks for a provider by name; `^name` asks for any but that.
    pub fn provider(self, name: &str) -> Self {
        self.ask(|hints| hints.provider = Some(text(name)))
    }

    /// Asks for a fabric by name.
    pub fn fabric(self, name: &str) -> Self {
        self.ask(|hints| hints.fabric = Some(text(name)))
    }

    /// Asks for a provider of at least this version.
    pub fn provider_version(self, major: u16, minor: u16) -> Self {
        self.ask(|hints| hints.provider_version = FI_VERSION(major.into(), minor.into()))
    }

    /// Asks for a domain by name.
    pub fn domain(self, name: &str) -> Self {
        self.ask(|hints| hints.domain_name = Some(text(name)))
    }

    /// Asks for addresses of a format.
    pub fn address_format(self, format: AddressFormat) -> Self {
        self.ask(|hints| hints.addr_format = format.0)
    }

    /// Asks for endpoints at this address.
    pub fn source(self, address: &Address) -> Self {
        self.address(address, |hints| &mut hints.source)
    }

    /// Asks for endpoints that can reach this address.
    pub fn destination(self, address: &Address) -> Self {
        self.address(address, |hints| &mut hints.destination)
    }

    fn address(
        self,
        address: &Address,
        place: impl FnOnce(&mut HintsImage) -> &mut Vec<u8>,
    ) -> Self {
        self.ask(|hints| {
            hints.addr_format = address.format().0;
            match address.check(address.format()) {
                Ok(()) => *place(hints) = address.bytes().into(),
                Err(cause) => hints.malformed = Some(cause),
            }
        })
    }

    /// Names the node and service of the peer.
    pub fn peer(self, node: Option<&str>, service: Option<&str>) -> Self {
        self.set(|hints| {
            hints.node = node.map(text);
            hints.service = service.map(text);
        })
    }

    /// Names the node and service of the endpoint itself.
    pub fn local(self, node: Option<&str>, service: Option<&str>) -> Self {
        self.peer(node, service)
            .set(|hints| hints.flags |= FI_SOURCE)
    }

    /// Accepts node names as numeric addresses only, without a look-up.
    pub fn numeric(self) -> Self {
        self.set(|hints| hints.flags |= FI_NUMERICHOST)
    }

    /// Asks only for the names of providers, usable or not.
    pub fn providers_only(self) -> Self {
        self.set(|hints| hints.flags |= FI_PROV_ATTR_ONLY)
    }

    /// Returns the offers that meet the request, best first.
    ///
    /// # Errors
    ///
    /// [`WhyNot`] when there is none; its error is `INVAL` when an address of the request is malformed.
    pub fn offers(&self, backend: Backend) -> Result<Vec<Info>, WhyNot> {
        backend.offers(&self.0)
    }

    /// Returns the best offer that meets the request.
    ///
    /// # Errors
    ///
    /// As [`Hints::offers`].
    pub fn best(&self, backend: Backend) -> Result<Info, WhyNot> {
        let first = self.offers(backend)?.into_iter().next();
        first.ok_or_else(|| WhyNot::new(Errno::NODATA, Vec::new()))
    }

    /// Returns, for each provider and offer that does not meet the request, why not, nearest miss first.
    ///
    /// Only the built-in library gives reasons; for another one the list is empty.
    pub fn rejections(&self, backend: Backend) -> Vec<Rejection> {
        backend.rejections(&self.0)
    }
}

/// Converts a name to a C string; a name with a zero byte becomes one that matches nothing.
fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| c"\x01".into())
}
