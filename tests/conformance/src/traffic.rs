//! Operations with memory that lives long enough, and the completions that follow.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr::null_mut;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use oxifabric_abi::*;

use crate::c;
use crate::fixture::{Pair, TestEndpoint};

/// How long anything may take before a requirement is held to be broken: machines that run tests are busy.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Memory that `FI_CONTEXT2` providers may use while an operation is in flight.
type Context = [u64; 8];

/// The operations of an endpoint: contexts, buffers, and completions that were read for others.
#[derive(Debug, Default)]
pub struct Traffic {
    #[expect(clippy::vec_box, reason = "a context must stay where it is")]
    contexts: RefCell<Vec<Box<Context>>>,
    buffers: RefCell<Vec<Box<[u8]>>>,
    read: RefCell<VecDeque<Read>>,
}

/// The result of reading a queue.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// A completion.
    Done(fi_cq_tagged_entry),
    /// An error.
    Failed(fi_cq_err_entry),
}

impl Traffic {
    /// Returns a new context; it stays valid as long as the endpoint.
    pub fn context(&self) -> *mut c_void {
        let mut context = Box::new([0; 8]);
        let place = context.as_mut_ptr().cast();
        self.contexts.borrow_mut().push(context);
        place
    }

    /// Returns a new buffer with these bytes; it stays valid as long as the endpoint.
    pub fn buffer(&self, bytes: &[u8]) -> *mut u8 {
        let mut buffer: Box<[u8]> = bytes.into();
        let place = buffer.as_mut_ptr();
        self.buffers.borrow_mut().push(buffer);
        place
    }
}

/// A receive that was posted.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// Its buffer.
    pub place: *mut u8,
    /// The length of the buffer in bytes.
    pub len: usize,
    /// Its context.
    pub context: *mut c_void,
}

impl Posted {
    /// Returns the bytes of the buffer.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        c!(core::slice::from_raw_parts(self.place, self.len))
    }
}

impl TestEndpoint {
    /// Posts a receive of `len` bytes.
    #[must_use]
    pub fn recv(&self, len: usize) -> Posted {
        let posted = self.posted(len);
        let code = c!(fi_recv(
            self.ep,
            posted.place.cast(),
            len,
            null_mut(),
            FI_ADDR_UNSPEC,
            posted.context
        ));
        assert_eq!(code, 0);
        posted
    }

    /// Posts a tagged receive of `len` bytes.
    #[must_use]
    pub fn trecv(&self, len: usize, tag: u64, ignore: u64) -> Posted {
        let posted = self.posted(len);
        let code = c!(fi_trecv(
            self.ep,
            posted.place.cast(),
            len,
            null_mut(),
            FI_ADDR_UNSPEC,
            tag,
            ignore,
            posted.context
        ));
        assert_eq!(code, 0);
        posted
    }

    /// Allocates a buffer and a context for a receive.
    #[must_use]
    pub fn posted(&self, len: usize) -> Posted {
        Posted {
            place: self.traffic.buffer(&vec![0xEE; len]),
            len,
            context: self.traffic.context(),
        }
    }

    /// Reads the queue once.
    #[must_use]
    pub fn read(&self) -> Option<Read> {
        if let Some(read) = self.traffic.read.borrow_mut().pop_front() {
            return Some(read);
        }
        let mut entry = fi_cq_tagged_entry::ZERO;
        match c!(fi_cq_read(self.cq, (&raw mut entry).cast(), 1)) {
            1 => Some(Read::Done(entry)),
            code if code == -(FI_EAGAIN as isize) => None,
            code if code == -(FI_EAVAIL as isize) => {
                let mut error = fi_cq_err_entry::ZERO;
                assert_eq!(c!(fi_cq_readerr(self.cq, &mut error, 0)), 1);
                Some(Read::Failed(error))
            }
            code => panic!("fi_cq_read gave {code}"),
        }
    }
}

impl Pair {
    /// Waits for the next completion of `of`, while both make progress.
    #[must_use]
    pub fn next(&self, of: &TestEndpoint) -> Read {
        let other = if core::ptr::eq(of, &self.a) {
            &self.b
        } else {
            &self.a
        };
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            if let Some(read) = of.read() {
                return read;
            }
            self.progress(other);
        }
        panic!("no completion came");
    }

    /// Drives the progress of an endpoint; completions are kept for later.
    pub fn progress(&self, end: &TestEndpoint) {
        let kept = end.traffic.read.take();
        let read = end.read();
        end.traffic.read.replace(kept);
        end.traffic.read.borrow_mut().extend(read);
    }

    /// Waits for the next completion of `of`, which must not be an error.
    #[must_use]
    pub fn done(&self, of: &TestEndpoint) -> fi_cq_tagged_entry {
        match self.next(of) {
            Read::Done(entry) => entry,
            Read::Failed(error) => panic!("{error:?}"),
        }
    }

    /// Waits for the next completion of `of`, which must be an error.
    #[must_use]
    pub fn failed(&self, of: &TestEndpoint) -> fi_cq_err_entry {
        match self.next(of) {
            Read::Failed(error) => error,
            Read::Done(entry) => panic!("{entry:?}"),
        }
    }

    /// Sends from `a` to `b` by `call`, which is repeated while it returns `-FI_EAGAIN`.
    pub fn start(&self, call: impl Fn() -> isize) {
        let begun = Instant::now();
        loop {
            match call() {
                0 => return,
                code if code == -(FI_EAGAIN as isize) && begun.elapsed() < TIMEOUT => {
                    self.progress(&self.a);
                    self.progress(&self.b);
                }
                code => panic!("the operation was refused with {code}"),
            }
        }
    }

    /// Sends a message from `a` to `b` and returns its context.
    pub fn send(&self, bytes: &[u8]) -> *mut c_void {
        let context = self.a.traffic.context();
        let place = self.a.traffic.buffer(bytes);
        self.start(|| {
            c!(fi_send(
                self.a.ep,
                place.cast(),
                bytes.len(),
                null_mut(),
                self.to_b,
                context
            ))
        });
        context
    }

    /// Sends a tagged message from `a` to `b` and returns its context.
    pub fn tsend(&self, bytes: &[u8], tag: u64) -> *mut c_void {
        let context = self.a.traffic.context();
        let place = self.a.traffic.buffer(bytes);
        self.start(|| {
            c!(fi_tsend(
                self.a.ep,
                place.cast(),
                bytes.len(),
                null_mut(),
                self.to_b,
                tag,
                context
            ))
        });
        context
    }
}
