//! Memory of one endpoint that another accesses.

use core::ffi::c_void;
use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::traffic::Read;
use crate::world::{Two, World, close};
use crate::{Stage, c};

/// Two endpoints, and a region of `b` that `a` may access.
#[derive(Debug)]
pub struct Ground {
    /// The endpoints.
    pub two: Two,
    /// The region.
    pub mr: *mut fid_mr,
    /// Where it is.
    pub bytes: *mut u8,
    /// How many bytes it has; each is 0x55 at first.
    pub len: usize,
    /// What the address of its first byte is for `a`.
    pub base: u64,
    /// Where the endpoints are.
    pub world: World,
}

/// Peers may read and write.
pub const BOTH: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Capabilities of those who access memory, and whose memory is accessed.
pub const ACCESS: u64 = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

impl Ground {
    /// Opens endpoints that read and write.
    #[must_use]
    pub fn new(stage: &Stage, access: u64) -> Self {
        Self::with(World::with(stage, |hints| hints.caps |= ACCESS), access)
    }

    /// The same where a write completes only once it was done at the peer.
    #[must_use]
    pub fn delivering(stage: &Stage, access: u64) -> Self {
        let world = World::with(stage, |hints| {
            hints.caps |= ACCESS;
            c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
        });
        Self::with(world, access)
    }

    /// The same with atomics.
    #[must_use]
    pub fn atomic(stage: &Stage, access: u64) -> Self {
        let world = World::with(stage, |hints| {
            hints.caps |= ACCESS | FI_ATOMIC;
            c!((*hints.tx_attr).op_flags = FI_DELIVERY_COMPLETE);
        });
        Self::with(world, access)
    }

    /// Opens the endpoints in a world.
    #[must_use]
    pub fn with(world: World, access: u64) -> Self {
        let two = world.two();
        Self::of(world, two, access)
    }

    /// Registers memory for endpoints that are there.
    #[must_use]
    pub fn of(world: World, two: Two, access: u64) -> Self {
        let len = 1 << 20;
        let bytes = two.b.traffic.buffer(&vec![0x55; len]);
        let mr = world
            .register(bytes, len, access, 7)
            .expect("a region of this access");
        let base = world.remote(bytes);
        Self {
            two,
            mr,
            bytes,
            len,
            base,
            world,
        }
    }

    /// What the region holds.
    #[must_use]
    pub fn region(&self) -> &[u8] {
        c!(core::slice::from_raw_parts(self.bytes, self.len))
    }

    /// The first elements of the region.
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

    /// Its key.
    #[must_use]
    pub fn key(&self) -> u64 {
        c!(fi_mr_key(self.mr))
    }

    /// Begins to write at an offset.
    pub fn write(&self, bytes: &[u8], at: u64, key: u64) -> *mut c_void {
        let two = &self.two;
        let (place, context) = (two.a.traffic.buffer(bytes), two.a.traffic.context());
        let at = self.base + at;
        two.start(|| {
            c!(fi_write(
                two.a.ep,
                place.cast(),
                bytes.len(),
                null_mut(),
                two.to_b,
                at,
                key,
                context
            ))
        });
        context
    }

    /// Begins to read at an offset.
    pub fn read(&self, len: usize, at: u64, key: u64) -> *mut u8 {
        let two = &self.two;
        let (place, context) = (two.a.traffic.buffer(&vec![0; len]), two.a.traffic.context());
        let at = self.base + at;
        two.start(|| {
            c!(fi_read(
                two.a.ep,
                place.cast(),
                len,
                null_mut(),
                two.to_b,
                at,
                key,
                context
            ))
        });
        place
    }

