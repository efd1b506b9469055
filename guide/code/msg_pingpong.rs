//! Two threads connect and throw a message to and fro.
//!
//! `cargo run -p oxifabric-guide --example guide_msg_pingpong [PROVIDER]`

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use oxifabric::{
    Address, Backend, Buffer, CompletionQueue, Domain, Endpoint, EventQueue, Fabric, Hints, Info,
    Msg, Operation, PassiveEndpoint,
};

const ROUNDS: u64 = 1000;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

// ANCHOR: side
/// What one side of a connection needs.
struct Side {
    events: EventQueue,
    domain: Domain,
    queue: CompletionQueue,
}

impl Side {
    fn open(info: &Info) -> Outcome<Self> {
        let fabric = Fabric::open(info)?;
        let domain = Domain::open(&fabric, info)?;
        Ok(Self {
            events: EventQueue::open(&fabric)?,
            queue: CompletionQueue::open(&domain, 16)?,
            domain,
        })
    }

    /// Waits for one completion, which has to be of this kind.
    fn finish(&self, operation: Operation) -> Outcome<Buffer> {
        let completion = self.queue.wait(PATIENCE)?.ok_or("the other is silent")?;
        let (buffer, transfer) = completion.ok()?;
        assert_eq!(transfer.operation, operation);
        Ok(buffer)
    }
}
// ANCHOR_END: side

// ANCHOR: server
fn server(info: &Info, tell: &Sender<Address>) -> Outcome {
    let side = Side::open(info)?;
    let listener = PassiveEndpoint::listen(info, &side.events)?;
    // The port is known once it listens.
    tell.send(listener.address()?)?;

    let request = side
        .events
        .request(PATIENCE)?
        .ok_or("no connection request")?;
    let accepting = Endpoint::<Msg>::builder(&side.domain)
        .queue(&side.queue)
        .events(&side.events)
        .accept(request)?;
    // Before the connection stands: the first message may come with it.
    let space = Buffer::zeroed_of::<u64>(1);
    accepting.endpoint().receive(space)?;
    let endpoint = accepting.wait(PATIENCE)?;

    for round in 1..=ROUNDS {
        let mut ball = side.finish(Operation::Receive)?;
        ball.as_mut_slice_of::<u64>()[0] += 1;
        endpoint.send(ball)?;
        let ball = side.finish(Operation::Send)?;
        if round < ROUNDS {
            endpoint.receive(ball)?;
        }
    }
    Ok(())
}
// ANCHOR_END: server

// ANCHOR: client
fn client(info: &Info, hear: &Receiver<Address>) -> Outcome {
    let side = Side::open(info)?;
    let endpoint = Endpoint::<Msg>::builder(&side.domain)
        .queue(&side.queue)
        .events(&side.events)
        .connect(&hear.recv()?)?
        .wait(PATIENCE)?;

    let mut ball = Buffer::zeroed_of::<u64>(1);
    for round in 0..ROUNDS {
        endpoint.send(ball)?;
        ball = side.finish(Operation::Send)?;
        endpoint.receive(ball)?;
        ball = side.finish(Operation::Receive)?;
        assert_eq!(ball.as_slice_of::<u64>(), [round + 1]);
    }
    println!("{ROUNDS} messages went there and back");
    Ok(())
}
// ANCHOR_END: client

// ANCHOR: main
fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let info = Hints::new()
        .kind::<Msg>()
        .provider(&provider)
        .local(Some("127.0.0.1"), None)
        .best(Backend::from_env()?)?;
    let (tell, hear) = channel();
    thread::scope(|scope| {
        let server = scope.spawn(|| server(&info, &tell));
        client(&info, &hear)?;
        server.join().expect("the server ends")
    })
}
// ANCHOR_END: main
