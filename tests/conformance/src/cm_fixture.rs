//! Connected endpoints, and the passive endpoint at which they connect. Only some providers have them.

use core::ptr::{null, null_mut};
use std::time::Instant;

use oxifabric_abi::*;

use crate::c;
use crate::fixture::{Fixture, Pair, TestEndpoint, bind, close};
use crate::subject::{InfoList, Subject};
use crate::traffic::{TIMEOUT, Traffic};

/// A passive endpoint with its event queue.
#[derive(Debug)]
pub struct CmFixture {
    /// The passive endpoint.
    pub pep: *mut fid_pep,
    /// Its event queue.
    pub eq: *mut fid_eq,
    /// The fabric and domain.
    pub fixture: Fixture,
}

/// The result of reading an event queue.
#[derive(Debug)]
pub enum Event {
    /// An event of connection management.
    Cm {
        /// The event.
        event: u32,
        /// The object of the event.
        fid: fid_t,
        /// The connection request, for FI_CONNREQ; else null.
        info: *mut fi_info,
        /// The data that the peer sent.
        data: Vec<u8>,
    },
    /// An error entry.
    Failed {
        /// The entry.
        entry: fi_eq_err_entry,
        /// The error data.
        data: Vec<u8>,
    },
}

impl CmFixture {
    /// Opens a passive endpoint on the loopback interface that listens.
    #[must_use]
    pub fn new(subject: &Subject) -> Self {
        let cm = Self::closed(subject);
        assert_eq!(c!(fi_listen(cm.pep)), 0);
        cm
    }

    /// Opens a passive endpoint that does not listen.
    #[must_use]
    pub fn closed(subject: &Subject) -> Self {
        let mut hints = subject.hints();
        hints.first_mut().caps = FI_MSG | FI_SEND | FI_RECV;
        c!((*hints.first().ep_attr).type_ = FI_EP_MSG);
        let found = subject.try_query(&hints, Some(c"127.0.0.1"), FI_SOURCE);
        let fixture = Fixture::of(subject, found.expect("connected endpoints"));
        let eq = fixture.eq();
        let mut pep = null_mut();
        let opened = c!(fi_passive_ep(
            fixture.fabric,
            fixture.info.as_ptr(),
            &mut pep,
            null_mut()
        ));
        assert_eq!(opened, 0);
        assert_eq!(c!(fi_pep_bind(pep, eq.cast(), 0)), 0);
        Self { pep, eq, fixture }
    }

    /// Returns its address.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        name_of(self.pep.cast())
    }

    /// Opens an endpoint that may connect, not enabled.
    #[must_use]
    pub fn caller(&self) -> TestEndpoint {
        self.opened(self.fixture.info.as_ptr())
    }

    fn opened(&self, info: *mut fi_info) -> TestEndpoint {
        let mut ep = null_mut();
        let domain = self.fixture.domain;
        assert_eq!(c!(fi_endpoint(domain, info, &mut ep, null_mut())), 0);
        let end = TestEndpoint {
            ep,
            cq: self.fixture.cq(|_| {}),
            av: null_mut(),
            eq: self.fixture.eq(),
            traffic: Traffic::default(),
        };
        assert_eq!(bind(ep, end.cq, FI_SEND | FI_RECV), 0);
        assert_eq!(bind(ep, end.eq, 0), 0);
        end
    }

    /// Starts to connect.
    #[must_use]
    pub fn call(&self, end: &TestEndpoint, data: &[u8]) -> i32 {
        let name = self.name();
        let place = if data.is_empty() {
            null()
        } else {
            data.as_ptr().cast()
        };
        c!(fi_connect(end.ep, name.as_ptr().cast(), place, data.len()))
    }

    /// Waits for the request of a caller; returns its description and the caller's data.
    #[must_use]
    pub fn request(&self, caller: &TestEndpoint) -> (InfoList, Vec<u8>) {
        match next_event(self.eq, &[caller]) {
            Event::Cm {
                event: FI_CONNREQ,
                info,
                data,
                ..
            } => (self.fixture.info.like(info), data),
            other => panic!("{other:?}"),
        }
    }

    /// Accepts a request with a new endpoint.
    #[must_use]
    pub fn accept(&self, request: &InfoList, data: &[u8]) -> TestEndpoint {
        let end = self.opened(request.as_ptr());
        let place = data.as_ptr().cast();
        assert_eq!(c!(fi_accept(end.ep, place, data.len())), 0);
        end
    }

    /// Rejects a request.
    pub fn reject(&self, request: &InfoList, data: &[u8]) {
        let handle = request.first().handle;
        let place = data.as_ptr().cast();
        assert_eq!(c!(fi_reject(self.pep, handle, place, data.len())), 0);
    }

    /// Connects two endpoints: `a` is the caller.
    #[must_use]
    pub fn pair(&self) -> Pair {
        let a = self.caller();
        assert_eq!(self.call(&a, &[]), 0);
        self.meet(a)
    }

    /// Accepts the request of `a` and waits until both are connected.
    #[must_use]
    pub fn meet(&self, a: TestEndpoint) -> Pair {
        let (request, _) = self.request(&a);
        let b = self.accept(&request, &[]);
        for end in [&a, &b] {
            let _ = connected(end, &[&a, &b]);
        }
        Pair {
            a,
            b,
            to_b: FI_ADDR_UNSPEC,
            to_a: FI_ADDR_UNSPEC,
        }
    }
}

