//! Address vectors that several processes use by name: fi_av(3).

use core::ffi::CStr;
use core::ptr::null_mut;
use std::ffi::CString;
use std::path::{Path, PathBuf};

use oxifabric_abi::*;

use super::world::{World, c, close};

/// A name that no other test and no other run uses.
fn fresh(test: &str) -> CString {
    CString::new(format!("{test}-{}", std::process::id())).expect("no zeros")
}

fn open(world: &World, name: &CStr, flags: u64) -> (i32, *mut fid_av, *const fi_addr_t) {
    let mut attr = fi_av_attr {
        name: name.as_ptr(),
        flags,
        ..fi_av_attr::ZERO
    };
    let mut av = null_mut();
    let opened = c!(fi_av_open(world.domain, &mut attr, &mut av, null_mut()));
    (opened, av, attr.map_addr.cast())
}

fn insert(av: *mut fid_av, name: &CStr) -> (i32, fi_addr_t) {
    let mut at = 77;
    let inserted = c!(fi_av_insert(
        av,
        name.as_ptr().cast(),
        1,
        &mut at,
        0,
        null_mut()
    ));
    (inserted, at)
}

fn look_up(av: *mut fid_av, at: fi_addr_t) -> Option<Vec<u8>> {
    let (mut name, mut len) = ([0u8; 64], 64);
    let found = c!(fi_av_lookup(av, at, name.as_mut_ptr().cast(), &mut len));
    (found == 0).then(|| name[..len].to_vec())
}

#[test]
fn what_one_inserts_the_others_see() {
    let world = World::new();
    let name = fresh("seen");
    assert_eq!(open(&world, &name, FI_READ).0, -FI_ENOENT);
    let (_, writer, _) = open(&world, &name, 0);
    let (_, other, _) = open(&world, &name, 0);
    let (opened, reader, names) = open(&world, &name, FI_READ);
    assert_eq!(opened, 0);
    assert_eq!(insert(writer, c"one"), (1, 0));
    assert_eq!(insert(other, c"two"), (1, 1));
    assert_eq!(insert(writer, c"one"), (1, 0));
    for av in [writer, other, reader] {
        assert_eq!(look_up(av, 0).as_deref(), Some(b"one\0".as_slice()));
        assert_eq!(look_up(av, 1).as_deref(), Some(b"two\0".as_slice()));
    }
    assert_eq!(c!([*names, *names.add(1)]), [0, 1]);
    // Inserted twice, removed as often, by whomever.
    assert_eq!(c!(fi_av_remove(other, &mut 0, 1, 0)), 0);
    assert!(look_up(reader, 0).is_some());
    assert_eq!(c!(fi_av_remove(writer, &mut 0, 1, 0)), 0);
    assert!(look_up(reader, 0).is_none() && look_up(other, 0).is_none());
    assert_eq!(insert(other, c"three"), (1, 0));
    assert_eq!(look_up(writer, 0).as_deref(), Some(b"three\0".as_slice()));
    for av in [writer, other, reader] {
        assert_eq!(close(av), 0);
    }
}

#[test]
fn a_reader_changes_nothing() {
    let world = World::new();
    let name = fresh("reader");
    let (_, writer, _) = open(&world, &name, 0);
    let (_, reader, _) = open(&world, &name, FI_READ);
    assert_eq!(insert(reader, c"one"), (0, FI_ADDR_NOTAVAIL));
    assert_eq!(insert(writer, c"one"), (1, 0));
    assert_eq!(c!(fi_av_remove(reader, &mut 0, 1, 0)), -FI_EACCES);
    assert_eq!((close(reader), close(writer)), (0, 0));
}

#[test]
fn the_last_user_takes_the_vector_with_it() {
    let world = World::new();
    let name = fresh("last");
    let (_, first, _) = open(&world, &name, 0);
    let (_, second, _) = open(&world, &name, 0);
    insert(first, c"one");
    assert_eq!(close(first), 0);
    assert!(look_up(second, 0).is_some());
    assert_eq!(close(second), 0);
    assert_eq!(open(&world, &name, FI_READ).0, -FI_ENOENT);
    let (_, anew, _) = open(&world, &name, 0);
    assert!(look_up(anew, 0).is_none());
    assert_eq!(close(anew), 0);
}

