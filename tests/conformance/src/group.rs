//! Members of collectives: endpoints that have each other's addresses under the same numbers.

use core::ffi::c_void;
use core::ptr::null_mut;
use std::time::Instant;

use oxifabric_abi::*;

use crate::fixture::{Fixture, TestEndpoint, bind, close};
use crate::traffic::{Read, TIMEOUT};
use crate::{Subject, c};

/// Endpoints in one fixture, each of which has the addresses of all in the same order.
#[derive(Debug)]
pub struct Group {
    /// The members; they close before the fixture.
    pub members: Vec<Member>,
    /// The fabric and domain.
    pub fixture: Fixture,
}

/// A member of a group.
#[derive(Debug)]
pub struct Member {
    /// The set of all addresses; null until it joins.
    pub set: *mut fid_av_set,
    /// The group that it joined; null until it joins.
    pub mc: *mut fid_mc,
    /// Its endpoint, with an event queue.
    pub end: TestEndpoint,
}

/// Attributes of a set without members.
pub const EMPTY: fi_av_set_attr = fi_av_set_attr {
    start_addr: FI_ADDR_NOTAVAIL,
    end_addr: FI_ADDR_NOTAVAIL,
    ..fi_av_set_attr::ZERO
};

/// Attributes of a set of all addresses.
pub const UNIVERSE: fi_av_set_attr = fi_av_set_attr {
    flags: FI_UNIVERSE,
    ..EMPTY
};

impl Group {
    /// Opens `count` endpoints.
    #[must_use]
    pub fn open(subject: &Subject, count: usize) -> Self {
        let fixture = Fixture::with(subject, |hints| hints.caps |= FI_COLLECTIVE);
        let members: Vec<_> = (0..count)
            .map(|_| {
                let eq = fixture.eq();
                let mut end =
                    fixture.end_with(FI_SEND | FI_RECV, |ep| assert_eq!(bind(ep, eq, 0), 0));
                end.eq = eq;
                Member {
                    set: null_mut(),
                    mc: null_mut(),
                    end,
                }
            })
            .collect();
        for member in &members {
            for (at, other) in members.iter().enumerate() {
                assert_eq!(member.end.knows(&other.end), at as u64);
            }
        }
        Self { members, fixture }
    }

    /// Opens `count` endpoints that joined a group of all.
    #[must_use]
    pub fn joined(subject: &Subject, count: usize) -> Self {
        let mut group = Self::open(subject, count);
        for member in &mut group.members {
            member.set = open_set(member.end.av, UNIVERSE).expect("a set");
            let (mc, _) = member.join();
            member.mc = mc;
        }
        for at in 0..count {
            let (event, entry) = group.event(at);
            let member = &group.members[at];
            assert_eq!((event, entry.fid), (FI_JOIN_COMPLETE, member.mc.cast()));
        }
        group
    }

    /// Drives the progress of all members; nothing is read.
    pub fn drive(&self) {
        for member in &self.members {
            c!(fi_cq_read(member.end.cq, null_mut(), 0));
        }
    }

    /// Waits for the next event of one.
    #[must_use]
    pub fn event(&self, at: usize) -> (u32, fi_eq_entry) {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            self.drive();
            if let Some(event) = self.members[at].event() {
                return event;
            }
        }
        panic!("no event came");
    }

    /// Waits for the next completion of one.
    #[must_use]
    pub fn done(&self, at: usize) -> fi_cq_tagged_entry {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            self.drive();
            match self.members[at].end.read() {
                Some(Read::Done(done)) => return done,
                Some(Read::Failed(error)) => panic!("{error:?}"),
                None => {}
            }
        }
        panic!("no completion came");
    }

    /// Starts an operation on each member, and waits until all are done; each context must come back as it was given.
    pub fn all(&self, begin: impl Fn(usize, &Member, *mut c_void) -> isize) {
        let contexts: Vec<_> = self
            .members
            .iter()
            .enumerate()
            .map(|(at, member)| {
                let context = member.end.traffic.context();
                let begun = Instant::now();
                loop {
                    match begin(at, member, context) {
                        0 => break context,
                        code if code == -(FI_EAGAIN as isize) && begun.elapsed() < TIMEOUT => {
                            self.drive();
                        }
                        code => panic!("the collective was refused with {code}"),
                    }
                }
            })
            .collect();
        for (at, context) in contexts.into_iter().enumerate() {
            assert_eq!(self.done(at).op_context, context);
        }
    }
}

impl Member {
    /// Starts to join the group of its set, with a context that it returns.
    #[must_use]
    pub fn join(&self) -> (*mut fid_mc, *mut c_void) {
        let (mut mc, mut address) = (null_mut(), 0);
        let context = self.end.traffic.context();
        assert_eq!(c!(fi_av_set_addr(self.set, &mut address)), 0);
        let joined = c!(fi_join_collective(
            self.end.ep,
            address,
            self.set,
            0,
            &mut mc,
            context
        ));
        assert_eq!(joined, 0);
        (mc, context)
    }

    /// Returns the address of the group.
    #[must_use]
    pub fn address(&self) -> fi_addr_t {
        c!(fi_mc_addr(self.mc))
    }

    /// Reads its event queue once.
    #[must_use]
    pub fn event(&self) -> Option<(u32, fi_eq_entry)> {
        let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
        let room = size_of::<fi_eq_entry>();
        let place = (&raw mut entry).cast();
        let read = c!(fi_eq_read(self.end.eq, &mut event, place, room, 0));
        (read == room as isize).then_some((event, entry))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut closed = vec![];
        if !self.mc.is_null() {
            closed.push(close(self.mc));
        }
        if !self.set.is_null() {
            closed.push(close(self.set));
        }
        if !std::thread::panicking() {
            assert!(closed.iter().all(|&code| code == 0), "{closed:?}");
        }
    }
}

/// Opens a set of addresses.
///
/// # Errors
/// The return value of fi_av_set.
pub fn open_set(av: *mut fid_av, mut attr: fi_av_set_attr) -> Result<*mut fid_av_set, i32> {
    let mut set = null_mut();
    match c!(fi_av_set(av, &mut attr, &mut set, null_mut())) {
        0 => Ok(set),
        code => Err(code),
    }
}
