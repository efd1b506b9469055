//! The engine's rules, one test each, against a link that does exactly what the test says.

mod announce;
mod atomic;
mod atomic_target;
mod budget;
mod collective;
mod failure;
mod faults;
mod fence;
mod hostile;
mod matching;
mod model;
mod multi_recv;
mod one_sided;
mod peek;
mod pull;
mod rendezvous;
mod rma;
mod rma_rendezvous;
mod script;
mod send;
mod unordered;
