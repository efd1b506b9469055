//! Scalable endpoints and aliases: fi_endpoint(3).

use core::ptr::null_mut;

use oxifabric_abi::*;

use super::world::{World, bind, c, close};
use crate::info::{self, to_c};

/// Contexts of each kind.
const COUNT: usize = 3;
/// Enough bits to name one of them.
const BITS: i32 = 2;

fn world() -> World {
    World::with(FI_VERSION(2, 6), |info| {
        (info.ep.tx_ctx_cnt, info.ep.rx_ctx_cnt) = (COUNT, COUNT);
        (info.domain.max_ep_tx_ctx, info.domain.max_ep_rx_ctx) = (COUNT, COUNT);
    })
}

/// A scalable endpoint, every context of which has a queue of its own.
struct Scalable {
    sep: *mut fid_ep,
    av: *mut fid_av,
    tx: Vec<(*mut fid_ep, *mut fid_cq)>,
    rx: Vec<(*mut fid_ep, *mut fid_cq)>,
}

fn open(world: &World) -> *mut fid_ep {
    let entry = to_c(&world.info);
    let mut sep = null_mut();
    assert_eq!(
        c!(fi_scalable_ep(world.domain, entry, &mut sep, null_mut())),
        0
    );
    c!(info::free(entry));
    sep
}

fn transmit(sep: *mut fid_ep, index: usize) -> *mut fid_ep {
    let mut ep = null_mut();
    let opened = c!(fi_tx_context(
        sep,
        index as i32,
        null_mut(),
        &mut ep,
        null_mut()
    ));
    assert_eq!(opened, 0);
    ep
}

fn receive(sep: *mut fid_ep, index: usize) -> *mut fid_ep {
    let mut ep = null_mut();
    let opened = c!(fi_rx_context(
        sep,
        index as i32,
        null_mut(),
        &mut ep,
        null_mut()
    ));
    assert_eq!(opened, 0);
    ep
}

impl Scalable {
    fn new(world: &World) -> Self {
        let sep = open(world);
        let mut attr = fi_av_attr {
            rx_ctx_bits: BITS,
            ..fi_av_attr::ZERO
        };
        let mut av = null_mut();
        assert_eq!(
            c!(fi_av_open(world.domain, &mut attr, &mut av, null_mut())),
            0
        );
        assert_eq!(c!(fi_scalable_ep_bind(sep, av.cast(), 0)), 0);
        let enabled = |ep, flag| {
            let cq = world.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
            assert_eq!(c!(fi_enable(ep)), -FI_ENOCQ);
            assert_eq!(bind(ep, cq, flag), 0);
            assert_eq!(c!(fi_enable(ep)), 0);
            (ep, cq)
        };
        let tx = (0..COUNT).map(|at| enabled(transmit(sep, at), FI_TRANSMIT));
        let tx = tx.collect();
        let rx = (0..COUNT).map(|at| enabled(receive(sep, at), FI_RECV));
        let rx = rx.collect();
        assert_eq!(c!(fi_enable(sep)), 0);
        Self { sep, av, tx, rx }
    }

    fn knows(&self, other: &Self) -> fi_addr_t {
        let (mut name, mut len) = ([0u8; 64], 64);
        let at = name.as_mut_ptr().cast();
        assert_eq!(c!(fi_getname(other.sep.cast(), at, &mut len)), 0);
        let mut found = 77;
        assert_eq!(
            c!(fi_av_insert(self.av, at, 1, &mut found, 0, null_mut())),
            1
        );
        found
    }
}

impl Drop for Scalable {
    fn drop(&mut self) {
        assert_eq!(close(self.sep), -FI_EBUSY);
        for &(ep, cq) in self.tx.iter().chain(&self.rx) {
            assert_eq!(close(cq), -FI_EBUSY);
            assert_eq!(close(ep), 0);
            assert_eq!(close(cq), 0);
        }
        assert_eq!(close(self.sep), 0);
        assert_eq!(close(self.av), 0);
    }
}

fn post(ep: *mut fid_ep, into: &mut [u8; 4]) -> isize {
    let buf = into.as_mut_ptr().cast();
    c!(fi_recv(ep, buf, 4, null_mut(), FI_ADDR_UNSPEC, null_mut()))
}

fn send(ep: *mut fid_ep, to: fi_addr_t) -> isize {
    c!(fi_send(
        ep,
        c"data".as_ptr().cast(),
        4,
        null_mut(),
        to,
        null_mut()
    ))
}

fn next(cq: *mut fid_cq) -> (fi_cq_tagged_entry, fi_addr_t) {
    let (mut entry, mut source) = (fi_cq_tagged_entry::ZERO, 5);
    let at = (&raw mut entry).cast();
    for _ in 0..1_000_000 {
        match c!(fi_cq_readfrom(cq, at, 1, &mut source)) {
            1 => return (entry, source),
            read => assert_eq!(read, -(FI_EAGAIN as isize)),
        }
    }
    panic!("no completion came");
}

#[test]
fn messages_reach_the_receive_context_that_the_address_names_and_come_from_the_endpoint() {
    let world = world();
    let (a, b) = (Scalable::new(&world), Scalable::new(&world));
    let (to_b, a_at_b) = (a.knows(&b), b.knows(&a));
    for from in 0..COUNT {
        for to in 0..COUNT {
            let mut buffer = [0; 4];
            assert_eq!(post(b.rx[to].0, &mut buffer), 0);
            let address = fi_rx_addr(to_b, to as i32, BITS);
            assert_eq!(send(a.tx[from].0, address), 0);
            assert_eq!(next(a.tx[from].1).0.flags, FI_SEND | FI_MSG);
            let (entry, source) = next(b.rx[to].1);
            assert_eq!((entry.flags, source), (FI_RECV | FI_MSG, a_at_b));
            assert_eq!(&buffer, b"data");
        }
    }
}

