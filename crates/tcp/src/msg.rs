//! Endpoints that are connected (FI_EP_MSG): one connection each, and listeners that take requests (protocol section 7).
//!
//! A connection in use is the same as under a reliable datagram endpoint; only how it comes about and who is told of its
//! end differ.

mod connection;
mod link;
mod listener;
#[cfg(test)]
mod tests;

pub use connection::TcpConnection;
pub use listener::TcpListener;
