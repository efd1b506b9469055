//! Fabric, domain and endpoints on a subject, closed in the order that the man pages ask for.

use core::ffi::c_int;
use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::subject::InfoList;
use crate::traffic::Traffic;
use crate::{Subject, c};

/// An open fabric with one domain.
#[derive(Debug)]
pub struct Fixture {
    /// The offers that they were opened for.
    pub info: InfoList,
    /// The fabric.
    pub fabric: *mut fid_fabric,
    /// The domain.
    pub domain: *mut fid_domain,
}

impl Fixture {
    /// Opens the subject's first offer.
    #[must_use]
    pub fn new(subject: &Subject) -> Self {
        Self::of(subject, subject.query(&subject.hints()))
    }

    /// Opens the subject's first offer for changed hints.
    pub fn with(subject: &Subject, change: impl FnOnce(&mut fi_info)) -> Self {
        let mut hints = subject.hints();
        change(hints.first_mut());
        Self::of(subject, subject.query(&hints))
    }

    /// Opens the first offer of a list.
    #[must_use]
    pub fn of(subject: &Subject, info: InfoList) -> Self {
        let (mut fabric, mut domain) = (null_mut(), null_mut());
        let attr = info.first().fabric_attr;
        assert_eq!(
            c!((subject.library.fabric)(attr, &mut fabric, null_mut())),
            0
        );
        let opened = c!(fi_domain(fabric, info.as_ptr(), &mut domain, null_mut()));
        assert_eq!(opened, 0);
        Self {
            info,
            fabric,
            domain,
        }
    }

    /// Opens a completion queue.
    #[must_use]
    pub fn cq(&self, change: impl FnOnce(&mut fi_cq_attr)) -> *mut fid_cq {
        let mut attr = fi_cq_attr {
            format: FI_CQ_FORMAT_TAGGED,
            wait_obj: FI_WAIT_UNSPEC,
            ..fi_cq_attr::ZERO
        };
        change(&mut attr);
        let mut cq = null_mut();
        let opened = c!(fi_cq_open(self.domain, &mut attr, &mut cq, null_mut()));
        assert_eq!(opened, 0);
        cq
    }

    /// Opens an event queue that programs may write to.
    #[must_use]
    pub fn eq(&self) -> *mut fid_eq {
        let mut attr = fi_eq_attr {
            flags: FI_WRITE,
            wait_obj: FI_WAIT_FD,
            ..fi_eq_attr::ZERO
        };
        let mut eq = null_mut();
        let opened = c!(fi_eq_open(self.fabric, &mut attr, &mut eq, null_mut()));
        assert_eq!(opened, 0);
        eq
    }

    /// Opens an address vector of the kind that the domain prefers.
    #[must_use]
    pub fn av(&self) -> *mut fid_av {
        let mut attr = fi_av_attr::ZERO;
        let mut av = null_mut();
        let opened = c!(fi_av_open(self.domain, &mut attr, &mut av, null_mut()));
        assert_eq!(opened, 0);
        av
    }

    /// Opens a counter.
    #[must_use]
    pub fn cntr(&self, wait_obj: fi_wait_obj) -> *mut fid_cntr {
        let mut attr = fi_cntr_attr {
            wait_obj,
            ..fi_cntr_attr::ZERO
        };
        let mut cntr = null_mut();
        let opened = c!(fi_cntr_open(self.domain, &mut attr, &mut cntr, null_mut()));
        assert_eq!(opened, 0);
        cntr
    }

    /// Opens an endpoint with nothing bound.
    #[must_use]
    pub fn bare(&self) -> *mut fid_ep {
        let mut ep = null_mut();
        let opened = c!(fi_endpoint(
            self.domain,
            self.info.as_ptr(),
            &mut ep,
            null_mut()
        ));
        assert_eq!(opened, 0);
        ep
    }

    /// Opens an endpoint with a queue of both directions and a vector of its own, and enables it.
    #[must_use]
    pub fn end(&self) -> TestEndpoint {
        self.end_with(FI_SEND | FI_RECV, |_| {})
    }

