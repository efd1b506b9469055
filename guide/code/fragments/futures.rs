//! Operations as futures, under tokio.

use std::error::Error;
use std::time::Duration;

use oxifabric::{
    AddressVector, AsyncEndpoint, AsyncQueue, Backend, Buffer, Caps, CompletionQueue, Domain,
    Endpoint, Errno, Fabric, Hints, Peer, Rdm,
};
use tokio::time::timeout;

const QUESTION: u64 = 1;
const ANSWER: u64 = 2;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn open(provider: &str) -> Outcome<(AsyncEndpoint, Peer)> {
    let mut hints = Hints::new().caps(Caps::TAGGED).provider(provider);
    if provider != "shm" {
        hints = hints.local(Some("127.0.0.1"), None);
    }
    let info = hints.best(Backend::builtin())?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    // ANCHOR: open
    let queue = CompletionQueue::open(&domain, 64)?;
    let endpoint = Endpoint::<Rdm>::builder(&domain)
        .address_vector(&peers)
        .queue(&queue)
        .enable()?;
    let queue = AsyncQueue::tokio(queue)?;
    // One queue serves both directions of this endpoint.
    let endpoint = AsyncEndpoint::new(endpoint, &queue, &queue)?;
    // ANCHOR_END: open
    let me = peers.insert(&endpoint.endpoint().address()?)?;
    Ok((endpoint, me))
}

// ANCHOR: ask
async fn ask(endpoint: &AsyncEndpoint, peer: Peer, question: Buffer) -> Outcome<Buffer> {
    // Posted before the question leaves, so that the answer finds it.
    let answer = endpoint
        .start_receive(|endpoint| endpoint.receive_tagged(ANSWER, 0, Buffer::zeroed(64)))?;
    let sent = endpoint.send_tagged(peer, QUESTION, question).await;
    sent.ok()?;
    let (answer, _) = answer.await.ok()?;
    Ok(answer)
}
// ANCHOR_END: ask

async fn answer(endpoint: &AsyncEndpoint, peer: Peer) -> Outcome {
    let got = endpoint
        .receive_tagged(QUESTION, 0, Buffer::zeroed(64))
        .await;
    let (question, _) = got.ok()?;
    endpoint.send_tagged(peer, ANSWER, question).await.ok()?;
    Ok(())
}

// ANCHOR: deadline
/// Waits for a message for a while.
async fn receive_within(endpoint: &AsyncEndpoint, limit: Duration) -> Outcome<Option<Buffer>> {
    let mut receive = endpoint
        .start_receive(|endpoint| endpoint.receive_tagged(QUESTION, 0, Buffer::zeroed(64)))?;
    let completion = match timeout(limit, &mut receive).await {
        Ok(completion) => completion,
        Err(_) => {
            // A message may come at this very moment. Then there is nothing to cancel, and it is not lost.
            let _ = endpoint.endpoint().cancel(receive.op());
            receive.await
        }
    };
    match completion.ok() {
        Ok((message, _)) => Ok(Some(message)),
        Err(error) if error.errno() == Errno::CANCELED => Ok(None),
        Err(error) => Err(error.into()),
    }
}
// ANCHOR_END: deadline

#[tokio::test]
async fn a_question_has_an_answer() -> Outcome {
    for provider in ["tcp", "shm"] {
        let (endpoint, me) = open(provider)?;
        let both = async {
            tokio::try_join!(ask(&endpoint, me, Buffer::from("?")), answer(&endpoint, me))
        };
        let (answer, ()) = timeout(Duration::from_secs(20), both).await??;
        assert_eq!(&answer[..], b"?");
    }
    Ok(())
}

#[tokio::test]
async fn a_wait_has_an_end() -> Outcome {
    for provider in ["tcp", "shm"] {
        let (endpoint, me) = open(provider)?;
        let nothing = receive_within(&endpoint, Duration::from_millis(1)).await?;
        assert!(nothing.is_none());
        endpoint
            .send_tagged(me, QUESTION, Buffer::from("?"))
            .await
            .ok()?;
        let message = receive_within(&endpoint, Duration::from_secs(20)).await?;
        assert_eq!(message.as_deref(), Some(&b"?"[..]));
    }
    Ok(())
}
