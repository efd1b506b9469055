//! libfabric.conf, which providers read: lines `FI_NAME=value`, of which the first of a name counts.

use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// One line.
pub(super) type Setting = (&'static str, String);

/// Returns where the file is that providers read.
pub(super) fn path() -> PathBuf {
    let named = env::var_os("FI_OXI_CONF").filter(|path| !path.is_empty());
    named.map_or_else(|| PathBuf::from("/etc/libfabric.conf"), PathBuf::from)
}

/// Returns the names and values that a text sets.
pub(super) fn settings(text: &str) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let name = name.trim();
        if name.starts_with("FI_") && settings.iter().all(|(other, _)| other != name) {
            settings.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    settings
}

/// Writes settings into a file, in place of those of the same names; all other lines stay. The file is whole at any time.
pub(super) fn write(path: &Path, settings: &[Setting]) -> io::Result<()> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    // Who has a link there wants the file behind it to change.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let fresh = beside(&path);
    let written = replace(&fresh, &path, &with(&text, settings));
    if written.is_err() {
        // It may never have been made.
        _ = fs::remove_file(&fresh);
    }
    written
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

fn replace(fresh: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create_new(fresh)?;
    if let Ok(old) = fs::metadata(path) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(fresh, path)
}

/// Returns the text with these settings.
fn with(text: &str, settings: &[Setting]) -> String {
    let is_new = |line: &str| {
        let name = line.split_once('=').map(|(name, _)| name.trim());
        settings.iter().any(|(new, _)| name == Some(new))
    };
    let old = text.lines().filter(|line| !is_new(line)).map(str::to_owned);
    let new = settings.iter().map(spell);
    old.chain(new).map(|line| line + "\n").collect()
}

/// Returns the line of a setting.
pub(super) fn spell((name, value): &Setting) -> String {
    format!("{name}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_name_counts() {
        let text = "# FI_A=0\n FI_A = 1 \nFI_B=2=3\nFI_A=4\nPATH=5\nFI_C";
        let expected = [("FI_A", "1"), ("FI_B", "2=3")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(settings(text), expected);
    }

    fn two() -> [Setting; 2] {
        [("FI_A", "1".to_owned()), ("FI_B", "2".to_owned())]
    }

    #[test]
    fn lines_of_the_same_name_are_replaced_and_others_stay() {
        let old = "# ours\nFI_A=7\nFI_AB=3\n FI_B = 8\nFI_A=9";
        assert_eq!(with(old, &two()), "# ours\nFI_AB=3\nFI_A=1\nFI_B=2\n");
        assert_eq!(with("", &two()), "FI_A=1\nFI_B=2\n");
        let once = with(old, &two());
        assert_eq!(with(&once, &two()), once);
    }

    #[test]
    fn a_file_is_made_and_kept_whole() {
        let folder = std::env::temp_dir().join(format!("oxi-tune-conf-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("libfabric.conf");
        write(&path, &two()).unwrap();
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, &[("FI_A", "3".to_owned())]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let names = fs::read_dir(&folder).unwrap().count();
        let is_link = fs::symlink_metadata(&link).unwrap().is_symlink();
        let nowhere = write(&folder.join("none").join("conf"), &two());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text, "FI_B=2\nFI_A=3\n");
        assert_eq!((names, is_link), (2, true));
        assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
