//! Discovery and opening: fi_getinfo and its like, fi_fabric, fi_version, fi_strerror, for structures of the newest layout.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::str::Utf8Error;

use oxifabric_abi::{
    FI_EINVAL, FI_ENODATA, FI_ENODEV, FI_ENOSYS, FI_MAJOR_VERSION, FI_MINOR_VERSION,
    FI_PROV_ATTR_ONLY, FI_TYPE_INFO, FI_VERSION, fi_fabric_attr, fi_info, fid_fabric,
};
use oxifabric_core::info::{self, from_c, to_c_list};
use oxifabric_core::registry::Request;
use oxifabric_provider::log::{self, Level, Subsys};
use oxifabric_types::{FabricAttr, Info, strerror_c};

use crate::external::{InfoRequest, Requester, dotted};
use crate::providers::{self, registry};
use crate::tostr::fi_tostr_r;
use crate::{hook, listing};

/// The API version of this library, the newest that a program may ask for.
const API_VERSION: u32 = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);

/// Finds endpoints that fit a request; the list in `info` is released by [`freeinfo`]. Source: fi_getinfo(3).
///
/// Returns `-FI_ENODATA` if nothing fits; FI_LOG_LEVEL=info prints why. `-FI_ENOSYS` for a version newer than the
/// library's, `-FI_EINVAL` for a null `info`.
///
/// # Safety
/// `node` and `service` are null or strings, `hints` is null or a valid entry, `info` is null or may be written.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: the caller vouches for the result.
    let Some(result) = (unsafe { info.as_mut() }) else {
        return -FI_EINVAL;
    };
    *result = ptr::null_mut();
    if version > API_VERSION {
        log::warn!(
            "",
            Core,
            "API version {} was asked for; this library has {}",
            dotted(version),
            dotted(API_VERSION)
        );
        return -FI_ENOSYS;
    }
    if flags & FI_PROV_ATTR_ONLY != 0 {
        return deliver(to_c_list(&providers_only()), result);
    }
    // SAFETY: the caller vouches for the hints.
    unsafe { show_request(version, flags, hints) };
    let filter = Requester::of(flags).filter();
    let asked = InfoRequest {
        version,
        node,
        service,
        flags,
        hints,
        filter: &filter,
    };
    // SAFETY: the caller vouches for strings and hints; the lists are built for the caller.
    unsafe {
        let (ours, nearest) = builtin_infos(&asked);
        let code = deliver(listing::gathered(ours, &asked), result);
        if code == -FI_ENODATA
            && let Some(nearest) = nearest
        {
            log::warn!(
                "",
                Core,
                "fi_getinfo: nothing fits; nearest miss: {nearest}; fi_info --why with such hints says more"
            );
        }
        code
    }
}

/// Asks the providers in this library. If none has what fits and FI_LOG_LEVEL is set, also returns what came nearest: programs ask
/// for what may not be there, so that it is logged only to users that set it.
///
/// # Safety
/// As for fi_getinfo(3).
unsafe fn builtin_infos(asked: &InfoRequest<'_>) -> (*mut fi_info, Option<String>) {
    let hints = asked.hints;
    // SAFETY: the caller vouches for strings and hints.
    let (node, service, handle, hints) = unsafe {
        let handle = hints.as_ref().map_or(ptr::null_mut(), |hints| hints.handle);
        let hints = (!hints.is_null()).then(|| from_c(hints)).transpose();
        (text(asked.node), text(asked.service), handle, hints)
    };
    let (Ok(node), Ok(service), Ok(hints)) = (node, service, hints) else {
        log::info!(
            "",
            Core,
            "fi_getinfo: the hints hold a value that does not exist, or an address that is none"
        );
        return (ptr::null_mut(), None);
    };
    let request = Request {
        version: asked.version,
        node,
        service,
        flags: asked.flags,
        hints: hints.as_ref(),
    };
    let answer = providers::query(&request);
    let nearest = match answer.infos.is_empty() && log::is_chosen() {
        // What does not resolve has a line of its own.
        true => answer
            .nearest_miss()
            .filter(|refusal| !refusal.is_unresolved())
            .map(ToString::to_string),
        false => None,
    };
    let list = to_c_list(&answer.infos);
    let mut next = list;
    // SAFETY: the list is ours and ends with null.
    while let Some(entry) = unsafe { next.as_mut() } {
        entry.handle = handle;
        next = entry.next;
    }
    (list, nearest)
}

