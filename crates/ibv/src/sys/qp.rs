//! Queue pairs.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use oxifabric_types::Errno;

use super::cq::Cq;
use super::pd::{Ah, Pd, Piece};
use super::structures::*;
use super::{done, made};
use crate::{Capacity, QpKind, QpOptions, QpState, StateChange};

/// Types of `enum ibv_qp_type`, and bits of `enum ibv_qp_init_attr_mask`.
const UD: u32 = 4;
const DRIVER: u32 = 0xff;
const WITH_PD: u32 = 1;
const WITH_SEND_OPS: u32 = 1 << 6;
/// The most pieces that a request has here; no EFA device takes more.
const MAX_PIECES: usize = 16;

/// A queue pair, of kind SRD or UD ([`crate::QpKind`]): each send names its destination.
#[derive(Debug)]
pub struct Qp {
    qp: NonNull<ibv_qp>,
    qpx: NonNull<ibv_qp_ex>,
    posts: Posts,
    /// The capacities that the device granted.
    capacity: Capacity,
    pd: Arc<Pd>,
    _cqs: [Arc<Cq>; 2],
}

/// The functions of a queue pair that every request is put together with.
#[derive(Clone, Copy, Debug)]
struct Posts {
    start: unsafe extern "C" fn(*mut ibv_qp_ex),
    complete: unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int,
    abort: unsafe extern "C" fn(*mut ibv_qp_ex),
    address: unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_ah, u32, u32),
    inline: unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, usize),
    list: unsafe extern "C" fn(*mut ibv_qp_ex, usize, *const ibv_sge),
}

// SAFETY: the library locks its queues; sends, which take several calls, have the queue pair for themselves.
unsafe impl std::marker::Send for Qp {}
// SAFETY: as above.
unsafe impl Sync for Qp {}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: the queue pair is the library's and is destroyed once, before its queues and its domain.
        unsafe { (self.pd.context.verbs.functions.ibv_destroy_qp)(self.qp.as_ptr()) };
    }
}

/// A request for a send queue.
#[derive(Clone, Copy, Debug)]
pub struct Send<'a> {
    /// The id that comes back with the completion.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp<'a>,
    /// The address handle of the peer's port.
    pub ah: &'a Ah,
    /// The number of the peer's queue pair.
    pub qpn: u32,
    /// The Q_Key of that queue pair.
    pub qkey: u32,
}

/// An operation of a send queue.
#[derive(Clone, Copy, Debug)]
pub enum SendOp<'a> {
    /// Sends a message out of registered memory, with immediate data in the machine's order.
    Message(&'a [Piece], Option<u32>),
    /// Sends a short message, whose bytes are copied now.
    Inline(&'a [u8], Option<u32>),
    /// Reads memory of the peer, by key and address, into local memory.
    Read(Piece, u32, u64),
    /// Writes local memory into that of the peer, by key and address; immediate data makes a completion at the peer.
    Write(Piece, u32, u64, Option<u32>),
}

/// A send that was started: requests are put together until it is completed, and dropped if it is not.
struct Started<'a>(&'a Qp);

impl Drop for Started<'_> {
    fn drop(&mut self) {
        // SAFETY: the send was started on this queue pair, which lives; nothing has ended it.
        unsafe { (self.0.posts.abort)(self.0.qpx.as_ptr()) };
    }
}