#[test]
fn a_context_has_one_direction() {
    let world = world();
    let end = Scalable::new(&world);
    let none = -(FI_ENOSYS as isize);
    assert_eq!(post(end.tx[0].0, &mut [0; 4]), none);
    assert_eq!(send(end.rx[0].0, 0), none);
    let cq = world.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    assert_eq!(bind(end.tx[0].0, cq, FI_RECV), -FI_EINVAL);
    assert_eq!(close(cq), 0);
}

#[test]
fn contexts_are_enabled_with_a_queue_and_opened_once() {
    let world = world();
    let sep = open(&world);
    let ep = transmit(sep, 0);
    let cq = world.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    assert_eq!(bind(ep, cq, FI_RECV), -FI_EINVAL);
    assert_eq!(send(ep, 0), -(FI_EOPBADSTATE as isize));
    assert_eq!(bind(ep, cq, FI_TRANSMIT), 0);
    assert_eq!(c!(fi_enable(ep)), -FI_ENOAV);
    let mut again = null_mut();
    for (index, refused) in [(0, -FI_EBUSY), (COUNT as i32, -FI_EINVAL), (-1, -FI_EINVAL)] {
        let opened = c!(fi_tx_context(
            sep,
            index,
            null_mut(),
            &mut again,
            null_mut()
        ));
        assert_eq!(opened, refused);
    }
    assert_eq!(close(ep), 0);
    assert_eq!(close(cq), 0);
    let ep = transmit(sep, 0);
    assert_eq!(close(ep), 0);
    assert_eq!(close(sep), 0);
}

#[test]
fn a_closed_receive_context_takes_its_receives_with_it_and_may_be_opened_again() {
    let world = world();
    let (a, mut b) = (Scalable::new(&world), Scalable::new(&world));
    let to = fi_rx_addr(a.knows(&b), 1, BITS);
    let mut stale = [0; 4];
    assert_eq!(post(b.rx[1].0, &mut stale), 0);
    assert_eq!(close(b.rx[1].0), 0);
    let (ep, cq) = (receive(b.sep, 1), b.rx[1].1);
    assert_eq!(bind(ep, cq, FI_RECV), 0);
    assert_eq!(c!(fi_enable(ep)), 0);
    b.rx[1].0 = ep;
    let mut buffer = [0; 4];
    assert_eq!(post(ep, &mut buffer), 0);
    assert_eq!(send(a.tx[0].0, to), 0);
    next(cq);
    assert_eq!((&buffer, stale), (b"data", [0; 4]));
}

#[test]
fn more_contexts_than_the_domain_has_are_refused() {
    let world = world();
    let mut info = world.info.clone();
    info.ep.rx_ctx_cnt = COUNT + 1;
    let entry = to_c(&info);
    let mut sep = null_mut();
    let opened = c!(fi_scalable_ep(world.domain, entry, &mut sep, null_mut()));
    assert_eq!(opened, -FI_EINVAL);
    c!(info::free(entry));
}

#[test]
fn an_alias_has_flags_of_its_own_and_keeps_the_endpoint_open() {
    let world = World::new();
    let (ep, av) = (world.bare(), world.av(0));
    let cq = world.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    let mut alias = null_mut();
    for wrong in [0, FI_COMPLETION, FI_TRANSMIT | FI_RECV] {
        assert_eq!(c!(fi_ep_alias(ep, &mut alias, wrong)), -FI_EINVAL);
    }
    assert_eq!(
        c!(fi_ep_alias(ep, &mut alias, FI_TRANSMIT | FI_COMPLETION)),
        0
    );
    assert_eq!(bind(ep, av, 0), 0);
    assert_eq!(
        bind(ep, cq, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION),
        0
    );
    assert_eq!(send(alias, 0), -(FI_EOPBADSTATE as isize));
    assert_eq!(c!(fi_enable(alias)), 0);
    let (mut name, mut len) = ([0u8; 64], 64);
    let at = name.as_mut_ptr().cast();
    assert_eq!(c!(fi_getname(alias.cast(), at, &mut len)), 0);
    assert_eq!(c!(fi_av_insert(av, at, 1, null_mut(), 0, null_mut())), 1);

    let mut buffers = [[0; 4]; 2];
    assert_eq!(post(ep, &mut buffers[0]), 0);
    assert_eq!(post(ep, &mut buffers[1]), 0);
    assert_eq!(send(ep, 0), 0);
    assert_eq!(send(alias, 0), 0);
    assert_eq!(next(cq).0.flags, FI_SEND | FI_MSG);
    let mut entry = fi_cq_tagged_entry::ZERO;
    let at = (&raw mut entry).cast();
    for _ in 0..100 {
        assert_eq!(c!(fi_cq_read(cq, at, 1)), -(FI_EAGAIN as isize));
    }
    assert_eq!(buffers, [*b"data"; 2]);

    let mut flags = FI_TRANSMIT;
    let at = (&raw mut flags).cast();
    assert_eq!(c!(fi_control(alias.cast(), FI_GETOPSFLAG, at)), 0);
    assert_eq!(flags, FI_COMPLETION);
    assert_eq!(close(ep), -FI_EBUSY);
    assert_eq!(close(alias), 0);
    assert_eq!(close(ep), 0);
    assert_eq!((close(cq), close(av)), (0, 0));
}
