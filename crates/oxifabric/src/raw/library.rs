//! The functions that a libfabric.so.1 exports. Source: fi_getinfo(3), fi_fabric(3), fi_provider(3).

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::ffi::CString;
use std::path::Path;
use std::sync::OnceLock;

use oxifabric_abi::{FI_TYPE_VERSION, FI_VERSION, fi_param, fi_type};
use oxifabric_core::info::from_c;
use oxifabric_core::registry::{Refusal, Request};
use oxifabric_libfabric::EntryPoints;
use oxifabric_types::Errno;

use super::{HintsImage, InfoHandle, check, owned_text};

/// A libfabric, loaded for the rest of the process.
pub(crate) struct Library {
    pub(super) functions: EntryPoints,
    /// Whether it is the built-in one, which can give reasons for refusing a request.
    builtin: bool,
    /// The API version to request: ours, or that of an older library.
    api_version: u32,
}

/// One configuration variable, as the library lists it.
#[derive(Debug)]
pub(crate) struct RawParameter {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) help: String,
    pub(crate) value: Option<String>,
}

/// The API version that this crate is written for.
const API_VERSION: u32 = FI_VERSION(2, 7);
/// Size of the buffer for the text of one offer.
const TEXT_LEN: usize = 16 * 1024;

impl Library {
    fn new(functions: EntryPoints, builtin: bool) -> Self {
        // SAFETY: the function takes nothing and is safe to call at any time.
        let theirs = unsafe { (functions.version)() };
        Self {
            functions,
            builtin,
            api_version: theirs.min(API_VERSION),
        }
    }

    /// Returns the built-in library.
    pub(crate) fn builtin() -> &'static Self {
        static BUILTIN: OnceLock<Library> = OnceLock::new();
        BUILTIN.get_or_init(|| Self::new(*oxifabric_libfabric::builtin(), true))
    }

    /// Loads another libfabric.so.1.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        Ok(Self::new(EntryPoints::load(path)?, false))
    }

    /// Lists what the library refuses of a request, and why; empty if it gives no reasons.
    pub(crate) fn refusals(&self, hints: &HintsImage) -> Vec<Refusal> {
        if !self.builtin {
            return Vec::new();
        }
        // SAFETY: the image is valid during the call, in the newest layout.
        let wanted = hints.with_c(|image| unsafe { (!image.is_null()).then(|| from_c(image)) });
        let Ok(wanted) = wanted.transpose() else {
            return Vec::new();
        };
        let request = Request {
            version: self.api_version,
            node: hints.node.as_deref().and_then(|node| node.to_str().ok()),
            service: hints.service.as_deref().and_then(|name| name.to_str().ok()),
            flags: hints.flags,
            hints: wanted.as_ref(),
        };
        oxifabric_libfabric::refusals(&request)
    }

    /// Returns the API version in force, as major and minor.
    pub(crate) fn api_version(&self) -> u32 {
        self.api_version
    }

    /// Returns the library's offers for a request.
    pub(crate) fn getinfo(&'static self, hints: &HintsImage) -> Result<Vec<InfoHandle>, Errno> {
        let mut list = ptr::null_mut();
        let (node, service) = (text_ptr(&hints.node), text_ptr(&hints.service));
        // SAFETY: all arguments live through the call, which copies what it keeps.
        let ret = hints.with_c(|image| unsafe {
            (self.functions.getinfo)(
                self.api_version,
                node,
                service,
                hints.flags,
                image,
                &mut list,
            )
        });
        check(ret)?;
        let mut offers = Vec::new();
        let mut next = list;
        while !next.is_null() {
            // SAFETY: `next` is an element of the list, which is ours until it is freed below.
            offers.extend(unsafe { InfoHandle::copy_of(self, next) });
            // SAFETY: as above.
            next = unsafe { (*next).next };
        }
        // SAFETY: the list is ours, and nothing points into it any more.
        unsafe { (self.functions.freeinfo)(list) };
        Ok(offers)
    }

    /// Returns the library's text for a value of the type that `what` names.
    ///
    /// # Safety
    ///
    /// `value` must point to a value of the type that `what` names.
    pub(super) unsafe fn print(&self, value: *const c_void, what: fi_type) -> String {
        let mut text = vec![0_u8; TEXT_LEN];
        // SAFETY: the text ends within its buffer; the caller vouches for the value.
        unsafe { (self.functions.tostr_r)(text.as_mut_ptr().cast(), text.len(), value, what) };
        CStr::from_bytes_until_nul(&text)
            .map(|text| text.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Returns the version of the library's package.
    pub(crate) fn package_version(&self) -> String {
        // SAFETY: this kind takes any pointer that is not null.
        unsafe { self.print(c"1".as_ptr().cast(), FI_TYPE_VERSION) }
    }

    /// Returns the text of an error number.
    pub(crate) fn strerror(&self, errnum: i32) -> String {
        // SAFETY: the function takes any number and returns a static string.
        unsafe { owned_text((self.functions.strerror)(errnum)) }
    }

    /// Lists the configuration variables.
    pub(crate) fn parameters(&self) -> Result<Vec<RawParameter>, Errno> {
        let (mut list, mut count) = (ptr::null_mut(), 0);
        // SAFETY: both results are writable.
        check(unsafe { (self.functions.getparams)(&mut list, &mut count) })?;
        let len = usize::try_from(count).unwrap_or(0);
        let mut parameters = Vec::with_capacity(len);
        for at in 0..len {
            // SAFETY: the list has `count` elements whose strings live until it is freed.
            parameters.push(unsafe { copy_parameter(&*list.add(at)) });
        }
        // SAFETY: the list is ours, and everything was copied.
        unsafe { (self.functions.freeparams)(list) };
        Ok(parameters)
    }
}

/// Copies what a library tells of a parameter.
///
/// # Safety
///
/// The strings of the parameter must be valid.
unsafe fn copy_parameter(from: &fi_param) -> RawParameter {
    // SAFETY: the caller vouches for the strings.
    unsafe {
        RawParameter {
            name: owned_text(from.name),
            kind: from.type_,
            help: owned_text(from.help_string),
            value: (!from.value.is_null()).then(|| owned_text(from.value)),
        }
    }
}

fn text_ptr(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}
