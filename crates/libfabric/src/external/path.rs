//! Where external providers are looked for: the rules of FI_PROVIDER_PATH. Source: fabric(7).

use core::ffi::c_void;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use oxifabric_abi::FI_LIB_SUFFIX;
use oxifabric_provider::{log, params};

use super::Rejected;

/// Well-known providers, which are looked for on the path of the dynamic loader.
const KNOWN: [&str; 15] = [
    "efa", "psm2", "opx", "usnic", "verbs", "cxi", "psm3", "ucx", "shm", "tcp", "udp", "rxm",
    "rxd", "sockets", "net",
];

/// This library's own providers, built for another libfabric: they would be here twice.
const OWN: &str = "liboxifabric-fi.so";

/// A search for external providers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchPath {
    /// Of several providers of one name the first wins, not the newest.
    pub(crate) first_wins: bool,
    /// Well-known names are looked for on the path of the dynamic loader first.
    system: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Every provider in a folder.
    Folder(PathBuf),
    /// One file, which is preferred to all others of its name.
    Preferred(PathBuf),
}

/// A file to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) file: PathBuf,
    pub(super) preferred: bool,
    /// It is an error if the file cannot be loaded, and not only if it is there and wrong.
    pub(super) exists: bool,
}

impl SearchPath {
    /// Reads FI_PROVIDER_PATH.
    pub(crate) fn of_environment() -> Self {
        let beside = beside_this_library().map(|folder| folder.join("libfabric"));
        Self::parse(params::setting("FI_PROVIDER_PATH").as_deref(), beside)
    }

    /// Parses the variable; `default` is the folder that is searched if none is named.
    fn parse(text: Option<&OsStr>, default: Option<PathBuf>) -> Self {
        let bytes = text.map_or(&b""[..], OsStrExt::as_bytes);
        let (first_wins, bytes) = match bytes.strip_prefix(b"@") {
            Some(rest) => (true, rest),
            None => (false, bytes),
        };
        let step = |part: &[u8]| match part.strip_prefix(b"+") {
            Some(file) => Step::Preferred(PathBuf::from(OsStr::from_bytes(file))),
            None => Step::Folder(PathBuf::from(OsStr::from_bytes(part))),
        };
        let parts = bytes.split(|&byte| byte == b':');
        let mut steps: Vec<Step> = parts.filter(|part| !part.is_empty()).map(step).collect();
        if !steps.iter().any(|step| matches!(step, Step::Folder(_))) {
            steps.extend(default.map(Step::Folder));
        }
        Self {
            first_wins,
            system: text.is_none(),
            steps,
        }
    }

    /// Lists the files to be loaded, in order, and adds what is wrong to `rejected`.
    pub(super) fn candidates(&self, rejected: &mut Vec<Rejected>) -> Vec<Candidate> {
        let mut found = Vec::new();
        if self.system {
            found.extend(KNOWN.iter().map(|name| Candidate {
                file: PathBuf::from(format!("lib{name}-{FI_LIB_SUFFIX}")),
                preferred: false,
                exists: false,
            }));
        }
        for step in &self.steps {
            match step {
                Step::Folder(folder) => found.extend(in_folder(folder)),
                Step::Preferred(file) => match preferred(file) {
                    Ok(candidate) => found.push(candidate),
                    Err(why) => {
                        log::warn!("", Core, "{}: {why}", file.display());
                        rejected.push(Rejected::new(file, why));
                    }
                },
            }
        }
        found
    }
}

/// Lists the providers in a folder by name. A folder that is not there has none.
fn in_folder(folder: &Path) -> Vec<Candidate> {
    let Ok(entries) = fs::read_dir(folder) else {
        log::debug!("", Core, "{}: no such folder", folder.display());
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.filter(|name| is_provider(name)).collect();
    names.sort();
    names
        .into_iter()
        .map(|name| Candidate {
            file: folder.join(name),
            preferred: false,
            exists: true,
        })
        .collect()
}

/// Returns whether a file of this name is a provider that is not already in this library.
fn is_provider(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.len() > FI_LIB_SUFFIX.len()
        && name.ends_with(FI_LIB_SUFFIX.as_bytes())
        && name != OWN.as_bytes()
}

fn preferred(file: &Path) -> Result<Candidate, &'static str> {
    if !file.is_absolute() {
        return Err("a preferred provider has to be named by its full path");
    }
    if !file.exists() {
        return Err("there is no such file");
    }
    Ok(Candidate {
        file: file.to_owned(),
        preferred: true,
        exists: true,
    })
}

/// Returns the folder of the file that this code was loaded from.
fn beside_this_library() -> Option<PathBuf> {
    let here: fn() -> Option<PathBuf> = beside_this_library;
    // SAFETY: all zeroes is a value, and the address is one of this very code.
    let name = unsafe {
        let mut found: libc::Dl_info = core::mem::zeroed();
        let address: *const c_void = here as *const c_void;
        if libc::dladdr(address, &mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(found.dli_fname).to_bytes().to_owned()
    };
    let file = PathBuf::from(OsStr::from_bytes(&name));
    Some(fs::canonicalize(file).ok()?.parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SearchPath {
        SearchPath::parse(Some(OsStr::new(text)), Some(PathBuf::from("/default")))
    }

    fn folder(path: &str) -> Step {
        Step::Folder(PathBuf::from(path))
    }

    fn file(path: &str) -> Step {
        Step::Preferred(PathBuf::from(path))
    }

    #[test]
    fn folders_replace_the_default_one() {
        assert_eq!(parse("/a:/b").steps, [folder("/a"), folder("/b")]);
        assert!(!parse("/a").first_wins);
        assert!(parse("@/a").first_wins);
        assert_eq!(parse("@/a").steps, [folder("/a")]);
    }

    #[test]
    fn the_default_folder_is_searched_if_none_is_named() {
        for text in ["", "@", ":"] {
            assert_eq!(parse(text).steps, [folder("/default")], "{text:?}");
        }
        assert_eq!(
            parse("+/x-fi.so").steps,
            [file("/x-fi.so"), folder("/default")]
        );
        assert_eq!(
            parse("@+/x-fi.so:/a").steps,
            [file("/x-fi.so"), folder("/a")]
        );
    }

    #[test]
    fn the_path_of_the_loader_is_searched_only_without_the_variable() {
        assert!(SearchPath::parse(None, None).system);
        assert!(!parse("").system);
    }

    #[test]
    fn files_of_a_folder_are_providers_by_their_ending() {
        let is = |name| is_provider(OsStr::new(name));
        assert!(is("libudp-fi.so"));
        assert!(!is("libudp-fi.so.1"));
        assert!(!is("fi.so"));
        assert!(!is(OWN));
    }
}