impl Drop for CmFixture {
    fn drop(&mut self) {
        let closed = [close(self.pep), close(self.eq)];
        if !std::thread::panicking() {
            assert_eq!(closed, [0; 2]);
        }
    }
}

/// Returns the address of an active or a passive endpoint.
#[must_use]
pub fn name_of(fid: fid_t) -> Vec<u8> {
    let mut name = vec![0; 256];
    let mut len = name.len();
    assert_eq!(c!(fi_getname(fid, name.as_mut_ptr().cast(), &mut len)), 0);
    name.truncate(len);
    name
}

/// Returns the address of the peer of a connected endpoint.
#[must_use]
pub fn peer_of(end: &TestEndpoint) -> Vec<u8> {
    let mut name = vec![0; 256];
    let mut len = name.len();
    assert_eq!(
        c!(fi_getpeer(end.ep, name.as_mut_ptr().cast(), &mut len)),
        0
    );
    name.truncate(len);
    name
}

/// Waits until an endpoint is connected; returns the data that its peer sent.
#[must_use]
pub fn connected(end: &TestEndpoint, others: &[&TestEndpoint]) -> Vec<u8> {
    match next_event(end.eq, others) {
        Event::Cm {
            event: FI_CONNECTED,
            fid,
            data,
            ..
        } => {
            assert_eq!(fid, end.ep.cast());
            data
        }
        other => panic!("{other:?}"),
    }
}

/// Waits for the next event of a queue while endpoints make progress; their events stay where they are.
#[must_use]
pub fn next_event(eq: *mut fid_eq, others: &[&TestEndpoint]) -> Event {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        if let Some(event) = event(eq) {
            return event;
        }
        for end in others {
            let mut entry = [0_u64; 64];
            let place = entry.as_mut_ptr().cast();
            c!(fi_eq_read(
                end.eq,
                &mut 0,
                place,
                size_of_val(&entry),
                FI_PEEK
            ));
            c!(fi_cq_read(end.cq, null_mut(), 0));
        }
    }
    panic!("no event came");
}

/// Reads an event queue once.
#[must_use]
pub fn event(eq: *mut fid_eq) -> Option<Event> {
    let (mut event, mut entry) = (0, [0_u64; 256]);
    let (place, room) = (entry.as_mut_ptr(), size_of_val(&entry));
    let read = c!(fi_eq_read(eq, &mut event, place.cast(), room, 0));
    if read == -(FI_EAGAIN as isize) {
        return None;
    }
    if read == -(FI_EAVAIL as isize) {
        let mut entry = fi_eq_err_entry::ZERO;
        assert!(c!(fi_eq_readerr(eq, &mut entry, 0)) > 0);
        let data = match entry.err_data_size {
            0 => Vec::new(),
            size => c!(core::slice::from_raw_parts(
                entry.err_data.cast::<u8>(),
                size
            ))
            .to_vec(),
        };
        return Some(Event::Failed { entry, data });
    }
    let head = size_of::<fi_eq_cm_entry>();
    assert!(read >= head as isize, "{read}");
    let cm = c!(place.cast::<fi_eq_cm_entry>().read());
    let data = c!(core::slice::from_raw_parts(
        place.cast::<u8>().add(head),
        read as usize - head
    ));
    Some(Event::Cm {
        event,
        fid: cm.fid,
        info: cm.info,
        data: data.to_vec(),
    })
}
