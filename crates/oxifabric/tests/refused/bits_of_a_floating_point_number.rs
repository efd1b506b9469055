//! Operations on bits are for integers.

use oxifabric::Update;

fn main() {
    let _ = Update::<f64>::xor(1.0);
}
