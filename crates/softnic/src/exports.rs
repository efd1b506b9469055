//! The functions of the C library by which libibverbs reaches device files. All others' descriptors and paths go to the kernel as they came.
//!
//! The kernel is called by number, because the C library's functions of these names are the ones that are covered here.

#![allow(unsafe_code, reason = "C functions")]
#![allow(unreachable_pub, reason = "they are exported to C")]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};

use libc::{mode_t, size_t, ssize_t, stat as Stat};

use crate::process;

/// The netlink protocol by which libibverbs asks for devices before it looks into SYSFS_PATH: those of the machine are not to be seen.
const NETLINK_RDMA: c_int = 20;

/// Returns the number of the device file that a path names.
fn device(path: *const c_char) -> Option<u8> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller passes a C string, as for the C library's function.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let number = path.strip_prefix(b"/dev/infiniband/uverbs")?;
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    process::has_device(number).then_some(number)
}

fn fail(errno: c_int) -> c_int {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Makes a status look like that of a device file.
fn as_device(status: &mut Stat, number: u8) {
    status.st_mode = libc::S_IFCHR | 0o666;
    status.st_rdev = libc::makedev(231, 192 + c_uint::from(number));
}

unsafe fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if let Some(number) = device(path) {
        return process::open(number).unwrap_or_else(fail);
    }
    // SAFETY: the caller's arguments.
    unsafe {
        libc::syscall(
            libc::SYS_openat,
            c_long::from(folder),
            path,
            c_long::from(flags),
            c_long::from(mode),
        ) as c_int
    }
}

/// open(2). The mode is an argument of every call here; the kernel ignores it where it does not count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
}

/// open(2), on machines where that is another function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
}

/// openat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { open_at(folder, path, flags, mode) }
}

/// openat(2), on machines where that is another function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { open_at(folder, path, flags, mode) }
}

/// stat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stat(path: *const c_char, status: *mut Stat) -> c_int {
    if let Some(number) = device(path) {
        // SAFETY: the caller passes room for a status; all zeroes is a valid one.
        let status = unsafe {
            status.write_bytes(0, 1);
            &mut *status
        };
        as_device(status, number);
        return 0;
    }
    // SAFETY: the caller's arguments.
    unsafe {
        libc::syscall(
            libc::SYS_newfstatat,
            c_long::from(libc::AT_FDCWD),
            path,
            status,
            0 as c_long,
        ) as c_int
    }
}

/// stat(2), on machines where that is another function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stat64(path: *const c_char, status: *mut Stat) -> c_int {
    // SAFETY: the caller's arguments; the structures are the same on 64-bit machines.
    unsafe { stat(path, status) }
}

/// fstat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstat(fd: c_int, status: *mut Stat) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { libc::syscall(libc::SYS_fstat, c_long::from(fd), status) as c_int };
    if result == 0
        && let Some(number) = process::device_of(fd)
    {
        // SAFETY: the kernel has just filled it in.
        as_device(unsafe { &mut *status }, number);
    }
    result
}

/// fstat(2), on machines where that is another function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstat64(fd: c_int, status: *mut Stat) -> c_int {
    // SAFETY: the caller's arguments; the structures are the same on 64-bit machines.
    unsafe { fstat(fd, status) }
}

/// ioctl(2). Device files have none, as in kernels before 4.20, so libibverbs writes its commands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if process::is_device(fd) {
        return fail(libc::ENOTTY);
    }
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(libc::SYS_ioctl, c_long::from(fd), request, argument) as c_int }
}

/// write(2). To a device file it is a command.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    if process::is_device(fd) {
        // SAFETY: the caller passes so many bytes.
        let command = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
        return match process::command(fd, command) {
            Ok(()) => len.cast_signed(),
            Err(errno) => fail(errno) as ssize_t,
        };
    }
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(libc::SYS_write, c_long::from(fd), bytes, len) as ssize_t }
}

/// close(2). With a device file all that was made through it goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    process::close(fd);
    // SAFETY: the caller's argument.
    unsafe { libc::syscall(libc::SYS_close, c_long::from(fd)) as c_int }
}

/// socket(2), but for the kernel's list of RDMA devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    if family == libc::AF_NETLINK && protocol == NETLINK_RDMA && process::is_on() {
        return fail(libc::EPROTONOSUPPORT);
    }
    // SAFETY: the caller's arguments.
    unsafe {
        libc::syscall(
            libc::SYS_socket,
            c_long::from(family),
            c_long::from(kind),
            c_long::from(protocol),
        ) as c_int
    }
}

/// Returns how many objects of a kind this process has on its devices: `"context"`, `"pd"`, `"ah"`, `"mr"`, `"channel"`, `"cq"` or `"qp"`, and with
/// `"request"` how many sends, reads and writes it has posted that are not completed; -1 for other kinds. Programs that look for leaks, or wait until the device has
/// done what it can, find this function by dlsym(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softnic_objects(kind: *const c_char) -> c_int {
    if kind.is_null() {
        return -1;
    }
    // SAFETY: the caller passes a C string.
    let kind = unsafe { CStr::from_ptr(kind) }.to_bytes();
    let count = process::objects(kind).map(c_int::try_from);
    count.and_then(Result::ok).unwrap_or(-1)
}

/// Runs when the library is loaded, before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        process::start();
    }
    at_start
};
