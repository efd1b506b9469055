//! Completion queues, and the channels that wake their readers.

use std::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use oxifabric_types::Errno;

use super::device::Context;
use super::structures::*;
use super::{done, last_error, made};
use crate::{Completion, CqOptions, Opcode, Received, Status};

/// A descriptor that becomes readable when a queue that was armed has something.
#[derive(Debug)]
pub struct Channel {
    channel: NonNull<ibv_comp_channel>,
    context: Arc<Context>,
}

// SAFETY: the library's functions on a channel may be called by any thread, several at once.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the queues of the channel hold it, so none is left.
        unsafe { (self.context.verbs.functions.ibv_destroy_comp_channel)(self.channel.as_ptr()) };
    }
}

impl Channel {
    /// Makes a channel whose descriptor never blocks a reader.
    ///
    /// # Errors
    /// That of ibv_create_comp_channel(3) or fcntl(2).
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, Errno> {
        let create = context.verbs.functions.ibv_create_comp_channel;
        // SAFETY: the context is open.
        let channel = made(unsafe { create(context.context.as_ptr()) })?;
        let new = Self {
            channel,
            context: Arc::clone(context),
        };
        // SAFETY: the channel has just been made; flags are no memory.
        let result = unsafe {
            let fd = (*channel.as_ptr()).fd;
            match libc::fcntl(fd, libc::F_GETFL) {
                flags @ 0.. => libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK),
                error => error,
            }
        };
        if result < 0 {
            return Err(last_error());
        }
        Ok(Arc::new(new))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel lives.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }
}

/// The functions of a queue that polls begin, go on and end with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Polls {
    pub(super) start: unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int,
    pub(super) next: unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int,
    pub(super) end: unsafe extern "C" fn(*mut ibv_cq_ex),
}

/// A completion queue of an EFA device.
#[derive(Debug)]
pub struct Cq {
    pub(super) cq: NonNull<ibv_cq_ex>,
    pub(super) polls: Polls,
    /// Tells what only libefa knows, if the queue was made to.
    efa: Option<NonNull<efadv_cq>>,
    options: CqOptions,
    /// Events that were read and not yet acknowledged, which a destruction would wait for.
    unacknowledged: AtomicU32,
    channel: Option<Arc<Channel>>,
    context: Arc<Context>,
}

// SAFETY: the library locks the queue from the beginning of a poll to its end, which are in one thread: within one call here, or those of a `Poll`, which stays in its thread.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

impl Drop for Cq {
    fn drop(&mut self) {
        let functions = &self.context.verbs.functions;
        let events = *self.unacknowledged.get_mut();
        // SAFETY: the queue pairs of the queue hold it, so none is left; it is destroyed once.
        unsafe {
            if events > 0 {
                (functions.ibv_ack_cq_events)(self.cq.as_ptr().cast(), events);
            }
            (functions.ibv_destroy_cq)(self.cq.as_ptr().cast());
        }
    }
}

/// Everything that libefa can tell of a completion, of `enum ibv_create_cq_wc_flags`.
const STANDARD: u64 = 0x7f;
/// `EFADV_WC_EX_WITH_SGID` and `EFADV_WC_EX_WITH_IS_UNSOLICITED`.
const WITH_SGID: u64 = 1;
const WITH_UNSOLICITED: u64 = 1 << 1;

