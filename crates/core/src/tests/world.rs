//! Objects of the mock provider, opened through the tables as a C program opens them.

use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};

use oxifabric_abi::*;
use oxifabric_types::Info;

use super::mock::{MOCK, offer};
use crate::info::{self, to_c};
use crate::provider_entry::ProviderEntry;

/// Makes a call of the C interface. What is open stays open, and buffers outlive the call.
macro_rules! c {
    ($call:expr) => {{
        // SAFETY: the handles of a test are open, and its buffers outlive the operations on them.
        #[allow(unused_unsafe, reason = "calls nest")]
        unsafe {
            $call
        }
    }};
}
pub(super) use c;

/// A fabric with one domain; both close at the end.
pub(super) struct World {
    pub(super) fabric: *mut fid_fabric,
    pub(super) domain: *mut fid_domain,
    pub(super) info: Info,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(FI_VERSION(2, 6), |_| {})
    }

    /// Opens a world for an application of that API version that changed the offer.
    pub(super) fn with(api_version: u32, change: impl FnOnce(&mut Info)) -> Self {
        let mut info = offer();
        change(&mut info);
        Self::over(&MOCK, api_version, info)
    }

    /// Opens a world of that provider.
    pub(super) fn over(provider: &'static ProviderEntry, api_version: u32, info: Info) -> Self {
        let mut fabric = null_mut();
        let attr = fi_fabric_attr::ZERO;
        let opened = c!(provider.open_fabric(&attr, api_version, &mut fabric, null_mut()));
        assert_eq!(opened, 0);
        let mut domain = null_mut();
        let entry = to_c(&info);
        assert_eq!(c!(fi_domain(fabric, entry, &mut domain, null_mut())), 0);
        c!(info::free(entry));
        Self {
            fabric,
            domain,
            info,
        }
    }

    pub(super) fn cq(&self, format: fi_cq_format, wait_obj: fi_wait_obj) -> *mut fid_cq {
        let mut attr = fi_cq_attr {
            format,
            wait_obj,
            ..fi_cq_attr::ZERO
        };
        let mut cq = null_mut();
        assert_eq!(
            c!(fi_cq_open(self.domain, &mut attr, &mut cq, null_mut())),
            0
        );
        cq
    }

    pub(super) fn av(&self, flags: u64) -> *mut fid_av {
        let mut attr = fi_av_attr {
            flags,
            ..fi_av_attr::ZERO
        };
        let mut av = null_mut();
        assert_eq!(
            c!(fi_av_open(self.domain, &mut attr, &mut av, null_mut())),
            0
        );
        av
    }

    pub(super) fn cntr(&self, wait_obj: fi_wait_obj) -> *mut fid_cntr {
        let mut attr = fi_cntr_attr {
            wait_obj,
            ..fi_cntr_attr::ZERO
        };
        let mut cntr = null_mut();
        let opened = c!(fi_cntr_open(self.domain, &mut attr, &mut cntr, null_mut()));
        assert_eq!(opened, 0);
        cntr
    }

    pub(super) fn eq(&self, wait_obj: fi_wait_obj) -> *mut fid_eq {
        let mut attr = fi_eq_attr {
            flags: FI_WRITE,
            wait_obj,
            ..fi_eq_attr::ZERO
        };
        let mut eq = null_mut();
        assert_eq!(
            c!(fi_eq_open(self.fabric, &mut attr, &mut eq, null_mut())),
            0
        );
        eq
    }

    /// Opens an endpoint without anything bound.
    pub(super) fn bare(&self) -> *mut fid_ep {
        let entry = to_c(&self.info);
        let mut ep = null_mut();
        assert_eq!(c!(fi_endpoint(self.domain, entry, &mut ep, null_mut())), 0);
        c!(info::free(entry));
        ep
    }

    /// Opens an endpoint with a queue for both directions and an own vector, and enables it.
    pub(super) fn end(&self, format: fi_cq_format, wait_obj: fi_wait_obj) -> End {
        let end = End {
            ep: self.bare(),
            cq: self.cq(format, wait_obj),
            av: self.av(0),
        };
        assert_eq!(bind(end.ep, end.cq, FI_SEND | FI_RECV), 0);
        assert_eq!(bind(end.ep, end.av, 0), 0);
        assert_eq!(c!(fi_enable(end.ep)), 0);
        end
    }
}

