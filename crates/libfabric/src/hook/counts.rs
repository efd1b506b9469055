//! Calls and bytes by operation and size, as the hooks profile and monitor count them. Source: fi_hook(7).

use std::sync::atomic::{AtomicU64, Ordering};

use oxifabric_abi::{
    FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_TAGGED, FI_RECV,
    FI_SEND,
};

use super::{Call, Completion};

/// Operations that are counted: table, operation, and the name in reports. The order is that of the samples which the
/// hook monitor writes.
pub(super) const COUNTED: [(&str, &str, &str); 35] = [
    ("fi_ops_msg", "recv", "fi_recv"),
    ("fi_ops_msg", "recvv", "fi_recvv"),
    ("fi_ops_msg", "recvmsg", "fi_recvmsg"),
    ("fi_ops_tagged", "recv", "fi_trecv"),
    ("fi_ops_tagged", "recvv", "fi_trecvv"),
    ("fi_ops_tagged", "recvmsg", "fi_trecvmsg"),
    ("fi_ops_msg", "send", "fi_send"),
    ("fi_ops_msg", "sendv", "fi_sendv"),
    ("fi_ops_msg", "sendmsg", "fi_sendmsg"),
    ("fi_ops_msg", "inject", "fi_inject"),
    ("fi_ops_msg", "senddata", "fi_senddata"),
    ("fi_ops_msg", "injectdata", "fi_injectdata"),
    ("fi_ops_tagged", "send", "fi_tsend"),
    ("fi_ops_tagged", "sendv", "fi_tsendv"),
    ("fi_ops_tagged", "sendmsg", "fi_tsendmsg"),
    ("fi_ops_tagged", "inject", "fi_tinject"),
    ("fi_ops_tagged", "senddata", "fi_tsenddata"),
    ("fi_ops_tagged", "injectdata", "fi_tinjectdata"),
    ("fi_ops_rma", "read", "fi_read"),
    ("fi_ops_rma", "readv", "fi_readv"),
    ("fi_ops_rma", "readmsg", "fi_readmsg"),
    ("fi_ops_rma", "write", "fi_write"),
    ("fi_ops_rma", "writev", "fi_writev"),
    ("fi_ops_rma", "writemsg", "fi_writemsg"),
    ("fi_ops_rma", "inject", "fi_inject_write"),
    ("fi_ops_rma", "writedata", "fi_writedata"),
    ("fi_ops_rma", "injectdata", "fi_inject_writedata"),
    ("fi_ops_mr", "reg", "fi_mr_reg"),
    ("fi_ops_mr", "regv", "fi_mr_regv"),
    ("fi_ops_mr", "regattr", "fi_mr_regattr"),
    ("fi_ops_cq", "read", "fi_cq_read"),
    ("fi_ops_cq", "readfrom", "fi_cq_readfrom"),
    ("fi_ops_cq", "readerr", "fi_cq_readerr"),
    ("fi_ops_cq", "sread", "fi_cq_sread"),
    ("fi_ops_cq", "sreadfrom", "fi_cq_sreadfrom"),
];

/// Completions that are counted, behind the operations.
pub(super) const COMPLETIONS: [&str; 7] = [
    "cq_ctx",
    "cq_msg (FI_SEND)",
    "cq_msg (FI_RECV)",
    "cq_data (FI_SEND)",
    "cq_data (FI_RECV)",
    "cq_tagged (FI_SEND)",
    "cq_tagged (FI_RECV)",
];

/// How many lines a report can have.
pub(super) const ROWS: usize = COUNTED.len() + COMPLETIONS.len();

/// Upper ends of the classes of sizes, both ends within; the last class has none.
const BUCKETS: [usize; 8] = [
    64,
    512,
    1 << 10,
    4 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];

/// Names of the classes of sizes.
pub(super) const BUCKET_NAMES: [&str; 9] = [
    "0_64", "64_512", "512_1K", "1K_4K", "4K_64K", "64K_256K", "256K_1M", "1M_4M", "4M_UP",
];

/// The first operation that reads completions: what is counted there are completions, by themselves.
const FIRST_READ: usize = 30;

/// Returns the place of an operation among those that are counted.
pub(super) const fn place_of(table: &str, op: &str) -> Option<usize> {
    let mut at = 0;
    while at < COUNTED.len() {
        if same(COUNTED[at].0, table) && same(COUNTED[at].1, op) {
            return Some(at);
        }
        at += 1;
    }
    None
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Calls and bytes of one operation, by size.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Row {
    pub(super) count: [AtomicU64; BUCKET_NAMES.len()],
    pub(super) bytes: [AtomicU64; BUCKET_NAMES.len()],
}

impl Row {
    /// Adds one call.
    fn add(&self, bytes: usize) {
        let bucket = BUCKETS.iter().position(|&end| bytes <= end);
        let bucket = bucket.unwrap_or(BUCKETS.len());
        self.count[bucket].fetch_add(1, Ordering::Relaxed);
        self.bytes[bucket].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns calls and bytes of a class of sizes.
    pub(super) fn bucket(&self, at: usize) -> (u64, u64) {
        let read = |cells: &[AtomicU64]| cells[at].load(Ordering::Relaxed);
        (read(&self.count), read(&self.bytes))
    }
}

/// Calls and bytes of all operations.
#[derive(Debug)]
pub(super) struct Counts(Box<[Row]>);

impl Counts {
    pub(super) fn new() -> Self {
        Self((0..ROWS).map(|_| Row::default()).collect())
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.0
    }

    /// Counts a call that succeeded. Receives have no size yet, and reads of completions count by what they read.
    pub(super) fn add(&self, call: &Call<'_>, result: i64) -> bool {
        match call.counted {
            Some(at) if at < FIRST_READ && result == 0 => self.0[at].add(call.size),
            _ => return false,
        }
        true
    }

    /// Counts a completion; what was sent has its size counted already.
    pub(super) fn add_completion(&self, completion: Completion) -> bool {
        let kind = match completion.format {
            FI_CQ_FORMAT_CONTEXT => 0,
            FI_CQ_FORMAT_MSG => 1,
            FI_CQ_FORMAT_DATA => 3,
            FI_CQ_FORMAT_TAGGED => 5,
            _ => return false,
        };
        let first = COUNTED.len();
        if kind == 0 {
            self.0[first].add(0);
        } else if completion.flags & FI_RECV != 0 {
            self.0[first + kind + 1].add(completion.len);
        } else if completion.flags & FI_SEND != 0 {
            self.0[first + kind].add(0);
        } else {
            return false;
        }
        true
    }
}

/// Returns the name of a row in reports.
pub(super) fn name_of(row: usize) -> &'static str {
    match COUNTED.get(row) {
        Some((_, _, name)) => name,
        None => COMPLETIONS[row - COUNTED.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_places_of_the_samples() {
        assert_eq!(ROWS, 42);
        assert_eq!(place_of("fi_ops_msg", "recv"), Some(0));
        assert_eq!(place_of("fi_ops_rma", "injectdata"), Some(26));
        assert_eq!(place_of("fi_ops_cq", "read"), Some(FIRST_READ));
        assert_eq!(place_of("fi_ops_cntr", "read"), None);
    }

    #[test]
    fn sizes_fall_into_their_classes() {
        let row = Row::default();
        for bytes in [0, 64, 65, 4 << 20, (4 << 20) + 1] {
            row.add(bytes);
        }
        let counts: Vec<u64> = (0..9).map(|at| row.bucket(at).0).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(row.bucket(1).1, 65);
    }
}
