//! What a process hears of a peer that is killed: by its receives, and in the log.

use std::io::{BufRead, BufReader, Read, stdin};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{env, thread};

use oxifabric::{
    Address, AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint, Fabric,
    Hints, Rdm,
};

/// How long a process may take for a step before the test fails.
const WATCHDOG: Duration = Duration::from_secs(60);
/// The variables that tell a process its part, its provider, and the server's address as text.
const PART: &str = "LOST_PEERS_PART";
const PROVIDER: &str = "LOST_PEERS_PROVIDER";
const SERVER: &str = "LOST_PEERS_SERVER";

struct Node {
    endpoint: Endpoint,
    queue: CompletionQueue,
    peers: AddressVector,
}

impl Node {
    fn open(provider: &str) -> Self {
        let caps = Caps::TAGGED | Caps::DIRECTED_RECV;
        let mut hints = Hints::new().caps(caps).provider(provider);
        if provider != "shm" {
            hints = hints.local(Some("127.0.0.1"), None);
        }
        let info = hints.best(Backend::builtin()).expect("there is an offer");
        let domain = Fabric::open(&info).and_then(|fabric| Domain::open(&fabric, &info));
        let domain = domain.expect("it opens");
        let peers = AddressVector::open(&domain).expect("it opens");
        let queue = CompletionQueue::open(&domain, 16).expect("it opens");
        let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
        Self {
            endpoint: builder.queue(&queue).enable().expect("it opens"),
            queue,
            peers,
        }
    }
}

/// An address as text for a variable of the environment.
fn spell(address: &Address) -> String {
    let bytes = address.bytes().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn spelled(text: &str, like: &Address) -> Address {
    let digits = text.as_bytes().chunks(2);
    let bytes = digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16));
    let bytes: Result<Vec<u8>, _> = bytes.collect();
    Address::new(like.format(), &bytes.expect("it is hexadecimal"))
}

/// Plays a part in a process of its own; returns at once in the process of the test.
#[test]
fn a_part() {
    let Ok(provider) = env::var(PROVIDER) else {
        return;
    };
    match env::var(PART).as_deref() {
        Ok("server") => serve(&provider),
        _ => ask(&provider),
    }
}

/// Receives the address of a client, and then waits for messages of the client and of any peer.
fn serve(provider: &str) {
    let node = Node::open(provider);
    let me = node.endpoint.address().expect("it has an address");
    let first = Buffer::zeroed(128);
    node.endpoint.receive_tagged(1, 0, first).expect("a post");
    println!("at {}", spell(&me));
    let (client, _) = node
        .queue
        .next()
        .and_then(|done| done.ok())
        .expect("a message");
    let client = node.peers.insert(&Address::new(me.format(), &client));
    let client = client.expect("an address");
    let any = node.endpoint.receive_tagged(2, 0, Buffer::zeroed(8));
    let any = any.expect("a post");
    let directed = node
        .endpoint
        .receive_tagged_from(client, 2, 0, Buffer::zeroed(8));
    let directed = directed.expect("a post");
    println!("posted");
    let failed = node.queue.next().expect("the queue is whole");
    assert_eq!(failed.op, directed, "the other receive waits on");
    println!("failed {}", failed.outcome.expect_err("the client is gone"));
    // A second line would come with a later poll.
    for _ in 0..10 {
        let more = node.queue.wait(Some(Duration::from_millis(5)));
        assert!(more.expect("the queue is whole").is_none());
    }
    node.endpoint.cancel(any).expect("it waits still");
    let cancelled = node.queue.next().expect("the queue is whole");
    assert_eq!(cancelled.op, any);
}

/// Sends its address, and makes progress until it is killed.
fn ask(provider: &str) {
    let node = Node::open(provider);
    let me = node.endpoint.address().expect("it has an address");
    let server = env::var(SERVER).expect("it was told");
    let server = node
        .peers
        .insert(&spelled(&server, &me))
        .expect("an address");
    loop {
        match node.endpoint.inject_tagged(server, 1, me.bytes()) {
            Ok(()) => break,
            Err(error) => assert!(error.is_again(), "{error}"),
        }
        node.queue.poll().expect("the queue is whole");
    }
    println!("at {me}");
    // The end of the test closes the input, if that does not kill this process before.
    let (tell, hear) = channel();
    thread::spawn(move || tell.send(stdin().read(&mut [0])));
    while hear.try_recv().is_err() {
        node.queue.poll().expect("the queue is whole");
        thread::yield_now();
    }
}

/// A process that plays a part, and the lines that it prints.
struct Process {
    child: Child,
    lines: Receiver<String>,
    log: thread::JoinHandle<String>,
}

impl Process {
    fn start(part: &str, provider: &str, server: &str) -> Self {
        let mut child = Command::new(env::current_exe().expect("the test is a file"))
            .args(["--exact", "a_part", "--nocapture"])
            .envs([(PART, part), (PROVIDER, provider), (SERVER, server)])
            .envs([("FI_LOG_LEVEL", "info"), ("FI_LOG_SUBSYS", "ep_ctrl")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the process starts");
        let (tell, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        let mut errors = child.stderr.take().expect("a pipe");
        let log = thread::spawn(move || {
            let mut log = String::new();
            errors.read_to_string(&mut log).expect("it is text");
            log
        });
        Self { child, lines, log }
    }

    /// Waits for a line that begins so; returns the rest of it.
    fn line(&self, begins: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(WATCHDOG);
            let line = line.unwrap_or_else(|error| panic!("no line {begins:?}: {error}"));
            // The harness prints the name of the test in front of the first line.
            if let Some((_, rest)) = line.split_once(begins) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills a client, and looks at what its server says and logs.
fn kill_client_of(provider: &str) {
    let server = Process::start("server", provider, "");
    let client = Process::start("client", provider, &server.line("at "));
    let at = client.line("at ");
    server.line("posted");
    drop(client);
    let failed = server.line("failed ");
    assert!(failed.contains(&at), "{failed}");
    let advice = ["the peer is gone", "check that the peer runs"];
    assert!(
        advice.iter().any(|advice| failed.contains(advice)),
        "{failed}"
    );
    println!("{failed}");
    // It prints the harness's last line when it has ended.
    server.line("test result: ok");
    let mut server = server;
    assert!(server.child.wait().expect("it ends").success());
    let log = std::mem::replace(&mut server.log, thread::spawn(String::new));
    let log = log.join().expect("the log is text");
    let lost = format!("connection with {at} lost: ");
    assert_eq!(log.matches(&lost).count(), 1, "{lost}\n{log}");
}

#[test]
fn a_client_that_is_killed_over_tcp_is_logged_once() {
    kill_client_of("tcp");
}

#[test]
fn a_client_that_is_killed_over_shm_is_logged_once() {
    kill_client_of("shm");
}

#[test]
fn a_client_that_is_killed_over_udp_is_logged_once() {
    kill_client_of("udp;ofi_rxd");
}
