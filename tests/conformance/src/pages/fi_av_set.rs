//! Sets of addresses.

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::close;
use oxifabric_fixtures::group::{EMPTY, Group, UNIVERSE, open_set};
use oxifabric_fixtures::{Subject, c, refused};

use crate::requirements;

/// Runs with a vector of `count` addresses.
fn with_vector(subject: &Subject, count: usize, run: impl FnOnce(*mut fid_av)) {
    let group = Group::open(subject, count);
    run(group.members[0].end.av);
}

/// Opens an empty set and inserts these.
fn of(av: *mut fid_av, members: &[u64]) -> *mut fid_av_set {
    let set = open_set(av, EMPTY).expect("an empty set");
    for &member in members {
        assert_eq!(c!(fi_av_set_insert(set, member)), 0);
    }
    set
}

/// Returns which addresses a set has, found by removing them; the set is closed.
fn contents(set: *mut fid_av_set) -> Vec<u64> {
    let found = (0..10)
        .filter(|&addr| c!(fi_av_set_remove(set, addr)) == 0)
        .collect();
    assert_eq!(close(set), 0);
    found
}

/// Attributes of a set of a range.
fn range(start_addr: u64, end_addr: u64, stride: u64) -> fi_av_set_attr {
    fi_av_set_attr {
        start_addr,
        end_addr,
        stride,
        ..fi_av_set_attr::ZERO
    }
}

