//! What the man pages of libfabric promise, as functions that check it.
//!
//! A *sentence* is one promise of a man page in our own words, with a function that checks it through the C interface, as a C
//! program would. The sentences of a page are a module of [`pages`]. Each runs on every provider, and on any libfabric:
//! what this project reads into a page can be held against the C library.
//!
//! - [`stage`]: a library and a provider; [`world`]: fabric, domain and endpoints on that; [`traffic`]: operations and their
//!   completions.
//! - [`ground`]: memory of one endpoint that another accesses; `desk`: works that wait for counters; [`lobby`]: connected endpoints; [`group`]: members of
//!   collectives; [`litmus`]: parties that see memory in some order.
#![allow(
    clippy::missing_panics_doc,
    reason = "a sentence that does not hold panics: that is what it is for"
)]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    clippy::macro_metavars_in_unsafe,
    reason = "this room is a C program in all but the language"
)]

mod desk;
pub mod ground;
pub mod group;
pub mod litmus;
pub mod lobby;
pub mod pages;
pub mod stage;
pub mod traffic;
pub mod world;

pub use stage::Stage;

/// A man page.
#[derive(Debug)]
pub struct Page {
    /// Its name, with the section: `fi_cq(3)`.
    pub name: &'static str,
    /// The providers that have what the page is about.
    pub providers: &'static [&'static str],
    /// Its promises, in the order of the page.
    pub sentences: &'static [Sentence],
}

/// A promise of a man page.
#[derive(Debug)]
pub struct Sentence {
    /// A name for reports.
    pub name: &'static str,
    /// The promise.
    pub claim: &'static str,
    /// Panics if it does not hold.
    pub check: fn(&Stage),
}

/// All providers.
pub const PROVIDERS: &[&str] = &["shm", "tcp", "udp", "udp;ofi_rxd", "sim"];

/// Those with reliable endpoints.
pub const RELIABLE: &[&str] = &["shm", "tcp", "udp;ofi_rxd", "sim"];

/// Declares the sentences of a page: functions of a [`Stage`] whose doc comments are their claims. They hold on all
/// providers with reliable endpoints, unless the page names its own.
#[macro_export]
macro_rules! sentences {
    ($page:literal; $($sentences:tt)*) => {
        $crate::sentences! { $page on $crate::RELIABLE; $($sentences)* }
    };
    ($page:literal on $providers:expr; $( $(#[doc = $claim:literal])+ fn $name:ident($stage:ident) $body:block )*) => {
        /// The page.
        pub(super) const PAGE: $crate::Page = $crate::Page {
            name: $page,
            providers: $providers,
            sentences: &[$( $crate::Sentence {
                name: stringify!($name),
                claim: concat!($($claim),+),
                check: $name,
            } ),*],
        };

        $( $(#[doc = $claim])+ fn $name($stage: &$crate::Stage) $body )*
    };
}

/// Makes a call of the C interface on objects that are open, with arguments that outlive what the call begins.
#[macro_export]
macro_rules! c {
    ($call:expr) => {{
        // SAFETY: worlds close their objects last, and what an operation uses is kept with its endpoint.
        #[allow(unused_unsafe, reason = "calls nest")]
        unsafe {
            $call
        }
    }};
}
