//! A link in one direction, with the finite queue in front of it.

/// Speed, delay and queue of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Time that a byte takes to leave, in nanoseconds.
    pub(crate) ns_per_byte: f64,
    /// Propagation delay, in nanoseconds.
    pub(crate) latency_ns: u64,
    /// Maximum number of bytes that wait.
    pub(crate) queue_bytes: f64,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pipe {
    /// When all that waits has left.
    free_at: u64,
}

impl Pipe {
    /// Sends bytes at `now`; returns when they arrive, or `None` when the queue is full.
    pub(crate) fn pass(&mut self, now: u64, bytes: usize, speed: &Speed) -> Option<u64> {
        let waits_ns = self.free_at.saturating_sub(now);
        let waiting = waits_ns as f64 / speed.ns_per_byte;
        // A packet that finds none waiting leaves, however long it is.
        if waits_ns > 0 && waiting + bytes as f64 > speed.queue_bytes {
            return None;
        }
        let takes = (bytes as f64 * speed.ns_per_byte).ceil() as u64;
        self.free_at = now.max(self.free_at) + takes;
        Some(self.free_at + speed.latency_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: Speed = Speed {
        ns_per_byte: 2.0,
        latency_ns: 100,
        queue_bytes: 250.0,
    };

    #[test]
    fn packets_leave_one_after_the_other() {
        let mut pipe = Pipe::default();
        assert_eq!(pipe.pass(1000, 100, &SPEED), Some(1300));
        assert_eq!(pipe.pass(1000, 100, &SPEED), Some(1500));
        assert_eq!(
            pipe.pass(5000, 10, &SPEED),
            Some(5120),
            "the queue has drained"
        );
    }

    #[test]
    fn what_finds_the_queue_full_is_lost() {
        let mut pipe = Pipe::default();
        assert!(pipe.pass(0, 1000, &SPEED).is_some(), "no packet waits");
        assert_eq!(pipe.pass(1500, 1, &SPEED), None);
        assert!(pipe.pass(1600, 50, &SPEED).is_some(), "200 bytes wait");
        assert_eq!(pipe.pass(1600, 1, &SPEED), None);
    }
}
