//! Objects of the fabric interface and the tables that C programs call.
//!
//! - [`device`]: what a provider implements under a reliable datagram endpoint.

pub mod device;
pub mod params;