/// Releases a list; null is allowed. Source: fi_getinfo(3).
///
/// # Safety
/// `info` is null or a list of [`getinfo`] or [`dupinfo`], or one whose pieces come from the allocator of libc.
pub(crate) unsafe extern "C" fn freeinfo(info: *mut fi_info) {
    // SAFETY: the caller's contract, passed on.
    unsafe { info::free(info) }
}

/// Duplicates one entry, or makes an empty one of null (fi_allocinfo). Null when memory is out. Source: fi_getinfo(3).
///
/// # Safety
/// `info` is null or a valid entry.
pub(crate) unsafe extern "C" fn dupinfo(info: *const fi_info) -> *mut fi_info {
    // SAFETY: the caller's contract, passed on.
    unsafe { info::dup(info) }
}

/// Opens a fabric. Source: fi_fabric(3).
///
/// Returns `-FI_EINVAL` without attributes or names in them, `-FI_ENODEV` for a provider that is not here.
///
/// # Safety
/// `attr` is null or valid; `fabric` may be written.
pub(crate) unsafe extern "C" fn fabric(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller vouches for the attributes.
    let Some(named) = (unsafe { attr.as_ref() }) else {
        return -FI_EINVAL;
    };
    if named.name.is_null() || fabric.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: the name is null or a string.
    let Ok(Some(stack)) = (unsafe { text(named.prov_name) }) else {
        return -FI_EINVAL;
    };
    let top = stack.rsplit(';').next().unwrap_or(stack);
    // SAFETY: the caller's contract, passed on.
    unsafe {
        let code = if let Some(entry) = registry().find(stack).or_else(|| registry().find(top)) {
            entry.open_fabric(attr, named.api_version, fabric, context)
        } else if let Some(external) = providers::external(top) {
            external.open_fabric(attr, fabric, context)
        } else {
            log::warn!("", Fabric, "fi_fabric: there is no provider {stack}");
            -FI_ENODEV
        };
        if code == 0 {
            hook::install(fabric, top);
        }
        code
    }
}

/// Returns the API version of the library. Source: fi_version(3).
pub(crate) extern "C" fn version() -> u32 {
    API_VERSION
}

/// Returns the text of an error number, positive or negative. Source: fi_errno(3).
pub(crate) extern "C" fn strerror(errnum: c_int) -> *const c_char {
    strerror_c(errnum).as_ptr()
}

/// Logs what was asked for.
///
/// # Safety
/// `hints` is null or valid.
unsafe fn show_request(version: u32, flags: u64, hints: *const fi_info) {
    if !log::enabled("", Level::Debug, Subsys::Core) {
        return;
    }
    let mut text = vec![0_u8; 8192];
    if !hints.is_null() {
        let (buf, len) = (text.as_mut_ptr().cast(), text.len());
        // SAFETY: the buffer is as long as said; the caller vouches for the entry.
        unsafe { fi_tostr_r(buf, len, hints.cast(), FI_TYPE_INFO) };
    }
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    let (version, text) = (dotted(version), text.to_string_lossy());
    log::debug!(
        "",
        Core,
        "fi_getinfo: API {version}, flags {flags:#x}, hints\n{text}"
    );
}

/// Hands a list to a C program.
fn deliver(list: *mut fi_info, result: &mut *mut fi_info) -> c_int {
    *result = list;
    if list.is_null() { -FI_ENODATA } else { 0 }
}

/// Lists the providers as FI_PROV_ATTR_ONLY wants them: everything unset but name and version.
fn providers_only() -> Vec<Info> {
    let info = |(name, version): (&str, u32)| Info {
        fabric: FabricAttr {
            prov_name: name.to_owned(),
            prov_version: version,
            ..FabricAttr::default()
        },
        ..Info::default()
    };
    listing::names().into_iter().map(info).collect()
}

/// Borrows a C string; `None` for null.
///
/// # Safety
/// `text` is null or a string that outlives the result.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, Utf8Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches for the string.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some)
}
