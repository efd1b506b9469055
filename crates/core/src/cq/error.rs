//! Errors of a completion queue: fi_cq(3) "fi_cq_readerr" and "fi_cq_strerror". Path class: cold.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::offset_of;
use std::ffi::CString;
use std::sync::Mutex;

use oxifabric_abi::{FI_VERSION, fi_cq_err_entry};
use oxifabric_types::{Errno, strerror_c};

use super::Cq;
use super::ring::{Detail, Entry};
use crate::lock::lock;
use crate::text;

/// The first API version whose error entries have `err_data_size`.
const HAS_DATA_SIZE: u32 = FI_VERSION(1, 5);

/// The first API version whose error entries have `src_addr`.
const HAS_SOURCE: u32 = FI_VERSION(1, 20);

/// What the provider said about the error that was read last. The application may look at it until the next read.
pub(super) struct LastError(Mutex<Option<(c_int, CString)>>, Mutex<Vec<u8>>);

impl LastError {
    pub(super) const fn none() -> Self {
        Self(Mutex::new(None), Mutex::new(Vec::new()))
    }

    /// Keeps a sentence and returns where it is and how long, its closing zero byte included.
    fn keep(&self, prov_errno: c_int, reason: Option<CString>) -> (*mut c_void, usize) {
        let mut last = lock(&self.0);
        *last = reason.map(|reason| (prov_errno, reason));
        match &*last {
            Some((_, text)) => (
                text.as_ptr().cast_mut().cast(),
                text.as_bytes_with_nul().len(),
            ),
            None => (core::ptr::null_mut(), 0),
        }
    }

    /// Keeps the address of an unknown peer and returns where it is and how long.
    fn keep_address(&self, address: Vec<u8>) -> (*mut c_void, usize) {
        let mut last = lock(&self.1);
        *last = address;
        (last.as_mut_ptr().cast(), last.len())
    }

    /// Spells an error of the provider: what it said itself, if this is the error that was read last.
    ///
    /// # Safety
    /// `buf` is null or has room for `len` characters.
    pub(super) unsafe fn spell(
        &self,
        prov_errno: c_int,
        buf: *mut c_char,
        len: usize,
    ) -> *const c_char {
        let last = lock(&self.0);
        let spelled: &CStr = match &*last {
            Some((errno, text)) if *errno == prov_errno => text,
            _ => strerror_c(prov_errno),
        };
        // SAFETY: the caller's contract. The text stays until the next error is read, as fi_cq(3) says.
        unsafe { text::hand_out(spelled, buf, len) }
    }
}

impl Cq {
    /// Takes the error at the front of the queue.
    ///
    /// # Errors
    /// `AGAIN` when the next entry is no error.
    ///
    /// # Safety
    /// `buf` is an error entry as the API version of the application has it.
    pub(super) unsafe fn read_error(&self, buf: *mut fi_cq_err_entry) -> Result<usize, Errno> {
        let (entry, detail) = self.take_failure().ok_or(Errno::AGAIN)?;
        let version = self.domain.fabric().api_version();
        let mut error = describe(&entry, &detail);
        let (text, len) = match detail.address {
            Some(address) => self.last_error.keep_address(address),
            None => {
                let reason = detail.reason.or_else(|| truncation(&error));
                self.last_error.keep(error.prov_errno, reason)
            }
        };
        // SAFETY: the caller's contract; `err_data_size` is read only where the application has it.
        unsafe {
            match callers_buffer(buf, version) {
                Some((data, room)) => {
                    error.err_data = data;
                    error.err_data_size = len.min(room);
                    core::ptr::copy_nonoverlapping(
                        text.cast::<u8>(),
                        data.cast(),
                        error.err_data_size,
                    );
                }
                None => (error.err_data, error.err_data_size) = (text, len),
            }
            let size = entry_size(version);
            core::ptr::copy_nonoverlapping((&raw const error).cast::<u8>(), buf.cast::<u8>(), size);
        }
        Ok(1)
    }
}

fn describe(entry: &Entry, detail: &Detail) -> fi_cq_err_entry {
    fi_cq_err_entry {
        op_context: entry.wide.op_context,
        flags: entry.wide.flags,
        len: entry.wide.len,
        buf: entry.wide.buf,
        data: entry.wide.data,
        tag: entry.wide.tag,
        olen: detail.overflow as usize,
        err: detail.errno.raw(),
        prov_errno: match detail.code {
            0 => detail.errno.raw(),
            code => code.cast_signed(),
        },
        err_data: core::ptr::null_mut(),
        err_data_size: 0,
        src_addr: entry.source,
    }
}

/// Says by how much a message was too long for its receive.
fn truncation(error: &fi_cq_err_entry) -> Option<CString> {
    let is_it = error.err == Errno::TRUNC.raw() && error.olen != 0;
    let whole = error.len.saturating_add(error.olen);
    let text = format!(
        "the message has {whole} bytes, {} more than the receive takes",
        error.olen
    );
    is_it.then(|| CString::new(text).ok()).flatten()
}

/// Returns the buffer that the application brought for `err_data`, if it did.
///
/// # Safety
/// `buf` is an error entry of that API version.
unsafe fn callers_buffer(
    buf: *const fi_cq_err_entry,
    version: u32,
) -> Option<(*mut c_void, usize)> {
    if version < HAS_DATA_SIZE {
        return None;
    }
    // SAFETY: the caller's contract.
    let (data, size) = unsafe { ((*buf).err_data, (*buf).err_data_size) };
    (!data.is_null() && size != 0).then_some((data, size))
}

/// Returns how long an error entry is for an application of that API version.
const fn entry_size(version: u32) -> usize {
    if version < HAS_DATA_SIZE {
        offset_of!(fi_cq_err_entry, err_data_size)
    } else if version < HAS_SOURCE {
        offset_of!(fi_cq_err_entry, src_addr)
    } else {
        size_of::<fi_cq_err_entry>()
    }
}
