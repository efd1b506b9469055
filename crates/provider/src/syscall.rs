//! System calls of data paths, which never wait. Path class: hot.
//!
//! The C library's functions of these names are cancellation points (pthreads(7)): as soon as a process has a second thread they
//! switch asynchronous cancellation on and off around each call, by two locked exchanges, a fifth of the time of a look at an
//! empty poller. Calls that do not wait need not be cancelled; these go to the kernel directly. Results are as those of
//! the functions: negative, with `errno` set, on failure.

use std::os::fd::RawFd;
use std::ptr;

/// The size of the kernel's set of signals.
const SIGSET: libc::size_t = 8;

macro_rules! call {
    ($number:ident $(, $arg:expr)*) => {
        libc::syscall(libc::$number $(, $arg as libc::c_long)*)
    };
}

/// As recv(2).
///
/// # Safety
/// `into` is valid for writes of `len` bytes.
#[inline(always)]
pub unsafe fn recv(fd: RawFd, into: *mut u8, len: usize, flags: libc::c_int) -> isize {
    let (from, from_len) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: as the caller says; no address is asked for.
    unsafe { recvfrom(fd, into, len, flags, from, from_len) }
}

/// As recvfrom(2).
///
/// # Safety
/// `into` is valid for writes of `len` bytes; `from` is null or has room for as many as `from_len` says.
#[inline(always)]
pub unsafe fn recvfrom(
    fd: RawFd,
    into: *mut u8,
    len: usize,
    flags: libc::c_int,
    from: *mut libc::sockaddr,
    from_len: *mut libc::socklen_t,
) -> isize {
    // SAFETY: as the caller says.
    unsafe { call!(SYS_recvfrom, fd, into, len, flags, from, from_len) as isize }
}

/// As recvmsg(2).
///
/// # Safety
/// `message` describes memory that is valid for writes.
#[inline(always)]
pub unsafe fn recvmsg(fd: RawFd, message: *mut libc::msghdr, flags: libc::c_int) -> isize {
    // SAFETY: as the caller says.
    unsafe { call!(SYS_recvmsg, fd, message, flags) as isize }
}

/// As recvmmsg(2), without a time limit.
///
/// # Safety
/// `messages` are `count`, which describe memory that is valid for writes.
pub unsafe fn recvmmsg(
    fd: RawFd,
    messages: *mut libc::mmsghdr,
    count: libc::c_uint,
    flags: libc::c_int,
) -> libc::c_int {
    // SAFETY: as the caller says.
    unsafe { call!(SYS_recvmmsg, fd, messages, count, flags, 0) as libc::c_int }
}

/// As send(2).
///
/// # Safety
/// `bytes` is valid for reads of `len` bytes.
#[inline(always)]
pub unsafe fn send(fd: RawFd, bytes: *const u8, len: usize, flags: libc::c_int) -> isize {
    // SAFETY: as the caller says; no address is given.
    unsafe { sendto(fd, bytes, len, flags, ptr::null(), 0) }
}

/// As sendto(2).
///
/// # Safety
/// `bytes` is valid for reads of `len` bytes; `to` is null or an address of `to_len` bytes.
#[inline(always)]
pub unsafe fn sendto(
    fd: RawFd,
    bytes: *const u8,
    len: usize,
    flags: libc::c_int,
    to: *const libc::sockaddr,
    to_len: libc::socklen_t,
) -> isize {
    // SAFETY: as the caller says.
    unsafe { call!(SYS_sendto, fd, bytes, len, flags, to, to_len) as isize }
}

/// As sendmsg(2).
///
/// # Safety
/// `message` describes memory that is valid for reads.
#[inline(always)]
pub unsafe fn sendmsg(fd: RawFd, message: *const libc::msghdr, flags: libc::c_int) -> isize {
    // SAFETY: as the caller says.
    unsafe { call!(SYS_sendmsg, fd, message, flags) as isize }
}

/// As sendmmsg(2).
///
/// # Safety
/// `messages` are `count`, which describe memory that is valid for reads.
pub unsafe fn sendmmsg(
    fd: RawFd,
    messages: *mut libc::mmsghdr,
    count: libc::c_uint,
    flags: libc::c_int,
) -> libc::c_int {
    // SAFETY: as the caller says.
    unsafe { call!(SYS_sendmmsg, fd, messages, count, flags) as libc::c_int }
}

/// As epoll_wait(2) with a limit of no time.
///
/// # Safety
/// `events` has room for `count`.
#[inline(always)]
pub unsafe fn epoll_look(
    epoll: RawFd,
    events: *mut libc::epoll_event,
    count: libc::c_int,
) -> libc::c_int {
    let signals = ptr::null::<libc::sigset_t>();
    // SAFETY: as the caller says. Not every architecture has epoll_wait.
    unsafe { call!(SYS_epoll_pwait, epoll, events, count, 0, signals, SIGSET) as libc::c_int }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn calls_do_what_the_functions_of_their_names_do() {
        let (a, b) = UnixDatagram::pair().expect("the system has room for it");
        let mut bytes = [0u8; 8];
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the slices are as long as said.
        let (sent, received, none) = unsafe {
            (
                send(a.as_raw_fd(), b"four".as_ptr(), 4, flags),
                recv(b.as_raw_fd(), bytes.as_mut_ptr(), 8, flags),
                recv(b.as_raw_fd(), bytes.as_mut_ptr(), 8, flags),
            )
        };
        let error = std::io::Error::last_os_error();
        assert_eq!((sent, received, &bytes[..4]), (4, 4, b"four".as_slice()));
        assert_eq!(none, -1);
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn many_messages_take_one_call() {
        let (a, b) = UnixDatagram::pair().expect("the system has room for it");
        let mut bytes = [[1u8; 4], [2; 4]];
        let mut pieces = bytes.each_mut().map(|bytes| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: 4,
        });
        let mut heads = pieces.each_mut().map(|piece| {
            // SAFETY: the structure consists of integers and pointers, for which zero is valid.
            let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
            (head.msg_hdr.msg_iov, head.msg_hdr.msg_iovlen) = (piece, 1);
            head
        });
        let at = heads.as_mut_ptr();
        // SAFETY: both messages describe four bytes each.
        let (sent, received) = unsafe {
            let sent = sendmmsg(a.as_raw_fd(), at, 2, libc::MSG_DONTWAIT);
            (sent, recvmmsg(b.as_raw_fd(), at, 2, libc::MSG_DONTWAIT))
        };
        assert_eq!((sent, received), (2, 2));
    }

    #[test]
    fn a_look_at_a_poller_does_not_wait() {
        let (a, b) = UnixDatagram::pair().expect("the system has room for it");
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 7,
        };
        // SAFETY: plain system calls on open descriptors, and room for one event.
        unsafe {
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let added = libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, b.as_raw_fd(), &raw mut event);
            assert_eq!(added, 0);
            assert_eq!(epoll_look(epoll, &raw mut event, 1), 0);
            a.send(b"x").expect("there is room");
            assert_eq!(epoll_look(epoll, &raw mut event, 1), 1);
            libc::close(epoll);
        }
        assert_eq!({ event.u64 }, 7);
    }
}
