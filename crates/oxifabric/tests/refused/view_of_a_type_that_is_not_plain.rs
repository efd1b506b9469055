//! Not any bytes are a `bool`, so bytes are not seen as such.

use oxifabric::Buffer;

fn view(buffer: &Buffer) -> &[bool] {
    buffer.as_slice_of::<bool>()
}

fn main() {}
