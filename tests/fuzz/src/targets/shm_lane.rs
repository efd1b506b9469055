//! A lane whose memory the other side writes as it likes: both ends return errors at worst, and stay inside of it.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use arbitrary::{Arbitrary, Unstructured};
use oxifabric_sync::spsc::{Cell, Consumer, Layout, Producer, RawMemory};

/// What happens next.
#[derive(Arbitrary, Debug)]
enum Step {
    /// The other side writes a word.
    Scribble { at: u16, value: Word },
    /// This side takes a cell with a body of this length.
    Take { len: u16 },
    /// This side pushes a cell with a body of this length.
    Push { len: u16, hold: bool },
    /// Positions are made public.
    Publish,
}

/// Values near those that count.
#[derive(Arbitrary, Debug)]
enum Word {
    Small(u8),
    /// The first word of a cell of an early lap.
    Lap {
        lap: u8,
        meta: u32,
    },
    Any(u64),
}

impl Word {
    fn value(&self) -> u64 {
        match *self {
            Self::Small(value) => value.into(),
            Self::Lap { lap, meta } => u64::from(meta) << 32 | u64::from(lap) ^ 0x8000_0000,
            Self::Any(value) => value,
        }
    }
}

const CELLS: usize = 4;
const BYTES: usize = 1024;

#[repr(C, align(64))]
struct Memory([AtomicU64; WORDS]);

const WORDS: usize = ((2 + CELLS) * 64 + BYTES) / 8;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let is_consumer = input.arbitrary().unwrap_or(false);
    let memory = Box::new(Memory([const { AtomicU64::new(0) }; WORDS]));
    let layout = Layout::new(CELLS, BYTES).expect("powers of two");
    let base = NonNull::from(&*memory).cast();
    // SAFETY: the memory is aligned and as long as the layout says, and outlives the lane; one end uses it.
    let lane = unsafe { RawMemory::new(base, layout, ()) };
    if is_consumer {
        consume(lane, &memory, &mut input);
    } else {
        produce(lane, &memory, &mut input);
    }
}

fn scribble(memory: &Memory, at: u16, value: &Word) {
    memory.0[usize::from(at) % WORDS].store(value.value(), Ordering::Relaxed);
}

fn consume(lane: RawMemory<()>, memory: &Memory, input: &mut Unstructured<'_>) {
    let mut end = Consumer::new(lane);
    while let Ok(step) = input.arbitrary() {
        match step {
            Step::Scribble { at, value } => scribble(memory, at, &value),
            Step::Take { len } => {
                let len = usize::from(len);
                if end.peek().is_some()
                    && let Ok(start) = end.locate(len)
                {
                    let body = end.body(start, len);
                    assert_eq!(body.len(), len, "a body is whole");
                    std::hint::black_box(body.iter().fold(0, |sum, byte| sum ^ byte));
                    end.advance(len);
                }
            }
            Step::Push { .. } => {
                std::hint::black_box(end.is_ready());
            }
            Step::Publish => {
                end.publish();
            }
        }
        if input.is_empty() {
            return;
        }
    }
}

fn produce(lane: RawMemory<()>, memory: &Memory, input: &mut Unstructured<'_>) {
    let mut end = Producer::new(lane);
    while let Ok(step) = input.arbitrary() {
        match step {
            Step::Scribble { at, value } => scribble(memory, at, &value),
            Step::Push { len, hold } => {
                let len = usize::from(len);
                if let Ok(Some(start)) = end.reserve(len) {
                    let body = end.body_mut(start, len);
                    assert_eq!(body.len(), len, "a body is whole");
                    body.fill(0xa5);
                    end.push(&Cell::default(), len, hold);
                }
            }
            Step::Take { .. } => drop(end.is_drained()),
            Step::Publish => drop(end.publish()),
        }
        if input.is_empty() {
            return;
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let bytes = |len: usize, step: usize| (0..len).map(|at| (at * step) as u8).collect();
    vec![bytes(64, 7), bytes(200, 31), vec![1; 100], vec![0; 100]]
}
