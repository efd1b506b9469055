//! The targets, by where their bytes come from.

mod addresses;
mod efa_packets;
mod engine_frames;
mod environment;
mod getinfo;
mod kofi_blk;
mod reliable_packets;
mod shm_headers;
mod shm_lane;
mod shm_pair;
mod stats;
mod tcp_headers;
mod tcp_letters;
mod tcp_stream;
mod tostr;

use crate::Target;

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        &[$(Target {
            name: stringify!($name),
            run: $name::run,
            seeds: $name::seeds,
        }),*]
    };
}

/// All of them.
pub(crate) const ALL: &[Target] = targets![
    tcp_headers,
    tcp_stream,
    tcp_letters,
    reliable_packets,
    efa_packets,
    shm_headers,
    shm_lane,
    shm_pair,
    stats,
    engine_frames,
    addresses,
    environment,
    getinfo,
    tostr,
    kofi_blk,
];
