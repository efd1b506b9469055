//! `kofi_target.ko`: what the target reads and says. The calls of the fabric and of the file are in C.
#![no_std]

use core::ffi::c_int;
use core::slice::from_raw_parts;

use oxifabric_kernel_blk::{Hello, Job, Reason, Refusal, Request, Response, Status, Welcome};
use oxifabric_types::Errno;

// Links the memory, the log and the panic handler.
use krt as _;

/// A request as C has it, `struct kofi_blk_order`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Order {
    id: u64,
    addr: u64,
    key: u64,
    /// What is to be done, if `status` is `Done`.
    job: Job,
    /// What the response says at once if it is not `Done`.
    status: Status,
}

/// Checks that C has the same structures; returns zero, or an error number.
#[unsafe(no_mangle)]
pub extern "C" fn kofi_target_rs_init(disk: usize, order: usize) -> c_int {
    match disk == size_of::<Welcome>() && order == size_of::<Order>() {
        true => 0,
        false => -Errno::INVAL.raw(),
    }
}

/// Whether a disk can be described like this.
///
/// # Safety
/// `disk` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_target_rs_is_meant(disk: *const Welcome) -> bool {
    // SAFETY: the caller's contract.
    unsafe { &*disk }.is_meant()
}

/// Reads a hello: which initiator asks, and what of the disk's limits it is granted. Returns zero, or the reason to refuse.
///
/// # Safety
/// `bytes` has `len` bytes, `disk` is valid, `initiator` has room for 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_target_rs_hello(
    bytes: *const u8,
    len: usize,
    disk: *mut Welcome,
    initiator: *mut [u8; 16],
) -> c_int {
    // SAFETY: the caller's contract.
    match Hello::decode(unsafe { from_raw_parts(bytes, len) }) {
        Ok(hello) => {
            // SAFETY: the caller's contract.
            unsafe {
                (*disk).limits = hello.limits.within((*disk).limits);
                (*disk).inline_data = (*disk).inline_data.min((*disk).limits.longest);
                initiator.write(hello.initiator);
            }
            0
        }
        Err(oxifabric_kernel_blk::Fault::Version) => Reason::Version as c_int,
        Err(_) => Reason::Handshake as c_int,
    }
}

/// Writes a welcome.
///
/// # Safety
/// `disk` is valid, and `to` has room for a welcome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_target_rs_welcome(disk: *const Welcome, to: *mut [u8; Welcome::LEN]) {
    // SAFETY: the caller's contract.
    unsafe { to.write((*disk).encode()) }
}

/// Writes a refusal.
///
/// # Safety
/// `to` has room for a refusal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_target_rs_refusal(reason: c_int, to: *mut [u8; Refusal::LEN]) {
    let reason = match reason {
        1 => Reason::Version,
        2 => Reason::Handshake,
        _ => Reason::Full,
    };
    // SAFETY: the caller's contract.
    unsafe { to.write(Refusal { reason }.encode()) }
}

/// Reads a request and holds it against the disk; returns zero, or an error number when it is none.
///
/// # Safety
/// `bytes` has `len` bytes, `disk` is valid, and `to` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_target_rs_request(
    bytes: *const u8,
    len: usize,
    disk: *const Welcome,
    to: *mut Order,
) -> c_int {
    // SAFETY: the caller's contract.
    let Ok(request) = Request::decode(unsafe { from_raw_parts(bytes, len) }) else {
        return -Errno::PROTO.raw();
    };
    let nothing = Job {
        op: request.op,
        is_durable: false,
        is_inline: false,
        position: 0,
        len: 0,
    };
    // SAFETY: the caller's contract.
    let (job, status) = match request.job(unsafe { &*disk }) {
        Ok(job) => (job, Status::Done),
        Err(status) => (nothing, status),
    };
    let order = Order {
        id: request.id,
        addr: request.addr,
        key: request.key,
        job,
        status,
    };
    // SAFETY: the caller's contract.
    unsafe { to.write(order) };
    0
}

/// Writes the response to a request that is done (0), or failed by an error number of the kernel.
///
/// # Safety
/// The order is one that `kofi_target_rs_request` has written, and `to` has room for a response.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kofi_target_rs_response(
    order: *const Order,
    error: c_int,
    to: *mut [u8; Response::LEN],
) {
    // SAFETY: the caller's contract.
    let order = unsafe { &*order };
    let status = match (order.status, -error) {
        (Status::Done, 0) => Status::Done,
        (Status::Done, errno) if errno == Errno::NOSPC.raw() => Status::NoSpace,
        (Status::Done, errno) if errno == Errno::OPNOTSUPP.raw() => Status::Refused,
        (Status::Done, _) => Status::Failed,
        (status, _) => status,
    };
    let len = match status {
        Status::Done => order.job.len,
        _ => 0,
    };
    let id = order.id;
    // SAFETY: the caller's contract.
    unsafe { to.write(Response { status, len, id }.encode()) }
}
