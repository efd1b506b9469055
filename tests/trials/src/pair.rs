//! A server and its client, the shape of nearly every libfabric test program.

use std::time::Duration;

use crate::process::{End, Outcome, Process, Program};

/// How long one side may go on once the other has failed.
const GRACE: Duration = Duration::from_secs(5);

/// A server and a client that exchange messages.
#[derive(Debug)]
pub struct Pair {
    /// Started first.
    pub server: Program,
    /// Started when the server is ready.
    pub client: Program,
    /// Whether the process of this number, the server, can be found by its client.
    pub is_ready: fn(u32) -> bool,
}

impl Pair {
    /// Runs both to their ends.
    #[must_use]
    pub fn run(self) -> Both {
        let mut server = self.server.start();
        if let Err(end) = server.until(|server| (self.is_ready)(server.id())) {
            let server = server.outcome(end);
            return Both {
                server,
                client: None,
            };
        }
        let client = self.client.start();
        let (server, client) = wait_both(server, client);
        Both {
            server,
            client: Some(client),
        }
    }
}

/// The outcomes of both.
#[derive(Debug)]
pub struct Both {
    /// The server.
    pub server: Outcome,
    /// The client, unless the server failed before it was started.
    pub client: Option<Outcome>,
}

impl Both {
    /// Returns whether both ended well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.server.is_success() && self.client.as_ref().is_some_and(Outcome::is_success)
    }

    /// Fails the trial unless both ended well, and returns the client.
    ///
    /// # Panics
    /// One of them did not.
    #[track_caller]
    pub fn expect_success(&self) -> &Outcome {
        assert!(self.is_success(), "{self}");
        self.server.expect_clean_load();
        self.client
            .as_ref()
            .expect("a client that ended well was started")
            .expect_clean_load()
    }
}

impl std::fmt::Display for Both {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "server\n{}", self.server)?;
        match &self.client {
            Some(client) => writeln!(f, "client\n{client}"),
            None => writeln!(f, "the client was not started"),
        }
    }
}

/// Waits for both; once one has failed, the other gets a short time to notice.
#[must_use]
pub fn wait_both(mut one: Process, mut other: Process) -> (Outcome, Outcome) {
    // The time limits of the processes themselves bound this loop.
    let first = one.until(|_| other.ended().is_some());
    if first.is_err() {
        if first != Err(End::Code(0)) {
            other.hurry(GRACE);
        }
    } else if other.ended() != Some(End::Code(0)) {
        one.hurry(GRACE);
    }
    (one.wait(), other.wait())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port;

    fn shell(script: &str) -> Program {
        Program::new("sh").args(["-c", script])
    }

    #[test]
    fn a_failed_client_takes_its_server_along() {
        let pair = Pair {
            server: shell("sleep 1000"),
            client: shell("exit 3"),
            is_ready: |_| true,
        };
        let both = pair.run();
        assert!(!both.is_success());
        assert_eq!(both.server.end, End::TimedOut);
    }

    #[test]
    fn a_server_that_never_listens_fails_the_pair() {
        let pair = Pair {
            server: shell("exit 1"),
            client: shell("exit 0"),
            is_ready: port::is_listening,
        };
        let both = pair.run();
        assert!(both.client.is_none() && !both.is_success());
    }
}
