//! A first program: two processes throw a tagged message to and fro.
//!
//! One is started without an argument, and prints an address; the other is given that: `first_pingpong [ADDRESS]`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use oxifabric::{
    Address, AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint, Fabric,
    Hints, Rdm,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let begins = std::env::args().nth(1);
    // Providers do not find peers: the program exchanges addresses over a TCP connection.
    let mut meeting = match &begins {
        Some(address) => TcpStream::connect(address)?,
        None => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            println!("{}", listener.local_addr()?);
            listener.accept()?.0
        }
    };

    let hints = Hints::new().caps(Caps::TAGGED).provider("tcp");
    let info = hints.best(Backend::from_env()?)?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    let queue = CompletionQueue::open(&domain, 16)?;
    let endpoint = Endpoint::<Rdm>::builder(&domain)
        .address_vector(&peers)
        .queue(&queue)
        .enable()?;

    let mine = endpoint.address()?;
    meeting.write_all(&[mine.bytes().len() as u8])?;
    meeting.write_all(mine.bytes())?;
    let mut len = [0];
    meeting.read_exact(&mut len)?;
    let mut theirs = vec![0; usize::from(len[0])];
    meeting.read_exact(&mut theirs)?;
    let peer = peers.insert(&Address::new(mine.format(), &theirs))?;

    let mut ball = Buffer::from("ball");
    for round in 0..1000 {
        if begins.is_some() == (round % 2 == 0) {
            // With one operation in flight at a time the queue has room for it: "again" would be an error here.
            endpoint.send_tagged(peer, round, ball)?;
        } else {
            endpoint.receive_tagged(round, 0, ball)?;
        }
        (ball, _) = queue.next()?.ok()?;
    }
    println!("the {} came back 500 times", String::from_utf8_lossy(&ball));
    Ok(())
}
