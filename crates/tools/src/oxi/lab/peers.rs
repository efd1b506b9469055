//! What one more peer costs.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use oxifabric::{Address, AddressVector, Backend, Domain, Fabric, Hints};

use super::{Bar, Stopwatch};
use crate::oxi::Trouble;

/// Addresses for each connection: they are cheap, and a vector is made for many.
const ADDRESSES: usize = 100;

/// Connections that are made, and addresses that are inserted.
pub(super) fn connections(stopwatch: Stopwatch) -> Result<Vec<Bar>, Trouble> {
    let (few, many) = (stopwatch.few, stopwatch.few * ADDRESSES);
    let each = |time: Duration, count: usize| time.as_nanos() as f64 / count as f64;
    let row = |label: &str, time| Bar::new(label, time).with("each".to_owned());
    let address = each(insert(many)?, many);
    let connection = each(connect(few)?, few);
    Ok(vec![
        row(&format!("{many} addresses in a vector"), address),
        row(&format!("{few} TCP connections"), connection)
            .with("each, and two descriptors with their buffers".to_owned()),
    ])
}

/// Measures how long it takes to make `count` connections and to have them all at once.
fn connect(count: usize) -> Result<Duration, Trouble> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (to, mut open) = (listener.local_addr()?, Vec::with_capacity(count));
    let start = Instant::now();
    for _ in 0..count {
        let here = TcpStream::connect(to)?;
        open.push((here, listener.accept()?));
    }
    Ok(start.elapsed())
}

/// Measures how long it takes to insert `count` addresses into a vector of the provider tcp.
fn insert(count: usize) -> Result<Duration, Trouble> {
    let info = Hints::new().provider("tcp").best(Backend::from_env()?)?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let peers = AddressVector::open(&domain)?;
    let addresses: Vec<_> = (0..count as u32).map(reserved_address).collect();
    let start = Instant::now();
    for address in &addresses {
        peers.insert(address)?;
    }
    Ok(start.elapsed())
}

/// Returns an address of a network that is reserved for measurements (RFC 2544).
fn reserved_address(number: u32) -> Address {
    let [_, high, middle, low] = number.to_be_bytes();
    let host = Ipv4Addr::new(198, 18 + (high & 1), middle, low);
    SocketAddr::from((host, 4711)).into()
}
