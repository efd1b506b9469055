//! Sets of addresses and collectives, as C programs use them: fi_av_set(3), fi_collective(3).

use core::ffi::c_void;
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_types::{Caps, Errno, Threading};

use super::world::{End, World, bind, c, close};

/// A world whose endpoints do collectives.
fn world() -> World {
    World::with(FI_VERSION(2, 6), |info| {
        info.caps |= Caps::COLLECTIVE;
        info.tx.size = 16;
    })
}

/// One endpoint with its event queue, which knows all endpoints by the same indices.
struct Rank {
    end: End,
    eq: *mut fid_eq,
    set: *mut fid_av_set,
    mc: *mut fid_mc,
}

fn open_set(av: *mut fid_av, attr: fi_av_set_attr) -> Result<*mut fid_av_set, i32> {
    let (mut attr, mut set) = (attr, null_mut());
    match c!(fi_av_set(av, &mut attr, &mut set, null_mut())) {
        0 => Ok(set),
        failed => Err(-failed),
    }
}

const EMPTY: fi_av_set_attr = fi_av_set_attr {
    start_addr: FI_ADDR_NOTAVAIL,
    end_addr: FI_ADDR_NOTAVAIL,
    ..fi_av_set_attr::ZERO
};

const UNIVERSE: fi_av_set_attr = fi_av_set_attr {
    flags: FI_UNIVERSE,
    ..EMPTY
};

impl Rank {
    /// Opens `count` endpoints that have not joined anything.
    fn open(world: &World, count: usize) -> Vec<Self> {
        Self::waiting(world, count, FI_WAIT_NONE)
    }

    /// As [`Rank::open`], with event queues to wait for.
    fn waiting(world: &World, count: usize, wait_obj: fi_wait_obj) -> Vec<Self> {
        let ranks: Vec<Self> = (0..count)
            .map(|_| {
                let eq = world.eq(wait_obj);
                let end = End {
                    ep: world.bare(),
                    cq: world.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE),
                    av: world.av(0),
                };
                assert_eq!(bind(end.ep, end.cq, FI_SEND | FI_RECV), 0);
                assert_eq!(bind(end.ep, end.av, 0), 0);
                assert_eq!(bind(end.ep, eq, 0), 0);
                assert_eq!(c!(fi_enable(end.ep)), 0);
                Self {
                    end,
                    eq,
                    set: null_mut(),
                    mc: null_mut(),
                }
            })
            .collect();
        for rank in &ranks {
            for (at, other) in ranks.iter().enumerate() {
                assert_eq!(rank.end.knows(&other.end), at as u64);
            }
        }
        ranks
    }

    /// Opens `count` endpoints that have joined one group.
    fn joined(world: &World, count: usize) -> Vec<Self> {
        let mut ranks = Self::open(world, count);
        for rank in &mut ranks {
            rank.set = open_set(rank.end.av, UNIVERSE).expect("the set is possible");
            assert_eq!(rank.join(), 0);
        }
        for rank in 0..count {
            let (event, entry) = Self::event(&ranks, rank);
            assert_eq!(event, FI_JOIN_COMPLETE);
            assert_eq!(entry.context.addr(), 77);
            assert_eq!(entry.fid, ranks[rank].mc.cast());
        }
        ranks
    }

    fn join(&mut self) -> i32 {
        let mut address = 0;
        assert_eq!(c!(fi_av_set_addr(self.set, &mut address)), 0);
        let context = 77 as *mut c_void;
        c!(fi_join_collective(
            self.end.ep,
            address,
            self.set,
            0,
            &mut self.mc,
            context
        ))
    }

    /// Drives all until one has an event.
    fn event(ranks: &[Self], at: usize) -> (u32, fi_eq_entry) {
        let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
        for _ in 0..100_000 {
            Self::drive(ranks);
            let room = size_of::<fi_eq_entry>();
            let into = (&raw mut entry).cast();
            if c!(fi_eq_read(ranks[at].eq, &mut event, into, room, 0)) == room as isize {
                return (event, entry);
            }
        }
        panic!("no event came");
    }

    fn drive(ranks: &[Self]) {
        for rank in ranks {
            c!(fi_cq_read(rank.end.cq, null_mut(), 0));
        }
    }

    /// Drives all until one has a completion, whose context it returns.
    fn completion(ranks: &[Self], at: usize) -> usize {
        for _ in 0..100_000 {
            Self::drive(ranks);
            if let Ok((entry, source)) = ranks[at].end.read() {
                assert_eq!((entry.flags, source), (FI_COLLECTIVE, FI_ADDR_NOTAVAIL));
                return entry.op_context.addr();
            }
        }
        panic!("no completion came");
    }

    fn address(&self) -> fi_addr_t {
        c!(fi_mc_addr(self.mc))
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        if !self.mc.is_null() {
            assert_eq!(close(self.mc), 0);
        }
        if !self.set.is_null() {
            assert_eq!(close(self.set), 0);
        }
    }
}

