//! All members' schedules, run together over mailboxes, against what the collective means.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::*;

const ELEMENT: usize = 2;

struct Member {
    schedule: Schedule,
    at: usize,
    buffers: [Vec<u8>; 4],
    /// Receives that have begun.
    open: VecDeque<(usize, Span)>,
}

type Mail = BTreeMap<(usize, usize), VecDeque<Vec<u8>>>;

impl Member {
    fn new(schedule: Schedule, input: Vec<u8>, result: usize) -> Self {
        let buffers = [
            input,
            vec![0xee; result],
            vec![0xcc; schedule.scratch],
            vec![0xdd; schedule.partial],
        ];
        Self {
            schedule,
            at: 0,
            buffers,
            open: VecDeque::new(),
        }
    }

    fn part(&mut self, span: Span) -> &mut [u8] {
        &mut self.buffers[span.buffer as usize][span.offset..span.offset + span.len]
    }

    /// Takes one step; returns whether it could.
    fn step(&mut self, me: usize, mail: &mut Mail) -> bool {
        let Some(&step) = self.schedule.steps.get(self.at) else {
            return false;
        };
        match step {
            Step::Send { to, from } => {
                assert_ne!(to, me, "no member writes to itself");
                let body = self.part(from).to_vec();
                mail.entry((me, to)).or_default().push_back(body);
            }
            Step::Recv { from, into } => self.open.push_back((from, into)),
            Step::Wait => {
                while let Some((from, into)) = self.open.pop_front() {
                    let Some(body) = mail.entry((from, me)).or_default().pop_front() else {
                        self.open.push_front((from, into));
                        return false;
                    };
                    assert_eq!(body.len(), into.len, "both plans mean the same message");
                    self.part(into).copy_from_slice(&body);
                }
            }
            Step::Combine { from, into } => {
                let operand = self.part(from).to_vec();
                add(self.part(into), &operand);
            }
            Step::Copy { from, into } => {
                assert_ne!(from.buffer, into.buffer);
                let body = self.part(from).to_vec();
                self.part(into).copy_from_slice(&body);
            }
        }
        self.at += 1;
        true
    }
}

fn add(into: &mut [u8], from: &[u8]) {
    for (into, from) in into
        .chunks_exact_mut(ELEMENT)
        .zip(from.chunks_exact(ELEMENT))
    {
        let sum = u16::from_ne_bytes([into[0], into[1]])
            .wrapping_add(u16::from_ne_bytes([from[0], from[1]]));
        into.copy_from_slice(&sum.to_ne_bytes());
    }
}

/// Returns what member `rank` brings: all bytes differ between members and places.
fn input(rank: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + rank * 31 + 1) as u8).collect()
}

fn slices(what: Collective, size: usize) -> (usize, usize) {
    match what {
        Collective::Alltoall => (size, size),
        Collective::Allgather | Collective::Gather => (1, size),
        Collective::ReduceScatter | Collective::Scatter => (size, 1),
        _ => (1, 1),
    }
}

/// Runs a collective of all members; returns what each brought and got.
fn run(what: Collective, size: usize, root: usize, len: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (of_input, of_result) = slices(what, size);
    let mut mail = Mail::new();
    let mut members: Vec<Member> = (0..size)
        .map(|rank| {
            let position = Position {
                rank,
                size,
                root,
                len,
                element: ELEMENT,
            };
            let mut member = Member::new(
                schedule(what, &position),
                input(rank, of_input * len),
                of_result * len,
            );
            if what == Collective::Broadcast && rank == root {
                member.buffers[Buffer::Result as usize] = input(rank, len);
            }
            member
        })
        .collect();
    loop {
        let mut moved = false;
        for (rank, member) in members.iter_mut().enumerate() {
            while member.step(rank, &mut mail) {
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for (rank, member) in members.iter().enumerate() {
        assert_eq!(
            member.at,
            member.schedule.steps.len(),
            "{what:?} of {size}: {rank} waits for ever"
        );
    }
    assert!(mail.values().all(VecDeque::is_empty), "a message is left");
    members
        .into_iter()
        .enumerate()
        .map(|(rank, member)| {
            let [_, result, ..] = member.buffers;
            (input(rank, of_input * len), result)
        })
        .unzip()
}

fn sum(inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = inputs[0].clone();
    for operand in &inputs[1..] {
        add(&mut sum, operand);
    }
    sum
}

fn check(what: Collective, size: usize, root: usize, len: usize) {
    let (inputs, results) = run(what, size, root, len);
    for (rank, result) in results.iter().enumerate() {
        let mine = rank * len..(rank + 1) * len;
        let expected = match what {
            Collective::Barrier => continue,
            Collective::Broadcast => inputs[root].clone(),
            Collective::Alltoall => inputs
                .iter()
                .flat_map(|all| all[mine.clone()].to_vec())
                .collect(),
            Collective::Allreduce => sum(&inputs),
            Collective::Allgather => inputs.concat(),
            Collective::ReduceScatter => sum(&inputs)[mine].to_vec(),
            Collective::Scatter => inputs[root][mine].to_vec(),
            Collective::Reduce if rank == root => sum(&inputs),
            Collective::Gather if rank == root => inputs.concat(),
            Collective::Reduce | Collective::Gather => continue,
        };
        assert_eq!(
            *result, expected,
            "{what:?} of {size} by {root}, {len} bytes, at {rank}"
        );
    }
}

#[test]
fn every_plan_gives_what_its_collective_means() {
    for size in 1..=33 {
        for what in Collective::ALL {
            for len in [0, 2, 18] {
                check(what, size, size / 2, len);
            }
        }
    }
}

#[test]
fn any_member_may_be_the_root() {
    for what in [
        Collective::Broadcast,
        Collective::Reduce,
        Collective::Scatter,
        Collective::Gather,
    ] {
        for size in [2, 3, 5, 8, 13] {
            for root in 0..size {
                check(what, size, root, 6);
            }
        }
    }
}

#[test]
fn long_ones_go_round_the_circle() {
    for size in [3, 4, 7] {
        check(Collective::Allreduce, size, 0, 66_002);
        check(Collective::Allgather, size, 0, 30_000);
    }
}

/// A member that has left the barrier knows that all had come.
#[test]
fn no_member_leaves_a_barrier_before_the_last_has_come() {
    for size in 2..=33 {
        for late in 0..size {
            let mut mail = Mail::new();
            let mut members: Vec<Member> = (0..size)
                .map(|rank| {
                    let position = Position {
                        rank,
                        size,
                        root: 0,
                        len: 0,
                        element: 1,
                    };
                    Member::new(schedule(Collective::Barrier, &position), Vec::new(), 0)
                })
                .collect();
            let mut moved = true;
            while moved {
                moved = false;
                for (rank, member) in members.iter_mut().enumerate() {
                    while rank != late && member.step(rank, &mut mail) {
                        moved = true;
                    }
                }
            }
            assert!(
                members
                    .iter()
                    .all(|member| member.at < member.schedule.steps.len())
            );
        }
    }
}
