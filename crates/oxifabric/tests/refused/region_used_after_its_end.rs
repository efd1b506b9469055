//! A region that gave its memory back is no more.

use oxifabric::Region;

fn close(region: Region) {
    let _ = region.into_buffer();
    let _ = region.remote();
}

fn main() {}
