//! The two interfaces between the engine and a transport: the engine calls [`Link`], the transport calls [`Sink`].
//!
//! A frame is a [`Header`] and a body. The header is link-neutral; each link has its own byte format for it
//! (docs/protocol/). Streams and packet links differ only in how a body arrives: see [`Body`].

use bitflags::bitflags;
use oxifabric_mem::{Iov, MAX_SEGMENTS};
use oxifabric_types::{Errno, Flags, Instant, PeerId};

use crate::{MAX_ATOMIC_BYTES, RmaOp};

/// A transport under the engine: it moves frames between one endpoint and its peers.
///
/// Frames posted to one peer arrive there in the order of posting, each exactly once, until the peer goes
/// down. A link owns connection set-up: the first frame to a peer starts it.
///
/// A link over an unordered wire keeps the order of messages alone: of [`Kind::Msg`], [`Kind::Tagged`], messages of collectives and
/// the `Rts` of each. All other frames may overtake, with one exception: the first frame of a message, write or response arrives before
/// its segments, which are delivered by [`Sink::unordered_segment`]. fi_getinfo(3) then offers no order of accesses.
pub trait Link {
    /// A peer's link that has a frame has all frames that were posted before it. Where that is not so, every frame of a message says that its sender
    /// waits for it ([`Frame::transmit_complete`]), not the last one alone.
    const IN_ORDER: bool = true;
    /// The link cuts messages itself: those of up to [`Limits::segmented`] bytes are posted whole, in one frame, and none is sent as segments before the
    /// peer asks for it.
    const CUTS_MESSAGES: bool = false;
    /// There may be paths on which the link carries out accesses by itself ([`Limits::one_sided`]).
    const CARRIES_OUT: bool = true;
    /// Longest body of an atomic that a peer may send, comparands included, and longest response to one, which goes in one frame whatever
    /// [`Limits::eager`] says. More than what this engine sends only where peers of another library send more.
    const LONGEST_ATOMIC: usize = MAX_ATOMIC_BYTES;

    /// Returns what the path to `peer` can take; may change when the connection is negotiated, and some lengths at any time.
    fn limits(&self, peer: PeerId) -> &Limits;

