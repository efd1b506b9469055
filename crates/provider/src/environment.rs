//! The environment, as far as it may be believed: a program that runs with another user's rights takes nothing from it.
//! Source: getauxval(3) "AT_SECURE", secure_getenv(3).

use std::env;
use std::ffi::OsString;
use std::sync::OnceLock;

/// Returns the value of a variable; `None` if it is not set, and always where the environment is not to be believed.
pub fn variable(name: &str) -> Option<OsString> {
    is_trusted().then(|| env::var_os(name)).flatten()
}

/// Returns whether the environment is that of the user whose rights the process has. It is not in set-user-ID and set-group-ID programs and in
/// those with capabilities of their file: the user that starts them could name providers to load, files to write, and configuration to read.
pub fn is_trusted() -> bool {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    // SAFETY: it only reads what the kernel gave the process.
    *TRUSTED.get_or_init(|| unsafe { libc::getauxval(libc::AT_SECURE) } == 0)
}
