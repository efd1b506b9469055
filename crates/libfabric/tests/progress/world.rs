//! Objects of a provider, opened as a C program opens them.

use core::ffi::{CStr, c_void};
use core::ptr::{null, null_mut};

use oxifabric_abi::*;
use oxifabric_libfabric::builtin;

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
pub(crate) use c;

/// The providers under test.
pub(crate) const PROVIDERS: [&CStr; 2] = [c"tcp", c"shm"];

/// A fabric with one domain; both close at the end.
pub(crate) struct World {
    pub(crate) info: *mut fi_info,
    pub(crate) fabric: *mut fid_fabric,
    pub(crate) domain: *mut fid_domain,
}

// SAFETY: tests share what their threading level lets them share.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    pub(crate) fn open(provider: &CStr, threading: fi_threading, progress: fi_progress) -> Self {
        Self::with(provider, threading, progress, 0)
    }

    /// As [`World::open`], with more capabilities.
    pub(crate) fn with(
        provider: &CStr,
        threading: fi_threading,
        progress: fi_progress,
        caps: u64,
    ) -> Self {
        let calls = builtin();
        let hints = c!((calls.dupinfo)(null()));
        let mut info = null_mut();
        // SAFETY: the hints are complete, and nothing else uses them.
        unsafe {
            (*hints).caps = FI_MSG | FI_TAGGED | FI_RMA | caps;
            (*(*hints).ep_attr).type_ = FI_EP_RDM;
            (*(*hints).fabric_attr).prov_name = libc::strdup(provider.as_ptr());
            (*(*hints).domain_attr).threading = threading;
            (*(*hints).domain_attr).data_progress = progress;
        }
        let (node, flags) = match provider == c"tcp" {
            true => (c"127.0.0.1".as_ptr(), FI_SOURCE),
            false => (null(), 0),
        };
        let found = c!((calls.getinfo)(
            FI_VERSION(2, 6),
            node,
            null(),
            flags,
            hints,
            &mut info
        ));
        assert_eq!(
            found, 0,
            "{provider:?} threads {threading} progress {progress}"
        );
        c!((calls.freeinfo)(hints));
        // SAFETY: an info has all attributes.
        let given = unsafe { &*(*info).domain_attr };
        if threading != FI_THREAD_UNSPEC {
            assert_eq!(given.threading, threading);
        }
        assert_eq!(given.data_progress, progress);
        let (mut fabric, mut domain) = (null_mut(), null_mut());
        let opened = c!((calls.fabric)((*info).fabric_attr, &mut fabric, null_mut()));
        assert_eq!(opened, 0);
        assert_eq!(c!(fi_domain(fabric, info, &mut domain, null_mut())), 0);
        Self {
            info,
            fabric,
            domain,
        }
    }

    /// Opens an enabled endpoint with one queue and a vector of its own.
    pub(crate) fn end(&self) -> End {
        let (mut ep, mut cq, mut av) = (null_mut(), null_mut(), null_mut());
        let mut cq_attr = fi_cq_attr {
            format: FI_CQ_FORMAT_TAGGED,
            ..fi_cq_attr::ZERO
        };
        let mut av_attr = fi_av_attr::ZERO;
        // Every endpoint finds an address of its own.
        let info = c!((builtin().dupinfo)(self.info));
        // SAFETY: the copy is this call's own; over tcp the address of an endpoint is one of IPv4.
        unsafe {
            if (*info).addr_format == FI_SOCKADDR_IN {
                (*(*info).src_addr.cast::<libc::sockaddr_in>()).sin_port = 0;
            } else {
                libc::free((*info).src_addr);
                (*info).src_addr = null_mut();
                (*info).src_addrlen = 0;
            }
        }
        let opened = c!(fi_endpoint(self.domain, info, &mut ep, null_mut()));
        assert_eq!(opened, 0);
        c!((builtin().freeinfo)(info));
        assert_eq!(
            c!(fi_cq_open(self.domain, &mut cq_attr, &mut cq, null_mut())),
            0
        );
        assert_eq!(
            c!(fi_av_open(self.domain, &mut av_attr, &mut av, null_mut())),
            0
        );
        assert_eq!(c!(fi_ep_bind(ep, cq.cast(), FI_TRANSMIT | FI_RECV)), 0);
        assert_eq!(c!(fi_ep_bind(ep, av.cast(), 0)), 0);
        assert_eq!(c!(fi_enable(ep)), 0);
        End { ep, cq, av }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        assert_eq!(c!(fi_close(self.domain.cast())), 0);
        assert_eq!(c!(fi_close(self.fabric.cast())), 0);
        c!((builtin().freeinfo)(self.info));
    }
}

/// An enabled endpoint.
pub(crate) struct End {
    pub(crate) ep: *mut fid_ep,
    pub(crate) cq: *mut fid_cq,
    pub(crate) av: *mut fid_av,
}

// SAFETY: tests share what their threading level lets them share.
unsafe impl Send for End {}
// SAFETY: as above.
unsafe impl Sync for End {}

impl End {
    /// Inserts another endpoint into the vector.
    pub(crate) fn knows(&self, other: &Self) -> fi_addr_t {
        let mut name = [0u8; 256];
        let mut length = name.len();
        let into = name.as_mut_ptr().cast();
        assert_eq!(c!(fi_getname(other.ep.cast(), into, &mut length)), 0);
        let mut at = FI_ADDR_NOTAVAIL;
        let name = name.as_ptr().cast();
        let inserted = c!(fi_av_insert(self.av, name, 1, &mut at, 0, null_mut()));
        assert_eq!(inserted, 1);
        at
    }

    /// Reads one entry, if there is one.
    pub(crate) fn read(&self) -> Option<fi_cq_tagged_entry> {
        let mut entry = fi_cq_tagged_entry::ZERO;
        match c!(fi_cq_read(self.cq, (&raw mut entry).cast(), 1)) {
            1 => Some(entry),
            code => {
                assert_eq!(code, -(FI_EAGAIN as isize), "an operation failed");
                None
            }
        }
    }

    /// Reads until there is an entry.
    pub(crate) fn next(&self) -> fi_cq_tagged_entry {
        loop {
            match self.read() {
                Some(entry) => return entry,
                None => std::thread::yield_now(),
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        for handle in [self.ep.cast(), self.cq.cast(), self.av.cast::<fid>()] {
            assert_eq!(c!(fi_close(handle)), 0);
        }
    }
}

/// Calls until the answer is not that the endpoint is busy.
pub(crate) fn patiently(end: &End, mut call: impl FnMut() -> isize, mut drive: impl FnMut(&End)) {
    loop {
        match call() {
            0 => return,
            code => assert_eq!(code, -(FI_EAGAIN as isize)),
        }
        drive(end);
    }
}

/// A context that stands for a number.
pub(crate) const fn number(value: usize) -> *mut c_void {
    core::ptr::without_provenance_mut(value)
}