    /// Hands over one frame.
    ///
    /// `Posted::Done` means that the body's memory is no longer needed. `Posted::Pending` means that the link
    /// still reads it and will call [`Sink::sent`] with `token`. The link keeps no queue of its own beyond
    /// that: when it can take no frame now it returns [`PostError::Again`], and calls [`Sink::writable`] once
    /// it can.
    ///
    /// # Errors
    /// [`PostError::Again`] (blocked or still connecting), [`PostError::Down`] (the peer is gone).
    fn post(&mut self, peer: PeerId, frame: Frame<'_>, token: TxToken)
    -> Result<Posted, PostError>;

    /// Returns whether nothing that is posted to the peer now comes to its memory before what was posted earlier; if not, [`Sink::writable`] follows. Asked where a
    /// fence is met, when all that is before it is complete.
    fn settles(&mut self, peer: PeerId) -> bool {
        let _ = peer;
        true
    }

    /// Returns the longest write that goes with its header in one frame to a peer with these limits though the link might carry it out by itself
    /// ([`Link::carry_out`]).
    #[inline(always)]
    fn eager_write(&self, limits: &Limits) -> usize {
        limits.eager
    }

    /// Carries out a read or write of the peer's memory at once, if this side can do so alone; returns whether it did. What is
    /// not carried out is posted as frames, by which the peer can refuse it. Called only for reads, and for writes longer than one frame,
    /// without completion data or fence, while no frame waits for the peer; of one that had to wait, when it is the next one.
    fn carry_out(&mut self, access: &RmaOp<'_>) -> bool {
        let _ = access;
        false
    }

    /// Reads `into.len()` bytes from the start of the sender's memory that an arrived `*Rts` frame named.
    ///
    /// `Posted::Done` means that they are in their place. After `Posted::Pending` the result comes through [`Sink::pulled`], never
    /// before this call returns. Only called when [`Limits::pull`] is set.
    ///
    /// # Errors
    /// As [`Link::post`].
    fn pull(
        &mut self,
        peer: PeerId,
        remote: &RemoteIov,
        into: Iov,
        token: RxToken,
    ) -> Result<Posted, PostError>;

    /// Sends the frames that [`Frame::more`] allowed to be held back.
    fn flush(&mut self);

    /// Moves what can be moved without waiting, reports it to `sink`; returns how many events there were. A part of a
    /// body that moved is one: a caller that waits for a long body sees its progress.
    fn poll(&mut self, now: Instant, sink: &mut impl Sink) -> usize;

    /// Delivers the arrival again that was answered with [`Placement::Stall`], at the next poll.
    fn resume(&mut self, peer: PeerId);

    /// Ends the connection with a peer, which sees it too, as if it had been lost: [`Sink::peer_down`] follows with a later poll, for
    /// which threads that sleep on the link are woken. `why` is the cause that error messages give. Returns false where there is no
    /// connection; the next post starts one.
    fn disconnect(&mut self, peer: PeerId, why: &'static str) -> bool {
        let _ = (peer, why);
        false
    }
}

/// What a link calls while it is polled. The engine implements it.
pub trait Sink {
    /// Takes a complete header; returns where its body goes *before* a streamed body moves.
    fn arrival(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement;

    /// Takes a [`Kind::MsgRts`] or [`Kind::TaggedRts`] as [`Sink::arrival`] does, from a link that can copy the message here at once and then send its
    /// `Fin`; `pieces` is the sender's memory. A sink that has a buffer for all of it calls `copy`, which copies the message to the beginning of that buffer and returns whether it did.
    fn announced(
        &mut self,
        from: PeerId,
        header: &Header,
        pieces: &[Target],
        copy: &mut dyn FnMut(&Iov) -> bool,
    ) -> Announced {
        let _ = copy;
        Announced::Placed(match RemoteIov::new(pieces) {
            Some(remote) => self.arrival(from, header, Body::Remote(remote)),
            None => Placement::Refuse,
        })
    }

    /// Takes a [`Kind::MsgRts`], [`Kind::TaggedRts`] or [`Kind::WriteRts`] as [`Sink::arrival`] or [`Sink::access`] does, from a link that pulls without being
    /// asked to; `remote` is the sender's memory. [`Placement::Into`]: the link pulls the beginning of that memory into this one at once, and then calls
    /// [`Sink::pulled`] or [`Sink::end_pull`]; where it cannot begin now it calls [`Sink::put_off`] instead.
    fn begin_pull(
        &mut self,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        remote: &RemoteIov,
    ) -> Placement {
        match header.kind {
            Kind::WriteRts => self.access(from, header, targets, Body::Remote(*remote)),
            _ => self.arrival(from, header, Body::Remote(*remote)),
        }
    }

    /// Reports that a pull which [`Sink::begin_pull`] asked for cannot begin now: after [`PostError::Again`]. It begins by [`Link::pull`].
    fn put_off(&mut self, token: RxToken, remote: &RemoteIov) {
        let _ = (token, remote);
    }

    /// Takes a complete header as [`Sink::arrival`] does, for [`Kind::Write`], [`Kind::WriteRts`], [`Kind::Read`] and
    /// atomics, which name memory of this endpoint.
    fn access(
        &mut self,
        from: PeerId,
        header: &Header,
        targets: &[Target],
        body: Body<'_>,
    ) -> Placement {
        let _ = (from, header, targets, body);
        Placement::Refuse
    }

    /// Takes the announcement of a message ([`Kind::MsgRts`], [`Kind::TaggedRts`]) as [`Sink::arrival`] does, from a link that keeps `held` bytes of the message until it is asked
    /// for the rest: they count as if they were here.
    fn announced_in_part(&mut self, from: PeerId, header: &Header, held: usize) -> Placement {
        let _ = held;
        self.arrival(from, header, Body::Whole(&[]))
    }

    /// Takes a [`Kind::Segment`] that may come before others of its message with lower offsets, as [`Sink::arrival`] takes one that
    /// may not. No part may come twice.
    fn unordered_segment(&mut self, from: PeerId, header: &Header, body: Body<'_>) -> Placement {
        let _ = (from, header, body);
        Placement::Refuse
    }

    /// Reports that a peer wrote to memory of this endpoint by itself ([`OneSided::WRITE_DATA`]) and sent completion data along.
    fn written(&mut self, from: PeerId, write: RemoteWrite) {
        let _ = (from, write);
    }

    /// Returns the memory with this key as a whole, if peers may access it without notice: nothing here counts or reports that.
    fn open_region(&self, key: u64) -> Option<OpenRegion> {
        let _ = key;
        None
    }

    /// Reports that a streamed body that was placed is complete, or that the peer went down within it.
    fn placed(&mut self, token: RxToken, result: Result<(), Errno>);

    /// Reports that the link no longer needs the memory of a pending frame; of a frame that the link carried out by itself
    /// ([`OneSided`]), that it is carried out, or why not.
    fn sent(&mut self, token: TxToken, result: Result<(), Errno>);

    /// Reports the end of a pull.
    fn pulled(&mut self, token: RxToken, result: Result<(), Errno>);

    /// Reports the end of a pull as [`Sink::pulled`] does, from a link that tells the peer of it without being asked to: of the message with the id that is returned, by
    /// [`Kind::Fin`] for success. `None`: there is nothing to tell, or it waits behind other answers and comes by [`Link::post`].
    fn end_pull(&mut self, token: RxToken, result: Result<(), Errno>) -> Option<u32> {
        self.pulled(token, result);
        None
    }

    /// Reports that the link takes frames for `peer` again after [`PostError::Again`].
    fn writable(&mut self, peer: PeerId);

    /// Names the peers with pending operations, each once or more often: a link that would not notice by itself that
    /// one of them is gone sends keepalives to them.
    fn peers_with_pending(&self, each: &mut dyn FnMut(PeerId)) {
        let _ = each;
    }

    /// Returns whether a receive is posted: a message that is stalled meanwhile is for none of them.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Returns whether messages of a peer are here: [`Sink::involved`] for a link without connections, quick enough to be asked often.
    fn holds(&self, peer: PeerId) -> bool {
        let _ = peer;
        true
    }

    /// Names the peers that the engine has something with, each once or more often: operations, messages that are here or on their way,
    /// answers. A link that is short of connections closes those of other peers.
    fn involved(&self, each: &mut dyn FnMut(PeerId)) {
        let _ = each;
    }

    /// Returns whether the application knows a peer: its address is in the address vector. Not for the hot path.
    fn is_known(&self, peer: PeerId) -> bool {
        let _ = peer;
        false
    }

    /// Forgets a peer: the link will give its number to another one. Only for a peer that is down and that [`Sink::involved`] does not name,
    /// and only after the poll in which it went down, when its results have been reported.
    fn forget_peer(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// Reports that the peer is gone or could not be reached. Called once, after the results of all its pending
    /// frames, bodies and pulls; later posts start a new connection if the link can make one. If it cannot, ever, this is called again for
    /// receives from the peer that were posted since.
    fn peer_down(&mut self, peer: PeerId, why: Errno);
}

/// The header of a frame: what precedes its body on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// What goes with it.
    pub flags: HeaderFlags,
    /// Names an operation between the two peers. The sender of a message chooses it (for `*Rts`, segmented
    /// messages and those with [`HeaderFlags::DELIVERY`]); every answer and every [`Kind::Segment`] repeats it.
    pub id: u32,
    /// The tag of a tagged message; of a [`Kind::Segment`], the offset of its body in the message; of
    /// [`Kind::Response`] and [`Kind::ResponseRts`], the id of what they answer; of atomics, the datatype, and from bit 8
    /// on the operation.
    pub tag: u64,
    /// Remote completion data if [`HeaderFlags::DATA`]; of [`Kind::Fin`] and [`Kind::Ack`], zero or an errno; of [`Kind::Cts`], how
    /// many bytes from the start of the body may be sent until the next one comes, zero for all.
    pub data: u64,
    /// The length of the whole message in bytes, on every frame that belongs to one. A body may be shorter:
    /// then [`Kind::Segment`] frames follow.
    pub len: u64,
}

/// Kinds of frames. Each link has numbers of its own for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An untagged message, with its body or the first part of it.
    Msg,
    /// A tagged message, with its body or the first part of it.
    Tagged,
    /// An untagged message whose body stays at the sender until it is asked for.
    MsgRts,
    /// A tagged message whose body stays at the sender until it is asked for.
    TaggedRts,
    /// The answer to an Rts that asks the sender to send the body as segments. The memory that the Rts named is not read any
    /// more: once the sink has taken the frame, a link that registered it may let go of it, as after [`Kind::Fin`].
    Cts,
    /// A part of a body.
    Segment,
    /// The message with this id has been placed in the receiver's buffer.
    Ack,
    /// The body of the Rts with this id has been pulled, or is not wanted; or the read or write with this id is
    /// refused. The memory that the Rts named is not read any more.
    Fin,
    /// Data for memory of the receiver, with its body or the first part of it.
    Write,
    /// Data for memory of the receiver; the body stays at the sender until it is asked for.
    WriteRts,
    /// A request for data from memory of the receiver. It has no body; `len` is how much is wanted.
    Read,
    /// The data that a read asked for, or the first part of it.
    Response,
    /// The data that a read asked for stays where it is until it is pulled or asked for.
    ResponseRts,
    /// An update of memory of the receiver, with its operand; always whole.
    Atomic,
    /// An update of memory of the receiver, with its operand; a [`Kind::Response`] brings what was there before.
    FetchAtomic,
    /// A fetching update whose body has the comparand behind the operand.
    CompareAtomic,
    /// A message of a collective, with its body or the first part of it.
    Collective,
    /// A message of a collective whose body stays at the sender until it is asked for.
    CollectiveRts,
}

impl Kind {
    /// Returns whether [`Frame::len`] bytes go with it; otherwise none do.
    #[inline]
    pub const fn carries_body(self) -> bool {
        use Kind::{Collective, Msg, Response, Segment, Tagged, Write};
        self.is_atomic() || matches!(self, Msg | Tagged | Segment | Write | Response | Collective)
    }

