//! An echo under tokio: one task answers every question, and others ask at the same time.
//!
//! `cargo run --example async_echo --features tokio [PROVIDER]`

use std::error::Error;
use std::rc::Rc;

use oxifabric::{
    AddressVector, AsyncEndpoint, AsyncQueue, Backend, Buffer, Caps, CompletionQueue, Domain,
    Endpoint, Fabric, Hints, Peer, Rdm,
};

/// Number of tasks that ask, and number of questions of each.
const TASKS: u64 = 10;
const QUESTIONS: usize = 20;
/// The tag of questions; answers have that of their task.
const QUESTION: u64 = 1000;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn open(provider: &str) -> Outcome<(AsyncEndpoint, AddressVector)> {
    let hints = Hints::new().caps(Caps::TAGGED).provider(provider);
    let info = hints.best(Backend::from_env()?)?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 256)?;
    let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
    let endpoint = builder.queue(&queue).enable()?;
    let queue = AsyncQueue::tokio(queue)?;
    Ok((AsyncEndpoint::new(endpoint, &queue, &queue)?, peers))
}

/// The first byte of a question is the tag of its answer.
async fn echo(endpoint: AsyncEndpoint, asker: Peer) -> Outcome {
    for _ in 0..TASKS as usize * QUESTIONS {
        let got = endpoint
            .receive_tagged(QUESTION, 0, Buffer::zeroed(64))
            .await;
        let (message, _) = got.ok()?;
        let tag = u64::from(message[0]);
        endpoint.send_tagged(asker, tag, message).await.ok()?;
    }
    Ok(())
}

async fn ask(endpoint: Rc<AsyncEndpoint>, to: Peer, task: u64) -> Outcome {
    for count in 0..QUESTIONS {
        let answer = endpoint
            .start_receive(|endpoint| endpoint.receive_tagged(task, 0, Buffer::zeroed(64)))?;
        let question = Buffer::from(&[task as u8, count as u8]);
        let sent = endpoint.send_tagged(to, QUESTION, question).await;
        let (question, _) = sent.ok()?;
        let (answer, _) = answer.await.ok()?;
        assert_eq!(question[..], answer[..]);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let (server, askers) = open(&provider)?;
    let (client, servers) = open(&provider)?;
    let to = servers.insert(&server.endpoint().address()?)?;
    let asker = askers.insert(&client.endpoint().address()?)?;
    let tasks = tokio::task::LocalSet::new();
    tasks
        .run_until(async move {
            let server = tokio::task::spawn_local(async move {
                let outcome = echo(server, asker).await;
                outcome.map_err(|error| error.to_string())
            });
            let client = Rc::new(client);
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let client = client.clone();
                    tokio::task::spawn_local(async move {
                        let outcome = ask(client, to, task).await;
                        outcome.map_err(|error| error.to_string())
                    })
                })
                .collect();
            for task in tasks {
                task.await??;
            }
            server.await??;
            println!("{TASKS} tasks have all their answers");
            Ok(())
        })
        .await
}