/// Closes endpoints before their event queues.
fn close_all(ranks: Vec<Rank>) {
    let eqs: Vec<_> = ranks.iter().map(|rank| rank.eq).collect();
    drop(ranks);
    for eq in eqs {
        assert_eq!(close(eq), 0);
    }
}

/// Finds the index of each member by removing them one by one.
fn contents(set: *mut fid_av_set) -> Vec<u64> {
    let mut found = Vec::new();
    for addr in 0..10 {
        if c!(fi_av_set_remove(set, addr)) == 0 {
            found.push(addr);
        }
    }
    found
}

#[test]
fn a_set_has_what_its_range_and_stride_say() {
    let world = world();
    let ranks = Rank::open(&world, 6);
    let range = |start_addr, end_addr, stride, count| fi_av_set_attr {
        count,
        start_addr,
        end_addr,
        stride,
        ..fi_av_set_attr::ZERO
    };
    for (attr, expected) in [
        (range(1, 4, 1, 0), vec![1, 2, 3, 4]),
        (range(1, 5, 2, 3), vec![1, 3, 5]),
        (range(4, 100, 0, 0), vec![4, 5]),
        (EMPTY, vec![]),
        (UNIVERSE, vec![0, 1, 2, 3, 4, 5]),
    ] {
        let set = open_set(ranks[0].end.av, attr).expect("the set is possible");
        assert_eq!(contents(set), expected);
        assert_eq!(close(set), 0);
    }
    for attr in [
        range(3, 2, 1, 0),
        range(0, 3, 1, 2),
        range(0, FI_ADDR_NOTAVAIL, 1, 0),
    ] {
        assert_eq!(open_set(ranks[0].end.av, attr), Err(Errno::INVAL.raw()));
    }
    close_all(ranks);
}

/// Joins all ranks without waiting for any.
fn begin_to_join(ranks: &mut [Rank]) {
    for rank in ranks {
        rank.set = open_set(rank.end.av, UNIVERSE).expect("the set is possible");
        assert_eq!(rank.join(), 0);
    }
}

#[test]
fn reading_event_queues_alone_ends_joins() {
    let world = world();
    let mut ranks = Rank::open(&world, 3);
    begin_to_join(&mut ranks);
    let mut joined = 0;
    for _ in 0..100_000 {
        for rank in &ranks {
            let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
            let room = size_of::<fi_eq_entry>();
            let into = (&raw mut entry).cast();
            if c!(fi_eq_read(rank.eq, &mut event, into, room, 0)) == room as isize {
                assert_eq!((event, entry.fid), (FI_JOIN_COMPLETE, rank.mc.cast()));
                joined += 1;
            }
        }
    }
    assert_eq!(joined, 3);
    close_all(ranks);
}

#[test]
fn joins_end_while_their_members_sleep_on_event_queues() {
    let world = World::with(FI_VERSION(2, 6), |info| {
        info.caps |= Caps::COLLECTIVE;
        // The queues are no objects of the domain, which the application keeps to one thread at a time.
        info.domain.threading = Threading::Domain;
    });
    let mut ranks = Rank::waiting(&world, 3, FI_WAIT_FD);
    begin_to_join(&mut ranks);
    let eqs: Vec<usize> = ranks
        .iter()
        .map(|rank| rank.eq.expose_provenance())
        .collect();
    std::thread::scope(|scope| {
        for eq in eqs {
            scope.spawn(move || {
                let eq: *mut fid_eq = core::ptr::with_exposed_provenance_mut(eq);
                let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
                let room = size_of::<fi_eq_entry>();
                let into = (&raw mut entry).cast();
                let read = c!(fi_eq_sread(eq, &mut event, into, room, 60_000, 0));
                assert_eq!((read, event), (room as isize, FI_JOIN_COMPLETE));
            });
        }
    });
    close_all(ranks);
}

