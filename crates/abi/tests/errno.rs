//! The texts of system error numbers, compared with those of the C library of this machine.

use oxifabric_types::strerror_c;
use std::ffi::CStr;

#[test]
#[cfg(target_env = "gnu")]
fn system_errors_have_the_texts_of_the_c_library() {
    for number in 0..oxifabric_abi::FI_ERRNO_OFFSET {
        // SAFETY: strerror takes any number and returns a string that lives until its next call in this thread.
        let theirs = unsafe { CStr::from_ptr(libc::strerror(number)) };
        assert_eq!(strerror_c(number), theirs, "errno {number}");
    }
}
