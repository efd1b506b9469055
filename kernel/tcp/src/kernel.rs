//! The kernel's side: functions of `tcp_socket.h`.

use core::ffi::{c_int, c_void};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ptr::NonNull;

use oxifabric_kernel_sync::Work;
use oxifabric_types::{Errno, Instant};

/// A piece of memory, as `struct kvec` has it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Piece {
    pub(crate) base: *mut u8,
    pub(crate) len: usize,
}

unsafe extern "C" {
    fn ktcp_open(owner: *const c_void, status: *mut c_int) -> *mut c_void;
    fn ktcp_close(socket: *mut c_void);
    fn ktcp_set_owner(socket: *mut c_void, owner: *const c_void);
    fn ktcp_take_happened(socket: *mut c_void) -> bool;
    fn ktcp_let_happen(socket: *mut c_void);
    fn ktcp_bind(socket: *mut c_void, host: u32, port: u16) -> c_int;
    fn ktcp_listen(socket: *mut c_void, backlog: c_int) -> c_int;
    fn ktcp_connect(socket: *mut c_void, host: u32, port: u16) -> c_int;
    fn ktcp_accept(socket: *mut c_void, owner: *const c_void, status: *mut c_int) -> *mut c_void;
    fn ktcp_name(socket: *mut c_void, host: *mut u32, port: *mut u16) -> c_int;
    fn ktcp_peer(socket: *mut c_void, host: *mut u32, port: *mut u16) -> c_int;
    fn ktcp_prepare(socket: *mut c_void, silent_s: c_int);
    fn ktcp_connected(socket: *mut c_void) -> c_int;
    fn ktcp_send(socket: *mut c_void, pieces: *mut Piece, count: usize, len: usize) -> isize;
    fn ktcp_recv(socket: *mut c_void, pieces: *mut Piece, count: usize, len: usize) -> isize;
    fn ktcp_shut_writing(socket: *mut c_void);
    fn ktcp_is_closed_by_peer(socket: *mut c_void) -> bool;
    fn ktcp_unread(socket: *mut c_void) -> usize;
    fn ktcp_timer_new(owner: *const c_void) -> *mut c_void;
    fn ktcp_timer_set(timer: *mut c_void, ms: u32);
    fn ktcp_timer_free(timer: *mut c_void);
    fn ktcp_now() -> u64;
    fn ktcp_random() -> u32;
    fn ktcp_host() -> u32;
    fn ktcp_warn(text: *const u8, len: usize);
}

/// A socket of the kernel, which has locks of its own.
#[derive(Debug)]
pub(crate) struct RawSocket(NonNull<c_void>);

// SAFETY: the kernel's functions take it from any thread.
unsafe impl Send for RawSocket {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawSocket {}

fn check(status: c_int) -> Result<c_int, Errno> {
    match status {
        0.. => Ok(status),
        _ => Err(Errno::from_raw(-status)),
    }
}

fn check_len(count: isize) -> Result<usize, Errno> {
    usize::try_from(count).map_err(|_| Errno::from_raw(i32::try_from(-count).unwrap_or(0)))
}

impl RawSocket {
    /// Opens a socket, whose events queue the owner.
    ///
    /// # Safety
    /// The owner lives until the socket has another one, or is dropped.
    pub(crate) unsafe fn open(owner: *const Work) -> Result<Self, Errno> {
        let mut status = 0;
        // SAFETY: the caller's contract; the place is valid for the call.
        let socket = unsafe { ktcp_open(owner.cast(), &raw mut status) };
        check(status)?;
        NonNull::new(socket).map(Self).ok_or(Errno::NOMEM)
    }

    /// Takes the next connection of a listener.
    ///
    /// # Safety
    /// As [`RawSocket::open`], for the new socket.
    pub(crate) unsafe fn accept(&self, owner: *const Work) -> Result<Self, Errno> {
        let mut status = 0;
        // SAFETY: as above; the socket is open.
        let socket = unsafe { ktcp_accept(self.0.as_ptr(), owner.cast(), &raw mut status) };
        check(status)?;
        NonNull::new(socket).map(Self).ok_or(Errno::NOMEM)
    }

    /// Gives the socket another owner, which its events queue.
    ///
    /// # Safety
    /// As [`RawSocket::open`].
    pub(crate) unsafe fn set_owner(&self, owner: *const Work) {
        // SAFETY: the socket is open; the rest is the caller's contract.
        unsafe { ktcp_set_owner(self.0.as_ptr(), owner.cast()) }
    }

    pub(crate) fn take_happened(&self) -> bool {
        // SAFETY: the socket is open.
        unsafe { ktcp_take_happened(self.0.as_ptr()) }
    }

    pub(crate) fn let_happen(&self) {
        // SAFETY: the socket is open.
        unsafe { ktcp_let_happen(self.0.as_ptr()) }
    }

    pub(crate) fn bind(&self, at: SocketAddrV4) -> Result<(), Errno> {
        // SAFETY: the socket is open.
        check(unsafe { ktcp_bind(self.0.as_ptr(), at.ip().to_bits(), at.port()) }).map(drop)
    }