#[test]
fn sets_are_merged_as_sets() {
    let world = world();
    let ranks = Rank::open(&world, 4);
    let av = ranks[0].end.av;
    let of = |members: &[u64]| {
        let set = open_set(av, EMPTY).expect("the set is possible");
        for &member in members {
            assert_eq!(c!(fi_av_set_insert(set, member)), 0);
        }
        set
    };
    type Merge = unsafe fn(*mut fid_av_set, *const fid_av_set) -> i32;
    let cases: [(Merge, &[u64]); 3] = [
        (fi_av_set_union, &[0, 1, 2, 3]),
        (fi_av_set_intersect, &[2]),
        (fi_av_set_diff, &[0, 3]),
    ];
    for (merge, expected) in cases {
        let (one, other) = (of(&[3, 2, 0]), of(&[1, 2]));
        assert_eq!(c!(merge(one, other)), 0);
        assert_eq!(contents(one), expected);
        assert_eq!((close(one), close(other)), (0, 0));
    }
    let set = of(&[1]);
    let invalid = -Errno::INVAL.raw();
    assert_eq!(c!(fi_av_set_insert(set, 1)), invalid);
    assert_eq!(c!(fi_av_set_insert(set, 9)), invalid);
    assert_eq!(c!(fi_av_set_remove(set, 2)), invalid);
    assert_eq!(close(set), 0);
    close_all(ranks);
}

#[test]
fn members_of_a_group_do_every_collective() {
    let world = world();
    for size in 1..=5u32 {
        let ranks = Rank::joined(&world, size as usize);
        let n = size as usize;
        let mine =
            |rank: usize| -> Vec<u32> { (0..n as u32).map(|at| 100 * rank as u32 + at).collect() };
        let root = 1 % n;
        let sums: Vec<u32> = (0..n)
            .map(|at| (0..n).map(|rank| mine(rank)[at]).sum())
            .collect();
        let inputs: Vec<Vec<u32>> = (0..n).map(mine).collect();
        let mut results = vec![[const { Vec::new() }; 8]; n];
        for result in results.iter_mut().flatten() {
            *result = vec![7u32; n];
        }
        let broadcast = mine(root);
        results[root][0].copy_from_slice(&broadcast);
        for (at, rank) in ranks.iter().enumerate() {
            let (ep, to, t) = (rank.end.ep, rank.address(), FI_UINT32);
            let none = null_mut::<c_void>();
            let input = inputs[at].as_ptr().cast::<c_void>();
            let out: Vec<*mut c_void> = results[at]
                .iter_mut()
                .map(|r| r.as_mut_ptr().cast())
                .collect();
            let context = |number: usize| number as *mut c_void;
            let from = root as u64;
            let begun = c!([
                fi_barrier(ep, to, context(100)),
                fi_broadcast(ep, out[0], n, none, to, from, t, 0, context(101)),
                fi_alltoall(ep, input, 1, none, out[1], none, to, t, 0, context(102)),
                fi_allreduce(
                    ep,
                    input,
                    n,
                    none,
                    out[2],
                    none,
                    to,
                    t,
                    FI_SUM,
                    0,
                    context(103)
                ),
                fi_allgather(ep, input, 1, none, out[3], none, to, t, 0, context(104)),
                fi_reduce_scatter(
                    ep,
                    input,
                    1,
                    none,
                    out[4],
                    none,
                    to,
                    t,
                    FI_SUM,
                    0,
                    context(105)
                ),
                fi_reduce(
                    ep,
                    input,
                    n,
                    none,
                    out[5],
                    none,
                    to,
                    from,
                    t,
                    FI_SUM,
                    0,
                    context(106)
                ),
                fi_scatter(
                    ep,
                    input,
                    1,
                    none,
                    out[6],
                    none,
                    to,
                    from,
                    t,
                    0,
                    context(107)
                ),
                fi_gather(
                    ep,
                    input,
                    1,
                    none,
                    out[7],
                    none,
                    to,
                    from,
                    t,
                    0,
                    context(108)
                ),
                fi_barrier2(ep, to, FI_COMPLETION, context(109)),
            ]);
            for (number, result) in begun.iter().enumerate() {
                assert_eq!(*result, 0, "call {number} of {size}");
            }
        }
        for at in 0..n {
            let mut contexts: Vec<usize> = (0..10).map(|_| Rank::completion(&ranks, at)).collect();
            contexts.sort_unstable();
            assert_eq!(contexts, (100..110).collect::<Vec<_>>());
        }
        for (at, got) in results.iter().enumerate() {
            assert_eq!(got[0], broadcast);
            assert_eq!(
                got[1],
                (0..n).map(|from| mine(from)[at]).collect::<Vec<_>>()
            );
            assert_eq!(got[2], sums);
            let firsts: Vec<u32> = (0..n).map(|from| mine(from)[0]).collect();
            assert_eq!(got[3], firsts);
            assert_eq!(got[4][0], sums[at]);
            assert_eq!(got[6][0], mine(root)[at]);
            if at == root {
                assert_eq!(got[5], sums);
                assert_eq!(got[7], firsts);
            }
        }
        close_all(ranks);
    }
}

