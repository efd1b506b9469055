//! Sockets with packets, and waiting for descriptors.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// A Unix socket that keeps the borders of packets (SOCK_SEQPACKET) and never waits.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Listens at a path.
    ///
    /// # Errors
    /// Those of socket(2), bind(2) and listen(2).
    pub(crate) fn listen(path: &Path) -> io::Result<Self> {
        let socket = Self::new()?;
        let (address, len) = address(path)?;
        // SAFETY: the address lives through the call, and has this length.
        succeed(unsafe { libc::bind(socket.fd(), (&raw const address).cast(), len) })?;
        // SAFETY: no memory is involved.
        succeed(unsafe { libc::listen(socket.fd(), 64) })?;
        Ok(socket)
    }

    /// Takes a connection.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else those of accept(2).
    pub(crate) fn accept(&self) -> io::Result<Self> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no address is asked for.
        let fd = succeed(unsafe {
            libc::accept4(self.fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags)
        })?;
        // SAFETY: the kernel has just made this descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Connects to the listener at a path.
    ///
    /// # Errors
    /// Those of socket(2) and connect(2).
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let socket = Self::new()?;
        let (address, len) = address(path)?;
        // SAFETY: the address lives through the call, and has this length.
        succeed(unsafe { libc::connect(socket.fd(), (&raw const address).cast(), len) })?;
        Ok(socket)
    }

    fn new() -> io::Result<Self> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is involved.
        let fd = succeed(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
        // SAFETY: the kernel has just made this descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a packet, whole or not at all.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room now; any other error means that the other end is gone.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads what the slice has.
        let sent = unsafe {
            libc::send(
                self.fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Receives a packet, and returns its length.
    ///
    /// # Errors
    /// `WouldBlock` if there is none now, `UnexpectedEof` if the other end is gone and all that it has sent is received.
    pub(crate) fn receive(&self, packet: &mut [u8]) -> io::Result<usize> {
        match self.receive_once(packet) {
            // An end that closes with packets unread is reported once, before those that it has sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.receive_once(packet)
            }
            received => received,
        }
    }

    fn receive_once(&self, packet: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes no more than the slice has room for.
        let received =
            unsafe { libc::recv(self.fd(), packet.as_mut_ptr().cast(), packet.len(), 0) };
        match usize::try_from(received) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => Ok(len),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the descriptor's number.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all zeroes is a valid value of this structure.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let len = size_of::<libc::sa_family_t>() + bytes.len() + 1;
    Ok((address, len as libc::socklen_t))
}

/// What to wait for at a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub(crate) fd: RawFd,
    /// Whether room to send is waited for, too.
    pub(crate) room: bool,
}

/// Waits until there is something to receive at one of the descriptors, its end, or room if that is asked for; returns which have something.
pub(crate) fn wait(interests: &[Interest], timeout: Option<Duration>) -> Vec<bool> {
    let asked = interests.iter().map(|interest| libc::pollfd {
        fd: interest.fd,
        events: libc::POLLIN | if interest.room { libc::POLLOUT } else { 0 },
        revents: 0,
    });
    let mut asked: Vec<_> = asked.collect();
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let limit = timeout.as_ref().map_or(std::ptr::null(), |limit| limit);
    // SAFETY: the array has as many entries as said; the time limit lives through the call, or there is none.
    unsafe {
        libc::ppoll(
            asked.as_mut_ptr(),
            asked.len() as libc::nfds_t,
            limit,
            std::ptr::null(),
        )
    };
    asked.iter().map(|entry| entry.revents != 0).collect()
}

/// Sets a variable of the environment. Only while there is no other thread.
pub(crate) fn set_variable(name: &str, value: &Path) {
    // SAFETY: the caller is the start of the process.
    unsafe { std::env::set_var(name, value) };
}

/// Lets the child of every fork(2) call a function first.
pub(crate) fn after_fork(in_child: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Closes a descriptor by its number.
pub(crate) fn close_number(fd: RawFd) {
    if fd >= 0 {
        // SAFETY: the caller owns the descriptor.
        unsafe { libc::close(fd) };
    }
}

/// Lets this thread run soon after it wakes, though other threads never sleep: timers are exact, and its turns are short, which Linux since 6.12
/// gives earlier. Kernels that know one or both not are as slow as they are.
pub(crate) fn run_promptly() {
    /// struct sched_attr, as in Linux 3.14.
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        runtime: 100_000,
        ..SchedAttr::default()
    };
    // SAFETY: the structure lives through the call, and says how long it is.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1000_u64);
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

/// Returns what a pointer to something that is never freed points at, if it is not null.
pub(crate) fn leaked<T>(pointer: *mut T) -> Option<&'static T> {
    // SAFETY: only `Box::leak` and null are stored in what the caller has loaded from.
    unsafe { pointer.as_ref() }
}

/// Starts a thread that handles no signals of the program's, and whose panic ends the process: without its device the program would hang.
///
/// # Errors
/// There are too many threads.
pub(crate) fn start_thread(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    struct EndProcess;
    impl Drop for EndProcess {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let body = move || {
        let _end = EndProcess;
        run();
    };
    // SAFETY: all zeroes are valid values; the sets live through the calls.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let thread = std::thread::Builder::new().name("softnic".to_owned());
        let started = thread.spawn(body);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started.map(drop)
    }
}

/// The process that is sent what this one is told to end by.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Lets the signals of a terminal, and the one that asks to end, not end this process. A program that is started gets them as ever.
pub(crate) fn outlive_signals() {
    extern "C" fn pass_on(signal: libc::c_int) {
        let child = CHILD.load(Ordering::Relaxed);
        // The terminal has sent the others to the program already.
        if child > 0 && signal == libc::SIGTERM {
            self::signal(child, signal);
        }
    }
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        let handler = pass_on as extern "C" fn(libc::c_int);
        // SAFETY: the handler calls nothing but kill(2).
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Passes SIGTERM on to a process from now on.
pub(crate) fn pass_on_signals(process: u32) {
    CHILD.store(process.cast_signed(), Ordering::Relaxed);
}

/// Sends a signal to a process.
pub(crate) fn signal(process: libc::pid_t, signal: libc::c_int) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(process, signal) };
}

/// Returns the number of a successful call.
///
/// # Errors
/// That of the call.
pub(crate) fn succeed(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_end_has_sent_arrives_though_it_closes_with_packets_unread() {
        let path = std::env::temp_dir().join(format!("softnic-sys-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = Socket::listen(&path).expect("a path that is free");
        let ours = Socket::connect(&path).expect("a listener");
        let theirs = listener.accept().expect("a connection");
        std::fs::remove_file(&path).expect("a socket");
        ours.send(b"unread").expect("room");
        theirs.send(b"one").expect("room");
        theirs.send(b"two").expect("room");
        drop(theirs);
        let mut packet = [0; 8];
        for sent in [&b"one"[..], b"two"] {
            let len = ours.receive(&mut packet).expect("a packet");
            assert_eq!(&packet[..len], sent);
        }
        let end = ours.receive(&mut packet).expect_err("an end");
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }
}
