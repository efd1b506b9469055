//! Event queues.

use core::ffi::c_void;

use oxifabric_abi::*;

use crate::world::{World, close};
use crate::{c, sentences};

/// Reads at most one event; returns the result and the kind.
fn read(eq: *mut fid_eq, entry: &mut fi_eq_entry, flags: u64) -> (isize, u32) {
    let mut event = 0;
    let place: *mut c_void = (&raw mut *entry).cast();
    let code = c!(fi_eq_read(
        eq,
        &mut event,
        place,
        size_of::<fi_eq_entry>(),
        flags
    ));
    (code, event)
}

/// Writes an event with this datum.
fn write(eq: *mut fid_eq, data: u64) -> isize {
    let entry = fi_eq_entry {
        data,
        ..fi_eq_entry::ZERO
    };
    c!(fi_eq_write(
        eq,
        FI_NOTIFY,
        (&raw const entry).cast(),
        size_of::<fi_eq_entry>(),
        0
    ))
}

const SIZE: isize = size_of::<fi_eq_entry>() as isize;

sentences! { "fi_eq(3)";

/// Reading an empty queue gives -FI_EAGAIN.
fn an_empty_queue_says_again(stage) {
    let world = World::new(stage);
    let eq = world.eq();
    let mut entry = fi_eq_entry::ZERO;
    assert_eq!(read(eq, &mut entry, 0).0, -(FI_EAGAIN as isize));
    assert_eq!(close(eq), 0);
}

/// Reading an error where there is none gives -FI_EAGAIN.
fn a_queue_without_errors_says_again(stage) {
    let world = World::new(stage);
    let eq = world.eq();
    let mut error = fi_eq_err_entry::ZERO;
    assert_eq!(c!(fi_eq_readerr(eq, &mut error, 0)), -(FI_EAGAIN as isize));
    assert_eq!(close(eq), 0);
}

/// A queue opened with FI_WRITE takes events of the application and gives them back in order.
fn written_events_come_back_in_order(stage) {
    let world = World::new(stage);
    let eq = world.eq();
    for data in 1..=3 {
        assert_eq!(write(eq, data), SIZE);
    }
    for data in 1..=3 {
        let mut entry = fi_eq_entry::ZERO;
        assert_eq!(read(eq, &mut entry, 0), (SIZE, FI_NOTIFY));
        assert_eq!(entry.data, data);
    }
    assert_eq!(close(eq), 0);
}

/// With FI_PEEK an event stays in the queue.
fn a_peek_leaves_the_event(stage) {
    let world = World::new(stage);
    let eq = world.eq();
    assert_eq!(write(eq, 7), SIZE);
    for flags in [FI_PEEK, FI_PEEK, 0] {
        let mut entry = fi_eq_entry::ZERO;
        assert_eq!(read(eq, &mut entry, flags).0, SIZE);
        assert_eq!(entry.data, 7);
    }
    let mut entry = fi_eq_entry::ZERO;
    assert_eq!(read(eq, &mut entry, 0).0, -(FI_EAGAIN as isize));
    assert_eq!(close(eq), 0);
}

/// A queue opened without FI_WRITE takes no events of the application.
fn a_queue_of_the_provider_is_not_written(stage) {
    let world = World::new(stage);
    let mut attr = fi_eq_attr::ZERO;
    let mut eq = core::ptr::null_mut();
    assert_eq!(c!(fi_eq_open(world.fabric, &mut attr, &mut eq, core::ptr::null_mut())), 0);
    assert!(write(eq, 1) < 0);
    assert_eq!(close(eq), 0);
}

/// A blocking read of an empty queue gives -FI_EAGAIN when its time is over.
fn a_blocking_read_ends_with_its_time(stage) {
    let world = World::new(stage);
    let eq = world.eq();
    let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
    let place = (&raw mut entry).cast();
    let code = c!(fi_eq_sread(eq, &mut event, place, size_of::<fi_eq_entry>(), 1, 0));
    assert_eq!(code, -(FI_EAGAIN as isize));
    assert_eq!(close(eq), 0);
}

/// A blocking read returns what was written before it.
fn a_blocking_read_returns_an_event(stage) {
    let world = World::new(stage);
    let eq = world.eq();
    assert_eq!(write(eq, 9), SIZE);
    let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
    let place = (&raw mut entry).cast();
    let code = c!(fi_eq_sread(eq, &mut event, place, size_of::<fi_eq_entry>(), -1, 0));
    assert_eq!((code, entry.data), (SIZE, 9));
    assert_eq!(close(eq), 0);
}
}
