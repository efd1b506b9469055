//! Frames are held back, and leave with others.

use super::*;

#[test]
fn what_follows_two_frames_waits_for_the_next_poll() {
    let (mut a, mut b, to_b, _) = pair(V4);
    a.poll();
    for id in 0..3 {
        let posted = a.try_post(to_b, message(id, 0), &Iov::empty());
        assert_eq!(posted, Ok(Posted::Done));
        assert_eq!(a.link.holds_back(), id > 1, "frame {id}");
    }
    a.poll();
    assert!(!a.link.holds_back());
    assert!(a.link.arm());
    for id in 3..5 {
        let posted = a.try_post(to_b, message(id, 0), &Iov::empty());
        assert_eq!(posted, Ok(Posted::Done));
        assert!(!a.link.holds_back(), "a thread may sleep: {id}");
    }
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() == 5);
    for id in 0..5 {
        let tag = b.pop().expect("it is there").0.tag;
        assert_eq!(tag, message(id, 0).tag);
    }
}

#[test]
fn the_end_of_a_large_body_waits_for_what_fills_its_segment() {
    let (mut a, mut b, to_b, _) = pair(V4);
    a.poll();
    let len = 65_536;
    let (body, bytes) = pattern(&[len], 2);
    for id in 0..3 {
        let posted = a.try_post(to_b, message(id, len), &body);
        assert_eq!(posted, Ok(Posted::Done));
        assert_eq!(a.link.holds_back(), id > 1, "message {id}");
    }
    a.poll();
    assert!(!a.link.holds_back());
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() == 3);
    while let Some((_, got)) = b.pop() {
        assert!(got == bytes);
    }
}

#[test]
fn what_is_held_back_for_long_leaves_without_a_poll() {
    let (mut a, mut b, to_b, _) = pair(V4);
    for _ in 0..3 {
        a.poll();
        for id in 0..3 {
            let posted = a.try_post(to_b, message(id, 0), &Iov::empty());
            assert_eq!(posted, Ok(Posted::Done));
        }
        assert!(a.link.holds_back());
        let start = Clock::now();
        while b.sink.arrived.len() < 3 {
            b.poll();
            assert!(start.elapsed() < WATCHDOG, "it was forgotten");
        }
        b.sink.arrived.clear();
    }
}

#[test]
fn what_a_full_socket_did_not_take_leaves_without_a_poll() {
    let (mut a, mut b, to_b, _) = pair(V4);
    let (body, _) = pattern(&[1000], 6);
    let taken = (0..).take_while(|id| a.try_post(to_b, message(*id, 1000), &body).is_ok());
    let taken = taken.count();
    assert!(!a.link.idle(), "the last one waits for room");
    let start = Clock::now();
    while b.sink.arrived.len() < taken {
        b.poll();
        let arrived = b.sink.arrived.len();
        assert!(start.elapsed() < WATCHDOG, "{arrived} of {taken} arrived");
    }
    drive(&mut a, &mut b, |a, _| a.link.idle());
    let posted = post(&mut a, &mut b, to_b, message(1, 0), &Iov::empty());
    assert_eq!(posted, Posted::Done);
}

#[test]
fn frames_with_more_to_come_leave_together() {
    let (mut a, mut b, to_b, _) = pair(V4);
    let (body, bytes) = pattern(&[32], 5);
    for id in 0..10 {
        let frame = Frame {
            header: message(id, 16),
            body: &body,
            offset: 16,
            len: 16,
            targets: &[],
            transient: false,
            transmit_complete: false,
            more: true,
        };
        assert_eq!(a.link.post(to_b, frame, TxToken(id)), Ok(Posted::Done));
    }
    b.poll();
    assert!(!a.link.arm(), "it would sleep on what it holds back");
    assert!(b.sink.arrived.is_empty());
    a.link.flush();
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() == 10);
    assert!(
        b.sink
            .arrived
            .iter()
            .all(|(.., got)| got[..] == bytes[16..])
    );
}

/// Posts three messages of such a length after a poll, of which the third one is held back if it is short enough.
fn holds_back_the_third(len: usize) -> bool {
    let (mut a, mut b, to_b, _) = pair(V4);
    let (body, bytes) = pattern(&[len / 2, len - len / 2], 11);
    a.poll();
    for id in 0..3 {
        let posted = a.try_post(to_b, message(id, len), &body);
        assert_eq!(posted, Ok(Posted::Done), "the socket is empty");
        assert!(id == 2 || !a.link.holds_back(), "message {id} of {len} B");
    }
    let is_held = a.link.holds_back();
    // The memory is the application's again.
    body.write(0, &vec![0; len]);
    drive(&mut a, &mut b, |_, b| b.sink.arrived.len() == 3);
    assert!(b.sink.arrived.iter().all(|(.., got)| *got == bytes));
    is_held
}

#[test]
fn messages_of_up_to_half_a_segment_wait_for_others() {
    for (len, is_held) in [(2048, true), (2049, true), (32_768, true), (32_769, false)] {
        assert_eq!(holds_back_the_third(len), is_held, "{len} B");
    }
}

#[test]
fn a_socket_that_takes_a_part_of_what_was_held_back_loses_nothing() {
    const LEN: usize = 5_000;
    let (mut a, mut b, to_b, _) = pair(V4);
    let mut taken = 0;
    a.poll();
    loop {
        let (body, _) = pattern(&[LEN], taken);
        match a.try_post(to_b, message(taken, LEN), &body) {
            Ok(posted) => assert_eq!(posted, Posted::Done),
            Err(why) => {
                assert_eq!(why, PostError::Again);
                break;
            }
        }
        taken += 1;
    }
    drive(&mut a, &mut b, |_, b| {
        b.sink.arrived.len() == taken as usize
    });
    for id in 0..taken {
        let (header, got) = b.pop().expect("it is there");
        assert_eq!(header.tag, message(id, 0).tag);
        assert!(got == pattern(&[LEN], id).1, "message {id} is damaged");
    }
}
