//! What the two ends tell each other about their connection, fi_cm(3).

use alloc::vec::Vec;

/// A word about the connection, with the data of the application that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The connection was accepted.
    Accepted(Vec<u8>),
    /// It was rejected.
    Rejected(Vec<u8>),
}
