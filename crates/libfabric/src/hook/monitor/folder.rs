//! A folder for files of this user alone, in a place where other users may make files, too, such as /dev/shm.
//!
//! No link is followed below the place that is named, and what is there must be this user's: a folder of another user could
//! lead to any file. The folder is kept open, so that it is the same one when its file is removed.

use std::ffi::{CString, OsStr};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    folder: File,
    path: PathBuf,
}

/// What others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

impl Folder {
    /// Opens `base` and the folders below it of these names, each in the one before; makes with this mode what is not there.
    ///
    /// # Errors
    /// A folder below `base` is a link, is another user's, or more may write it than `mode` allows; or what the operating system says.
    pub(super) fn open(base: &Path, names: &[String], mode: u32) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(mode).create(base)?;
        let mut folder = Self {
            folder: File::open(base)?,
            path: base.to_owned(),
        };
        for name in names {
            folder = folder.enter(name, mode)?;
        }
        Ok(folder)
    }

    fn enter(&self, name: &str, mode: u32) -> io::Result<Self> {
        let path = self.path.join(name);
        let name = c_string(name)?;
        // SAFETY: the folder is open, and the name ends.
        let made = unsafe { libc::mkdirat(self.folder.as_raw_fd(), name.as_ptr(), mode) };
        if made != 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let folder = open_at(self.folder.as_raw_fd(), &name, flags, 0)?;
        let about = folder.metadata()?;
        if about.uid() != user() || about.mode() & OTHERS_WRITE & !mode != 0 {
            let why = format!("{}: other users may change this folder", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { folder, path })
    }

    /// Makes a file, which takes the place of one that an earlier process has left.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn create(&self, name: &str, mode: u32) -> io::Result<File> {
        let c_name = c_string(name)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let create = || open_at(self.folder.as_raw_fd(), &c_name, flags, mode);
        match create() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(name)?;
                create()
            }
            made => made,
        }
    }

    /// Takes a name out of the folder.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        let name = c_string(name)?;
        // SAFETY: the folder is open, and the name ends.
        match unsafe { libc::unlinkat(self.folder.as_raw_fd(), name.as_ptr(), 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns where the folder was found.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens what has this name in a folder, unless it is a link.
fn open_at(folder: RawFd, name: &CString, flags: i32, mode: u32) -> io::Result<File> {
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the folder is open, and the name ends.
    let fd = unsafe { libc::openat(folder, name.as_ptr(), flags, mode) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Converts a name for C; one of several parts, which leads elsewhere, is an error.
fn c_string(name: &str) -> io::Result<CString> {
    if name.contains('/') || matches!(name, "" | "." | "..") {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok(CString::new(OsStr::new(name).as_bytes())?)
}

/// Returns the user with whose rights files are made.
fn user() -> u32 {
    // SAFETY: it only reads the identity of the process.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A folder that vanishes with the test.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("oxi-monitor-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).expect("the folder for temporary files takes one");
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn open(place: &Place) -> io::Result<Folder> {
        Folder::open(&place.0.join("base"), &["user".to_owned()], 0o700)
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_replaced_and_not_followed() {
        let place = Place::new("file");
        let victim = place.0.join("victim");
        fs::write(&victim, "precious").unwrap();
        let folder = open(&place).unwrap();
        symlink(&victim, folder.path().join("1_2")).unwrap();
        let file = folder.create("1_2", 0o600).unwrap();
        file.set_len(8).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        folder.remove("1_2").unwrap();
        assert!(!folder.path().join("1_2").exists() && victim.exists());
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_is_refused() {
        let place = Place::new("link");
        let (base, elsewhere) = (place.0.join("base"), place.0.join("elsewhere"));
        fs::create_dir(&base).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, base.join("user")).unwrap();
        assert!(open(&place).is_err());
    }

    #[test]
    fn a_folder_that_others_may_change_is_refused_unless_it_was_asked_for() {
        let place = Place::new("mode");
        let user = place.0.join("base/user");
        fs::create_dir_all(&user).unwrap();
        fs::set_permissions(&user, fs::Permissions::from_mode(0o770)).unwrap();
        let error = open(&place).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let names = ["user".to_owned()];
        assert!(Folder::open(&place.0.join("base"), &names, 0o770).is_ok());
    }

    #[test]
    fn names_lead_nowhere_else() {
        let place = Place::new("name");
        let folder = open(&place).unwrap();
        for name in ["", ".", "..", "../x", "a/b", "a\0b"] {
            assert!(folder.create(name, 0o600).is_err(), "{name:?}");
        }
    }
}
