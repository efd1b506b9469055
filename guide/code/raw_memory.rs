//! A buffer of memory that the allocator does not know.
//!
//! `cargo run -p oxifabric-guide --example guide_raw_memory [PROVIDER]`
#![deny(unsafe_op_in_unsafe_fn)]

use std::error::Error;
use std::ptr::NonNull;
use std::time::Duration;

use oxifabric::{
    AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint, Fabric, Hints,
    Operation, Rdm,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

// ANCHOR: map
/// Makes a buffer of whole pages that nothing else uses.
fn map(len: usize) -> std::io::Result<Buffer> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping replaces no other one.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    let start = NonNull::new(address.cast::<u8>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
    // A pointer is not `Send`; the number is.
    let number = address.expose_provenance();
    let release = move || {
        // SAFETY: the buffer is gone, and nothing else knows the mapping.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(number), len) };
    };
    // SAFETY: the kernel gave `len` bytes, all zero, to this process alone, and they stay until `release`.
    Ok(unsafe { Buffer::from_raw(start, len, release) })
}
// ANCHOR_END: map

fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let mut hints = Hints::new().caps(Caps::TAGGED).provider(&provider);
    if provider != "shm" {
        hints = hints.local(Some("127.0.0.1"), None);
    }
    let info = hints.best(Backend::from_env()?)?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 16)?;
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let endpoint = builder.queue(&queue).enable()?;
    let me = peers.insert(&endpoint.address()?)?;
    // ANCHOR: use
    let mut message = map(8192)?;
    message[..5].copy_from_slice(b"hello");
    endpoint.receive_tagged(1, 0, map(8192)?)?;
    endpoint.send_tagged(me, 1, message)?;
    // ANCHOR_END: use
    for _ in 0..2 {
        let completion = queue.wait(Some(Duration::from_secs(20)))?;
        let (buffer, transfer) = completion.ok_or("nothing completes")?.ok()?;
        if transfer.operation == Operation::Receive {
            assert_eq!((&buffer[..5], buffer.len()), (&b"hello"[..], 8192));
        }
    }
    Ok(())
}
