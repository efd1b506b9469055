//! Hooks, and what they get: calls and completions.

use core::ffi::{c_char, c_int};
use core::fmt;

/// One call of an application.
pub(crate) struct Call<'a> {
    /// The table of the operation, as `fi_ops_msg`.
    pub(crate) table: &'static str,
    /// The operation, as `send`.
    pub(crate) op: &'static str,
    /// Its place among the operations that are counted, if it is one.
    pub(crate) counted: Option<usize>,
    /// Bytes that it moves, if it moves any.
    pub(crate) size: usize,
    /// Names and values of the arguments.
    pub(crate) arguments: fmt::Arguments<'a>,
}

/// An entry that an application read from a completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// FI_CQ_FORMAT_*.
    pub(crate) format: u32,
    /// Zero in the format that has none.
    pub(crate) flags: u64,
    pub(crate) len: usize,
}

/// Code that watches the calls on the objects of one fabric, from any thread.
pub(crate) trait Hook: fmt::Debug + Send + Sync {
    /// Runs before the call goes down; what it returns is handed to [`Hook::after`].
    fn before(&self, _call: &Call<'_>) -> u64 {
        0
    }

    /// Runs after the call came back, with what it returned.
    fn after(&self, _call: &Call<'_>, _token: u64, _result: i64) {}

    /// Runs when the application has read a completion.
    fn completed(&self, _completion: Completion) {}

    /// Runs when the fabric is closed; `open` objects of it are not.
    fn finish(&self, _open: usize) {}
}

/// The hooks of a fabric, shared by all its objects.
#[derive(Debug)]
pub(crate) struct Hooks {
    hooks: Vec<Box<dyn Hook>>,
}

impl Hooks {
    /// How many hooks can be stacked.
    pub(crate) const MOST: usize = 8;

    pub(crate) fn new(mut hooks: Vec<Box<dyn Hook>>) -> Self {
        hooks.truncate(Self::MOST);
        Self { hooks }
    }

    /// Lists the hooks, innermost first.
    pub(super) fn hooks(&self) -> impl Iterator<Item = &dyn Hook> {
        self.hooks.iter().map(Box::as_ref)
    }

    /// Makes a call, with all hooks before and after it.
    pub(super) fn around<R: Code>(&self, call: &Call<'_>, make: impl FnOnce() -> R) -> R {
        let mut tokens = [0; Self::MOST];
        for (hook, token) in self.hooks.iter().zip(&mut tokens).rev() {
            *token = hook.before(call);
        }
        let result = make();
        let code = result.code();
        for (hook, &token) in self.hooks.iter().zip(&tokens) {
            hook.after(call, token, code);
        }
        result
    }
}

/// What operations return.
pub(super) trait Code {
    /// Returns it as a number.
    fn code(&self) -> i64;
}

impl Code for c_int {
    fn code(&self) -> i64 {
        (*self).into()
    }
}

impl Code for isize {
    fn code(&self) -> i64 {
        *self as i64
    }
}

impl Code for u64 {
    fn code(&self) -> i64 {
        self.cast_signed()
    }
}

impl Code for *const c_char {
    fn code(&self) -> i64 {
        i64::from(!self.is_null())
    }
}
