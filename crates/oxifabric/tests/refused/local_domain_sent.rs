//! A domain without locks stays on its thread.

use oxifabric::{Domain, Local};

fn to_another_thread<T: Send>(_: T) {}

fn send(domain: Domain<Local>) {
    to_another_thread(domain);
}

fn main() {}
