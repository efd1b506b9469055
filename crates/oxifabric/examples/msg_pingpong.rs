//! Two connected endpoints throw a message to and fro.
//!
//! `cargo run --example msg_pingpong [PROVIDER]`; the provider is tcp, or another one that has connections.

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use oxifabric::{
    Address, Backend, Buffer, CompletionQueue, Domain, Endpoint, EventQueue, Fabric, Hints, Info,
    Msg, Operation, PassiveEndpoint,
};

const ROUNDS: u32 = 1000;
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The objects that each side needs before it is connected.
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

    /// Sends a buffer, and waits until it is back and the next message is there. A receive is always posted.
    fn exchange(&self, endpoint: &Endpoint<Msg>, buffer: Buffer) -> Outcome<Buffer> {
        endpoint.send(buffer)?;
        let (mut sent, mut received) = (false, None);
        loop {
            let (buffer, transfer) = self.queue.next()?.ok()?;
            match transfer.operation {
                Operation::Receive => received = Some(buffer),
                _ => sent = true,
            }
            if sent && let Some(message) = received.take() {
                return Ok(message);
            }
        }
    }
}

fn server(info: &Info, tell: &Sender<Address>) -> Outcome {
    let side = Side::open(info)?;
    let listener = PassiveEndpoint::listen(info, &side.events)?;
    tell.send(listener.address()?)?;
    let request = side.events.request(TIMEOUT)?.ok_or("no request came")?;
    println!(
        "the client says {:?}",
        String::from_utf8_lossy(request.data())
    );
    let accepting = Endpoint::<Msg>::builder(&side.domain)
        .queue(&side.queue)
        .events(&side.events)
        .accept(request)?;
    // Posted before the connection is established, so that the first message finds it.
    accepting.endpoint().receive(Buffer::zeroed(8))?;
    let endpoint = accepting.wait(TIMEOUT)?;
    let (mut message, _) = side.queue.next()?.ok()?;
    for round in 1..=ROUNDS {
        endpoint.receive(Buffer::zeroed(8))?;
        message[0] = round as u8;
        message = side.exchange(&endpoint, message)?;
    }
    Ok(())
}

fn client(info: &Info, hear: &Receiver<Address>) -> Outcome {
    let side = Side::open(info)?;
    let endpoint = Endpoint::<Msg>::builder(&side.domain)
        .queue(&side.queue)
        .events(&side.events)
        .data(b"ping-pong, please")
        .connect(&hear.recv()?)?
        .wait(TIMEOUT)?;
    let mut message = Buffer::zeroed(8);
    for round in 1..=ROUNDS {
        endpoint.receive(Buffer::zeroed(8))?;
        message = side.exchange(&endpoint, message)?;
        assert_eq!(message[0], round as u8);
    }
    // The server still waits for the answer to its last message.
    endpoint.send(message)?;
    side.queue.next()?.ok()?;
    println!("{ROUNDS} messages went there and back");
    Ok(())
}

fn main() -> Outcome {
    let provider = std::env::args().nth(1).unwrap_or("tcp".into());
    let hints = Hints::new().kind::<Msg>().provider(&provider);
    let info = hints
        .local(Some("127.0.0.1"), None)
        .best(Backend::from_env()?)?;
    let (tell, hear) = channel();
    thread::scope(|scope| {
        let server = scope.spawn(|| server(&info, &tell));
        client(&info, &hear)?;
        server.join().expect("the server ends")
    })
}
