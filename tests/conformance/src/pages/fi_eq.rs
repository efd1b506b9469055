//! Event queues.

use core::ffi::c_void;
use core::ptr::null_mut;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, close};
use oxifabric_fixtures::{c, refused};

use crate::requirements;

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

requirements! { "fi_eq(3)";

/// Reading an empty queue gives -FI_EAGAIN.
fn an_empty_queue_says_again(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let mut entry = fi_eq_entry::ZERO;
    assert_eq!(read(eq, &mut entry, 0).0, -(FI_EAGAIN as isize));
    assert_eq!(close(eq), 0);
}

/// Reading an error where there is none gives -FI_EAGAIN.
fn a_queue_without_errors_says_again(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let mut error = fi_eq_err_entry::ZERO;
    assert_eq!(c!(fi_eq_readerr(eq, &mut error, 0)), -(FI_EAGAIN as isize));
    assert_eq!(close(eq), 0);
}

/// A queue opened with FI_WRITE takes events of the application and gives them back in order.
fn written_events_come_back_in_order(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
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
fn a_peek_leaves_the_event(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
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
fn a_queue_of_the_provider_is_not_written(subject) {
    let fixture = Fixture::new(subject);
    let mut attr = fi_eq_attr::ZERO;
    let mut eq = core::ptr::null_mut();
    assert_eq!(c!(fi_eq_open(fixture.fabric, &mut attr, &mut eq, core::ptr::null_mut())), 0);
    refused!(write(eq, 1), FI_EINVAL);
    assert_eq!(close(eq), 0);
}

/// A blocking read of an empty queue gives -FI_EAGAIN when its time is over.
fn a_blocking_read_ends_with_its_time(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
    let place = (&raw mut entry).cast();
    let code = c!(fi_eq_sread(eq, &mut event, place, size_of::<fi_eq_entry>(), 1, 0));
    assert_eq!(code, -(FI_EAGAIN as isize));
    assert_eq!(close(eq), 0);
}

/// A blocking read returns what was written before it.
fn a_blocking_read_returns_an_event(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    assert_eq!(write(eq, 9), SIZE);
    let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
    let place = (&raw mut entry).cast();
    let code = c!(fi_eq_sread(eq, &mut event, place, size_of::<fi_eq_entry>(), -1, 0));
    assert_eq!((code, entry.data), (SIZE, 9));
    assert_eq!(close(eq), 0);
}

/// A queue says that it is one, and keeps its context.
fn a_queue_has_its_class(subject) {
    let fixture = Fixture::new(subject);
    let (mut attr, mut eq, mut mark) = (fi_eq_attr { wait_obj: FI_WAIT_NONE, ..fi_eq_attr::ZERO }, null_mut(), 0_u8);
    let context = (&raw mut mark).cast();
    assert_eq!(c!(fi_eq_open(fixture.fabric, &mut attr, &mut eq, context)), 0);
    assert_eq!(c!(((*eq).fid.fclass, (*eq).fid.context)), (FI_CLASS_EQ, context));
    assert_eq!(close(eq), 0);
}

/// A read gives one event, however long its buffer is.
fn a_read_gives_one_event(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let entry = fi_eq_entry::ZERO;
    for _ in 0..2 {
        let written = c!(fi_eq_write(eq, FI_NOTIFY, (&raw const entry).cast(), size_of_val(&entry), 0));
        assert_eq!(written, size_of_val(&entry) as isize);
    }
    let mut room = [0_u64; 64];
    for _ in 0..2 {
        let read = c!(fi_eq_read(eq, &mut 0, room.as_mut_ptr().cast(), size_of_val(&room), 0));
        assert_eq!(read, size_of_val(&entry) as isize);
    }
    let read = c!(fi_eq_read(eq, &mut 0, room.as_mut_ptr().cast(), size_of_val(&room), 0));
    assert_eq!(read, -(FI_EAGAIN as isize));
    assert_eq!(close(eq), 0);
}

/// An event has the bytes that were written, and its number.
fn an_event_is_as_it_was_written(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let entry = fi_eq_entry { fid: null_mut(), context: null_mut(), data: 0x1234 };
    c!(fi_eq_write(eq, FI_SHUTDOWN, (&raw const entry).cast(), size_of_val(&entry), 0));
    let (mut event, mut read) = (0, fi_eq_entry::ZERO);
    let len = size_of_val(&read);
    assert_eq!(c!(fi_eq_read(eq, &mut event, (&raw mut read).cast(), len, 0)), len as isize);
    assert_eq!((event, read.data), (FI_SHUTDOWN, 0x1234));
    assert_eq!(close(eq), 0);
}

/// A blocking read of a queue without a wait object is refused.
fn a_queue_without_a_wait_object_does_not_block(subject) {
    let fixture = Fixture::new(subject);
    let (mut attr, mut eq) = (fi_eq_attr { wait_obj: FI_WAIT_NONE, ..fi_eq_attr::ZERO }, null_mut());
    assert_eq!(c!(fi_eq_open(fixture.fabric, &mut attr, &mut eq, null_mut())), 0);
    let mut room = [0_u64; 8];
    let read = c!(fi_eq_sread(eq, &mut 0, room.as_mut_ptr().cast(), 64, 1, 0));
    refused!(read, FI_ENOSYS);
    assert_eq!(close(eq), 0);
}

/// The wait object of a queue is as it was asked for.
fn the_wait_object_is_as_asked(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let (mut fd, mut kind): (i32, fi_wait_obj) = (-1, 0);
    assert_eq!(c!(fi_control(eq.cast(), FI_GETWAIT, (&raw mut fd).cast())), 0);
    assert!(fd >= 0);
    assert_eq!(c!(fi_control(eq.cast(), FI_GETWAITOBJ, (&raw mut kind).cast())), 0);
    assert_eq!(kind, FI_WAIT_FD);
    assert_eq!(close(eq), 0);
}

/// The queue can spell error numbers of the provider.
fn a_provider_error_is_spelled(subject) {
    let fixture = Fixture::new(subject);
    let eq = fixture.eq();
    let mut text = [b'#' as core::ffi::c_char; 64];
    let said = c!(fi_eq_strerror(eq, 0, core::ptr::null(), text.as_mut_ptr(), text.len()));
    assert!(!said.is_null());
    assert_eq!(close(eq), 0);
}
}