impl Cq {
    /// Makes a queue.
    ///
    /// # Errors
    /// `OPNOTSUPP` if the device is no EFA or cannot tell what it is to tell; else that of efadv_create_cq(3).
    pub fn efa(
        context: &Arc<Context>,
        channel: Option<&Arc<Channel>>,
        options: CqOptions,
    ) -> Result<Arc<Self>, Errno> {
        let functions = context.efa_functions()?;
        let mut attributes = ibv_cq_init_attr_ex {
            cqe: options.entries,
            cq_context: ptr::null_mut(),
            channel: channel.map_or(ptr::null_mut(), |channel| channel.channel.as_ptr()),
            comp_vector: 0,
            wc_flags: STANDARD,
            comp_mask: 0,
            flags: 0,
            parent_domain: ptr::null_mut(),
        };
        let mut efa = efadv_cq_init_attr {
            comp_mask: 0,
            wc_flags: if options.sgid { WITH_SGID } else { 0 }
                | if options.unsolicited {
                    WITH_UNSOLICITED
                } else {
                    0
                },
        };
        let len = size_of::<efadv_cq_init_attr>() as u32;
        // SAFETY: the context is open; the attributes live through the call, and the last one has the length.
        let cq = made(unsafe {
            (functions.efadv_create_cq)(
                context.context.as_ptr(),
                &raw mut attributes,
                &raw mut efa,
                len,
            )
        })?;
        let efa = (options.sgid || options.unsolicited).then(|| {
            // SAFETY: the queue has just been made by libefa.
            unsafe { (functions.efadv_cq_from_ibv_cq_ex)(cq.as_ptr()) }
        });
        let efa = efa.and_then(NonNull::new);
        // SAFETY: the queue has just been made; the driver has set what it has of the functions, for good.
        let functions = unsafe {
            let cq = cq.as_ptr();
            ((*cq).start_poll, (*cq).next_poll, (*cq).end_poll)
        };
        let (Some(start), Some(next), Some(end)) = functions else {
            // SAFETY: the queue is destroyed once, and nothing has it.
            unsafe { (context.verbs.functions.ibv_destroy_cq)(cq.as_ptr().cast()) };
            return Err(Errno::OPNOTSUPP);
        };
        Ok(Arc::new(Self {
            cq,
            polls: Polls { start, next, end },
            efa,
            options,
            unacknowledged: AtomicU32::new(0),
            channel: channel.cloned(),
            context: Arc::clone(context),
        }))
    }

    /// Takes completions into the places of an array, and returns how many.
    #[inline]
    pub fn poll(&self, into: &mut [Completion]) -> usize {
        let mut attributes = ibv_poll_cq_attr { comp_mask: 0 };
        // SAFETY: the queue lives; a start that succeeds is followed by the rest of the poll, and by nothing else.
        unsafe {
            if into.is_empty() || (self.polls.start)(self.cq.as_ptr(), &raw mut attributes) != 0 {
                return 0;
            }
            self.take_found(into)
        }
    }

    /// Takes the completions of a poll that has found one into places, of which there is one at least, and ends the poll.
    ///
    /// # Safety
    /// A poll of this queue was started and has found a completion.
    #[inline(never)]
    unsafe fn take_found(&self, into: &mut [Completion]) -> usize {
        let (cq, room) = (self.cq.as_ptr(), into.len());
        let mut count = 0;
        // SAFETY: the caller polls; the poll is at a completion as long as the next one is found.
        unsafe {
            for place in into {
                self.read_current(place);
                count += 1;
                // A completion that is moved to and has no place would be lost with the end of this poll.
                if count == room || (self.polls.next)(cq) != 0 {
                    break;
                }
            }
            (self.polls.end)(cq);
        }
        count
    }

    /// Reads what there is to know of the message whose receive is the completion at which the poll is; `None` if it is anything else.
    ///
    /// # Safety
    /// A poll of this queue is under way and has found one, which is not unsolicited.
    #[inline(always)]
    pub(super) unsafe fn read_received(&self) -> Option<Received> {
        let cq = self.cq.as_ptr();
        // SAFETY: the caller polls. Functions that libefa has not would be read as 0, which is no receive.
        unsafe {
            let is_good = Status((*cq).status) == Status::SUCCESS;
            let opcode = (*cq).read_opcode.filter(|_| is_good)?;
            if Opcode::from_number(opcode(cq)) != Opcode::Recv {
                return None;
            }
            Some(Received {
                len: (*cq).read_byte_len?(cq),
                src_qp: (*cq).read_src_qp?(cq),
                slid: (*cq).read_slid?(cq),
            })
        }
    }