    /// Returns whether it is an update of memory: one frame, whatever [`Limits`] say.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic | Self::FetchAtomic | Self::CompareAtomic)
    }
}

bitflags! {
    /// What goes with a frame.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct HeaderFlags: u8 {
        /// [`Header::data`] is remote completion data.
        const DATA = 1;
        /// The sender waits for an [`Kind::Ack`] (delivery complete).
        const DELIVERY = 2;
        /// As `DELIVERY`, for match complete: acknowledged once a receive buffer matched.
        const MATCH = 4;
    }
}

/// A frame to post.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its header.
    pub header: Header,
    /// The message's memory. For `*Rts` frames the memory itself is not sent, only where it is, if the link
    /// can be pulled from.
    pub body: &'a Iov,
    /// The part of `body` to send.
    pub offset: usize,
    /// Bytes to send of it.
    pub len: usize,
    /// The memory of the peer that a [`Kind::Write`], [`Kind::WriteRts`], [`Kind::Read`] or an atomic is about.
    pub targets: &'a [Target],
    /// The memory is valid during the call only: the link copies what it cannot send at once, and so never
    /// answers [`Posted::Pending`], unless it carries the frame out by itself ([`OneSided`]) or the frame has `transmit_complete`.
    pub transient: bool,
    /// The sender waits until nothing of the frame depends on this process any more (transmit complete). A link that sends
    /// a lost frame again out of this process's memory answers [`Posted::Pending`], and calls [`Sink::sent`] when the peer's link
    /// has acknowledged the frame and all before it, or the frame alone if it keeps no order ([`Link::IN_ORDER`]). One that hands frames to the kernel, or to memory that outlives the process, ignores this.
    pub transmit_complete: bool,
    /// More frames follow at once: the link may hold this one back until [`Link::flush`].
    pub more: bool,
}

