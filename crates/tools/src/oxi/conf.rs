//! libfabric.conf, as a file that is read and written. What stands in it is the library's matter (`oxifabric_types::conf`).

use std::env;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use oxifabric::Parameter;
use oxifabric_types::conf::{CONF, setting};

/// One line.
pub(super) type Setting = (&'static str, String);

/// Permissions of a new file: all users may read it.
const MODE: u32 = 0o644;

/// Returns where the file is that providers read, if their library reads any.
pub(super) fn path(known: &[Parameter]) -> PathBuf {
    let named = env::var_os(CONF).filter(|path| !path.is_empty());
    let parameter = known.iter().find(|parameter| parameter.name == CONF);
    let usual = parameter.and_then(Parameter::default).unwrap_or_default();
    PathBuf::from(named.unwrap_or_else(|| usual.into()))
}

/// Returns the path and the text of the file; the text is empty if there is no file and the environment names none.
pub(super) fn read(known: &[Parameter]) -> (PathBuf, io::Result<Vec<u8>>) {
    let path = path(known);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound && env::var_os(CONF).is_none() => {
            Ok(Vec::new())
        }
        text => text,
    };
    (path, text)
}

/// Writes settings into a file, in place of those of the same names; all other lines stay. The file is whole at any time.
pub(super) fn write(path: &Path, settings: &[Setting]) -> io::Result<()> {
    // A link there stays, and the file behind it changes.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (text, permissions) = match fs::metadata(&path) {
        Ok(about) if about.is_file() => (fs::read(&path)?, about.permissions()),
        Ok(_) => return Err(io::Error::other("it is no file")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            (Vec::new(), Permissions::from_mode(MODE))
        }
        Err(error) => return Err(error),
    };
    let fresh = beside(&path);
    let file = File::create_new(&fresh)?;
    let replaced =
        fill(file, &with(&text, settings), permissions).and_then(|()| fs::rename(&fresh, &path));
    if replaced.is_err() {
        // Nothing can be done if it stays.
        _ = fs::remove_file(&fresh);
    }
    replaced
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

fn fill(mut file: File, text: &[u8], permissions: Permissions) -> io::Result<()> {
    file.set_permissions(permissions)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Returns the text with these settings.
pub(super) fn with(text: &[u8], settings: &[Setting]) -> Vec<u8> {
    let is_new = |line: &&[u8]| {
        let name = setting(line).map(|(name, _)| name);
        settings.iter().any(|(new, _)| name == Some(new))
    };
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let old = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !is_new(line));
    let old = old.filter(|_| !text.is_empty()).map(<[u8]>::to_vec);
    let new = settings.iter().map(|setting| spell(setting).into_bytes());
    let lines: Vec<Vec<u8>> = old.chain(new).collect();
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    text
}

/// Returns the line of a setting.
pub(super) fn spell((name, value): &Setting) -> String {
    format!("{name}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> [Setting; 2] {
        [("FI_A", "1".to_owned()), ("FI_B", "2".to_owned())]
    }

    #[test]
    fn lines_of_the_same_name_are_replaced_and_others_stay() {
        let old = b"# \xff\n\nFI_A=7\nFI_AB=3\n FI_B = 8\nFI_A=9";
        let once = with(old, &two());
        assert_eq!(once, b"# \xff\n\nFI_AB=3\nFI_A=1\nFI_B=2\n");
        assert_eq!(with(&once, &two()), once);
        assert_eq!(with(b"", &two()), b"FI_A=1\nFI_B=2\n");
    }

    #[test]
    fn a_file_is_made_for_all_to_read_and_kept_whole() {
        let folder = env::temp_dir().join(format!("oxi-conf-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("libfabric.conf");
        write(&path, &two()).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, &[("FI_A", "3".to_owned())]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let names = fs::read_dir(&folder).unwrap().count();
        let is_link = fs::symlink_metadata(&link).unwrap().is_symlink();
        let nowhere = write(&folder.join("none").join("conf"), &two());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text, "FI_B=2\nFI_A=3\n");
        assert_eq!((mode & 0o777, names, is_link), (MODE, 2, true));
        assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        for device in ["/dev/null", "/tmp"] {
            assert!(write(Path::new(device), &two()).is_err(), "{device}");
        }
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