    pub(crate) fn listen(&self, backlog: i32) -> Result<(), Errno> {
        // SAFETY: the socket is open.
        check(unsafe { ktcp_listen(self.0.as_ptr(), backlog) }).map(drop)
    }

    pub(crate) fn connect(&self, to: SocketAddrV4) -> Result<(), Errno> {
        // SAFETY: the socket is open.
        check(unsafe { ktcp_connect(self.0.as_ptr(), to.ip().to_bits(), to.port()) }).map(drop)
    }

    pub(crate) fn name(&self) -> Result<SocketAddrV4, Errno> {
        let (mut host, mut port) = (0, 0);
        // SAFETY: the socket is open, and the places are valid for the call.
        check(unsafe { ktcp_name(self.0.as_ptr(), &raw mut host, &raw mut port) })?;
        Ok(SocketAddrV4::new(Ipv4Addr::from_bits(host), port))
    }

    pub(crate) fn peer(&self) -> Result<SocketAddrV4, Errno> {
        let (mut host, mut port) = (0, 0);
        // SAFETY: the socket is open, and the places are valid for the call.
        check(unsafe { ktcp_peer(self.0.as_ptr(), &raw mut host, &raw mut port) })?;
        Ok(SocketAddrV4::new(Ipv4Addr::from_bits(host), port))
    }

    pub(crate) fn prepare(&self, silent_s: i32) {
        // SAFETY: the socket is open.
        unsafe { ktcp_prepare(self.0.as_ptr(), silent_s) }
    }

    pub(crate) fn is_connected(&self) -> Result<bool, Errno> {
        // SAFETY: the socket is open.
        check(unsafe { ktcp_connected(self.0.as_ptr()) }).map(|status| status == 0)
    }

    /// Sends what the socket takes of `len` bytes; returns how many that is.
    ///
    /// # Safety
    /// The pieces are valid for reads.
    pub(crate) unsafe fn send(&self, pieces: &mut [Piece], len: usize) -> Result<usize, Errno> {
        // SAFETY: the socket is open; the rest is the caller's contract.
        check_len(unsafe { ktcp_send(self.0.as_ptr(), pieces.as_mut_ptr(), pieces.len(), len) })
    }

    /// Receives what is there of `len` bytes; returns how many that is.
    ///
    /// # Safety
    /// The pieces are valid for writes.
    pub(crate) unsafe fn recv(&self, pieces: &mut [Piece], len: usize) -> Result<usize, Errno> {
        // SAFETY: the socket is open; the rest is the caller's contract.
        check_len(unsafe { ktcp_recv(self.0.as_ptr(), pieces.as_mut_ptr(), pieces.len(), len) })
    }

    pub(crate) fn shut_writing(&self) {
        // SAFETY: the socket is open.
        unsafe { ktcp_shut_writing(self.0.as_ptr()) }
    }

    pub(crate) fn is_closed_by_peer(&self) -> bool {
        // SAFETY: the socket is open.
        unsafe { ktcp_is_closed_by_peer(self.0.as_ptr()) }
    }

    pub(crate) fn unread(&self) -> usize {
        // SAFETY: the socket is open.
        unsafe { ktcp_unread(self.0.as_ptr()) }
    }
}

impl Drop for RawSocket {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        unsafe { ktcp_close(self.0.as_ptr()) }
    }
}

#[derive(Debug)]
pub(crate) struct RawTimer(NonNull<c_void>);

// SAFETY: the kernel's functions take it from any thread.
unsafe impl Send for RawTimer {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawTimer {}

impl RawTimer {
    /// Makes a timer, which queues the owner.
    ///
    /// # Safety
    /// The owner lives until the timer is dropped.
    pub(crate) unsafe fn new(owner: *const Work) -> Option<Self> {
        // SAFETY: the caller's contract.
        NonNull::new(unsafe { ktcp_timer_new(owner.cast()) }).map(Self)
    }

    pub(crate) fn set(&self, ms: u32) {
        // SAFETY: it was not freed.
        unsafe { ktcp_timer_set(self.0.as_ptr(), ms) }
    }
}

impl Drop for RawTimer {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        unsafe { ktcp_timer_free(self.0.as_ptr()) }
    }
}

pub(crate) fn now() -> Instant {
    // SAFETY: it only reads a clock.
    Instant::from_nanos(unsafe { ktcp_now() })
}

pub(crate) fn random() -> u32 {
    // SAFETY: it only returns a number.
    unsafe { ktcp_random() }
}

pub(crate) fn host() -> Option<Ipv4Addr> {
    // SAFETY: it only returns a number.
    let host = unsafe { ktcp_host() };
    (host != 0).then(|| Ipv4Addr::from_bits(host))
}

pub(crate) fn warn(text: &str) {
    // SAFETY: the text is valid for the call.
    unsafe { ktcp_warn(text.as_ptr(), text.len()) }
}
