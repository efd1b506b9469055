//! Address vectors.

use core::ffi::CStr;
use core::ptr::null_mut;
use std::ffi::CString;

use oxifabric_abi::*;
use oxifabric_fixtures::fixture::{Fixture, Pair, TestEndpoint, bind, close};
use oxifabric_fixtures::traffic::{TIMEOUT, Traffic};
use oxifabric_fixtures::{Subject, c, refused};

use crate::requirements;

/// Family, node and port of an address in the vector.
fn spelled(av: *mut fid_av, at: fi_addr_t) -> (u16, [u8; 4], u16) {
    let mut found: libc::sockaddr_in = c!(core::mem::zeroed());
    let mut len = size_of_val(&found);
    assert_eq!(
        c!(fi_av_lookup(av, at, (&raw mut found).cast(), &mut len)),
        0
    );
    let node = found.sin_addr.s_addr.to_ne_bytes();
    (found.sin_family, node, u16::from_be(found.sin_port))
}

/// Opens a vector that inserts in events, where there are such.
fn with_events(fixture: &Fixture) -> Option<*mut fid_av> {
    let mut attr = fi_av_attr {
        flags: FI_EVENT,
        ..fi_av_attr::ZERO
    };
    let mut av = null_mut();
    let opened = c!(fi_av_open(fixture.domain, &mut attr, &mut av, null_mut()));
    (opened == 0).then_some(av)
}

/// Returns a name of a vector that no other test uses.
fn fresh(subject: &Subject, name: &str) -> CString {
    let name = format!(
        "conformance-{name}-{}-{}",
        subject.provider,
        std::process::id()
    );
    CString::new(name).expect("no zeros")
}

/// Opens a vector of a name.
fn named(fixture: &Fixture, name: &CStr, flags: u64) -> Result<*mut fid_av, i32> {
    let mut attr = fi_av_attr {
        name: name.as_ptr(),
        flags,
        ..fi_av_attr::ZERO
    };
    let mut av = null_mut();
    match c!(fi_av_open(fixture.domain, &mut attr, &mut av, null_mut())) {
        0 => Ok(av),
        code => Err(code),
    }
}

/// Sends a message from `a` to `b`; where `b` says it is from.
fn source_of_next(pair: &Pair) -> fi_addr_t {
    let _posted = pair.b.recv(1);
    pair.send(b"x");
    let (mut entry, mut source) = (fi_cq_tagged_entry::ZERO, 77);
    let begun = std::time::Instant::now();
    while c!(fi_cq_readfrom(
        pair.b.cq,
        (&raw mut entry).cast(),
        1,
        &mut source
    )) != 1
    {
        assert!(begun.elapsed() < TIMEOUT);
        pair.progress(&pair.a);
    }
    let _ = pair.done(&pair.a);
    source
}