impl Started<'_> {
    /// Posts what was put together, and rings the device's doorbell.
    #[inline(always)]
    fn complete(self) -> Result<(), Errno> {
        let qp = self.0;
        std::mem::forget(self);
        // SAFETY: the send was started on this queue pair, which lives; nothing has ended it.
        done(unsafe { (qp.posts.complete)(qp.qpx.as_ptr()) })
    }

    /// Puts a request together.
    #[inline(always)]
    fn put(&mut self, request: &Send<'_>) -> Result<(), Errno> {
        const SIGNALED: u32 = 1 << 1;
        const MISSING: Errno = Errno::OPNOTSUPP;
        let (qp, posts) = (self.0.qpx.as_ptr(), &self.0.posts);
        if !Arc::ptr_eq(&request.ah.pd.context, &self.0.pd.context) {
            return Err(Errno::INVAL);
        }
        // SAFETY: the send was started; lists and bytes live through the calls, which copy them.
        unsafe {
            (*qp).wr_id = request.wr_id;
            (*qp).wr_flags = SIGNALED;
            match request.op {
                SendOp::Message(_, None) | SendOp::Inline(_, None) => {
                    (*qp).wr_send.ok_or(MISSING)?(qp);
                }
                SendOp::Message(_, Some(data)) | SendOp::Inline(_, Some(data)) => {
                    (*qp).wr_send_imm.ok_or(MISSING)?(qp, data.to_be());
                }
                SendOp::Read(_, key, addr) => (*qp).wr_rdma_read.ok_or(MISSING)?(qp, key, addr),
                SendOp::Write(_, key, addr, None) => {
                    (*qp).wr_rdma_write.ok_or(MISSING)?(qp, key, addr);
                }
                SendOp::Write(_, key, addr, Some(data)) => {
                    (*qp).wr_rdma_write_imm.ok_or(MISSING)?(qp, key, addr, data.to_be());
                }
            }
            (posts.address)(qp, request.ah.ah.as_ptr(), request.qpn, request.qkey);
            let pieces = match &request.op {
                SendOp::Inline(bytes, _) => {
                    let start = bytes.as_ptr().cast_mut().cast();
                    (posts.inline)(qp, start, bytes.len());
                    return Ok(());
                }
                SendOp::Message(pieces, _) => pieces,
                SendOp::Read(piece, ..) | SendOp::Write(piece, ..) => std::slice::from_ref(piece),
            };
            let (list, count) = list(pieces)?;
            (posts.list)(qp, count, list);
        }
        Ok(())
    }
}

impl Posts {
    /// Returns the functions of a queue pair, if its driver has them.
    const fn of(qp: &ibv_qp_ex) -> Option<Self> {
        let (Some(start), Some(complete), Some(abort)) = (qp.wr_start, qp.wr_complete, qp.wr_abort)
        else {
            return None;
        };
        let (Some(address), Some(inline), Some(list)) =
            (qp.wr_set_ud_addr, qp.wr_set_inline_data, qp.wr_set_sge_list)
        else {
            return None;
        };
        Some(Self {
            start,
            complete,
            abort,
            address,
            inline,
            list,
        })
    }
}

impl Qp {
    /// How many receives are posted at once, at most.
    pub const RECEIVES: usize = 8;