    /// Opens an endpoint as [`Fixture::end`] does, with other flags of the queue's binding; `bind_more` binds further objects before
    /// enabling.
    pub fn end_with(&self, flags: u64, bind_more: impl FnOnce(*mut fid_ep)) -> TestEndpoint {
        let end = TestEndpoint {
            ep: self.bare(),
            cq: self.cq(|_| {}),
            av: self.av(),
            eq: null_mut(),
            traffic: Traffic::default(),
        };
        assert_eq!(bind(end.ep, end.cq, flags), 0);
        assert_eq!(bind(end.ep, end.av, 0), 0);
        bind_more(end.ep);
        assert_eq!(c!(fi_enable(end.ep)), 0);
        end
    }

    /// Gives domain and fabric up, to be closed by hand.
    #[must_use]
    pub fn into_handles(self) -> (*mut fid_domain, *mut fid_fabric) {
        let mut fixture = core::mem::ManuallyDrop::new(self);
        // SAFETY: the fixture is not dropped, so that nothing else releases the entry.
        unsafe { core::ptr::drop_in_place(&mut fixture.info) };
        (fixture.domain, fixture.fabric)
    }

    /// Opens two endpoints with each other's address.
    #[must_use]
    pub fn pair(&self) -> Pair {
        Pair::of(self.end(), self.end())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let closed = (close(self.domain), close(self.fabric));
        if !std::thread::panicking() {
            assert_eq!(closed, (0, 0), "everything of the domain was closed");
        }
    }
}

/// An enabled endpoint.
#[derive(Debug)]
pub struct TestEndpoint {
    /// The endpoint.
    pub ep: *mut fid_ep,
    /// Its completion queue, in the tagged format.
    pub cq: *mut fid_cq,
    /// Its address vector; none if it is connected.
    pub av: *mut fid_av,
    /// Its event queue, if it has one.
    pub eq: *mut fid_eq,
    /// The operations in flight.
    pub traffic: Traffic,
}

impl TestEndpoint {
    /// Returns the address that peers insert.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        let mut name = vec![0; 256];
        let mut len = name.len();
        let place = name.as_mut_ptr().cast();
        assert_eq!(c!(fi_getname(self.ep.cast(), place, &mut len)), 0);
        name.truncate(len);
        name
    }

    /// Inserts another endpoint into the vector.
    #[must_use]
    pub fn knows(&self, other: &Self) -> fi_addr_t {
        let name = other.name();
        let mut at = 77;
        let place = name.as_ptr().cast();
        let inserted = c!(fi_av_insert(self.av, place, 1, &mut at, 0, null_mut()));
        assert_eq!(inserted, 1);
        at
    }
}

impl Drop for TestEndpoint {
    fn drop(&mut self) {
        let mut closed = vec![close(self.ep), close(self.cq)];
        if !self.av.is_null() {
            closed.push(close(self.av));
        }
        if !self.eq.is_null() {
            closed.push(close(self.eq));
        }
        if !std::thread::panicking() {
            assert!(closed.iter().all(|&code| code == 0), "{closed:?}");
        }
    }
}

/// Two endpoints with each other's address.
#[derive(Debug)]
pub struct Pair {
    /// The first endpoint.
    pub a: TestEndpoint,
    /// The second endpoint.
    pub b: TestEndpoint,
    /// The address of `b` in the vector of `a`.
    pub to_b: fi_addr_t,
    /// The address of `a` in the vector of `b`.
    pub to_a: fi_addr_t,
}

impl Pair {
    /// Inserts the address of each endpoint into the other's vector.
    #[must_use]
    pub fn of(a: TestEndpoint, b: TestEndpoint) -> Self {
        let (to_b, to_a) = (a.knows(&b), b.knows(&a));
        Self { a, b, to_b, to_a }
    }
}

/// Closes an object of any class.
pub fn close<T>(handle: *mut T) -> c_int {
    c!(fi_close(handle.cast()))
}

/// Binds an object of any class to an endpoint.
pub fn bind<T>(ep: *mut fid_ep, object: *mut T, flags: u64) -> c_int {
    c!(fi_ep_bind(ep, object.cast(), flags))
}
