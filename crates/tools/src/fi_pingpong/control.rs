//! The control connection: what both sides of `fi_pingpong` say to each other beside the fabric.
//!
//! Over tcp, after the connection: each side its address as length (32 bits, big-endian), format (32 bits, as the machine has it)
//! and bytes; before each size the client `q` and the server `a`, each with a zero byte; after each size the client the number
//! of messages that it got, in ten bytes of decimal digits and zeros, and the server `cnt ok` with a zero byte.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, sockopt};
use oxifabric::{Address, AddressFormat};

use super::options::Options;

/// The connection; waits on it let the caller do something between.
pub(super) struct Control {
    stream: TcpStream,
}

/// How long one look at the connection lasts.
const LOOK: Duration = Duration::from_millis(1);
/// The longest address that upstream takes.
const LONGEST_ADDRESS: usize = 1024;
const QUESTION: &[u8; 2] = b"q\0";
const ANSWER: &[u8; 2] = b"a\0";
const COUNT_LEN: usize = 10;
const COUNT_OK: &[u8; 7] = b"cnt ok\0";

impl Control {
    /// Waits for the client.
    pub(super) fn accept(options: &Options) -> io::Result<Self> {
        let port = options.server_port();
        let at: SocketAddr = if options.ipv6 {
            (Ipv6Addr::UNSPECIFIED, port).into()
        } else {
            (Ipv4Addr::UNSPECIFIED, port).into()
        };
        let listener = TcpListener::bind(at).map_err(|error| at_address(error, "listen on", at))?;
        options.debug(|| format!("waiting for a client on {at}"));
        let (stream, client) = listener.accept()?;
        options.debug(|| format!("{client} connected"));
        Self::new(stream)
    }

    /// Connects to the server.
    pub(super) fn connect(options: &Options) -> io::Result<Self> {
        let server = options.server.as_deref().unwrap_or_default();
        let mut last = io::Error::other(format!("{server} has no address of the family asked for"));
        for at in (server, options.destination_port).to_socket_addrs()? {
            if at.is_ipv6() != options.ipv6 {
                continue;
            }
            options.debug(|| format!("connecting to {at}"));
            match connect(at, options.source_port) {
                Ok(stream) => return Self::new(stream),
                Err(error) => last = at_address(error, "connect to", at),
            }
        }
        Err(last)
    }

    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Self { stream })
    }

    pub(super) fn send_address(&mut self, address: &Address) -> io::Result<()> {
        let len = u32::try_from(address.bytes().len()).map_err(io::Error::other)?;
        self.stream.write_all(&len.to_be_bytes())?;
        self.stream.write_all(&address.format().0.to_ne_bytes())?;
        self.stream.write_all(address.bytes())
    }

    pub(super) fn read_address(&mut self) -> io::Result<Address> {
        self.read_address_with(&mut || Ok(()))
    }

    pub(super) fn read_address_with(&mut self, meanwhile: Meanwhile<'_>) -> io::Result<Address> {
        let len = u32::from_be_bytes(self.read(meanwhile)?) as usize;
        let format = AddressFormat(u32::from_ne_bytes(self.read(meanwhile)?));
        if len > LONGEST_ADDRESS {
            return Err(io::Error::other(format!(
                "an address of {len} bytes is too long"
            )));
        }
        let mut bytes = vec![0; len];
        self.read_into(&mut bytes, meanwhile)?;
        Ok(Address::new(format, &bytes))
    }

    /// Waits until both sides are here.
    pub(super) fn sync(&mut self, client: bool, meanwhile: Meanwhile<'_>) -> io::Result<()> {
        if client {
            self.stream.write_all(QUESTION)?;
            self.expect(ANSWER, meanwhile)
        } else {
            self.expect(QUESTION, meanwhile)?;
            self.stream.write_all(ANSWER)
        }
    }

    /// Returns the number of messages that the client got.
    pub(super) fn agree_on_count(
        &mut self,
        client: bool,
        count: u64,
        meanwhile: Meanwhile<'_>,
    ) -> io::Result<u64> {
        if client {
            let mut digits = count.to_string().into_bytes();
            digits.resize(COUNT_LEN, 0);
            self.stream.write_all(&digits)?;
            self.expect(COUNT_OK, meanwhile)?;
            return Ok(count);
        }
        let digits: [u8; COUNT_LEN] = self.read(meanwhile)?;
        let end = digits.iter().position(|digit| *digit == 0);
        let count = core::str::from_utf8(&digits[..end.unwrap_or(COUNT_LEN)])
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| io::Error::other("the client sent no number"))?;
        self.stream.write_all(COUNT_OK)?;
        Ok(count)
    }

    /// Returns whether the other side has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        match self.stream.peek(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => !is_timeout(&error),
        }
    }

    fn expect<const N: usize>(
        &mut self,
        wanted: &[u8; N],
        meanwhile: Meanwhile<'_>,
    ) -> io::Result<()> {
        let got: [u8; N] = self.read(meanwhile)?;
        if got == *wanted {
            return Ok(());
        }
        let (wanted, got) = (wanted.escape_ascii(), got.escape_ascii());
        Err(io::Error::other(format!(
            "\"{got}\" came in place of \"{wanted}\""
        )))
    }

    fn read<const N: usize>(&mut self, meanwhile: Meanwhile<'_>) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_into(&mut bytes, meanwhile)?;
        Ok(bytes)
    }

    fn read_into(&mut self, mut bytes: &mut [u8], meanwhile: Meanwhile<'_>) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.read(bytes) {
                Ok(0) => {
                    let gone = io::ErrorKind::ConnectionAborted;
                    return Err(io::Error::new(gone, "the other side closed it"));
                }
                Ok(len) => bytes = &mut bytes[len..],
                Err(error) if is_timeout(&error) => meanwhile()?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What is done while the other side is silent: moving messages that are still under way.
pub(super) type Meanwhile<'a> = &'a mut dyn FnMut() -> io::Result<()>;

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn at_address(error: io::Error, what: &str, at: SocketAddr) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {at}: {error}"))
}

/// Connects, from a given port if that is not zero.
fn connect(at: SocketAddr, from_port: u16) -> io::Result<TcpStream> {
    if from_port == 0 {
        return TcpStream::connect(at);
    }
    let (family, from): (_, SocketAddr) = if at.is_ipv6() {
        (
            AddressFamily::Inet6,
            (Ipv6Addr::UNSPECIFIED, from_port).into(),
        )
    } else {
        (
            AddressFamily::Inet,
            (Ipv4Addr::UNSPECIFIED, from_port).into(),
        )
    };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    socket::setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
    socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    Ok(socket.into())
}

/// Finds the address of a local name, for `-s`.
pub(super) fn resolve(name: &str) -> io::Result<Address> {
    let mut found = (name, 0).to_socket_addrs()?;
    let first = found.next();
    let first = first.ok_or_else(|| io::Error::other(format!("{name} has no address")))?;
    Ok(Address::from(first))
}
