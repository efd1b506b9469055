//! How many descriptors the process may have: what peers may take is a share of them. Set-up path.

/// Returns the limit of open files (getrlimit(2), RLIMIT_NOFILE).
pub fn limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the call.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
        _ => 0,
    }
}
