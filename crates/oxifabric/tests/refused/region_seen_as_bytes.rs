//! Peers write a region at any time, so there is no reference to its bytes.

use oxifabric::Region;

fn peek(region: &Region) -> u8 {
    region[0]
}

fn main() {}
