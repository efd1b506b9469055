//! Memory of one endpoint that another accesses.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::fixture::{Fixture, Pair, close};
use crate::traffic::Read;
use crate::{Subject, c};

/// Two endpoints, and a region of `b` that `a` may access.
#[derive(Debug)]
pub struct RmaFixture {
    /// The endpoints.
    pub pair: Pair,
    /// The region.
    pub mr: *mut fid_mr,
    /// The address of the region.
    pub bytes: *mut u8,
    /// The length in bytes; each byte is 0x55 at first.
    pub len: usize,
    /// The address of the first byte as `a` names it.
    pub base: u64,
    /// The fabric and domain.
    pub fixture: Fixture,
}

/// Peers may read and write.
pub const BOTH: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Capabilities of endpoints that access memory and of those with the memory.
pub const ACCESS: u64 = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

impl RmaFixture {
    /// Opens endpoints that read and write.
    #[must_use]
    pub fn new(subject: &Subject, access: u64) -> Self {
        Self::with(Fixture::with(subject, |hints| hints.caps |= ACCESS), access)
    }

    /// Opens endpoints whose writes complete only once they were done at the peer.
    #[must_use]
    pub fn delivering(subject: &Subject, access: u64) -> Self {
        let fixture = Fixture::with(subject, |hints| {
            hints.caps |= ACCESS;
            c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
        });
        Self::with(fixture, access)
    }

    /// Opens endpoints with atomics.
    #[must_use]
    pub fn atomic(subject: &Subject, access: u64) -> Self {
        let fixture = Fixture::with(subject, |hints| {
            hints.caps |= ACCESS | FI_ATOMIC;
            c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
        });
        Self::with(fixture, access)
    }

    /// Opens the endpoints in a fixture.
    #[must_use]
    pub fn with(fixture: Fixture, access: u64) -> Self {
        let pair = fixture.pair();
        Self::of(fixture, pair, access)
    }

    /// Registers memory for open endpoints.
    #[must_use]
    pub fn of(fixture: Fixture, pair: Pair, access: u64) -> Self {
        let len = 1 << 20;
        let bytes = pair.b.traffic.buffer(&vec![0x55; len]);
        let mr = fixture
            .register(bytes, len, access, 7)
            .expect("a region of this access");
        let base = fixture.remote(bytes);
        Self {
            pair,
            mr,
            bytes,
            len,
            base,
            fixture,
        }
    }

    /// Returns the bytes of the region.
    #[must_use]
    pub fn region(&self) -> &[u8] {
        c!(core::slice::from_raw_parts(self.bytes, self.len))
    }

    /// Returns the first elements of the region.
    #[must_use]
    pub fn elements<T: Copy>(&self, count: usize) -> Vec<T> {
        assert!(count * size_of::<T>() <= self.len);
        (0..count)
            .map(|at| c!(self.bytes.cast::<T>().add(at).read_unaligned()))
            .collect()
    }

    /// Puts elements at the beginning of the region, as its owner.
    pub fn fill<T: Copy>(&self, elements: &[T]) {
        assert!(size_of_val(elements) <= self.len);
        for (at, &element) in elements.iter().enumerate() {
            c!(self.bytes.cast::<T>().add(at).write_unaligned(element));
        }
    }

    /// Returns the region's key.
    #[must_use]
    pub fn key(&self) -> u64 {
        c!(fi_mr_key(self.mr))
    }

    /// Begins to write at an offset.
    pub fn write(&self, bytes: &[u8], at: u64, key: u64) -> *mut c_void {
        let pair = &self.pair;
        let (place, context) = (pair.a.traffic.buffer(bytes), pair.a.traffic.context());
        let at = self.base + at;
        pair.start(|| {
            c!(fi_write(
                pair.a.ep,
                place.cast(),
                bytes.len(),
                null_mut(),
                pair.to_b,
                at,
                key,
                context
            ))
        });
        context
    }

    /// Begins to read at an offset.
    pub fn read(&self, len: usize, at: u64, key: u64) -> *mut u8 {
        let pair = &self.pair;
        let (place, context) = (
            pair.a.traffic.buffer(&vec![0; len]),
            pair.a.traffic.context(),
        );
        let at = self.base + at;
        pair.start(|| {
            c!(fi_read(
                pair.a.ep,
                place.cast(),
                len,
                null_mut(),
                pair.to_b,
                at,
                key,
                context
            ))
        });
        place
    }

    /// Begins an atomic on the first elements of the region.
    pub fn update<T: Copy>(&self, datatype: fi_datatype, op: fi_op, operands: &[T]) -> *mut c_void {
        let pair = &self.pair;
        let (place, context) = (elements_of(pair, operands), pair.a.traffic.context());
        pair.start(|| {
            c!(fi_atomic(
                pair.a.ep,
                place.cast(),
                operands.len(),
                null_mut(),
                pair.to_b,
                self.base,
                self.key(),
                datatype,
                op,
                context
            ))
        });
        context
    }

