//! Collective operations.

use core::ffi::c_void;
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::close;
use oxifabric_fixtures::group::{EMPTY, Group, Member, UNIVERSE, open_set};
use oxifabric_fixtures::{Subject, c, refused};

use crate::requirements;

/// Calls a collective of `count` elements: endpoint, input, output, group, context.
type Call<'a> = &'a dyn Fn(&Member, *mut c_void, *mut c_void, fi_addr_t, *mut c_void) -> isize;

/// Runs a collective of three members, of which each has its row of `inputs`, and asserts what each gets.
fn yields<const N: usize>(
    subject: &Subject,
    inputs: [[i32; 3]; 3],
    call: Call<'_>,
    expected: [Option<[i32; N]>; 3],
) {
    let group = Group::joined(subject, 3);
    let place = |member: &Member, numbers: &[i32]| {
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect();
        member.end.traffic.buffer(&bytes).cast::<c_void>()
    };
    let rows = group.members.iter().zip(&inputs);
    let ins: Vec<_> = rows.map(|(member, row)| place(member, row)).collect();
    let outs: Vec<_> = group
        .members
        .iter()
        .map(|member| place(member, &[-1; N]))
        .collect();
    group.all(|at, member, context| call(member, ins[at], outs[at], member.address(), context));
    for (out, expected) in outs.iter().zip(expected) {
        if let Some(expected) = expected {
            assert_eq!(c!(out.cast::<[i32; N]>().read_unaligned()), expected);
        }
    }
}

const COLUMNS: [[i32; 3]; 3] = [[1, 5, 9], [2, 6, 10], [3, 7, 11]];
const SAME: [[i32; 3]; 3] = [[1, 5, 9]; 3];
const NONE: *mut c_void = null_mut();

/// Returns what is asked of a query.
fn query(
    group: &Group,
    coll: fi_collective_op,
    datatype: fi_datatype,
    op: fi_op,
) -> (i32, fi_collective_attr) {
    let mut attr = fi_collective_attr {
        op,
        datatype,
        ..fi_collective_attr::ZERO
    };
    (
        c!(fi_query_collective(
            group.fixture.domain,
            coll,
            &mut attr,
            0
        )),
        attr,
    )
}