impl<'a> Frame<'a> {
    /// Returns a frame with a body, all of which is sent, and about no memory of the peer.
    #[inline(always)]
    pub const fn whole(header: Header, body: &'a Iov) -> Self {
        Self {
            header,
            body,
            offset: 0,
            len: body.len(),
            targets: &[],
            transient: false,
            transmit_complete: false,
            more: false,
        }
    }

    /// Returns whether a link that does not track the frame may hold it back until [`Link::flush`].
    #[inline]
    pub const fn may_wait(&self) -> bool {
        self.more && !self.transmit_complete
    }
}

/// Result of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The body's memory is no longer needed; [`Sink::sent`] will not be called.
    Done,
    /// [`Sink::sent`] will be called.
    Pending,
}

/// The reason that a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The link takes no frame now: [`Sink::writable`] or [`Sink::peer_down`] will follow.
    Again,
    /// The link takes no frame for the peer any more.
    Down(Errno),
}

/// What the path to a peer can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest message that goes with its header in one frame; may change at any time.
    pub eager: usize,
    /// Longest message that is sent at once in several frames (at least `eager`). Writes of more than one frame wait for an answer where the
    /// peer can pull them: it can refuse them then.
    pub segmented: usize,
    /// Writes and responses may be sent at once in several frames, too.
    pub segmented_rma: bool,
    /// Longest body of one [`Kind::Segment`] frame.
    pub segment: usize,
    /// Untagged messages may use `MsgRts`; otherwise they go eagerly, whatever their length.
    pub rndv_msg: bool,
    /// Tagged messages may use `TaggedRts`, and messages of collectives `CollectiveRts`.
    pub rndv_tagged: bool,
    /// Writes and responses may use `WriteRts` and `ResponseRts`, and a refused access is answered by `Fin`.
    /// Otherwise a refused access drops the connection.
    pub rndv_rma: bool,
    /// The receiver of an Rts can read the sender's memory ([`Link::pull`]).
    pub pull: bool,
    /// The peer matches acknowledgements by order of arrival: acknowledge a message when it has arrived
    /// completely, in order, matched or not.
    pub ack_on_arrival: bool,
    /// What the link does to memory of the peer by itself.
    pub one_sided: OneSided,
}