    /// Does a fetching atomic on the first elements of the region, and returns what they were.
    #[must_use]
    pub fn fetch<T: Copy>(&self, datatype: fi_datatype, op: fi_op, operands: &[T]) -> Vec<T> {
        let pair = &self.pair;
        let (place, context) = (elements_of(pair, operands), pair.a.traffic.context());
        let result = elements_of(pair, operands);
        pair.start(|| {
            c!(fi_fetch_atomic(
                pair.a.ep,
                place.cast(),
                operands.len(),
                null_mut(),
                result.cast(),
                null_mut(),
                pair.to_b,
                self.base,
                self.key(),
                datatype,
                op,
                context
            ))
        });
        let _ = pair.done(&pair.a);
        (0..operands.len())
            .map(|at| c!(result.add(at).read_unaligned()))
            .collect()
    }

    /// Does a comparing atomic on the first elements of the region, and returns what they were.
    #[must_use]
    pub fn compare<T: Copy>(
        &self,
        datatype: fi_datatype,
        op: fi_op,
        operands: &[T],
        compare: &[T],
    ) -> Vec<T> {
        assert_eq!(operands.len(), compare.len());
        let pair = &self.pair;
        let (place, context) = (elements_of(pair, operands), pair.a.traffic.context());
        let (compared, result) = (elements_of(pair, compare), elements_of(pair, operands));
        pair.start(|| {
            c!(fi_compare_atomic(
                pair.a.ep,
                place.cast(),
                operands.len(),
                null_mut(),
                compared.cast(),
                null_mut(),
                result.cast(),
                null_mut(),
                pair.to_b,
                self.base,
                self.key(),
                datatype,
                op,
                context
            ))
        });
        let _ = pair.done(&pair.a);
        (0..operands.len())
            .map(|at| c!(result.add(at).read_unaligned()))
            .collect()
    }

    /// Waits until the next operation of `a` failed with this error, and asserts that the region is as it was.
    pub fn refused(&self, errno: c_int) -> fi_cq_err_entry {
        let error = match self.pair.next(&self.pair.a) {
            Read::Failed(error) => error,
            Read::Done(entry) => panic!("{entry:?}"),
        };
        assert_eq!(error.err, errno);
        assert!(self.region().iter().all(|&byte| byte == 0x55));
        error
    }

    /// Opens endpoints whose operations keep an order; `None` if the provider does not have it.
    #[must_use]
    pub fn ordered(subject: &Subject, order: u64) -> Option<Self> {
        let mut hints = subject.hints();
        hints.first_mut().caps |= ACCESS;
        c!((*hints.first().tx_attr).msg_order = order);
        c!((*hints.first().rx_attr).msg_order = order);
        let info = subject.try_query(&hints, None, 0).ok()?;
        Some(Self::with(Fixture::of(subject, info), BOTH))
    }

    /// Waits until earlier writes have been done: a read comes behind them.
    pub fn settle(&self) {
        let _ = self.read(1, 0, self.key());
        let _ = self.pair.done(&self.pair.a);
    }

    /// Returns a place in the region.
    #[must_use]
    pub fn target(&self, at: u64, len: usize) -> fi_rma_iov {
        fi_rma_iov {
            addr: self.base + at,
            len,
            key: self.key(),
        }
    }

    /// Runs with a message of bytes to places of the region, whose buffer lives as long as `a`.
    pub fn message<R>(
        &self,
        bytes: &[u8],
        targets: &[fi_rma_iov],
        data: u64,
        run: impl FnOnce(&Pair, *const fi_msg_rma) -> R,
    ) -> R {
        let iov = libc::iovec {
            iov_base: self.pair.a.traffic.buffer(bytes).cast(),
            iov_len: bytes.len(),
        };
        let msg = fi_msg_rma {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: self.pair.to_b,
            rma_iov: targets.as_ptr(),
            rma_iov_count: targets.len(),
            context: self.pair.a.traffic.context(),
            data,
        };
        run(&self.pair, &msg)
    }

    /// Closes region and endpoints, then what they used, then the fixture.
    pub fn close_with(self, used: impl FnOnce()) {
        let Self {
            pair, mr, fixture, ..
        } = self;
        assert_eq!(close(mr), 0);
        drop(pair);
        used();
        drop(fixture);
    }

    /// Closes the region, the endpoints and the fixture.
    pub fn close(self) {
        let Self {
            pair, mr, fixture, ..
        } = self;
        assert_eq!(close(mr), 0);
        drop(pair);
        drop(fixture);
    }
}

/// Returns a buffer with these elements that lives as long as `a`.
pub fn elements_of<T: Copy>(pair: &Pair, elements: &[T]) -> *mut T {
    // SAFETY: elements are numbers, whose bytes are all set.
    let bytes = unsafe {
        core::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements))
    };
    pair.a.traffic.buffer(bytes).cast()
}

impl Fixture {
    /// Registers `len` bytes of memory with a requested key.
    ///
    /// # Errors
    /// The return value of fi_mr_reg.
    pub fn register(
        &self,
        bytes: *mut u8,
        len: usize,
        access: u64,
        key: u64,
    ) -> Result<*mut fid_mr, i32> {
        let mut mr = null_mut();
        let code = c!(fi_mr_reg(
            self.domain,
            bytes.cast(),
            len,
            access,
            0,
            key,
            0,
            &mut mr,
            null_mut()
        ));
        if code == 0 { Ok(mr) } else { Err(code) }
    }

    /// Returns the address by which peers name the first byte of a region.
    #[must_use]
    pub fn remote(&self, bytes: *mut u8) -> u64 {
        let mode = c!((*self.info.first().domain_attr).mr_mode);
        if mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC) != 0 {
            bytes as u64
        } else {
            0
        }
    }
}
