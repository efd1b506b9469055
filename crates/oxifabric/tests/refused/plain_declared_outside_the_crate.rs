//! Which types are nothing but their bytes is decided in one place.

use oxifabric::Plain;

#[derive(Clone, Copy)]
struct Padded(u8, u32);

impl Plain for Padded {}

fn main() {}
