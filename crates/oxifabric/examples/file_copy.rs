//! Copies a file by reading it out of the memory of another process, with a progress bar.
//!
//! The sender registers the file's bytes and tells where they are; the receiver reads them in pieces, several at a time.
//!
//! `cargo run --example file_copy [PROVIDER] [FROM TO]`; without files it copies 16 MB of its own.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, thread};

use indicatif::{ProgressBar, ProgressStyle};
use oxifabric::{
    Access, Address, AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint,
    Fabric, Hints, Info, Rdm, Region, RemoteRegion,
};

/// Bytes of one read, and how many are under way at once.
const PIECE: usize = 256 * 1024;
const DEPTH: usize = 8;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn open(info: &Info) -> Outcome<(Domain, Endpoint, CompletionQueue, AddressVector)> {
    let fabric = Fabric::open(info)?;
    let domain = Domain::open(&fabric, info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 2 * DEPTH)?;
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    Ok((domain, builder.queue(&queue).enable()?, queue, peers))
}

/// Reads all of a region.
fn fetch(info: &Info, from: &Address, region: RemoteRegion) -> Outcome<Vec<u8>> {
    let (_domain, endpoint, queue, peers) = open(info)?;
    let (from, bytes) = (peers.insert(from)?, region.bytes());
    let mut copy = vec![0; region.len()];
    let bar = ProgressBar::new(region.len() as u64).with_style(ProgressStyle::with_template(
        "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec}",
    )?);
    let mut pieces = (0..region.len()).step_by(PIECE).peekable();
    let mut free: Vec<Buffer> = (0..DEPTH).map(|_| Buffer::zeroed(PIECE)).collect();
    let mut flying = HashMap::new();
    while pieces.peek().is_some() || !flying.is_empty() {
        while let (Some(&at), Some(mut buffer)) = (pieces.peek(), free.pop()) {
            buffer.resize(PIECE.min(region.len() - at));
            match endpoint.read(from, bytes.range(at..)?, buffer) {
                Ok(op) => {
                    flying.insert(op, at);
                    pieces.next();
                }
                Err(refused) if refused.is_again() => {
                    free.push(refused.buffer);
                    break;
                }
                Err(refused) => return Err(refused.into()),
            }
        }
        if let Some(done) = queue.poll()? {
            let at = flying
                .remove(&done.op)
                .ok_or("no read has this operation")?;
            let (buffer, transfer) = done.ok()?;
            copy[at..at + transfer.len].copy_from_slice(&buffer);
            bar.inc(transfer.len as u64);
            free.push(buffer);
        }
    }
    bar.finish();
    Ok(copy)
}

fn main() -> Outcome {
    let mut arguments = env::args().skip(1);
    let provider = arguments.next().unwrap_or("tcp".into());
    let (file, to) = match (arguments.next(), arguments.next()) {
        (Some(from), Some(to)) => (fs::read(from)?, Some(to)),
        _ => ((0..16_000_000_u32).map(|at| at as u8).collect(), None),
    };
    let hints = Hints::new().caps(Caps::MSG | Caps::RMA);
    let info = hints.provider(&provider).best(Backend::from_env()?)?;
    let (domain, endpoint, queue, _peers) = open(&info)?;
    let region = Region::register(&domain, Buffer::from(file), Access::READ)?;
    let (address, remote) = (endpoint.address()?, region.remote());
    let closing = AtomicBool::new(false);
    let copy = thread::scope(|scope| {
        let serving = scope.spawn(|| -> Outcome {
            while !closing.load(Ordering::Relaxed) {
                queue.poll()?;
                thread::yield_now();
            }
            Ok(())
        });
        let copy = fetch(&info, &address, remote);
        closing.store(true, Ordering::Relaxed);
        serving.join().expect("the sender ends")?;
        copy
    })?;
    // No peer reads the memory any more, so it is the sender's alone again.
    let file = region.into_buffer().map_err(|_| "the region is in use")?;
    assert!(file[..] == copy[..], "the copy differs");
    println!("{} bytes are the same on both sides", copy.len());
    to.map_or(Ok(()), |to| Ok(fs::write(to, copy)?))
}
