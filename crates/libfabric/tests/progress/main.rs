//! Progress and threads over the real providers, through the tables that C programs call: fi_domain(3).

mod auto;
mod deferred;
mod hooks;
mod regions;
mod threads;
mod world;