bitflags! {
    /// Accesses that a link carries out by itself, without the engine of the peer: RDMA.
    ///
    /// Their frames are posted whole, whatever their length, and no answer to them is expected: [`Posted::Done`], or
    /// [`Sink::sent`] after [`Posted::Pending`], says that the access was carried out, whatever level of completion was asked for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OneSided: u8 {
        /// [`Kind::Write`] without completion data.
        const WRITE = 1;
        /// [`Kind::Write`] with completion data, which the peer's link reports by [`Sink::written`].
        const WRITE_DATA = 2;
        /// [`Kind::Read`]: the body of the frame is where the data goes.
        const READ = 4;
        /// Atomics. What one fetches comes as a [`Kind::Response`], after the end of the frame was reported.
        const ATOMIC = 8;
        /// [`Kind::Write`] with completion data of at most 32 bits, as [`OneSided::WRITE_DATA`].
        const WRITE_SHORT_DATA = 16;
    }
}

impl Limits {
    /// Returns the longest message that is posted whole.
    #[inline(always)]
    pub(crate) const fn longest_whole<L: Link>(&self) -> usize {
        match L::CUTS_MESSAGES {
            true => self.segmented,
            false => self.eager,
        }
    }

    /// Returns whether the link carries out a frame with this header by itself.
    #[inline]
    pub const fn carries_out(&self, header: &Header) -> bool {
        let access = match header.kind {
            Kind::Write if header.flags.contains(HeaderFlags::DATA) => {
                let fits = header.data <= u32::MAX as u64;
                let short = self.one_sided.contains(OneSided::WRITE_SHORT_DATA);
                return fits && short || self.one_sided.contains(OneSided::WRITE_DATA);
            }
            Kind::Write => OneSided::WRITE,
            Kind::Read => OneSided::READ,
            kind if kind.is_atomic() => OneSided::ATOMIC,
            _ => return false,
        };
        self.one_sided.contains(access)
    }
}