#[test]
fn a_group_keeps_its_endpoint_open_and_ends_when_it_closes() {
    let world = world();
    let mut ranks = Rank::joined(&world, 2);
    assert_eq!(close(ranks[0].end.ep), -Errno::BUSY.raw());
    let to = ranks[1].address();
    assert_eq!(c!(fi_barrier(ranks[1].end.ep, to, null_mut())), 0);
    assert_eq!(close(ranks[1].mc), 0);
    ranks[1].mc = null_mut();
    Rank::drive(&ranks);
    let error = ranks[1].end.error();
    assert_eq!(
        (error.err, error.flags),
        (Errno::CANCELED.raw(), FI_COLLECTIVE)
    );
    Rank::drive(&ranks);
    let to = ranks[0].address();
    let late = c!(fi_barrier(ranks[0].end.ep, to, null_mut()));
    assert_eq!(
        late,
        -(Errno::CANCELED.raw() as isize),
        "the group is broken"
    );
    close_all(ranks);
}

#[test]
fn calls_that_cannot_be_are_refused() {
    let world = world();
    let ranks = Rank::joined(&world, 2);
    let (ep, to) = (ranks[0].end.ep, ranks[0].address());
    let (mut data, none) = ([0u8; 64], null_mut::<c_void>());
    let buf = data.as_mut_ptr().cast::<c_void>();
    let failed = |errno: Errno| -(errno.raw() as isize);
    let invalid = failed(Errno::INVAL);
    assert_eq!(c!(fi_barrier(ep, to + 1, none)), invalid);
    assert_eq!(c!(fi_barrier(ep, 0, none)), invalid);
    assert_eq!(
        c!(fi_broadcast(ep, buf, 1, none, to, 9, FI_UINT8, 0, none)),
        invalid
    );
    let unsupported = failed(Errno::OPNOTSUPP);
    for (datatype, op) in [
        (FI_FLOAT, FI_BOR),
        (FI_UINT8, FI_CSWAP),
        (FI_UINT8, FI_ATOMIC_WRITE),
        (FI_VOID, FI_SUM),
    ] {
        let begun = c!(fi_allreduce(
            ep, buf, 1, none, buf, none, to, datatype, op, 0, none
        ));
        assert_eq!(begun, unsupported);
    }
    let long = usize::MAX / 2;
    let begun = c!(fi_allgather(
        ep, buf, long, none, buf, none, to, FI_UINT64, 0, none
    ));
    assert_eq!(begun, failed(Errno::MSGSIZE));
    let begun = c!(fi_allgather(
        ep, none, 1, none, buf, none, to, FI_UINT64, 0, none
    ));
    assert_eq!(begun, invalid);
    // A set without this endpoint, and a set that is empty.
    let mut mc = null_mut();
    for members in [&[1][..], &[]] {
        let set = open_set(ranks[0].end.av, EMPTY).expect("the set is possible");
        for &member in members {
            assert_eq!(c!(fi_av_set_insert(set, member)), 0);
        }
        let joined = c!(fi_join_collective(
            ep,
            FI_ADDR_NOTAVAIL,
            set,
            0,
            &mut mc,
            none
        ));
        assert_eq!(joined, -Errno::INVAL.raw());
        assert_eq!(close(set), 0);
    }
    // One member of a group may wait for the others for ever, and may give up.
    let again = c!(fi_join_collective(ep, to, ranks[0].set, 0, &mut mc, none));
    assert_eq!((again, close(mc)), (0, 0));
    close_all(ranks);
}

#[test]
fn queries_tell_what_goes_together() {
    let world = world();
    let query = |collective, datatype, op, flags| {
        let mut attr = fi_collective_attr {
            op,
            datatype,
            ..fi_collective_attr::ZERO
        };
        let result = c!(fi_query_collective(
            world.domain,
            collective,
            &mut attr,
            flags
        ));
        (result, attr.datatype_attr.size)
    };
    assert_eq!(query(FI_BARRIER, FI_VOID, FI_NOOP, 0), (0, 0));
    assert_eq!(query(FI_ALLREDUCE, FI_DOUBLE, FI_PROD, 0), (0, 8));
    assert_eq!(query(FI_GATHER, FI_UINT128, FI_NOOP, 0), (0, 16));
    assert_eq!(
        query(FI_REDUCE, FI_INT16, FI_MAX, u64::from(FI_SCATTER)),
        (0, 2)
    );
    let unsupported = -Errno::OPNOTSUPP.raw();
    assert_eq!(query(FI_ALLREDUCE, FI_DOUBLE, FI_BXOR, 0).0, unsupported);
    assert_eq!(query(FI_BROADCAST, FI_VOID, FI_NOOP, 0).0, unsupported);
    assert_eq!(query(99, FI_UINT8, FI_NOOP, 0).0, unsupported);
}