requirements! { "fi_av_set(3)";

/// A set of a range has all addresses from its start to its end, both included.
fn a_range_includes_its_ends(subject) {
    with_vector(subject, 6, |av| {
        assert_eq!(contents(open_set(av, range(1, 4, 1)).expect("a set")), [1, 2, 3, 4]);
    });
}

/// With a stride of n, a set has every n-th address of its range.
fn a_stride_leaves_addresses_out(subject) {
    with_vector(subject, 6, |av| {
        assert_eq!(contents(open_set(av, range(0, 5, 2)).expect("a set")), [0, 2, 4]);
        assert_eq!(contents(open_set(av, range(1, 5, 3)).expect("a set")), [1, 4]);
    });
}

/// Only addresses that are in the vector are taken from a range.
fn a_range_has_valid_addresses_only(subject) {
    with_vector(subject, 4, |av| {
        assert_eq!(contents(open_set(av, range(2, 9, 1)).expect("a set")), [2, 3]);
    });
}

/// Start and end of FI_ADDR_NOTAVAIL make an empty set.
fn a_set_may_be_empty(subject) {
    with_vector(subject, 2, |av| assert_eq!(contents(open_set(av, EMPTY).expect("a set")), []));
}

/// FI_UNIVERSE makes a set of all addresses of the vector.
fn the_universe_has_all(subject) {
    with_vector(subject, 5, |av| {
        assert_eq!(contents(open_set(av, UNIVERSE).expect("a set")), [0, 1, 2, 3, 4]);
    });
}

/// More addresses between start and end than a count that is given are refused.
fn a_range_is_not_longer_than_its_count(subject) {
    with_vector(subject, 5, |av| {
        let attr = fi_av_set_attr { count: 2, ..range(0, 4, 1) };
        assert_eq!(open_set(av, attr), Err(-FI_EINVAL));
        let attr = fi_av_set_attr { count: 5, ..range(0, 4, 1) };
        assert_eq!(contents(open_set(av, attr).expect("a set")), [0, 1, 2, 3, 4]);
    });
}

/// An inserted address is in the set.
fn an_inserted_address_is_there(subject) {
    with_vector(subject, 4, |av| assert_eq!(contents(of(av, &[3, 1])), [1, 3]));
}

/// An address that the vector has not cannot be inserted.
fn an_unknown_address_is_not_inserted(subject) {
    with_vector(subject, 2, |av| {
        let set = of(av, &[0]);
        refused!(c!(fi_av_set_insert(set, 7)), FI_EINVAL);
        assert_eq!(contents(set), [0]);
    });
}

/// A removed address is not in the set, and can be removed once.
fn a_removed_address_is_gone(subject) {
    with_vector(subject, 4, |av| {
        let set = of(av, &[0, 1, 2]);
        assert_eq!(c!(fi_av_set_remove(set, 1)), 0);
        refused!(c!(fi_av_set_remove(set, 1)), FI_EINVAL);
        assert_eq!(contents(set), [0, 2]);
    });
}

/// A union adds the addresses that are missing.
fn a_union_has_both(subject) {
    with_vector(subject, 5, |av| {
        let (one, other) = (of(av, &[3, 0]), of(av, &[1, 3, 4]));
        assert_eq!(c!(fi_av_set_union(one, other)), 0);
        assert_eq!((contents(one), contents(other)), (vec![0, 1, 3, 4], vec![1, 3, 4]));
    });
}

/// An intersection leaves what is in both.
fn an_intersection_has_what_both_have(subject) {
    with_vector(subject, 5, |av| {
        let (one, other) = (of(av, &[3, 0, 2]), of(av, &[2, 1, 3]));
        assert_eq!(c!(fi_av_set_intersect(one, other)), 0);
        assert_eq!((contents(one), contents(other)), (vec![2, 3], vec![1, 2, 3]));
    });
}

/// A difference leaves what is not in the other set.
fn a_difference_has_what_the_other_has_not(subject) {
    with_vector(subject, 5, |av| {
        let (one, other) = (of(av, &[3, 0, 2]), of(av, &[2, 1]));
        assert_eq!(c!(fi_av_set_diff(one, other)), 0);
        assert_eq!((contents(one), contents(other)), (vec![0, 3], vec![1, 2]));
    });
}

/// Addresses keep the order in which they were inserted, which is the order of the ranks of a collective.
fn addresses_keep_their_order(subject) {
    let mut group = Group::open(subject, 3);
    let order = [2_u64, 0, 1];
    for member in &mut group.members {
        member.set = of(member.end.av, &order);
        member.mc = member.join().0;
    }
    for at in 0..3 {
        assert_eq!(group.event(at).0, FI_JOIN_COMPLETE);
    }
    // The root of a gather lists the members in the order of the set.
    let results: Vec<_> = group.members.iter().map(|member| member.end.traffic.buffer(&[0; 3])).collect();
    group.all(|at, member, context| {
        let mine = member.end.traffic.buffer(&[at as u8]);
        let none = core::ptr::null_mut();
        c!(fi_allgather(
            member.end.ep, mine.cast(), 1, none, results[at].cast(), none, member.address(), FI_UINT8, 0, context
        ))
    });
    for result in results {
        assert_eq!(c!(core::slice::from_raw_parts(result, 3)), [2, 0, 1]);
    }
}

/// The address of a set can be had without traffic, and one joins with it.
fn a_set_has_an_address(subject) {
    with_vector(subject, 2, |av| {
        let set = of(av, &[0, 1]);
        let mut address = 0;
        assert_eq!(c!(fi_av_set_addr(set, &mut address)), 0);
        assert_eq!(close(set), 0);
    });
}

/// A set says that it is one, and keeps its context.
fn a_set_has_its_class(subject) {
    with_vector(subject, 2, |av| {
        let set = of(av, &[]);
        assert_eq!(c!((*set).fid.fclass), FI_CLASS_AV_SET);
        assert_eq!(close(set), 0);
    });
}

/// A vector whose sets are open cannot be closed: -FI_EBUSY.
fn a_vector_with_sets_stays_open(subject) {
    let group = Group::open(subject, 1);
    let av = group.fixture.av();
    let set = open_set(av, EMPTY).expect("a set");
    assert_eq!(close(av), -FI_EBUSY);
    assert_eq!((close(set), close(av)), (0, 0));
}

/// Sets that are for some collectives only can be opened for each that is supported.
fn sets_for_single_collectives_are_possible(subject) {
    with_vector(subject, 2, |av| {
        for flag in [
            FI_BARRIER_SET,
            FI_BROADCAST_SET,
            FI_ALLTOALL_SET,
            FI_ALLREDUCE_SET,
            FI_ALLGATHER_SET,
            FI_REDUCE_SCATTER_SET,
            FI_REDUCE_SET,
            FI_SCATTER_SET,
            FI_GATHER_SET,
        ] {
            let attr = fi_av_set_attr { flags: flag | FI_UNIVERSE, ..EMPTY };
            assert_eq!(contents(open_set(av, attr).expect("a set")), [0, 1]);
        }
    });
}
}
