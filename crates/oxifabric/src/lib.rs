//! A safe Rust interface to fabrics.
