//! Types of the system that the headers of libfabric use: those of libc, and in a kernel, which has none, structures of our own with
//! the same layout.

#[cfg(not(target_os = "none"))]
pub use libc::iovec;
#[cfg(not(target_os = "none"))]
pub(crate) use libc::{pollfd, pthread_cond_t, pthread_mutex_t};

#[cfg(target_os = "none")]
pub use bare::iovec;
#[cfg(target_os = "none")]
pub(crate) use bare::{pollfd, pthread_cond_t, pthread_mutex_t};

#[cfg(any(test, target_os = "none"))]
#[cfg_attr(
    not(target_os = "none"),
    allow(unreachable_pub, reason = "it is public in a kernel only")
)]
mod bare {
    use core::ffi::c_void;

    /// A piece of memory; the kernel calls it `struct kvec`.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct iovec {
        pub iov_base: *mut c_void,
        pub iov_len: usize,
    }

    macro_rules! absent {
        ($($name:ident),*) => {
            $(
                /// What a kernel does not have: only pointers to it exist, in structures that are not used there.
                #[cfg(target_os = "none")]
                #[repr(C)]
                #[derive(Clone, Copy, Debug)]
                pub struct $name {
                    _absent: [u8; 0],
                }
            )*
        };
    }

    absent!(pollfd, pthread_cond_t, pthread_mutex_t);
}

#[cfg(test)]
mod tests {
    use super::bare;
    use core::mem::{align_of, offset_of, size_of};

    #[test]
    fn pieces_of_memory_are_laid_out_as_those_of_libc() {
        type Ours = bare::iovec;
        type Theirs = libc::iovec;
        assert_eq!(size_of::<Ours>(), size_of::<Theirs>());
        assert_eq!(align_of::<Ours>(), align_of::<Theirs>());
        assert_eq!(offset_of!(Ours, iov_base), offset_of!(Theirs, iov_base));
        assert_eq!(offset_of!(Ours, iov_len), offset_of!(Theirs, iov_len));
    }
}
