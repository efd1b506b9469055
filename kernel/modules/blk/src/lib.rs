//! `kofi_blk.ko`: what the initiator says and reads. The calls of the fabric and of the block layer are in C.
#![no_std]

use core::ffi::c_int;
use core::slice::from_raw_parts;

use oxifabric_kernel_blk::{Flags, Hello, Limits, Op, Refusal, Request, Response, Welcome};
use oxifabric_types::Errno;

// Links the memory, the log and the panic handler.
use krt as _;

/// Checks that C has the same structures; returns zero, or an error number.
#[unsafe(no_mangle)]
pub extern "C" fn kofi_blk_rs_init(disk: usize, response: usize) -> c_int {
    match disk == size_of::<Welcome>() && response == size_of::<Response>() {
        true => 0,
        false => -Errno::INVAL.raw(),
    }
}

/// Writes a hello.
///
/// # Safety
/// `initiator` has 16 bytes, and `to` room for a hello.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_blk_rs_hello(
    initiator: *const [u8; 16],
    depth: u32,
    longest: u32,
    to: *mut [u8; Hello::LEN],
) {
    let limits = Limits { depth, longest };
    // SAFETY: the caller's contract.
    unsafe {
        let initiator = *initiator;
        to.write(Hello { initiator, limits }.encode());
    }
}

/// Reads a welcome; returns zero, or an error number.
///
/// # Safety
/// `bytes` has `len` bytes, and `to` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_blk_rs_welcome(
    bytes: *const u8,
    len: usize,
    to: *mut Welcome,
) -> c_int {
    // SAFETY: the caller's contract.
    match Welcome::decode(unsafe { from_raw_parts(bytes, len) }) {
        Ok(welcome) => {
            // SAFETY: the caller's contract.
            unsafe { to.write(welcome) };
            0
        }
        Err(_) => -Errno::PROTO.raw(),
    }
}

/// Reads a refusal; returns its reason, or an error number.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_blk_rs_refusal(bytes: *const u8, len: usize) -> c_int {
    // SAFETY: the caller's contract.
    match Refusal::decode(unsafe { from_raw_parts(bytes, len) }) {
        Ok(refusal) => refusal.reason as c_int,
        Err(_) => -Errno::PROTO.raw(),
    }
}

/// Writes a request; returns zero, or an error number for an operation or a flag that does not exist.
///
/// # Safety
/// `to` has room for a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_blk_rs_request(
    op: u8,
    flags: u8,
    len: u32,
    id: u64,
    sector: u64,
    addr: u64,
    key: u64,
    to: *mut [u8; Request::LEN],
) -> c_int {
    let (Some(op), Some(flags)) = (Op::from_number(op), Flags::from_bits(flags)) else {
        return -Errno::INVAL.raw();
    };
    let request = Request {
        op,
        flags,
        len,
        id,
        sector,
        addr,
        key,
    };
    // SAFETY: the caller's contract.
    unsafe { to.write(request.encode()) };
    0
}

/// Reads a response; returns zero, or an error number.
///
/// # Safety
/// `bytes` has `len` bytes, and `to` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_blk_rs_response(
    bytes: *const u8,
    len: usize,
    to: *mut Response,
) -> c_int {
    // SAFETY: the caller's contract.
    match Response::decode(unsafe { from_raw_parts(bytes, len) }) {
        Ok(response) => {
            // SAFETY: the caller's contract.
            unsafe { to.write(response) };
            0
        }
        Err(_) => -Errno::PROTO.raw(),
    }
}

/// Whether a response ends the request with this id and length.
///
/// # Safety
/// The response is one that `kofi_blk_rs_response` has written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_blk_rs_ends(response: *const Response, id: u64, len: u32) -> bool {
    // SAFETY: the caller's contract.
    unsafe { &*response }.ends(id, len)
}
