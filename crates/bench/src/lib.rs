//! What all measurements share: those of `oxi bench`, `oxi lab` and `oxi tune`, and of `cargo xtask bench`.
//!
//! - [`statistics`]: medians, quartiles, ratios; [`histogram`]: quantiles of any number of times; [`stopwatch`]: what a short call takes.
//! - [`chart`]: curves and bars, in a terminal and as SVG; [`table`]: columns; [`units`]: numbers as people read them.
//! - [`machine`]: what is measured on, and which processors two processes run on.
//! - [`measure`]: one size over one provider, by two processes: a `worker` in this one, and a [`peer`] that follows `commands`
//!   and is a [`child`] of this one; [`providers`] opens their endpoints.
//!
//! Whatever needs a library is written on the safe interface, so it runs on any libfabric.so.1.
#![forbid(unsafe_code)]

pub mod chart;
pub mod child;
mod commands;
pub mod histogram;
pub mod machine;
pub mod measure;
pub mod peer;
pub mod providers;
pub mod statistics;
pub mod stopwatch;
pub mod table;
pub mod units;
mod worker;

/// Anything that ends a measurement; its text says what to do.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;
