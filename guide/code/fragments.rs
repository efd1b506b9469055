//! Pieces of programs, each with what has to hold for it.

#[path = "fragments/completions.rs"]
mod completions;
#[path = "fragments/datagrams.rs"]
mod datagrams;
#[path = "fragments/endpoints.rs"]
mod endpoints;
#[path = "fragments/futures.rs"]
mod futures;
#[path = "fragments/hints.rs"]
mod hints;
#[path = "fragments/memory.rs"]
mod memory;
#[path = "fragments/node.rs"]
mod node;
#[path = "fragments/peers.rs"]
mod peers;
#[path = "fragments/simulating.rs"]
mod simulating;
#[path = "fragments/tags.rs"]
mod tags;
#[path = "fragments/threads.rs"]
mod threads;
#[path = "fragments/window.rs"]
mod window;
