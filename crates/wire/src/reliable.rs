//! What travels over reliable channels, docs/protocol/reliable.md.
//!
//! - [`packet`]: packets, and the handshake messages that open a channel.
//! - [`record`]: frames of the engine in the stream of a channel; [`kind`]: the numbers of their kinds.

pub mod kind;
pub mod packet;
pub mod record;

/// Takes a number off the front; zeros where there is none, which a fixed length rules out.
#[inline]
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    match rest.split_first_chunk::<N>() {
        Some((number, behind)) => {
            *rest = behind;
            *number
        }
        None => [0; N],
    }
}

#[inline]
fn put<const N: usize>(rest: &mut &mut [u8], number: [u8; N]) {
    if let Some((place, behind)) = core::mem::take(rest).split_first_chunk_mut::<N>() {
        *place = number;
        *rest = behind;
    }
}
