//! Objects of the fabric interface and the tables that C programs call.
//!
//! - [`device`]: what a provider implements under a reliable datagram endpoint.
//! - [`provider`]: a provider without its type, as the registry keeps it.

pub mod device;
pub mod params;
pub mod provider;
