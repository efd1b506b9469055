//! The targets, by where their bytes come from.

mod addresses;
mod environment;
mod getinfo;
mod shm_headers;
mod shm_lane;
mod tcp_headers;
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
    shm_headers,
    shm_lane,
    addresses,
    environment,
    getinfo,
    tostr,
];
