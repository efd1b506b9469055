//! Address vectors.

use core::ffi::CStr;
use core::ptr::null_mut;

use oxifabric_abi::*;

use crate::world::World;
use crate::{c, sentences};

sentences! { "fi_av(3)";

/// Inserted addresses are numbered from zero in the order of insertion.
fn addresses_are_numbered_in_order(stage) {
    let world = World::new(stage);
    let (one, other) = (world.end(), world.end());
    assert_eq!((one.knows(&one), one.knows(&other)), (0, 1));
}

/// A look-up gives the address that was inserted.
fn a_look_up_gives_what_was_inserted(stage) {
    let world = World::new(stage);
    let (one, other) = (world.end(), world.end());
    let at = one.knows(&other);
    let mut found = vec![0_u8; 256];
    let mut len = found.len();
    assert_eq!(c!(fi_av_lookup(one.av, at, found.as_mut_ptr().cast(), &mut len)), 0);
    assert_eq!(&found[..len], other.name());
}

/// A look-up into a short buffer fills it and gives the length that is needed.
fn a_short_look_up_tells_the_length(stage) {
    let world = World::new(stage);
    let end = world.end();
    let at = end.knows(&end);
    let mut found = [0_u8; 2];
    let mut len = found.len();
    assert_eq!(c!(fi_av_lookup(end.av, at, found.as_mut_ptr().cast(), &mut len)), 0);
    assert_eq!(len, end.name().len());
    assert_eq!(found, end.name()[..2]);
}

/// An address that was removed is no longer there.
fn a_removed_address_is_gone(stage) {
    let world = World::new(stage);
    let end = world.end();
    let mut at = end.knows(&end);
    assert_eq!(c!(fi_av_remove(end.av, &mut at, 1, 0)), 0);
    let mut found = vec![0_u8; 256];
    let mut len = found.len();
    assert_ne!(c!(fi_av_lookup(end.av, at, found.as_mut_ptr().cast(), &mut len)), 0);
}

/// A number that was never given is no address.
fn a_number_that_was_never_given_is_no_address(stage) {
    let world = World::new(stage);
    let two = world.two();
    let place = two.a.traffic.buffer(b"x");
    let context = two.a.traffic.context();
    let sent = c!(fi_send(two.a.ep, place.cast(), 1, null_mut(), 99, context));
    assert!(sent < 0, "{sent}");
}

/// An address in text is told its full length, and always ends with a zero byte.
fn an_address_in_text_has_its_length(stage) {
    let world = World::new(stage);
    let end = world.end();
    let name = end.name();
    let mut text = [b'#'; 256];
    let mut len = text.len();
    let said = c!(fi_av_straddr(end.av, name.as_ptr().cast(), text.as_mut_ptr().cast(), &mut len));
    let said = c!(CStr::from_ptr(said)).to_owned();
    assert_eq!(len, said.as_bytes_with_nul().len());
    let mut short = [b'#'; 5];
    let mut short_len = short.len();
    c!(fi_av_straddr(end.av, name.as_ptr().cast(), short.as_mut_ptr().cast(), &mut short_len));
    assert_eq!((short[4], short_len), (0, len));
    assert_eq!(short[..4], said.as_bytes()[..4]);
}

/// Inserting several addresses gives how many were inserted.
fn several_addresses_are_counted(stage) {
    let world = World::new(stage);
    let (one, other) = (world.end(), world.end());
    let names = [one.name(), other.name()];
    if names[0].len() != names[1].len() {
        return;
    }
    let both = names.concat();
    let mut numbers = [FI_ADDR_NOTAVAIL; 2];
    let inserted = c!(fi_av_insert(one.av, both.as_ptr().cast(), 2, numbers.as_mut_ptr(), 0, null_mut()));
    assert_eq!((inserted, numbers), (2, [0, 1]));
}

/// The numbers need not be wanted of a table.
fn numbers_of_a_table_need_not_be_wanted(stage) {
    let world = World::new(stage);
    let end = world.end();
    let name = end.name();
    let inserted = c!(fi_av_insert(end.av, name.as_ptr().cast(), 1, null_mut(), 0, null_mut()));
    assert_eq!(inserted, 1);
}

/// A vector that is read-only or shared needs a name.
fn a_vector_of_others_needs_a_name(stage) {
    let world = World::new(stage);
    let mut attr = fi_av_attr { flags: FI_READ, ..fi_av_attr::ZERO };
    let mut av = null_mut();
    assert!(c!(fi_av_open(world.domain, &mut attr, &mut av, null_mut())) < 0);
}
}