    /// Makes a queue pair, in [`QpState::Reset`].
    ///
    /// # Errors
    /// `OPNOTSUPP` for what the device does not support; else that of efadv_create_qp_ex(3) or ibv_create_qp_ex(3).
    pub fn new(
        pd: &Arc<Pd>,
        send_cq: &Arc<Cq>,
        recv_cq: &Arc<Cq>,
        options: &QpOptions,
    ) -> Result<Self, Errno> {
        let wanted = options.capacity;
        let mut attributes = ibv_qp_init_attr_ex {
            qp_context: ptr::null_mut(),
            send_cq: send_cq.cq.as_ptr().cast(),
            recv_cq: recv_cq.cq.as_ptr().cast(),
            srq: ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: wanted.send_wr,
                max_recv_wr: wanted.recv_wr,
                max_send_sge: wanted.send_sge,
                max_recv_sge: wanted.recv_sge,
                max_inline_data: wanted.inline,
            },
            qp_type: match options.kind {
                QpKind::Srd => DRIVER,
                QpKind::Ud => UD,
            },
            sq_sig_all: 0,
            comp_mask: WITH_PD | WITH_SEND_OPS,
            pd: pd.pd.as_ptr(),
            xrcd: ptr::null_mut(),
            create_flags: 0,
            max_tso_header: 0,
            rwq_ind_tbl: ptr::null_mut(),
            rx_hash_conf: ibv_rx_hash_conf {
                rx_hash_function: 0,
                rx_hash_key_len: 0,
                rx_hash_key: ptr::null_mut(),
                rx_hash_fields_mask: 0,
            },
            source_qpn: 0,
            send_ops_flags: options.send_ops.0,
        };
        let qp = match options.kind {
            QpKind::Srd => create_srd(pd, &mut attributes, options.unsolicited)?,
            QpKind::Ud => create_ud(pd, &mut attributes)?,
        };
        // SAFETY: the queue pair has just been made with a set of operations, so it is an extended one.
        let qpx = unsafe { (pd.context.verbs.functions.ibv_qp_to_qp_ex)(qp.as_ptr()) };
        // The driver sets the functions for good when it makes the queue pair.
        let found = made(qpx).and_then(|qpx| {
            // SAFETY: the queue pair has just been made.
            let posts = unsafe { Posts::of(&*qpx.as_ptr()) };
            Ok((qpx, posts.ok_or(Errno::OPNOTSUPP)?))
        });
        let (qpx, posts) = found.inspect_err(|_| {
            // SAFETY: the queue pair is destroyed once, and nothing has it.
            unsafe { (pd.context.verbs.functions.ibv_destroy_qp)(qp.as_ptr()) };
        })?;
        let granted = attributes.cap;
        Ok(Self {
            qp,
            qpx,
            posts,
            capacity: Capacity {
                send_wr: granted.max_send_wr,
                recv_wr: granted.max_recv_wr,
                send_sge: granted.max_send_sge,
                recv_sge: granted.max_recv_sge,
                inline: granted.max_inline_data,
            },
            pd: Arc::clone(pd),
            _cqs: [Arc::clone(send_cq), Arc::clone(recv_cq)],
        })
    }

    /// Returns the number of the queue pair, by which peers address it.
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair lives as long as this structure.
        unsafe { (*self.qp.as_ptr()).qp_num }
    }

    /// Returns the capacities that the device granted.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Moves the queue pair from [`QpState::Reset`] to [`QpState::Rts`].
    ///
    /// # Errors
    /// That of ibv_modify_qp(3).
    pub fn activate(&self, port: u8, change: StateChange) -> Result<(), Errno> {
        self.set_state(QpState::Init, port, change)?;
        self.set_state(QpState::Rtr, port, change)?;
        self.set_state(QpState::Rts, port, change)
    }

    /// Moves the queue pair to [`QpState::Err`], which flushes its queues: all that is posted completes with an error.
    ///
    /// # Errors
    /// That of ibv_modify_qp(3).
    pub fn fail(&self) -> Result<(), Errno> {
        let nothing = StateChange {
            qkey: 0,
            rnr_retry: None,
        };
        self.set_state(QpState::Err, 1, nothing)
    }

    fn set_state(&self, state: QpState, port: u8, change: StateChange) -> Result<(), Errno> {
        /// Bits of `enum ibv_qp_attr_mask`.
        const STATE: c_int = 1;
        const PKEY_INDEX_PORT_QKEY: c_int = 1 << 4 | 1 << 5 | 1 << 6;
        const RNR_RETRY: c_int = 1 << 11;
        const SQ_PSN: c_int = 1 << 16;
        // SAFETY: all zeroes is a valid value.
        let mut attributes: ibv_qp_attr = unsafe { std::mem::zeroed() };
        attributes.qp_state = state as u32;
        attributes.port_num = port;
        attributes.qkey = change.qkey;
        attributes.rnr_retry = change.rnr_retry.unwrap_or(0);
        let mask = match state {
            QpState::Init => PKEY_INDEX_PORT_QKEY,
            QpState::Rts if change.rnr_retry.is_some() => SQ_PSN | RNR_RETRY,
            QpState::Rts => SQ_PSN,
            QpState::Reset | QpState::Rtr | QpState::Err => 0,
        };
        let modify = self.pd.context.verbs.functions.ibv_modify_qp;
        // SAFETY: the queue pair lives; the attributes live through the call.
        done(unsafe { modify(self.qp.as_ptr(), &raw mut attributes, STATE | mask) })
    }

    /// Posts a receive into pieces of registered memory.
    ///
    /// # Errors
    /// `NOMEM` if the queue is full, `INVAL` for too many pieces or in a state without receives.
    pub fn post_recv(&self, wr_id: u64, pieces: &[Piece]) -> Result<(), Errno> {
        let (list, count) = list(pieces)?;
        let mut request = ibv_recv_wr {
            wr_id,
            next: ptr::null_mut(),
            sg_list: list,
            num_sge: count as c_int,
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair and its context live; the request and its list live through the call, which copies them. What a
        // device does with them later it does by keys.
        unsafe {
            let post = (*self.pd.context.context.as_ptr()).ops.post_recv;
            let post = post.ok_or(Errno::OPNOTSUPP)?;
            done(post(self.qp.as_ptr(), &raw mut request, &raw mut bad))
        }
    }

    /// Posts receives, each into one piece of registered memory, and rings the device's doorbell once; returns how many of them the queue took, at most
    /// [`Qp::RECEIVES`].
    pub fn post_recvs(&self, requests: impl Iterator<Item = (u64, Piece)>) -> usize {
        const NOTHING: ibv_recv_wr = ibv_recv_wr {
            wr_id: 0,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 1,
        };
        let mut pieces = [Piece::NONE; Self::RECEIVES];
        let mut list = [NOTHING; Self::RECEIVES];
        let (first, memory, mut count) = (list.as_mut_ptr(), pieces.as_mut_ptr(), 0);
        for (at, (wr_id, piece)) in requests.take(Self::RECEIVES).enumerate() {
            // SAFETY: `at` is below the length of both lists, and the next place is in the list or at its end.
            unsafe {
                *memory.add(at) = piece;
                (*first.add(at)).wr_id = wr_id;
                (*first.add(at)).next = first.add(at + 1);
                (*first.add(at)).sg_list = memory.add(at).cast();
            }
            count = at + 1;
        }
        if count == 0 {
            return 0;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair and its context live; the requests and their pieces live through the call, which copies them. The last one ends the list. What the
        // library calls bad is one of the list.
        unsafe {
            (*first.add(count - 1)).next = ptr::null_mut();
            let post = (*self.pd.context.context.as_ptr()).ops.post_recv;
            match post.map(|post| post(self.qp.as_ptr(), first, &raw mut bad)) {
                Some(0) => count,
                Some(_) if !bad.is_null() => bad.offset_from(first) as usize,
                _ => 0,
            }
        }
    }

    /// Posts a request.
    ///
    /// # Errors
    /// As [`Qp::post_sends`].
    #[inline(always)]
    pub fn post_send(&mut self, request: &Send<'_>) -> Result<(), Errno> {
        let mut started = self.start();
        started.put(request)?;
        started.complete()
    }

    /// Posts requests, all or none, and rings the device's doorbell once. None is posted if `requests` panics; it must not post to this queue pair.
    ///
    /// # Errors
    /// `NOMEM` if the queue is full, `OPNOTSUPP` for an operation that it was not made for, `INVAL` for what does not fit.
    #[inline(always)]
    pub fn post_sends<'a>(
        &mut self,
        requests: impl Iterator<Item = Send<'a>>,
    ) -> Result<(), Errno> {
        let mut started = self.start();
        for request in requests {
            started.put(&request)?;
        }
        started.complete()
    }

    /// Starts a send.
    #[inline(always)]
    fn start(&mut self) -> Started<'_> {
        // SAFETY: the queue pair lives, and nothing else sends, as it is borrowed for this alone. The functions are the driver's; until the end, which comes even if a
        // caller's iterator unwinds, only requests are put together.
        unsafe { (self.posts.start)(self.qpx.as_ptr()) };
        Started(self)
    }
}

