//! Endpoints that are connected (FI_EP_MSG): one connection each, and listeners that take requests (protocol section 7).
//!
//! A connection in use does not differ from one under a reliable datagram endpoint; only how it is made and where its
//! end is reported differ.

mod connection;
mod listener;
#[cfg(test)]
mod tests;

pub use connection::TcpConnection;
pub use listener::TcpListener;
