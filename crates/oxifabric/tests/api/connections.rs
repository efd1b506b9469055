//! Connections.

use std::time::{Duration, Instant};

use oxifabric::{
    Address, Backend, Buffer, CompletionQueue, Connecting, ConnectionRequest, Domain, Endpoint,
    EpType, Errno, Error, EventQueue, Fabric, Hints, Info, Msg, Operation, PassiveEndpoint, Rdm,
};

use crate::{WATCHDOG, builtin, system};

/// The objects that each side of a connection needs.
struct Side {
    events: EventQueue,
    domain: Domain,
    queue: CompletionQueue,
}

impl Side {
    fn open(info: &Info) -> Self {
        let fabric = Fabric::open(info).unwrap();
        let domain = Domain::open(&fabric, info).unwrap();
        Self {
            events: EventQueue::open(&fabric).unwrap(),
            queue: CompletionQueue::open(&domain, 64).unwrap(),
            domain,
        }
    }

    fn connect(&self, to: &Address, data: &[u8]) -> Connecting {
        let builder = Endpoint::<Msg>::builder(&self.domain).queue(&self.queue);
        builder.events(&self.events).data(data).connect(to).unwrap()
    }
}

/// Returns the request of a client, which some providers send only while the client reads its events.
fn request_of(server: &Side, client: &Connecting) -> ConnectionRequest {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < WATCHDOG, "no request came");
        assert!(!client.poll().unwrap());
        let request = server.events.request(Some(Duration::from_millis(1)));
        if let Some(request) = request.unwrap() {
            return request;
        }
    }
}

/// Returns the first offer of connections over the loopback.
fn offer(backend: Backend) -> Option<Info> {
    let hints = Hints::new().kind::<Msg>().provider("tcp");
    match hints.local(Some("127.0.0.1"), None).best(backend) {
        Ok(info) => Some(info),
        Err(why) => {
            eprintln!("SKIP: {why}");
            None
        }
    }
}

fn two_sides_connect_and_talk(info: &Info) {
    let (server, client) = (Side::open(info), Side::open(info));
    let listener = PassiveEndpoint::listen(info, &server.events).unwrap();
    let connecting = client.connect(&listener.address().unwrap(), b"please");
    let early = connecting.endpoint().receive(Buffer::zeroed(8)).unwrap();

    let request = request_of(&server, &connecting);
    assert_eq!(request.data(), b"please");
    let builder = Endpoint::<Msg>::builder(&server.domain).queue(&server.queue);
    let accepting = builder
        .events(&server.events)
        .data(b"welcome")
        .accept(request)
        .unwrap();
    // Some providers make progress only while both sides read their events.
    let start = Instant::now();
    while !(connecting.poll().unwrap() && accepting.poll().unwrap()) {
        accepting.poll().unwrap();
        assert!(
            start.elapsed() < WATCHDOG,
            "the connection does not come about"
        );
    }
    let at_client = connecting.wait(Some(WATCHDOG)).unwrap();
    let at_server = accepting.wait(Some(WATCHDOG)).unwrap();
    assert_eq!(at_client.connection_data(), b"welcome");
    assert_eq!(
        at_client.peer_address().unwrap(),
        listener.address().unwrap()
    );

    at_server.send(Buffer::from("hello")).unwrap();
    let sent = server.queue.wait(Some(WATCHDOG)).unwrap().unwrap();
    assert_eq!(sent.outcome.unwrap().operation, Operation::Send);
    let got = client.queue.wait(Some(WATCHDOG)).unwrap().unwrap();
    assert_eq!((got.op, &got.buffer[..]), (early, &b"hello"[..]));

    at_client.shutdown().unwrap();
    if info.backend() != Backend::builtin() {
        eprintln!("SKIP: the C library tells of the end by its completion queue only");
        return;
    }
    let start = Instant::now();
    while at_server.is_connected() {
        assert!(start.elapsed() < WATCHDOG, "the end is not told");
        let request = server.events.request(Some(Duration::from_millis(1)));
        assert!(request.unwrap().is_none());
    }
}

fn a_request_that_is_refused_says_so(info: &Info) {
    let (server, client) = (Side::open(info), Side::open(info));
    let listener = PassiveEndpoint::listen(info, &server.events).unwrap();
    let address = listener.address().unwrap();
    let connecting = client.connect(&address, b"");
    let request = request_of(&server, &connecting);
    request.reject(b"we are full").unwrap();
    let error = connecting.wait(Some(WATCHDOG)).unwrap_err();
    assert_eq!(error.errno(), Errno::CONNREFUSED);
    let text = error.to_string();
    assert!(
        text.contains(&format!("connection to {address} failed")),
        "{text}"
    );
    assert!(text.contains("we are full"), "{text}");

    let connecting = client.connect(&address, b"");
    drop(request_of(&server, &connecting));
    let error = connecting.wait(Some(WATCHDOG)).unwrap_err();
    assert_eq!(error.errno(), Errno::CONNREFUSED);
}

fn a_port_without_listener_refuses(info: &Info) {
    let client = Side::open(info);
    let absent = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Address::from(listener.local_addr().unwrap())
    };
    let error = client
        .connect(&absent, b"")
        .wait(Some(WATCHDOG))
        .unwrap_err();
    assert_eq!(error.errno(), Errno::CONNREFUSED);
    assert!(
        error.to_string().contains("check that the peer runs"),
        "{error}"
    );
}

fn what_is_missing_is_named(info: &Info) {
    let side = Side::open(info);
    let anywhere: Address = std::net::SocketAddr::from(([127, 0, 0, 1], 9)).into();
    let builder = || Endpoint::<Msg>::builder(&side.domain);
    let error = builder().queue(&side.queue).connect(&anywhere).unwrap_err();
    assert_eq!(error.errno(), Errno::NOEQ);
    let error = builder()
        .events(&side.events)
        .connect(&anywhere)
        .unwrap_err();
    assert_eq!(error.errno(), Errno::NOCQ);
    let peers = oxifabric::AddressVector::open(&side.domain).unwrap();
    let datagrams = Endpoint::<Rdm>::builder(&side.domain).queue(&side.queue);
    let error = datagrams.address_vector(&peers).enable().unwrap_err();
    assert!(matches!(error, Error::Unsuitable(_)), "{error}");
}

macro_rules! libraries {
    ($($case:ident)*) => {
        mod builtin_tcp {
            $(#[test]
            fn $case() {
                assert_eq!(super::builtin("tcp").ep_type(), Some(super::EpType::Rdm));
                super::$case(&super::offer(super::Backend::builtin()).unwrap());
            })*
        }
        mod system_tcp {
            $(#[test]
            fn $case() {
                if let Some(info) = super::system().and_then(super::offer) {
                    super::$case(&info);
                }
            })*
        }
    };
}

libraries! {
    two_sides_connect_and_talk
    a_request_that_is_refused_says_so
    a_port_without_listener_refuses
    what_is_missing_is_named
}
