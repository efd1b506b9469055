//! What is opened from a domain without locks stays on its thread, too.

use oxifabric::{Endpoint, Local, Rdm};

fn with_another_thread<T: Sync>(_: &T) {}

fn share(endpoint: &Endpoint<Rdm, Local>) {
    with_another_thread(endpoint);
}

fn main() {}
