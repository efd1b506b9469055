//! What the man pages of libfabric promise, as functions that check it.
//!
//! A *requirement* is one promise of a man page in our own words, with a function that checks it through the C interface, as a C
//! program would. The requirements of a page are a module of [`pages`]. Each runs on every provider, and on any libfabric:
//! what this project reads into a page can be held against the C library.
//!
//! They use the objects of `oxifabric-fixtures`; [`litmus`] has parties that see memory in some order.
#![allow(
    clippy::missing_panics_doc,
    reason = "a requirement that does not hold panics: that is what it is for"
)]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    clippy::macro_metavars_in_unsafe,
    reason = "this crate is a C program in all but the language"
)]

pub mod litmus;
pub mod pages;

use oxifabric_fixtures::Subject;

/// A man page.
#[derive(Debug)]
pub struct Page {
    /// Its name, with the section: `fi_cq(3)`.
    pub name: &'static str,
    /// The providers that have what the page is about.
    pub providers: &'static [&'static str],
    /// Its promises, in the order of the page.
    pub requirements: &'static [Requirement],
}

/// A promise of a man page.
#[derive(Debug)]
pub struct Requirement {
    /// A name for reports.
    pub name: &'static str,
    /// The promise.
    pub claim: &'static str,
    /// Panics if it does not hold.
    pub check: fn(&Subject),
}

/// Declares the requirements of a page: functions of a [`Subject`] whose doc comments are their claims. They hold on all
/// providers with reliable endpoints, unless the page names its own.
#[macro_export]
macro_rules! requirements {
    ($page:literal; $($requirements:tt)*) => {
        $crate::requirements! { $page on ::oxifabric_fixtures::RELIABLE; $($requirements)* }
    };
    ($page:literal on $providers:expr; $( $(#[doc = $claim:literal])+ fn $name:ident($subject:ident) $body:block )*) => {
        /// The page.
        pub(super) const PAGE: $crate::Page = $crate::Page {
            name: $page,
            providers: $providers,
            requirements: &[$( $crate::Requirement {
                name: stringify!($name),
                claim: concat!($($claim),+),
                check: $name,
            } ),*],
        };

        $( $(#[doc = $claim])+ fn $name($subject: &::oxifabric_fixtures::Subject) $body )*
    };
}
