//! Which libfabric programs of this machine get.

use oxifabric::Backend;

use super::Finding;
use super::place::Place;

/// The name under which programs look for the library.
const NAME: &str = "libfabric.so.1";

/// Loads what a program in C would get here; also returns it, if there is one.
pub(super) fn check(place: &Place) -> (Vec<Finding>, Option<Backend>) {
    match Backend::system(NAME) {
        Ok(backend) => {
            let path = loaded(&place.text("/proc/self/maps").unwrap_or_default());
            (vec![describe(backend, &path)], Some(backend))
        }
        Err(error) => {
            let finding = Finding::warn(
                NAME,
                format!("programs in C find none: {error}"),
                "name the folder of `cargo xtask dist` in LD_LIBRARY_PATH: target/dist/lib",
            );
            (vec![finding], None)
        }
    }
}

fn describe(backend: Backend, path: &str) -> Finding {
    let (major, minor) = backend.api_version();
    let version = backend.version();
    if is_ours(backend) {
        let text = format!("{path} is oxifabric's {version}, API {major}.{minor}");
        return Finding::ok(NAME, text);
    }
    Finding::warn(
        NAME,
        format!("{path} is not oxifabric's: version {version}, API {major}.{minor}"),
        "to run programs on oxifabric, name the folder of `cargo xtask dist` in LD_LIBRARY_PATH: target/dist/lib",
    )
}

/// Returns whether a library is that of this project: it has variables that no other one has.
fn is_ours(backend: Backend) -> bool {
    let parameters = backend.parameters().unwrap_or_default();
    parameters
        .iter()
        .any(|parameter| parameter.name.starts_with("FI_OXI_"))
}

/// Returns where the library lies that this process has loaded, out of its maps (proc_pid_maps(5)).
fn loaded(maps: &str) -> String {
    let paths = maps.lines().filter_map(|line| line.split_once('/'));
    let mut found = paths.filter(|(_, path)| {
        let file = path.rsplit('/').next().unwrap_or_default();
        file.starts_with("libfabric.so")
    });
    let path = found.next().map(|(_, path)| format!("/{path}"));
    path.unwrap_or_else(|| NAME.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_among_the_maps() {
        let maps = "7f00-7f01 r--p 00000000 08:01 12 /usr/lib/libc.so.6\n\
                    7f02-7f03 r-xp 00000000 08:01 13 /opt/lib/libfabric.so.1.30.2";
        assert_eq!(loaded(maps), "/opt/lib/libfabric.so.1.30.2");
        assert_eq!(loaded(""), NAME);
    }

    #[test]
    fn the_library_built_in_is_ours() {
        assert!(is_ours(Backend::builtin()));
    }
}
