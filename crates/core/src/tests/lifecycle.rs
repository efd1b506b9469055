//! Opening, binding, enabling and closing: the reference rules of the man pages.

use core::ffi::c_void;
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_types::Caps;

use super::world::{World, bind, c, close};

#[test]
fn parents_are_busy_while_children_are_open() {
    let world = World::new();
    let eq = world.eq(FI_WAIT_NONE);
    for child in [
        world.cq(FI_CQ_FORMAT_MSG, FI_WAIT_NONE).cast::<fid>(),
        world.av(0).cast(),
        world.cntr(FI_WAIT_NONE).cast(),
        world.bare().cast(),
    ] {
        assert_eq!(close(world.domain), -FI_EBUSY);
        assert_eq!(close(child), 0);
    }
    assert_eq!(close(world.fabric), -FI_EBUSY);
    assert_eq!(close(eq), 0);
}

#[test]
fn bound_objects_are_busy_until_the_endpoint_closes() {
    let world = World::new();
    let ep = world.bare();
    let (cq, av) = (world.cq(FI_CQ_FORMAT_MSG, FI_WAIT_NONE), world.av(0));
    let (cntr, eq) = (world.cntr(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    assert_eq!(bind(ep, cq, FI_SEND | FI_RECV), 0);
    assert_eq!(bind(ep, av, 0), 0);
    assert_eq!(bind(ep, cntr, FI_SEND), 0);
    assert_eq!(bind(ep, eq, 0), 0);
    assert_eq!(c!(fi_enable(ep)), 0);
    let bound = [cq.cast::<fid>(), av.cast(), cntr.cast(), eq.cast()];
    for object in bound {
        assert_eq!(close(object), -FI_EBUSY);
    }
    assert_eq!(close(ep), 0);
    for object in bound {
        assert_eq!(close(object), 0);
    }
}

#[test]
fn enabling_needs_a_vector_and_queues() {
    let world = World::new();
    let ep = world.bare();
    let (cq, av) = (world.cq(FI_CQ_FORMAT_MSG, FI_WAIT_NONE), world.av(0));
    assert_eq!(c!(fi_enable(ep)), -FI_ENOCQ);
    assert_eq!(bind(ep, cq, FI_SEND), 0);
    assert_eq!(c!(fi_enable(ep)), -FI_ENOCQ);
    assert_eq!(bind(ep, cq, FI_RECV), 0);
    assert_eq!(c!(fi_enable(ep)), -FI_ENOAV);
    assert_eq!(bind(ep, av, 0), 0);
    assert_eq!(c!(fi_enable(ep)), 0);
    assert_eq!(bind(ep, cq, FI_SEND), -FI_EINVAL);
    assert_eq!(close(ep), 0);
    assert_eq!((close(cq), close(av)), (0, 0));
}

#[test]
fn enabling_can_be_tried_again() {
    let world = World::new();
    let first = world.end(FI_CQ_FORMAT_MSG, FI_WAIT_FD);
    let (ep, av) = (world.bare(), world.av(0));
    let cq = world.cq(FI_CQ_FORMAT_MSG, FI_WAIT_FD);
    assert_eq!(bind(ep, cq, FI_SEND | FI_RECV), 0);
    assert_eq!(bind(ep, av, 0), 0);
    let name = first.name();
    let at = name.as_ptr().cast_mut().cast();
    assert_eq!(c!(fi_setname(ep.cast(), at, name.len())), 0);
    assert_eq!(c!(fi_enable(ep)), -FI_EADDRINUSE);
    assert_eq!(
        c!(fi_inject(ep, null_mut(), 0, 0)),
        -(FI_EOPBADSTATE as isize)
    );
    drop(first);
    assert_eq!(c!(fi_enable(ep)), 0);
    assert_eq!(
        c!(fi_inject(ep, null_mut(), 0, 0)),
        -(FI_EINVAL as isize),
        "no address is in the vector"
    );
    assert_eq!((close(ep), close(cq), close(av)), (0, 0, 0));
}

#[test]
fn a_sender_needs_no_receive_queue() {
    let world = World::with(FI_VERSION(2, 6), |info| info.caps = Caps::MSG | Caps::SEND);
    let (ep, av) = (world.bare(), world.av(0));
    let cq = world.cq(FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
    assert_eq!(bind(ep, cq, FI_SEND), 0);
    assert_eq!(bind(ep, av, 0), 0);
    assert_eq!(c!(fi_enable(ep)), 0);
    assert_eq!((close(ep), close(cq), close(av)), (0, 0, 0));
}

#[test]
fn transfers_need_an_enabled_endpoint() {
    let world = World::new();
    let ep = world.bare();
    let bad = -(FI_EOPBADSTATE as isize);
    assert_eq!(
        c!(fi_send(ep, null_mut(), 0, null_mut(), 0, null_mut())),
        bad
    );
    assert_eq!(
        c!(fi_trecv(ep, null_mut(), 0, null_mut(), 0, 0, 0, null_mut())),
        bad
    );
    assert_eq!(c!(fi_inject(ep, null_mut(), 0, 0)), bad);
    assert_eq!(close(ep), 0);
}

#[test]
fn bindings_are_checked() {
    let world = World::new();
    let other = World::new();
    let ep = world.bare();
    let cq = world.cq(FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
    let strange = other.cq(FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
    let cntr = world.cntr(FI_WAIT_NONE);
    assert_eq!(bind(ep, null_mut::<fid>(), 0), -FI_EINVAL);
    assert_eq!(bind(ep, world.domain, 0), -FI_EINVAL);
    assert_eq!(bind(ep, strange, FI_SEND), -FI_EDOMAIN);
    assert_eq!(bind(ep, cq, FI_READ), -FI_EBADFLAGS);
    assert_eq!(bind(ep, cq, FI_SELECTIVE_COMPLETION), -FI_EINVAL);
    assert_eq!(bind(ep, cq, FI_SEND), 0);
    assert_eq!(bind(ep, cq, FI_SEND), -FI_EINVAL);
    assert_eq!(bind(ep, cntr, FI_MSG), -FI_EBADFLAGS);
    assert_eq!(bind(ep, cntr, FI_READ | FI_WRITE), 0);
    assert_eq!(bind(ep, cntr, FI_WRITE), -FI_EINVAL);
    assert_eq!((close(ep), close(cq), close(cntr)), (0, 0, 0));
    assert_eq!(close(strange), 0);
}

#[test]
fn null_arguments_are_refused() {
    let world = World::new();
    assert_eq!(
        c!(fi_domain(
            world.fabric,
            null_mut(),
            &mut null_mut(),
            null_mut()
        )),
        -FI_EINVAL
    );
    assert_eq!(
        c!(fi_endpoint(
            world.domain,
            null_mut(),
            &mut null_mut(),
            null_mut()
        )),
        -FI_EINVAL
    );
    assert_eq!(
        c!(fi_cq_open(world.domain, null_mut(), null_mut(), null_mut())),
        -FI_EINVAL
    );
    assert_eq!(
        c!(fi_av_open(
            world.domain,
            null_mut(),
            &mut null_mut(),
            null_mut()
        )),
        -FI_EINVAL
    );
}

#[test]
fn names_are_returned_in_full_or_refused() {
    let world = World::new();
    let end = world.end(FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
    let name = end.name();
    assert!(name.starts_with(b"mock://") && name.ends_with(&[0]));
    let mut short = [0u8; 4];
    let mut len = short.len();
    let named = c!(fi_getname(
        end.ep.cast(),
        short.as_mut_ptr().cast(),
        &mut len
    ));
    assert_eq!((named, len, &short), (-FI_ETOOSMALL, name.len(), b"mock"));
    let mut len = 0;
    assert_eq!(
        c!(fi_getname(end.ep.cast(), null_mut(), &mut len)),
        -FI_ETOOSMALL
    );
    assert_eq!(
        c!(fi_setname(
            end.ep.cast(),
            c"x".as_ptr().cast_mut().cast(),
            2
        )),
        -FI_EOPBADSTATE
    );
}

#[test]
fn options_and_flags_can_be_set_and_got() {
    let world = World::new();
    let ep = world.bare();
    let get = |name| {
        let (mut value, mut len) = (0usize, size_of::<usize>());
        let got = c!(fi_getopt(
            ep.cast(),
            FI_OPT_ENDPOINT,
            name,
            (&raw mut value).cast(),
            &mut len
        ));
        if got == 0 { Ok(value) } else { Err(got) }
    };
    let set = |name, value: usize| {
        let value = (&raw const value).cast();
        c!(fi_setopt(ep.cast(), FI_OPT_ENDPOINT, name, value, 8))
    };
    assert_eq!(set(FI_OPT_MIN_MULTI_RECV, 99), 0);
    assert_eq!(get(FI_OPT_MIN_MULTI_RECV), Ok(99));
    assert_eq!(get(FI_OPT_MAX_MSG_SIZE), Ok(1 << 20));
    assert_eq!(set(FI_OPT_INJECT_MSG_SIZE, 65), -FI_EINVAL);
    assert_eq!(get(FI_OPT_TX_SIZE), Ok(4));
    assert_eq!(set(FI_OPT_TX_SIZE, 0), -FI_EINVAL);
    assert_eq!(get(FI_OPT_CM_DATA_SIZE), Err(-FI_ENOPROTOOPT));
    let mut flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
    let control = |command, flags: &mut u64| {
        let flags = core::ptr::from_mut(flags);
        c!(fi_control(ep.cast(), command, flags.cast()))
    };
    assert_eq!(control(FI_SETOPSFLAG, &mut flags), 0);
    flags = FI_TRANSMIT;
    assert_eq!(control(FI_GETOPSFLAG, &mut flags), 0);
    assert_eq!(flags, FI_DELIVERY_COMPLETE);
    flags = FI_TRANSMIT | FI_RECV;
    assert_eq!(control(FI_GETOPSFLAG, &mut flags), -FI_EINVAL);
    assert_eq!(control(FI_DUP, &mut flags), -FI_ENOSYS);
    assert_eq!(close(ep), 0);
}

#[test]
fn absent_operations_say_so() {
    let world = World::new();
    let end = world.end(FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
    let no = -(FI_ENOSYS as isize);
    assert_eq!(
        c!(fi_write(
            end.ep,
            null_mut(),
            0,
            null_mut(),
            0,
            0,
            0,
            null_mut()
        )),
        no
    );
    assert_eq!(c!(fi_barrier(end.ep, 0, null_mut())), no);
    assert_eq!(
        c!(fi_connect(end.ep, null_mut(), null_mut(), 0)),
        -FI_ENOSYS
    );
    assert_eq!(c!(fi_ep_alias(end.ep, null_mut(), 0)), -FI_EINVAL);
}

#[test]
fn no_object_has_named_values_operations_or_something_to_export() {
    let world = World::new();
    let end = world.end(FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
    let (cntr, eq) = (world.cntr(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    let objects: [*mut fid; 7] = [
        world.fabric.cast(),
        world.domain.cast(),
        end.ep.cast(),
        end.cq.cast(),
        end.av.cast(),
        cntr.cast(),
        eq.cast(),
    ];
    for object in objects {
        let mut value = 7u64;
        let at: *mut c_void = (&raw mut value).cast();
        let (mut ops, mut exported) = (null_mut(), null_mut());
        let mut export = fi_fid_export {
            fid: &mut exported,
            flags: 0,
            context: null_mut(),
        };
        let answers = [
            c!(fi_get_val(object, 1, at)),
            c!(fi_set_val(object, 1, at)),
            c!(fi_open_ops(
                object,
                c"none".as_ptr(),
                0,
                &mut ops,
                null_mut()
            )),
            c!(fi_set_ops(object, c"none".as_ptr(), 0, at, null_mut())),
            c!(fi_control(object, FI_EXPORT_FID, (&raw mut export).cast())),
            c!(fi_control(object, FI_GET_FD, at)),
        ];
        // SAFETY: the object is open.
        let class = unsafe { (*object).fclass };
        assert_eq!(answers, [-FI_ENOSYS; 6], "class {class}");
        assert_eq!(value, 7);
    }
    assert_eq!((close(cntr), close(eq)), (0, 0));
}

#[test]
fn shared_memory_may_be_permitted_and_only_set() {
    let world = World::new();
    let ep = world.bare();
    let set = |value: &[u8]| {
        c!(fi_setopt(
            ep.cast(),
            FI_OPT_ENDPOINT,
            FI_OPT_SHARED_MEMORY_PERMITTED,
            value.as_ptr().cast(),
            value.len()
        ))
    };
    assert_eq!((set(&[1]), set(&[0]), set(&[0; 8])), (0, 0, -FI_EINVAL));
    let (mut value, mut len) = (0u8, 1);
    let got = c!(fi_getopt(
        ep.cast(),
        FI_OPT_ENDPOINT,
        FI_OPT_SHARED_MEMORY_PERMITTED,
        (&raw mut value).cast(),
        &mut len
    ));
    assert_eq!(got, -FI_ENOPROTOOPT);
    assert_eq!(close(ep), 0);
}
