//! Objects of the fabric interface and the tables that C programs call.
//!
//! - [`device`]: what a provider implements under a reliable datagram endpoint.
//! - [`info`]: `struct fi_info` and its owned form.
//! - [`provider`]: a provider without its type, as the registry keeps it.

pub mod device;
pub mod info;
pub mod params;
pub mod provider;