/// What is known of a write that a peer's link carried out by itself, without this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteWrite {
    /// Remote completion data.
    pub data: u64,
    /// Number of bytes that were written.
    pub len: u64,
    /// The key of the memory, or zero where the link does not learn it.
    pub key: u64,
}

/// Where the body of an arriving frame is.
#[derive(Debug)]
pub enum Body<'a> {
    /// It is here, whole; it is valid during the call only.
    Whole(&'a [u8]),
    /// This number of bytes follows in the stream.
    Stream(usize),
    /// It stays at the sender, in this memory (of `*Rts` frames on links that can pull).
    Remote(RemoteIov),
}

/// Where a body goes.
#[derive(Debug)]
pub enum Placement {
    /// The sink has dealt with the body (always for `Whole` and `Remote`, and for empty ones).
    Done,
    /// Read the streamed body into this memory, drop what does not fit, then call [`Sink::placed`].
    Into(Iov, RxToken),
    /// Read the streamed body and drop it.
    Discard,
    /// There is no room: deliver nothing more from this peer until [`Link::resume`], then deliver the same
    /// arrival again, with as much of its body.
    Stall,
    /// The frame breaks the protocol: drop the connection.
    Refuse,
}

/// What became of a message that a link offered to copy ([`Sink::announced`]).
#[derive(Debug)]
pub enum Announced {
    /// The link has copied it, and answers it with [`Kind::Fin`] for success: the engine has reported its end.
    Copied,
    /// The link has not copied it, and goes on as after [`Sink::arrival`].
    Placed(Placement),
}

/// Memory of another process. A link that reads it by address alone leaves the keys zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteIov {
    pieces: [Target; MAX_SEGMENTS],
    count: u8,
}

impl RemoteIov {
    /// Describes pieces in order; `None` when there are too many.
    #[inline(always)]
    pub fn new(pieces: &[Target]) -> Option<Self> {
        Self::of(pieces.iter().copied())
    }

    /// Describes the pieces that there are, in order; `None` when there are too many.
    #[inline(always)]
    pub fn of(pieces: impl IntoIterator<Item = Target>) -> Option<Self> {
        let mut all = Self::default();
        for piece in pieces {
            *all.pieces.get_mut(all.count as usize)? = piece;
            all.count += 1;
        }
        Some(all)
    }

    /// Returns the pieces in order.
    pub fn pieces(&self) -> &[Target] {
        &self.pieces[..self.count as usize]
    }
}

/// Registered memory of this process that peers may access without notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRegion {
    /// The address by which peers name its first byte.
    pub addr: u64,
    /// The virtual address of its first byte in this process.
    pub base: u64,
    /// Its length in bytes.
    pub len: u64,
    /// `REMOTE_READ`, `REMOTE_WRITE`, or both.
    pub access: Flags,
}

/// Memory of a peer as another peer names it; with a key, it was registered for access, fi_mr(3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Where it starts: a virtual address, or an offset into the region.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The region's key.
    pub key: u64,
}

impl Target {
    /// Names memory that is found by its address alone.
    pub const fn unkeyed(addr: u64, len: u64) -> Self {
        Self { addr, len, key: 0 }
    }
}

/// Names a posted frame between the engine and its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TxToken(pub u32);

/// Names a placed body or a pull between the engine and its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RxToken(pub u32);