    /// Reads the completion at which the poll is into its place. What means nothing of it is as it was there.
    ///
    /// # Safety
    /// A poll of this queue is under way and has found one.
    #[inline(always)]
    pub(super) unsafe fn read_current(&self, completion: &mut Completion) {
        let cq = self.cq.as_ptr();
        /// Calls one of the functions that read a member; those that libefa has not are 0.
        macro_rules! read {
            ($name:ident) => {
                // SAFETY: the caller polls.
                unsafe { (*cq).$name.map_or(0, |read| read(cq)) }
            };
        }
        // SAFETY: the caller polls.
        (completion.wr_id, completion.status) = unsafe { ((*cq).wr_id, Status((*cq).status)) };
        // SAFETY: the caller polls.
        completion.is_unsolicited = unsafe { self.is_unsolicited() };
        if completion.status != Status::SUCCESS {
            completion.vendor_err = read!(read_vendor_err);
            return;
        }
        const WITH_IMM: u32 = 1 << 1;
        completion.opcode = Opcode::from_number(read!(read_opcode));
        // Of its own requests this side knows all the rest.
        if matches!(
            completion.opcode,
            Opcode::Send | Opcode::RdmaWrite | Opcode::RdmaRead
        ) {
            return;
        }
        completion.byte_len = read!(read_byte_len);
        completion.src_qp = read!(read_src_qp);
        completion.slid = read!(read_slid);
        completion.imm_data = match read!(read_wc_flags) & WITH_IMM {
            0 => None,
            _ => Some(u32::from_be(read!(read_imm_data))),
        };
        completion.sgid = None;
        if let Some(efa) = self.efa.map(NonNull::as_ptr)
            && self.options.sgid
        {
            let mut gid = [0; 16];
            // SAFETY: the caller polls; the address lives through the call.
            unsafe {
                let read = (*efa).wc_read_sgid;
                let result: c_int = read.map_or(-1, |read| read(efa, &raw mut gid));
                completion.sgid = (result == 0).then_some(gid);
            }
        }
    }

    /// Returns whether the completion at which the poll is used up no receive, if the queue was made to tell.
    ///
    /// # Safety
    /// A poll of this queue is under way and has found one.
    #[inline(always)]
    pub(super) unsafe fn is_unsolicited(&self) -> bool {
        if !self.options.unsolicited {
            return false;
        }
        let Some(efa) = self.efa.map(NonNull::as_ptr) else {
            return false;
        };
        // SAFETY: the caller polls. Where a queue was made to tell of unsolicited writes, libefa has the longer structure.
        unsafe {
            let ask = (*efa.cast::<efadv_cq_51>()).wc_is_unsolicited;
            ask.is_some_and(|ask| ask(efa))
        }
    }

    /// Asks for an event at the next completion. What came before has to be polled once more.
    ///
    /// # Errors
    /// That of ibv_req_notify_cq(3).
    pub fn arm(&self) -> Result<(), Errno> {
        // SAFETY: the queue and its context live; the function is set by the driver.
        unsafe {
            let arm = (*self.context.context.as_ptr()).ops.req_notify_cq;
            done(arm.map_or(libc::EOPNOTSUPP, |arm| arm(self.cq.as_ptr().cast(), 0)))
        }
    }

    /// Takes the events of the channel, which has this queue only, and returns whether there was one.
    pub fn take_events(&self) -> bool {
        const ACKNOWLEDGED_AT_ONCE: u32 = 256;
        let Some(channel) = &self.channel else {
            return false;
        };
        let functions = &self.context.verbs.functions;
        let mut has_taken = false;
        let mut cq = ptr::null_mut();
        let mut context = ptr::null_mut();
        // SAFETY: the channel lives and does not block; both pointers live through the call.
        while unsafe {
            (functions.ibv_get_cq_event)(channel.channel.as_ptr(), &raw mut cq, &raw mut context)
        } == 0
        {
            has_taken = true;
            let before = self.unacknowledged.fetch_add(1, Ordering::Relaxed);
            if before + 1 >= ACKNOWLEDGED_AT_ONCE {
                let events = self.unacknowledged.swap(0, Ordering::Relaxed);
                // SAFETY: so many events of this queue were taken.
                unsafe { (functions.ibv_ack_cq_events)(self.cq.as_ptr().cast(), events) };
            }
        }
        has_taken
    }
}
