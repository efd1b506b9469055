//! The sans-IO messaging protocol: matching, eager and rendezvous transfers, completion.
