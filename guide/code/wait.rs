//! One task sleeps until a message or a byte from a socket is there, whichever is first; another sends both.
//!
//! `cargo run -p oxifabric-guide --example guide_wait [PROVIDER]`

use std::error::Error;
use std::time::Duration;

use oxifabric::{
    AddressVector, AsyncEndpoint, AsyncQueue, Backend, Buffer, Caps, CompletionQueue, Domain,
    Endpoint, Fabric, Hints, Peer, Rdm,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

const COUNT: usize = 200;
const PATIENCE: Duration = Duration::from_secs(50);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

// ANCHOR: open
fn open(provider: &str) -> Outcome<(AsyncEndpoint, AddressVector)> {
    let mut hints = Hints::new().caps(Caps::TAGGED).provider(provider);
    if provider != "shm" {
        hints = hints.local(Some("127.0.0.1"), None);
    }
    let info = hints.best(Backend::from_env()?)?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 64)?;
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let endpoint = builder.queue(&queue).enable()?;
    // tokio watches the queue's descriptor from here on.
    let queue = AsyncQueue::tokio(queue)?;
    Ok((AsyncEndpoint::new(endpoint, &queue, &queue)?, peers))
}
// ANCHOR_END: open

// ANCHOR: loop
async fn listen_to_both(endpoint: &AsyncEndpoint, mut lines: UnixStream) -> Outcome {
    let (mut messages, mut bytes) = (0, 0);
    let mut line = [0; 64];
    let mut receive =
        endpoint.start_receive(|endpoint| endpoint.receive_tagged(0, 0, Buffer::zeroed(1)))?;
    while messages < COUNT || bytes < COUNT {
        tokio::select! {
            // By reference: whichever is not ready goes on waiting in the next turn.
            completion = &mut receive => {
                let (buffer, _) = completion.ok()?;
                assert_eq!(buffer[0], messages as u8);
                messages += 1;
                receive = endpoint.start_receive(|endpoint| endpoint.receive_tagged(0, 0, buffer))?;
            }
            len = lines.read(&mut line), if bytes < COUNT => bytes += len?,
        }
    }
    println!("{messages} messages and {bytes} bytes");
    Ok(())
}
// ANCHOR_END: loop

async fn speak_twice(endpoint: &AsyncEndpoint, to: Peer, mut lines: UnixStream) -> Outcome {
    for i in 0..COUNT {
        lines.write_all(b".").await?;
        let sent = endpoint.send_tagged(to, 0, Buffer::from(&[i as u8])).await;
        sent.ok()?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let (listener, _) = open(&provider)?;
    let (speaker, peers) = open(&provider)?;
    let to = peers.insert(&listener.endpoint().address()?)?;
    let (here, there) = UnixStream::pair()?;
    let both = async {
        tokio::try_join!(
            listen_to_both(&listener, here),
            speak_twice(&speaker, to, there)
        )
    };
    timeout(PATIENCE, both).await??;
    Ok(())
}