requirements! { "fi_av(3)";

/// Inserted addresses are numbered from zero in the order of insertion.
fn addresses_are_numbered_in_order(subject) {
    let fixture = Fixture::new(subject);
    let (one, other) = (fixture.end(), fixture.end());
    assert_eq!((one.knows(&one), one.knows(&other)), (0, 1));
}

/// A look-up gives the address that was inserted.
fn a_look_up_gives_what_was_inserted(subject) {
    let fixture = Fixture::new(subject);
    let (one, other) = (fixture.end(), fixture.end());
    let at = one.knows(&other);
    let mut found = vec![0_u8; 256];
    let mut len = found.len();
    assert_eq!(c!(fi_av_lookup(one.av, at, found.as_mut_ptr().cast(), &mut len)), 0);
    assert_eq!(&found[..len], other.name());
}

/// A look-up into a short buffer fills it and gives the length that is needed.
fn a_short_look_up_tells_the_length(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let at = end.knows(&end);
    let mut found = [0_u8; 2];
    let mut len = found.len();
    assert_eq!(c!(fi_av_lookup(end.av, at, found.as_mut_ptr().cast(), &mut len)), 0);
    assert_eq!(len, end.name().len());
    assert_eq!(found, end.name()[..2]);
}

/// An address that was removed is no longer there.
fn a_removed_address_is_gone(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let mut at = end.knows(&end);
    assert_eq!(c!(fi_av_remove(end.av, &mut at, 1, 0)), 0);
    let mut found = vec![0_u8; 256];
    let mut len = found.len();
    refused!(c!(fi_av_lookup(end.av, at, found.as_mut_ptr().cast(), &mut len)), FI_EINVAL);
}

/// A number that was never given is no address.
fn a_number_that_was_never_given_is_no_address(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let place = pair.a.traffic.buffer(b"x");
    let context = pair.a.traffic.context();
    let sent = c!(fi_send(pair.a.ep, place.cast(), 1, null_mut(), 99, context));
    refused!(sent, FI_EINVAL);
}

/// An address in text is told its full length, and always ends with a zero byte.
fn an_address_in_text_has_its_length(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
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
fn several_addresses_are_counted(subject) {
    let fixture = Fixture::new(subject);
    let (one, other) = (fixture.end(), fixture.end());
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
fn numbers_of_a_table_need_not_be_wanted(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let name = end.name();
    let inserted = c!(fi_av_insert(end.av, name.as_ptr().cast(), 1, null_mut(), 0, null_mut()));
    assert_eq!(inserted, 1);
}

/// A vector that is read-only or shared needs a name.
fn a_vector_of_others_needs_a_name(subject) {
    let fixture = Fixture::new(subject);
    let mut attr = fi_av_attr { flags: FI_READ, ..fi_av_attr::ZERO };
    let mut av = null_mut();
    refused!(c!(fi_av_open(fixture.domain, &mut attr, &mut av, null_mut())), FI_EINVAL);
}

/// Looking up or removing what was never inserted, or is gone, is -FI_EINVAL.
fn what_is_not_there_is_invalid(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let (mut found, mut len) = ([0_u8; 64], 64);
    assert_eq!(c!(fi_av_lookup(end.av, 5, found.as_mut_ptr().cast(), &mut len)), -FI_EINVAL);
    assert_eq!(c!(fi_av_remove(end.av, &mut 5, 1, 0)), -FI_EINVAL);
    let mut at = end.knows(&end);
    assert_eq!(c!(fi_av_remove(end.av, &mut at, 1, 0)), 0);
    assert_eq!(c!(fi_av_lookup(end.av, at, found.as_mut_ptr().cast(), &mut len)), -FI_EINVAL);
    assert_eq!(c!(fi_av_remove(end.av, &mut at, 1, 0)), -FI_EINVAL);
}

/// Nothing can be sent to an address that was removed.
fn nothing_is_sent_to_a_removed_address(subject) {
    let fixture = Fixture::new(subject);
    let pair = fixture.pair();
    let mut to = pair.to_b;
    assert_eq!(c!(fi_av_remove(pair.a.av, &mut to, 1, 0)), 0);
    let (place, context) = (pair.a.traffic.buffer(b"x"), pair.a.traffic.context());
    refused!(c!(fi_send(pair.a.ep, place.cast(), 1, null_mut(), to, context)), FI_EINVAL);
}

/// Zero addresses may be inserted.
fn nothing_may_be_inserted(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let name = end.name();
    assert_eq!(c!(fi_av_insert(end.av, name.as_ptr().cast(), 0, null_mut(), 0, null_mut())), 0);
    assert_eq!(end.knows(&end), 0);
}

/// With FI_SYNC_ERR each address has its status, which is zero if it was inserted.
fn each_insertion_has_its_status(subject) {
    let fixture = Fixture::new(subject);
    let (one, other) = (fixture.end(), fixture.end());
    if one.name().len() != other.name().len() {
        return;
    }
    let both = [one.name(), other.name()].concat();
    let (mut numbers, mut status) = ([77; 2], [77_i32; 2]);
    let context = status.as_mut_ptr().cast();
    let place = both.as_ptr().cast();
    let inserted = c!(fi_av_insert(one.av, place, 2, numbers.as_mut_ptr(), FI_SYNC_ERR, context));
    assert_eq!((inserted, numbers, status), (2, [0, 1], [0, 0]));
}

/// An address that cannot be inserted is not counted, has the number FI_ADDR_NOTAVAIL, and an error as its status.
fn a_failed_insertion_is_told(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    if fixture.info.first().addr_format != FI_SOCKADDR_IN {
        return;
    }
    let mut addresses = end.name();
    addresses.extend([0xFF; 16]);
    let (mut numbers, mut status) = ([77; 2], [77_i32; 2]);
    let context = status.as_mut_ptr().cast();
    let place = addresses.as_ptr().cast();
    let inserted = c!(fi_av_insert(end.av, place, 2, numbers.as_mut_ptr(), FI_SYNC_ERR, context));
    assert_eq!((inserted, numbers), (1, [0, FI_ADDR_NOTAVAIL]));
    assert!(status[0] == 0 && status[1] > 0, "{status:?}");
}

/// FI_MORE is a hint: what is inserted with it is there when the insertions are over.
fn insertions_may_be_announced(subject) {
    let fixture = Fixture::new(subject);
    let (one, other) = (fixture.end(), fixture.end());
    let (mut first, mut second) = (77, 77);
    let insert = |end: &oxifabric_fixtures::fixture::TestEndpoint, at: &mut u64, flags| {
        let name = end.name();
        c!(fi_av_insert(one.av, name.as_ptr().cast(), 1, at, flags, null_mut()))
    };
    assert_eq!((insert(&one, &mut first, FI_MORE), insert(&other, &mut second, 0)), (1, 1));
    assert_eq!((first, second), (0, 1));
}

/// A node and a service are inserted as the address that they name.
fn a_service_is_inserted(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    if fixture.info.first().addr_format != FI_SOCKADDR_IN {
        return;
    }
    let mut at = 77;
    let (node, service) = (c"127.0.0.1".as_ptr(), c"5000".as_ptr());
    assert_eq!(c!(fi_av_insertsvc(end.av, node, service, &mut at, 0, null_mut())), 1);
    assert_eq!(spelled(end.av, at), (libc::AF_INET as u16, [127, 0, 0, 1], 5000));
}

/// A symmetric insertion inserts all services of a node, then those of the next.
fn a_range_of_services_is_inserted(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    if fixture.info.first().addr_format != FI_SOCKADDR_IN {
        return;
    }
    let mut at = [77; 4];
    let (node, service) = (c"127.0.0.1".as_ptr(), c"5000".as_ptr());
    let inserted = c!(fi_av_insertsym(end.av, node, 2, service, 2, at.as_mut_ptr(), 0, null_mut()));
    assert_eq!(inserted, 4);
    let expected = [([127, 0, 0, 1], 5000), ([127, 0, 0, 1], 5001), ([127, 0, 0, 2], 5000), ([127, 0, 0, 2], 5001)];
    for (at, (node, port)) in at.into_iter().zip(expected) {
        assert_eq!(spelled(end.av, at), (libc::AF_INET as u16, node, port));
    }
}

/// The type of vector that the provider chose for FI_AV_UNSPEC is reported.
fn the_type_is_told(subject) {
    let fixture = Fixture::new(subject);
    let (mut attr, mut av) = (fi_av_attr::ZERO, null_mut());
    assert_eq!(c!(fi_av_open(fixture.domain, &mut attr, &mut av, null_mut())), 0);
    assert!([FI_AV_MAP, FI_AV_TABLE].contains(&attr.type_), "{}", attr.type_);
    assert_eq!(close(av), 0);
}

/// A vector says that it is one, and keeps its context.
fn a_vector_has_its_class(subject) {
    let fixture = Fixture::new(subject);
    let (mut attr, mut av, mut mark) = (fi_av_attr::ZERO, null_mut(), 0_u8);
    let context = (&raw mut mark).cast();
    assert_eq!(c!(fi_av_open(fixture.domain, &mut attr, &mut av, context)), 0);
    assert_eq!(c!(((*av).fid.fclass, (*av).fid.context)), (FI_CLASS_AV, context));
    assert_eq!(close(av), 0);
}

/// An address that was not inserted can be spelled, into the buffer that is returned.
fn any_address_is_spelled(subject) {
    let fixture = Fixture::new(subject);
    let (end, av) = (fixture.end(), fixture.av());
    let name = end.name();
    let (mut text, mut len) = ([0; 256], 256);
    let said = c!(fi_av_straddr(av, name.as_ptr().cast(), text.as_mut_ptr(), &mut len));
    assert_eq!(said, text.as_ptr());
    assert_eq!(close(av), 0);
}

/// Where a vector inserts in events, nothing is inserted without an event queue: -FI_ENOEQ.
fn insertions_in_events_need_a_queue(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let Some(av) = with_events(&fixture) else {
        return;
    };
    let name = end.name();
    let inserted = c!(fi_av_insert(av, name.as_ptr().cast(), 1, null_mut(), 0, null_mut()));
    assert_eq!(inserted, -FI_ENOEQ);
    assert_eq!(close(av), 0);
}

/// Where a vector inserts in events, each insertion ends with one that has its context and tells how many were inserted.
fn an_insertion_ends_with_an_event(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let Some(av) = with_events(&fixture) else {
        return;
    };
    let eq = fixture.eq();
    assert_eq!(c!(fi_av_bind(av, eq.cast(), 0)), 0);
    let (name, mut at) = (end.name(), 77);
    let context = end.traffic.context();
    assert_eq!(c!(fi_av_insert(av, name.as_ptr().cast(), 1, &mut at, 0, context)), 0);
    let (mut event, mut entry) = (0, fi_eq_entry::ZERO);
    let (place, len) = ((&raw mut entry).cast(), size_of::<fi_eq_entry>());
    let read = c!(fi_eq_sread(eq, &mut event, place, len, TIMEOUT.as_millis() as i32, 0));
    assert_eq!((read, event), (len as isize, FI_AV_COMPLETE));
    assert_eq!((entry.context, entry.data, entry.fid, at), (context, 1, av.cast(), 0));
    assert_eq!((close(av), close(eq)), (0, 0));
}

/// Vectors of one name have the same addresses, with the same numbers.
fn a_named_vector_is_shared(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let name = fresh(subject, "shared");
    let (Ok(one), Ok(other)) = (named(&fixture, &name, 0), named(&fixture, &name, 0)) else {
        return;
    };
    let (address, mut at) = (end.name(), 77);
    assert_eq!(c!(fi_av_insert(one, address.as_ptr().cast(), 1, &mut at, 0, null_mut())), 1);
    let (mut found, mut len) = ([0_u8; 256], 256);
    assert_eq!(c!(fi_av_lookup(other, at, found.as_mut_ptr().cast(), &mut len)), 0);
    assert_eq!(&found[..len], address);
    assert_eq!((close(one), close(other)), (0, 0));
}

/// A vector that is read-only must exist, and takes no addresses.
fn a_read_only_vector_exists(subject) {
    let fixture = Fixture::new(subject);
    let end = fixture.end();
    let name = fresh(subject, "read");
    assert_eq!(named(&fixture, &name, FI_READ).err(), Some(-FI_ENOENT));
    let Ok(one) = named(&fixture, &name, 0) else {
        return;
    };
    let reader = named(&fixture, &name, FI_READ).expect("it exists");
    let address = end.name();
    assert!(c!(fi_av_insert(reader, address.as_ptr().cast(), 1, null_mut(), 0, null_mut())) <= 0);
    assert_eq!((close(reader), close(one)), (0, 0));
}

/// An address that is inserted with FI_FIREWALL_ADDR is not connected to: where data needs a connection, a send to it ends with
/// FI_EFIREWALLADDR until the peer has connected; elsewhere nothing changes.
fn an_address_behind_a_firewall_is_not_connected_to(subject) {
    let fixture = Fixture::new(subject);
    let (a, b) = (fixture.end(), fixture.end());
    let (name, mut to_b) = (b.name(), 0);
    let to_a = b.knows(&a);
    let walled = c!(fi_av_insert(a.av, name.as_ptr().cast(), 1, &mut to_b, FI_FIREWALL_ADDR, null_mut()));
    assert_eq!(walled, 1);
    let pair = Pair { a, b, to_b, to_a };
    if subject.provider.starts_with("tcp") {
        let context = pair.send(b"x");
        let error = pair.failed(&pair.a);
        assert_eq!((error.err, error.op_context), (FI_EFIREWALLADDR, context));
    }
    let posted = pair.a.recv(1);
    let byte = pair.b.traffic.buffer(b"y");
    pair.start(|| c!(fi_send(pair.b.ep, byte.cast(), 1, null_mut(), pair.to_a, null_mut())));
    assert_eq!((pair.done(&pair.a).op_context, posted.bytes()), (posted.context, b"y".as_slice()));
    let _ = pair.done(&pair.b);
    let posted = pair.b.recv(1);
    pair.send(b"z");
    assert_eq!((pair.done(&pair.b).op_context, posted.bytes()), (posted.context, b"z".as_slice()));
}

/// With FI_AV_USER_ID, the source of a message is the number that the user gave its address, and FI_ADDR_NOTAVAIL
/// before one was given.
fn users_number_their_addresses(subject) {
    let fixture = Fixture::with(subject, |hints| {
        hints.caps |= FI_SOURCE | FI_AV_USER_ID;
    });
    let (mut attr, mut av) = (fi_av_attr { flags: FI_AV_USER_ID, ..fi_av_attr::ZERO }, null_mut());
    assert_eq!(c!(fi_av_open(fixture.domain, &mut attr, &mut av, null_mut())), 0);
    let (ep, cq) = (fixture.bare(), fixture.cq(|_| {}));
    assert_eq!((bind(ep, cq, FI_SEND | FI_RECV), bind(ep, av, 0), c!(fi_enable(ep))), (0, 0, 0));
    let b = TestEndpoint { ep, cq, av, eq: null_mut(), traffic: Traffic::default() };
    let pair = Pair::of(fixture.end(), b);
    assert_eq!(source_of_next(&pair), FI_ADDR_NOTAVAIL);
    assert_eq!(c!(fi_av_set_user_id(av, pair.to_a, 4711, 0)), 0);
    assert_eq!(source_of_next(&pair), 4711);
}

/// With FI_SOURCE the source of a message is the number of its address, and FI_ADDR_NOTAVAIL of an unknown peer.
fn the_source_is_numbered(subject) {
    let fixture = Fixture::with(subject, |hints| hints.caps |= FI_SOURCE);
    let (a, b) = (fixture.end(), fixture.end());
    let to_b = a.knows(&b);
    let mut pair = Pair { a, b, to_b, to_a: FI_ADDR_UNSPEC };
    assert_eq!(source_of_next(&pair), FI_ADDR_NOTAVAIL);
    let _ = pair.b.knows(&pair.b);
    pair.to_a = pair.b.knows(&pair.a);
    assert_eq!((pair.to_a, source_of_next(&pair)), (1, 1));
}
}
