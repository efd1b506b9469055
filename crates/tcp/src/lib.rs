//! The tcp provider.
