//! Descriptors reach devices that read them, and are asked for where local memory must be registered (FI_MR_LOCAL).

use core::ffi::c_void;
use core::ptr::null_mut;
use std::sync::Arc;

use libc::iovec;
use oxifabric_abi::*;
use oxifabric_types::{Caps, MrMode};

use super::adapter::AdapterState;
use super::mock::{DESCRIBED_MOCK, offer};
use super::world::{End, World, c, close};

const INVAL: isize = -(FI_EINVAL as isize);

/// An endpoint that sends to itself and writes its own memory, with a registered buffer.
struct Fixture {
    // Objects close in this order.
    end: End,
    region: *mut fid_mr,
    memory: Box<[u8; 64]>,
    adapter: Arc<AdapterState>,
    peer: End,
    to: fi_addr_t,
    world: World,
}

impl Fixture {
    fn new(name: &'static str, mode: MrMode) -> Self {
        let mut info = offer();
        info.domain.name = name.into();
        info.domain.mr_mode = mode;
        info.caps |= Caps::RMA | Caps::ATOMIC | Caps::READ | Caps::WRITE;
        info.caps |= Caps::REMOTE_READ | Caps::REMOTE_WRITE;
        let world = World::over(&DESCRIBED_MOCK, FI_VERSION(2, 6), info);
        let adapter = AdapterState::named(name);
        let mut memory = Box::new([0; 64]);
        let mut region = null_mut();
        let access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        let registered = c!(fi_mr_reg(
            world.domain,
            memory.as_mut_ptr().cast(),
            64,
            access,
            0,
            7,
            0,
            &mut region,
            null_mut()
        ));
        assert_eq!(registered, 0);
        let end = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
        let peer = world.end(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
        let to = end.knows(&peer);
        Self {
            end,
            region,
            memory,
            adapter,
            peer,
            to,
            world,
        }
    }

    fn desc(&self) -> *mut c_void {
        c!(fi_mr_desc(self.region))
    }

    fn buf(&self) -> *mut c_void {
        self.memory.as_ptr().cast_mut().cast()
    }

    fn send(&self, len: usize, desc: *mut c_void) -> isize {
        c!(fi_send(
            self.end.ep,
            self.buf(),
            len,
            desc,
            self.to,
            null_mut()
        ))
    }

    /// Sends two pieces with these descriptors and flags.
    fn send_two(&self, desc: *mut *mut c_void, flags: u64) -> isize {
        let piece = |at: usize| iovec {
            iov_base: self.buf().wrapping_byte_add(at),
            iov_len: 8,
        };
        let pieces = [piece(0), piece(32)];
        let msg = fi_msg {
            msg_iov: pieces.as_ptr(),
            desc,
            iov_count: 2,
            addr: self.to,
            ..fi_msg::ZERO
        };
        c!(fi_sendmsg(self.end.ep, &msg, flags))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        assert_eq!(close(self.region), 0);
    }
}

#[test]
fn a_descriptor_tells_the_device_which_registration_a_send_is_of() {
    let all = Fixture::new("adapter-send", MrMode::empty());
    assert_eq!(all.send(8, all.desc()), 0);
    assert_eq!(all.adapter.given(), [Some(1)]);
    assert_eq!(all.send(8, null_mut()), 0, "nothing has to be registered");
    assert_eq!(all.adapter.given(), [None]);
    assert_eq!(all.send_two([all.desc(), null_mut()].as_mut_ptr(), 0), 0);
    assert_eq!(all.adapter.given(), [Some(1), None]);
    assert_eq!(all.send_two(null_mut(), 0), 0);
    assert_eq!(all.adapter.given(), [None, None]);
}

#[test]
fn a_descriptor_tells_the_device_which_registration_an_access_is_of() {
    let all = Fixture::new("adapter-access", MrMode::empty());
    let wrote = c!(fi_write(
        all.end.ep,
        all.buf(),
        8,
        all.desc(),
        all.to,
        0,
        7,
        null_mut()
    ));
    assert_eq!((wrote, all.adapter.given()), (0, vec![Some(1)]));
    let updated = c!(fi_atomic(
        all.end.ep,
        all.buf(),
        1,
        all.desc(),
        all.to,
        0,
        7,
        FI_UINT64,
        FI_SUM,
        null_mut()
    ));
    assert_eq!((updated, all.adapter.given()), (0, vec![Some(1)]));
}

#[test]
fn what_is_no_descriptor_is_refused() {
    let all = Fixture::new("adapter-foreign", MrMode::empty());
    assert_eq!(all.send(8, all.end.cq.cast()), INVAL, "not a region");
    let two = all.send_two([all.desc(), all.end.cq.cast()].as_mut_ptr(), 0);
    assert_eq!(two, INVAL);
    assert!(all.adapter.given().is_empty());
}

#[test]
fn a_descriptor_of_another_domain_counts_as_none() {
    let other = Fixture::new("adapter-elsewhere", MrMode::empty());
    let all = Fixture::new("adapter-here", MrMode::empty());
    assert_eq!(all.send(8, other.desc()), 0);
    assert_eq!(all.adapter.given(), [None]);
    assert_eq!(all.send_two([all.desc(), other.desc()].as_mut_ptr(), 0), 0);
    assert_eq!(all.adapter.given(), [Some(1), None]);
    let must = Fixture::new("adapter-strict", MrMode::LOCAL);
    assert_eq!(must.send(8, other.desc()), INVAL);
}

#[test]
fn local_memory_must_be_registered_where_the_mode_says_so() {
    let all = Fixture::new("adapter-must", MrMode::LOCAL);
    let (ep, buf, to) = (all.end.ep, all.buf(), all.to);
    let mut one = 1u64;
    let value = (&raw mut one).cast::<c_void>();
    assert_eq!(all.send(8, null_mut()), INVAL);
    let two = |second| all.send_two([all.desc(), second].as_mut_ptr(), 0);
    assert_eq!(
        (two(null_mut()), all.send_two(null_mut(), 0)),
        (INVAL, INVAL)
    );
    let posts = [
        c!(fi_recv(ep, buf, 8, null_mut(), FI_ADDR_UNSPEC, null_mut())),
        c!(fi_trecv(
            ep,
            buf,
            8,
            null_mut(),
            FI_ADDR_UNSPEC,
            0,
            0,
            null_mut()
        )),
        c!(fi_tsend(ep, buf, 8, null_mut(), to, 0, null_mut())),
        c!(fi_senddata(ep, buf, 8, null_mut(), 1, to, null_mut())),
        c!(fi_write(ep, buf, 8, null_mut(), to, 0, 7, null_mut())),
        c!(fi_read(ep, buf, 8, null_mut(), to, 0, 7, null_mut())),
        c!(fi_atomic(
            ep,
            value,
            1,
            null_mut(),
            to,
            0,
            7,
            FI_UINT64,
            FI_SUM,
            null_mut()
        )),
        c!(fi_fetch_atomic(
            ep,
            buf,
            1,
            all.desc(),
            value,
            null_mut(),
            to,
            0,
            7,
            FI_UINT64,
            FI_SUM,
            null_mut()
        )),
    ];
    assert_eq!(posts, [INVAL; 8]);
    assert!(all.adapter.given().is_empty(), "the device was not asked");
    // What is injected is copied, and nothing needs no registration.
    assert_eq!(c!(fi_inject(ep, buf, 8, to)), 0);
    assert_eq!(all.send_two(null_mut(), FI_INJECT), 0);
    assert_eq!(all.send(0, null_mut()), 0);
    assert_eq!(
        c!(fi_recv(
            ep,
            null_mut(),
            8,
            null_mut(),
            FI_ADDR_UNSPEC,
            null_mut()
        )),
        0
    );
    all.adapter.given();
    assert_eq!((all.send(8, all.desc()), two(all.desc())), (0, 0));
    assert_eq!(all.adapter.given(), [Some(1); 3]);
}

#[test]
fn receives_of_a_shared_context_may_name_their_registration() {
    let all = Fixture::new("adapter-shared", MrMode::empty());
    let mut srx = null_mut();
    let opened = c!(fi_srx_context(
        all.world.domain,
        null_mut(),
        &mut srx,
        null_mut()
    ));
    assert_eq!(opened, 0);
    let receive = |desc| c!(fi_recv(srx, all.buf(), 8, desc, FI_ADDR_UNSPEC, null_mut()));
    assert_eq!((receive(all.desc()), receive(null_mut())), (0, 0));
    assert_eq!(receive(all.peer.cq.cast()), INVAL);
    assert_eq!(close(srx), 0);
}
