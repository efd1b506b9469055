//! What the engine reports, kept until the world looks at it.

use alloc::vec::Vec;

use oxifabric_engine::{Completion, Completions, Failure, Target};
use oxifabric_mem::Iov;
use oxifabric_types::{Errno, Flags};

/// The key of the registered memory.
pub(crate) const KEY: u64 = 7;

/// How an operation ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) of: Completion,
    pub(crate) result: Result<(), Errno>,
}

/// Takes what one engine reports, and finds its registered memory.
#[derive(Debug)]
pub(crate) struct Outcomes {
    pub(crate) region: Iov,
    pub(crate) new: Vec<Outcome>,
}

impl Completions for Outcomes {
    fn complete(&mut self, of: Completion) {
        self.new.push(Outcome { of, result: Ok(()) });
    }

    fn fail(&mut self, failure: Failure) {
        let result = Err(failure.errno);
        self.new.push(Outcome {
            of: failure.op,
            result,
        });
    }

    fn region(&self, targets: &[Target], _: Flags) -> Result<Iov, Errno> {
        let [target] = targets else {
            return Err(Errno::NOKEY);
        };
        if target.key != KEY {
            return Err(Errno::NOKEY);
        }
        let (at, len) = (target.addr as usize, target.len as usize);
        match at.checked_add(len) {
            Some(end) if end <= self.region.len() => Ok(self.region.slice(at, len)),
            _ => Err(Errno::ACCES),
        }
    }
}