fn create_srd(
    pd: &Arc<Pd>,
    attributes: &mut ibv_qp_init_attr_ex,
    unsolicited: bool,
) -> Result<NonNull<ibv_qp>, Errno> {
    /// `EFADV_QP_DRIVER_TYPE_SRD`.
    const SRD: u32 = 0;
    let create = pd.context.efa_functions()?.efadv_create_qp_ex;
    let mut efa = efadv_qp_init_attr {
        driver_qp_type: SRD,
        // EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV.
        flags: u16::from(unsolicited),
        ..efadv_qp_init_attr::default()
    };
    let len = size_of::<efadv_qp_init_attr>() as u32;
    let context = pd.context.context.as_ptr();
    // SAFETY: domain and queues live; both structures live through the call, and the last one has the length.
    made(unsafe { create(context, attributes, &raw mut efa, len) })
}

/// Calls the function that stands before the context, as the inline function of verbs.h does.
fn create_ud(pd: &Arc<Pd>, attributes: &mut ibv_qp_init_attr_ex) -> Result<NonNull<ibv_qp>, Errno> {
    const EXTENDED: usize = usize::MAX;
    let context = pd.context.context.as_ptr();
    // SAFETY: the context is open. If it says so, it is the last member of a structure whose length stands right before it; all that
    // have this length have the members described here.
    unsafe {
        if (*context).abi_compat.addr() != EXTENDED {
            return Err(Errno::OPNOTSUPP);
        }
        let end = context
            .byte_sub(std::mem::offset_of!(verbs_context_end, context))
            .cast::<verbs_context_end>();
        if (*end).sz < size_of::<verbs_context_end>() {
            return Err(Errno::OPNOTSUPP);
        }
        let create = (*end).create_qp_ex.ok_or(Errno::OPNOTSUPP)?;
        made(create(context, attributes))
    }
}

/// Returns pieces as a scatter-gather list of the library, which does not write to it.
fn list(pieces: &[Piece]) -> Result<(*mut ibv_sge, usize), Errno> {
    match pieces.len() <= MAX_PIECES {
        true => Ok((pieces.as_ptr().cast_mut().cast(), pieces.len())),
        false => Err(Errno::INVAL),
    }
}