/// Finds the file of a vector.
fn file_of(name: &CStr) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").expect("the folder is there");
    // Those of other tests come and go meanwhile.
    let mut paths = entries.flatten().map(|entry| entry.path());
    let wanted = name.to_str().expect("ASCII");
    paths.find(|path| path.to_string_lossy().contains(wanted))
}

#[test]
fn what_lies_there_and_is_no_file_of_ours_is_refused() {
    let world = World::new();
    let name = fresh("planted");
    let (_, av, _) = open(&world, &name, 0);
    let path = file_of(&name).expect("a file of this name");
    assert_eq!(close(av), 0);
    std::fs::create_dir(&path).expect("a folder in its place");
    assert!(open(&world, &name, 0).0 < 0);
    assert_eq!(open(&world, &name, FI_READ).0, -FI_EACCES);
    std::fs::remove_dir(&path).expect("nothing in it");
    std::fs::write(&path, b"").expect("room for it");
    let given_away = std::os::unix::fs::chown(&path, Some(65534), None);
    if given_away.is_ok() {
        assert_eq!(open(&world, &name, 0).0, -FI_EACCES);
        assert_eq!(open(&world, &name, FI_READ).0, -FI_EACCES);
    } else {
        println!("SKIP: only root can give files away");
    }
    std::fs::remove_file(&path).expect("it is still there");
}

#[test]
fn a_file_that_other_users_can_write_or_that_has_another_name_is_left_alone() {
    let world = World::new();
    let name = fresh("linked");
    let (_, av, _) = open(&world, &name, 0);
    let path = file_of(&name).expect("a file of this name");
    assert_eq!(close(av), 0);
    let precious = Path::new("/dev/shm").join(format!("precious-{}", std::process::id()));
    for (mode, linked) in [(0o666, false), (0o600, true)] {
        plant(&precious, b"precious", mode);
        match linked {
            true => std::fs::hard_link(&precious, &path).expect("room for a name"),
            false => std::fs::rename(&precious, &path).expect("room for a name"),
        }
        assert_eq!(open(&world, &name, 0).0, -FI_EACCES);
        assert_eq!(std::fs::read(&path).expect("it is there"), b"precious");
        std::fs::remove_file(&path).expect("it is there");
    }
    std::fs::remove_file(&precious).expect("it is there");
}

/// Writes a file that others may use as `mode` says.
fn plant(path: &Path, contents: &[u8], mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, contents).expect("room for it");
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("a file of ours");
}

#[test]
fn what_a_killed_process_left_behind_is_not_taken_over() {
    let world = World::new();
    let name = fresh("killed");
    let file = || file_of(&name);
    let (_, av, _) = open(&world, &name, 0);
    let path = file().expect("a file of this name");
    let left = std::fs::read(&path).expect("its contents");
    assert_eq!(close(av), 0);
    assert_eq!(file(), None);
    for contents in [left, b"nonsense".to_vec()] {
        plant(&path, &contents, 0o600);
        assert_eq!(open(&world, &name, FI_READ).0, -FI_ENOENT);
        plant(&path, &contents, 0o600);
        let (opened, av, _) = open(&world, &name, 0);
        assert_eq!((opened, insert(av, c"one")), (0, (1, 0)));
        assert_eq!(close(av), 0);
    }
    assert_eq!(file(), None);
}

#[test]
fn attributes_that_make_no_sense() {
    let world = World::new();
    let mut attr = fi_av_attr {
        flags: FI_READ,
        ..fi_av_attr::ZERO
    };
    let mut av = null_mut();
    let opened = c!(fi_av_open(world.domain, &mut attr, &mut av, null_mut()));
    assert_eq!(opened, -FI_EINVAL);
    attr = fi_av_attr {
        rx_ctx_bits: 64,
        ..fi_av_attr::ZERO
    };
    let opened = c!(fi_av_open(world.domain, &mut attr, &mut av, null_mut()));
    assert_eq!(opened, -FI_EINVAL);
}
