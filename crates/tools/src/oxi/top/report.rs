//! Reads what a process tells of its endpoints. The file may be anything that a program of this user made.
//!
//! It counts if it is a file in memory of this user whose size is sealed, as the library makes it: nothing that a link or a path
//! could lead to. So it can be read in one piece, however the process goes on.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::unistd::Uid;
use oxifabric_types::stats::{FILE_BYTES, Head, SLOT_BYTES, Slot};

use super::Endpoint;

/// How often slots are read again that were being written.
const TRIES: usize = 8;

/// What a process tells.
#[derive(Debug)]
pub(super) struct Report {
    /// The number of the process, in its own namespace.
    pub(super) pid: u32,
    pub(super) missed: u64,
    pub(super) endpoints: Vec<Endpoint>,
}

/// Reads the file behind a path of /proc, if it is one of those that the library makes for this user.
pub(super) fn read(path: &Path, user: Uid) -> Option<Report> {
    let file = open(path, user)?;
    let mut head = [0; SLOT_BYTES];
    file.read_exact_at(&mut head, 0).ok()?;
    let head = Head::decode(&head)?;
    Some(Report {
        pid: head.pid,
        missed: head.missed,
        endpoints: endpoints(&file, head.used).ok()?,
    })
}

/// Opens the file. What else may be there is neither waited for nor made a terminal of this program.
fn open(path: &Path, user: Uid) -> Option<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .ok()?;
    let about = file.metadata().ok()?;
    let seals = fcntl(&file, FcntlArg::F_GET_SEALS).ok()?;
    let seals = SealFlag::from_bits_truncate(seals);
    let is_ours = about.is_file()
        && about.uid() == user.as_raw()
        && about.nlink() == 0
        && about.len() == FILE_BYTES as u64
        && seals.contains(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW);
    is_ours.then_some(file)
}

/// Reads the slots that have been used; those that are written at every try are left out.
fn endpoints(file: &File, used: usize) -> io::Result<Vec<Endpoint>> {
    let mut bytes = vec![0; used * SLOT_BYTES];
    let mut again = bytes.clone();
    let mut found = Vec::new();
    for _ in 0..TRIES {
        for bytes in [&mut bytes, &mut again] {
            file.read_exact_at(bytes, SLOT_BYTES as u64)?;
        }
        let mut busy = false;
        found.clear();
        for (bytes, again) in bytes.chunks(SLOT_BYTES).zip(again.chunks(SLOT_BYTES)) {
            match Slot::decode(bytes, again) {
                Slot::Of(identity, figures) => found.push(Endpoint {
                    identity: *identity,
                    figures,
                }),
                Slot::Busy => busy = true,
                Slot::Free => {}
            }
        }
        if !busy {
            break;
        }
    }
    found.sort_by_key(|endpoint| endpoint.identity.id);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::geteuid;
    use oxifabric_types::stats::{FILE_NAME, MAGIC};
    use proptest::prelude::*;

    use super::*;

    /// Returns a file as the library makes it, with these bytes at its beginning.
    fn made(bytes: &[u8], sealed: bool) -> (File, PathBuf) {
        let file = File::from(memfd_create(FILE_NAME, MFdFlags::MFD_ALLOW_SEALING).unwrap());
        file.write_all_at(bytes, 0).unwrap();
        file.set_len(FILE_BYTES as u64).unwrap();
        if sealed {
            let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
            fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).unwrap();
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        (file, path.into())
    }

    fn head(used: u64) -> Vec<u8> {
        let words = [MAGIC, 12, used, 0];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn the_file_of_a_process_without_endpoints_is_read() {
        let (_file, path) = made(&head(0), true);
        let report = read(&path, geteuid()).unwrap();
        assert_eq!((report.pid, report.endpoints.len()), (12, 0));
    }

    #[test]
    fn what_is_not_sealed_or_belongs_to_another_user_is_not_read() {
        let (_file, path) = made(&head(0), false);
        assert!(read(&path, geteuid()).is_none(), "not sealed");
        let (_file, path) = made(&head(0), true);
        let other = Uid::from_raw(geteuid().as_raw().wrapping_add(1));
        assert!(read(&path, other).is_none(), "of another user");
        let (_file, path) = made(b"something else", true);
        assert!(read(&path, geteuid()).is_none(), "another head");
    }

    #[test]
    fn what_a_path_or_a_link_leads_to_is_not_read() {
        let folder = std::env::temp_dir().join(format!("oxi-top-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (plain, link) = (folder.join("plain"), folder.join("link"));
        let mut bytes = head(0);
        bytes.resize(FILE_BYTES, 0);
        fs::write(&plain, &bytes).unwrap();
        symlink(&plain, &link).unwrap();
        let read = [&plain, &link, &folder, &folder.join("missing")]
            .map(|path| read(path, geteuid()).is_some());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read, [false; 4]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever a process writes, reading it ends, with texts that do nothing to a terminal.
        #[test]
        fn any_bytes_can_be_read(used: u64, bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            let mut all = head(used);
            all.resize(SLOT_BYTES, 0);
            all.extend(bytes);
            let (_file, path) = made(&all, true);
            for endpoint in read(&path, geteuid()).unwrap().endpoints {
                let Endpoint { identity, .. } = endpoint;
                let mut letters = identity.provider.chars().chain(identity.address.chars());
                prop_assert!(letters.all(|letter| !letter.is_control()));
            }
        }
    }
}