impl Drop for World {
    fn drop(&mut self) {
        assert_eq!(close(self.domain), 0);
        assert_eq!(close(self.fabric), 0);
    }
}

/// An enabled endpoint.
pub(super) struct End {
    pub(super) ep: *mut fid_ep,
    pub(super) cq: *mut fid_cq,
    pub(super) av: *mut fid_av,
}

// SAFETY: the tests that share one between threads ask for FI_THREAD_SAFE.
unsafe impl Send for End {}
// SAFETY: as above.
unsafe impl Sync for End {}

impl End {
    /// Returns the name with its closing zero byte.
    pub(super) fn name(&self) -> Vec<u8> {
        let mut name = vec![0u8; 64];
        let mut len = name.len();
        let named = c!(fi_getname(
            self.ep.cast(),
            name.as_mut_ptr().cast(),
            &mut len
        ));
        assert_eq!(named, 0);
        name.truncate(len);
        name
    }

    /// Inserts another endpoint into the vector.
    pub(super) fn knows(&self, other: &Self) -> fi_addr_t {
        let name = other.name();
        let mut at = 77;
        let inserted = c!(fi_av_insert(
            self.av,
            name.as_ptr().cast(),
            1,
            &mut at,
            0,
            null_mut()
        ));
        assert_eq!(inserted, 1);
        at
    }

    pub(super) fn recv(&self, into: &mut [u8], context: usize) {
        let posted = c!(fi_recv(
            self.ep,
            into.as_mut_ptr().cast(),
            into.len(),
            null_mut(),
            FI_ADDR_UNSPEC,
            context as *mut c_void
        ));
        assert_eq!(posted, 0);
    }

    pub(super) fn send(&self, to: fi_addr_t, bytes: &[u8], context: usize) -> isize {
        c!(fi_send(
            self.ep,
            bytes.as_ptr().cast(),
            bytes.len(),
            null_mut(),
            to,
            context as *mut c_void
        ))
    }

    /// Reads one entry in the tagged format, with its source, if there is one.
    pub(super) fn read(&self) -> Result<(fi_cq_tagged_entry, fi_addr_t), isize> {
        let mut entry = fi_cq_tagged_entry::ZERO;
        let mut source = 5;
        match c!(fi_cq_readfrom(
            self.cq,
            (&raw mut entry).cast(),
            1,
            &mut source
        )) {
            1 => Ok((entry, source)),
            failed => Err(failed),
        }
    }

    /// Reads until there is an entry.
    pub(super) fn next(&self) -> (fi_cq_tagged_entry, fi_addr_t) {
        for _ in 0..1_000_000 {
            if let Ok(read) = self.read() {
                return read;
            }
        }
        panic!("no completion came");
    }

    /// Reads the error that is next.
    pub(super) fn error(&self) -> fi_cq_err_entry {
        let mut entry = fi_cq_err_entry::ZERO;
        assert_eq!(c!(fi_cq_readerr(self.cq, &mut entry, 0)), 1);
        entry
    }
}

impl Drop for End {
    fn drop(&mut self) {
        assert_eq!(close(self.ep), 0);
        assert_eq!(close(self.cq), 0);
        assert_eq!(close(self.av), 0);
    }
}

/// Closes an object of any class.
pub(super) fn close<T>(handle: *mut T) -> c_int {
    c!(fi_close(handle.cast()))
}

/// Binds an object of any class to an endpoint.
pub(super) fn bind<T>(ep: *mut fid_ep, object: *mut T, flags: u64) -> c_int {
    c!(fi_ep_bind(ep, object.cast(), flags))
}

/// A null pointer to nothing in particular.
pub(super) const fn nothing() -> *const c_void {
    null()
}