requirements! { "fi_collective(3)";

/// A join completes as FI_JOIN_COMPLETE, with the group and the context of the join.
fn a_join_is_an_event(subject) {
    let mut group = Group::open(subject, 2);
    let mut contexts = Vec::new();
    for member in &mut group.members {
        member.set = open_set(member.end.av, UNIVERSE).expect("a set");
        let (mc, context) = member.join();
        member.mc = mc;
        contexts.push(context);
    }
    for (at, context) in contexts.into_iter().enumerate() {
        let (event, entry) = group.event(at);
        assert_eq!(event, FI_JOIN_COMPLETE);
        assert_eq!((entry.fid, entry.context), (group.members[at].mc.cast(), context));
    }
}

/// No join completes before all members joined.
fn a_join_waits_for_all(subject) {
    let mut group = Group::open(subject, 3);
    for at in 0..2 {
        let member = &mut group.members[at];
        member.set = open_set(member.end.av, UNIVERSE).expect("a set");
        member.mc = member.join().0;
    }
    for _ in 0..200 {
        group.drive();
        assert!(group.members[..2].iter().all(|member| member.event().is_none()));
    }
    let last = &mut group.members[2];
    last.set = open_set(last.end.av, UNIVERSE).expect("a set");
    last.mc = last.join().0;
    for at in 0..3 {
        assert_eq!(group.event(at).0, FI_JOIN_COMPLETE);
    }
}

/// An endpoint without an event queue cannot join.
fn a_join_needs_an_event_queue(subject) {
    let group = Group::open(subject, 1);
    let end = group.fixture.end();
    assert_eq!(end.knows(&end), 0);
    let set = open_set(end.av, UNIVERSE).expect("a set");
    let (mut mc, mut address) = (null_mut(), 0);
    assert_eq!(c!(fi_av_set_addr(set, &mut address)), 0);
    refused!(c!(fi_join_collective(end.ep, address, set, 0, &mut mc, NONE)), FI_ENOEQ);
    assert_eq!(close(set), 0);
}

/// An endpoint joins several groups, each with its address.
fn groups_are_apart(subject) {
    let group = Group::joined(subject, 2);
    let second: Vec<_> = group.members.iter().map(|member| member.join().0).collect();
    for at in 0..2 {
        assert_eq!(group.event(at).0, FI_JOIN_COMPLETE);
    }
    for (member, &mc) in group.members.iter().zip(&second) {
        assert_ne!(c!(fi_mc_addr(mc)), member.address());
    }
    group.all(|at, member, context| c!(fi_barrier(member.end.ep, fi_mc_addr(second[at]), context)));
    group.all(|_, member, context| c!(fi_barrier(member.end.ep, member.address(), context)));
    for mc in second {
        assert_eq!(close(mc), 0);
    }
}

/// Members of a group form subgroups with a set and the address of the group.
fn a_group_has_subgroups(subject) {
    let group = Group::joined(subject, 3);
    let mut joined = Vec::new();
    for member in &group.members[..2] {
        let set = open_set(member.end.av, EMPTY).expect("a set");
        assert_eq!((c!(fi_av_set_insert(set, 0)), c!(fi_av_set_insert(set, 1))), (0, 0));
        let (mut mc, to) = (null_mut(), member.address());
        assert_eq!(c!(fi_join_collective(member.end.ep, to, set, 0, &mut mc, NONE)), 0);
        joined.push((mc, set));
    }
    for (at, &(mc, _)) in joined.iter().enumerate() {
        let (event, entry) = group.event(at);
        assert_eq!((event, entry.fid), (FI_JOIN_COMPLETE, mc.cast()));
    }
    for (mc, set) in joined {
        assert_eq!((close(mc), close(set)), (0, 0));
    }
}

/// A barrier is not over for any member before all called it.
fn a_barrier_waits_for_all(subject) {
    let group = Group::joined(subject, 3);
    let enter = |member: &Member| {
        let context = member.end.traffic.context();
        assert_eq!(c!(fi_barrier(member.end.ep, member.address(), context)), 0);
        context
    };
    let early: Vec<_> = group.members[..2].iter().map(enter).collect();
    for _ in 0..200 {
        group.drive();
        assert!(group.members.iter().all(|member| member.end.read().is_none()));
    }
    let last = enter(&group.members[2]);
    assert_eq!([0, 1, 2].map(|at| group.done(at).op_context), [early[0], early[1], last]);
}

/// fi_barrier2 is a barrier with flags.
fn a_barrier_may_have_flags(subject) {
    let group = Group::joined(subject, 2);
    group.all(|_, member, context| c!(fi_barrier2(member.end.ep, member.address(), FI_COMPLETION, context)));
    group.all(|_, member, context| c!(fi_barrier2(member.end.ep, member.address(), 0, context)));
}

/// fi_broadcast gives the data of the root to all, in place.
fn a_broadcast_gives_all_the_roots_data(subject) {
    let group = Group::joined(subject, 3);
    let buffers: Vec<_> = group.members.iter().enumerate()
        .map(|(at, member)| member.end.traffic.buffer(&[at as u8 * 10; 4]))
        .collect();
    group.all(|at, member, context| {
        c!(fi_broadcast(member.end.ep, buffers[at].cast(), 4, NONE, member.address(), 1, FI_UINT8, 0, context))
    });
    for buffer in buffers {
        assert_eq!(c!(core::slice::from_raw_parts(buffer, 4)), [10; 4]);
    }
}

/// fi_alltoall gives each member its portion of everybody's data.
fn all_to_all_transposes(subject) {
    yields(subject, COLUMNS, &|m, from, to, group, context| {
        c!(fi_alltoall(m.end.ep, from, 1, NONE, to, NONE, group, FI_INT32, 0, context))
    }, [Some([1, 2, 3]), Some([5, 6, 7]), Some([9, 10, 11])]);
}

/// fi_allreduce gives everybody the reduction.
fn all_reduce_gives_all_the_sums(subject) {
    yields(subject, SAME, &|m, from, to, group, context| {
        c!(fi_allreduce(m.end.ep, from, 3, NONE, to, NONE, group, FI_INT32, FI_SUM, 0, context))
    }, [Some([3, 15, 27]); 3]);
}

/// A reduction is by the operation that was asked for.
fn a_reduction_is_as_asked(subject) {
    for (op, expected) in [(FI_MIN, [1, 5, 9]), (FI_MAX, [3, 7, 11]), (FI_PROD, [6, 210, 990]), (FI_BOR, [3, 7, 11])] {
        yields(subject, COLUMNS, &|m, from, to, group, context| {
            c!(fi_allreduce(m.end.ep, from, 3, NONE, to, NONE, group, FI_INT32, op, 0, context))
        }, [Some(expected); 3]);
    }
}

/// fi_allgather gives everybody the data of all, in their order.
fn all_gather_gives_all_everything(subject) {
    yields(subject, [[1, 0, 0], [5, 0, 0], [9, 0, 0]], &|m, from, to, group, context| {
        c!(fi_allgather(m.end.ep, from, 1, NONE, to, NONE, group, FI_INT32, 0, context))
    }, [Some([1, 5, 9]); 3]);
}

/// fi_reduce_scatter gives each its slice of the reduction.
fn reduce_scatter_gives_each_a_slice(subject) {
    yields(subject, SAME, &|m, from, to, group, context| {
        c!(fi_reduce_scatter(m.end.ep, from, 1, NONE, to, NONE, group, FI_INT32, FI_SUM, 0, context))
    }, [Some([3]), Some([15]), Some([27])]);
}

/// fi_reduce gives the reduction to the root.
fn a_reduction_is_for_the_root(subject) {
    yields(subject, SAME, &|m, from, to, group, context| {
        c!(fi_reduce(m.end.ep, from, 3, NONE, to, NONE, group, 2, FI_INT32, FI_SUM, 0, context))
    }, [None, None, Some([3, 15, 27])]);
}

/// fi_scatter splits the data of the root among all.
fn a_scatter_splits_the_roots_data(subject) {
    yields(subject, COLUMNS, &|m, from, to, group, context| {
        c!(fi_scatter(m.end.ep, from, 1, NONE, to, NONE, group, 1, FI_INT32, 0, context))
    }, [Some([2]), Some([6]), Some([10])]);
}

/// fi_gather collects the data of all at the root.
fn a_gather_collects_at_the_root(subject) {
    yields(subject, COLUMNS, &|m, from, to, group, context| {
        c!(fi_gather(m.end.ep, from, 1, NONE, to, NONE, group, 0, FI_INT32, 0, context))
    }, [Some([1, 2, 3]), None, None]);
}

/// A collective leaves its input as it was.
fn inputs_are_left_alone(subject) {
    let group = Group::joined(subject, 2);
    let ins: Vec<_> = group.members.iter().map(|member| member.end.traffic.buffer(&[1, 2, 3, 4])).collect();
    group.all(|at, member, context| {
        let out = member.end.traffic.buffer(&[0; 4]).cast();
        c!(fi_allreduce(
            member.end.ep, ins[at].cast(), 4, NONE, out, NONE, member.address(), FI_UINT8, FI_SUM, 0, context
        ))
    });
    for buffer in ins {
        assert_eq!(c!(core::slice::from_raw_parts(buffer, 4)), [1, 2, 3, 4]);
    }
}

/// A collective completes with its context, as FI_COLLECTIVE.
fn a_collective_says_that_it_is_one(subject) {
    let group = Group::joined(subject, 2);
    let contexts: Vec<_> = group.members.iter().map(|member| {
        let context = member.end.traffic.context();
        assert_eq!(c!(fi_barrier(member.end.ep, member.address(), context)), 0);
        context
    }).collect();
    for (at, context) in contexts.into_iter().enumerate() {
        let done = group.done(at);
        assert_eq!((done.op_context, done.flags & FI_COLLECTIVE), (context, FI_COLLECTIVE));
    }
}

/// Long data is reduced whole.
fn long_data_is_reduced(subject) {
    let group = Group::joined(subject, 3);
    let count = 100_000;
    let bytes: Vec<u8> = (0..count as u32).flat_map(u32::to_ne_bytes).collect();
    let outs: Vec<_> = group.members.iter().map(|member| member.end.traffic.buffer(&vec![0; bytes.len()])).collect();
    group.all(|at, member, context| {
        let mine = member.end.traffic.buffer(&bytes).cast();
        c!(fi_allreduce(
            member.end.ep, mine, count, NONE, outs[at].cast(), NONE, member.address(), FI_UINT32, FI_SUM, 0, context
        ))
    });
    for out in outs {
        let sums = c!(core::slice::from_raw_parts(out.cast::<[u8; 4]>(), count));
        assert!(sums.iter().enumerate().all(|(at, sum)| u32::from_ne_bytes(*sum) == 3 * at as u32));
    }
}

/// Each collective is supported, and the query tells how many elements and members it takes, and how long the
/// elements are.
fn a_query_tells_limits(subject) {
    let group = Group::open(subject, 1);
    let (code, attr) = query(&group, FI_BARRIER, FI_VOID, FI_NOOP);
    assert_eq!(code, 0);
    assert!(attr.max_members >= 2);
    for coll in [FI_ALLREDUCE, FI_REDUCE_SCATTER, FI_REDUCE] {
        let (code, attr) = query(&group, coll, FI_UINT32, FI_SUM);
        assert_eq!((code, attr.datatype_attr.size), (0, 4));
        assert!(attr.max_members >= 2 && attr.datatype_attr.count >= 1);
    }
    for coll in [FI_BROADCAST, FI_ALLTOALL, FI_ALLGATHER, FI_SCATTER, FI_GATHER] {
        assert_eq!(query(&group, coll, FI_UINT64, FI_NOOP).0, 0);
    }
}

/// What is not supported is refused by query and call alike.
fn a_query_refuses_what_cannot_be(subject) {
    let group = Group::joined(subject, 1);
    refused!(query(&group, FI_ALLREDUCE, FI_FLOAT, FI_BOR).0, FI_EOPNOTSUPP);
    refused!(query(&group, FI_ALLREDUCE, FI_UINT32, FI_CSWAP).0, FI_EOPNOTSUPP);
    refused!(query(&group, 99, FI_UINT32, FI_SUM).0, FI_EOPNOTSUPP);
    let member = &group.members[0];
    let buffer = member.end.traffic.buffer(&[0; 8]).cast();
    let begun = c!(fi_allreduce(
        member.end.ep, buffer, 1, NONE, buffer, NONE, member.address(), FI_FLOAT, FI_BOR, 0, NONE
    ));
    refused!(begun, FI_EOPNOTSUPP);
}

/// A false group is refused.
fn a_false_group_is_refused(subject) {
    let group = Group::joined(subject, 1);
    let member = &group.members[0];
    refused!(c!(fi_barrier(member.end.ep, member.address() ^ 0xFFFF, NONE)), FI_EINVAL);
}

/// An endpoint that is not in the set cannot join its group.
fn endpoints_outside_the_set_do_not_join(subject) {
    let group = Group::open(subject, 2);
    let member = &group.members[0];
    let set = open_set(member.end.av, EMPTY).expect("a set");
    assert_eq!(c!(fi_av_set_insert(set, 1)), 0);
    let (mut mc, mut address) = (null_mut(), 0);
    assert_eq!(c!(fi_av_set_addr(set, &mut address)), 0);
    refused!(c!(fi_join_collective(member.end.ep, address, set, 0, &mut mc, NONE)), FI_EINVAL);
    assert_eq!(close(set), 0);
}
}