    /// Begins an atomic on the first elements of the region.
    pub fn update<T: Copy>(&self, datatype: fi_datatype, op: fi_op, operands: &[T]) -> *mut c_void {
        let two = &self.two;
        let (place, context) = (elements_of(two, operands), two.a.traffic.context());
        two.start(|| {
            c!(fi_atomic(
                two.a.ep,
                place.cast(),
                operands.len(),
                null_mut(),
                two.to_b,
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
        let two = &self.two;
        let (place, context) = (elements_of(two, operands), two.a.traffic.context());
        let result = elements_of(two, operands);
        two.start(|| {
            c!(fi_fetch_atomic(
                two.a.ep,
                place.cast(),
                operands.len(),
                null_mut(),
                result.cast(),
                null_mut(),
                two.to_b,
                self.base,
                self.key(),
                datatype,
                op,
                context
            ))
        });
        let _ = two.done(&two.a);
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
        let two = &self.two;
        let (place, context) = (elements_of(two, operands), two.a.traffic.context());
        let (compared, result) = (elements_of(two, compare), elements_of(two, operands));
        two.start(|| {
            c!(fi_compare_atomic(
                two.a.ep,
                place.cast(),
                operands.len(),
                null_mut(),
                compared.cast(),
                null_mut(),
                result.cast(),
                null_mut(),
                two.to_b,
                self.base,
                self.key(),
                datatype,
                op,
                context
            ))
        });
        let _ = two.done(&two.a);
        (0..operands.len())
            .map(|at| c!(result.add(at).read_unaligned()))
            .collect()
    }

    /// Waits until the next operation of `a` failed, and asserts that the region is as it was.
    pub fn refused(&self) -> fi_cq_err_entry {
        let error = match self.two.next(&self.two.a) {
            Read::Failed(error) => error,
            Read::Done(entry) => panic!("{entry:?}"),
        };
        assert_ne!(error.err, 0);
        assert!(self.region().iter().all(|&byte| byte == 0x55));
        error
    }

    /// The same where operations keep an order, if the provider has it.
    #[must_use]
    pub fn ordered(stage: &Stage, order: u64) -> Option<Self> {
        let mut hints = stage.hints();
        hints.first_mut().caps |= ACCESS;
        c!((*hints.first().tx_attr).msg_order = order);
        c!((*hints.first().rx_attr).msg_order = order);
        let info = stage.try_query(&hints, None, 0).ok()?;
        Some(Self::with(World::of(stage, info), BOTH))
    }

    /// Waits until writes before this have been done: a read comes behind them.
    pub fn settle(&self) {
        let _ = self.read(1, 0, self.key());
        let _ = self.two.done(&self.two.a);
    }

    /// A place in the region.
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
        run: impl FnOnce(&Two, *const fi_msg_rma) -> R,
    ) -> R {
        let iov = libc::iovec {
            iov_base: self.two.a.traffic.buffer(bytes).cast(),
            iov_len: bytes.len(),
        };
        let msg = fi_msg_rma {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: self.two.to_b,
            rma_iov: targets.as_ptr(),
            rma_iov_count: targets.len(),
            context: self.two.a.traffic.context(),
            data,
        };
        run(&self.two, &msg)
    }

    /// Closes region and endpoints, then what they used, then the world.
    pub fn close_with(self, used: impl FnOnce()) {
        let Self { two, mr, world, .. } = self;
        assert_eq!(close(mr), 0);
        drop(two);
        used();
        drop(world);
    }

    /// Closes the region, the endpoints and the world.
    pub fn close(self) {
        let Self { two, mr, world, .. } = self;
        assert_eq!(close(mr), 0);
        drop(two);
        drop(world);
    }
}

/// A buffer with these elements that lives as long as `a`.
pub fn elements_of<T: Copy>(two: &Two, elements: &[T]) -> *mut T {
    // SAFETY: elements are numbers, whose bytes are all set.
    let bytes = unsafe {
        core::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements))
    };
    two.a.traffic.buffer(bytes).cast()
}

impl World {
    /// Registers memory of so many bytes with a wish for a key.
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

    /// What peers call the first byte of a region.
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
