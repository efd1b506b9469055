//! Limits of processes (getrlimit(2)).

use std::env;

use super::Finding;
use super::place::Place;
use oxifabric_bench::units::{spell_count, spell_size};

/// A soft and a hard limit; `u64::MAX` for none.
type Limit = (u64, u64);

/// Each peer of tcp takes a descriptor; with fewer than this a job of some size runs out of them.
const FEW_FILES: u64 = 4096;
/// What a ping-pong needs.
const HARDLY_ANY_FILES: u64 = 64;

pub(super) fn check(place: &Place) -> Vec<Finding> {
    let table = place.text("/proc/self/limits").unwrap_or_default();
    // Providers of this library lock no memory; those of hardware come from outside.
    let outside = ["FI_PROVIDER_PATH", "OXIFABRIC_LIBRARY"];
    let has_hardware = outside.iter().any(|name| env::var_os(name).is_some());
    let files = limit(&table, "Max open files").map(files);
    let locked = limit(&table, "Max locked memory").map(|limit| locked(limit, has_hardware));
    files.into_iter().chain(locked).collect()
}

/// Reads one row of the table (proc_pid_limits(5)).
fn limit(table: &str, name: &str) -> Option<Limit> {
    let row = table.lines().find_map(|line| line.strip_prefix(name))?;
    let mut columns = row.split_whitespace().map(|text| match text {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    Some((columns.next()??, columns.next()??))
}

fn files((soft, hard): Limit) -> Finding {
    let about = "open files";
    let text = match soft {
        u64::MAX => "a process may open any number of files".to_owned(),
        0 => "a process may open no file".to_owned(),
        1 => "a process may open 1 file".to_owned(),
        soft => format!("a process may open {} files", spell_count(soft as f64)),
    };
    let advice = match hard > soft {
        true => format!("tcp needs one for each peer: ulimit -n {}", spelled(hard)),
        false => {
            "tcp needs one for each peer: raise nofile in /etc/security/limits.conf".to_owned()
        }
    };
    if soft < HARDLY_ANY_FILES {
        Finding::bad(about, text, advice)
    } else if soft < FEW_FILES {
        Finding::warn(about, text, advice)
    } else {
        Finding::ok(about, text)
    }
}

fn locked((soft, _): Limit, has_hardware: bool) -> Finding {
    let about = "locked memory";
    if soft == u64::MAX || !has_hardware {
        let text = format!(
            "{}; the providers of this library lock none",
            lockable(soft)
        );
        return Finding::ok(about, text);
    }
    Finding::warn(
        about,
        format!(
            "{}; providers of RDMA hardware lock what they register",
            lockable(soft)
        ),
        "ulimit -l unlimited, or memlock in /etc/security/limits.conf",
    )
}

/// Says how much memory may be locked.
fn lockable(bytes: u64) -> String {
    match bytes {
        u64::MAX => "a process may lock any amount".to_owned(),
        0 => "a process may lock nothing".to_owned(),
        bytes => format!("a process may lock {}", spell_size(bytes as usize)),
    }
}

fn spelled(limit: u64) -> String {
    match limit {
        u64::MAX => "unlimited".to_owned(),
        limit => limit.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    const TABLE: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 524288               files
Max locked memory         8388608              unlimited            bytes";

    #[test]
    fn rows_of_the_table_are_read() {
        assert_eq!(limit(TABLE, "Max open files"), Some((1024, 524_288)));
        assert_eq!(limit(TABLE, "Max locked memory"), Some((8 << 20, u64::MAX)));
        assert_eq!(limit(TABLE, "Max of something else"), None);
    }

    #[test]
    fn few_descriptors_are_reported_with_the_way_to_more() {
        let few = files((1024, 524_288));
        assert_eq!(few.grade, Grade::Warn);
        assert!(few.advice.contains("ulimit -n 524288"), "{few:?}");
        let texts = [0, 1, 16, 1024, u64::MAX].map(|soft| files((soft, soft)).text);
        let expected = [
            "no file",
            "1 file",
            "16 files",
            "1,024 files",
            "any number of files",
        ];
        for (text, expected) in texts.iter().zip(expected) {
            assert_eq!(*text, format!("a process may open {expected}"));
        }
        assert_eq!(files((16, 16)).grade, Grade::Bad);
        assert_eq!(files((FEW_FILES, FEW_FILES)).grade, Grade::Ok);
    }

    #[test]
    fn locked_memory_matters_to_hardware_only() {
        let texts = [0, 8 << 20, u64::MAX].map(|soft| locked((soft, soft), false).text);
        for (text, expected) in texts.iter().zip(["nothing", "8 MiB", "any amount"]) {
            assert!(
                text.starts_with(&format!("a process may lock {expected};")),
                "{text}"
            );
        }
        assert_eq!(locked((8 << 20, u64::MAX), false).grade, Grade::Ok);
        assert_eq!(locked((8 << 20, u64::MAX), true).grade, Grade::Warn);
        assert_eq!(locked((u64::MAX, u64::MAX), true).grade, Grade::Ok);
    }
}
