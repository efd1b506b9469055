//! A small HTTP server for metrics. Any program that can reach the address may ask: requests, clients and time are bounded.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::openmetrics::CONTENT_TYPE;

/// How many clients are answered at once; others are turned away.
const MAX_CLIENTS: usize = 8;

/// How long a request may be, in bytes.
const MAX_REQUEST: usize = 8 << 10;

/// How long a client may take to ask, and then to listen.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers clients for ever.
pub(super) fn serve(listener: &TcpListener, text: &(impl Fn() -> String + Sync)) {
    let clients = AtomicUsize::new(0);
    thread::scope(|scope| {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // Out of descriptors, most likely: some clients will go.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            if clients.fetch_add(1, Ordering::AcqRel) >= MAX_CLIENTS {
                clients.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let clients = &clients;
            let answering = thread::Builder::new().spawn_scoped(scope, move || {
                // A client that is gone needs no answer.
                _ = answer(stream, text);
                clients.fetch_sub(1, Ordering::AcqRel);
            });
            if answering.is_err() {
                clients.fetch_sub(1, Ordering::AcqRel);
            }
        }
    })
}

/// Reads a request and answers it.
fn answer(mut stream: TcpStream, text: &impl Fn() -> String) -> io::Result<()> {
    let request = read_request(&mut stream)?;
    let line = request.split(|&byte| byte == b'\r').next();
    let line = line.unwrap_or_default();
    let mut reply = match asked(line) {
        Ok(Metrics) => reply("200 OK", CONTENT_TYPE, &text()),
        Err(status) => reply(status, "text/plain; charset=utf-8", PLACE),
    };
    if line.starts_with(b"HEAD ") {
        let end = reply.find("\r\n\r\n").map_or(0, |at| at + 4);
        reply.truncate(end);
    }
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    stream.write_all(reply.as_bytes())
}

/// What those are told that ask for anything else.
const PLACE: &str = "Metrics are at /metrics.\n";

/// What a client may have.
#[derive(Debug, PartialEq, Eq)]
struct Metrics;

/// Reads up to the empty line that ends a head.
///
/// # Errors
/// When the client is too slow, or says too much.
fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let end = Instant::now() + CLIENT_TIMEOUT;
    let (mut request, mut piece) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > MAX_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => request.extend_from_slice(&piece[..len]),
        }
    }
    Ok(request)
}

/// Reads the first line of a request; what is not to be had is the status that says so.
fn asked(line: &[u8]) -> Result<Metrics, &'static str> {
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split(|&byte| byte == b'?').next();
    match (method, path) {
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => Ok(Metrics),
        (Some(b"GET" | b"HEAD"), _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
    }
}

fn reply(status: &str, kind: &str, text: &str) -> String {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_had_by_get_and_head_only() {
        for (line, expected) in [
            ("GET /metrics HTTP/1.1", Ok(Metrics)),
            ("GET /metrics?a=b HTTP/1.0", Ok(Metrics)),
            ("HEAD /metrics HTTP/1.1", Ok(Metrics)),
            ("GET / HTTP/1.1", Err("404 Not Found")),
            ("GET", Err("404 Not Found")),
            ("POST /metrics HTTP/1.1", Err("405 Method Not Allowed")),
            ("", Err("405 Method Not Allowed")),
        ] {
            assert_eq!(asked(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn clients_are_answered_even_if_others_say_nothing_or_too_much() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        // It serves until the test's process ends.
        thread::spawn(move || serve(&listener, &|| "x 1\n# EOF\n".to_owned()));
        let _silent = TcpStream::connect(at).unwrap();
        let mut talks = TcpStream::connect(at).unwrap();
        let much = vec![b'x'; 2 * MAX_REQUEST];
        // It may be turned away in the middle.
        _ = talks.write_all(&much);
        let mut asks = TcpStream::connect(at).unwrap();
        asks.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        asks.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.contains(&format!("Content-Type: {CONTENT_TYPE}\r\n")),
            "{answer}"
        );
        assert!(
            answer.contains("Content-Length: 10\r\n") && answer.ends_with("\r\n\r\nx 1\n# EOF\n")
        );
        let mut rest = Vec::new();
        // Ended, or reset.
        _ = talks.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
}
