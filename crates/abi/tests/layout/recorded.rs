//! Comparison with the recorded tables of the 2.7 headers on x86-64 Linux.
//!
//! The tables were listed from the headers, not from this crate, so a member or constant that this crate lacks fails too.

use crate::constants;
use crate::structures::{self, Place};
use std::collections::BTreeMap;

const LAYOUT: &str = include_str!("../layout-2.7.tsv");
const CONSTANTS: &str = include_str!("../constants-2.7.tsv");

pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(|row| row.split('\t').collect())
}

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is not a number"))
}

fn by_name(places: &[Place]) -> BTreeMap<String, (usize, usize)> {
    let place = |p: &Place| (format!("{}.{}", p.structure, p.field), (p.offset, p.size));
    places.iter().map(place).collect()
}

#[test]
fn structures_lie_as_the_2_7_headers_lay_them_out() {
    let ours = [structures::current(), structures::older()].concat();
    let recorded: BTreeMap<_, _> = rows(LAYOUT)
        .map(|row| {
            let name = format!("{}.{}", row[0], row[1]);
            (name, (number(row[2]), number(row[3])))
        })
        .collect();
    assert_eq!(by_name(&ours), recorded);
}

#[test]
fn constants_have_the_values_of_the_2_7_headers() {
    let ours: BTreeMap<_, _> = constants::current().into_iter().collect();
    let recorded: BTreeMap<&str, i64> = rows(CONSTANTS)
        .map(|row| (row[0], number(row[1])))
        .collect();
    assert_eq!(ours, recorded);
}

#[test]
fn older_structures_are_prefixes_of_the_newer_ones() {
    let current = by_name(&structures::current());
    for place in structures::older() {
        let Some((newer, _)) = place.structure.split_once("_1_") else {
            panic!("{} has no version in its name", place.structure);
        };
        let (offset, size) = current[&format!("{newer}.{}", place.field)];
        assert_eq!(place.offset, offset, "{place:?}");
        assert!(place.size <= size, "{place:?}");
    }
}
