//! Descriptors from which the library reads events: of completion queues, and of what happens to the device.

use std::io::{self, Read, Write};
use std::os::fd::{IntoRawFd, RawFd};

/// A pipe of records of one length. The application has the end to read from.
#[derive(Debug)]
pub(crate) struct EventPipe<const N: usize> {
    /// A descriptor of the application's end, to take back what concerns an object that is destroyed.
    reader: io::PipeReader,
    writer: io::PipeWriter,
    /// The number of the application's descriptor.
    pub(crate) fd: RawFd,
}

/// Records of struct ib_uverbs_comp_event_desc: the queue's handle.
pub(crate) type CompletionEvents = EventPipe<8>;
/// Records of struct ib_uverbs_async_event_desc: the object's handle, and what happened to it.
pub(crate) type AsyncEvents = EventPipe<16>;

impl<const N: usize> EventPipe<N> {
    /// Makes a pipe.
    ///
    /// # Errors
    /// Those of pipe2(2) and fcntl(2).
    pub(crate) fn create() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let theirs = reader.try_clone()?;
        Ok(Self {
            reader,
            writer,
            fd: theirs.into_raw_fd(),
        })
    }

    /// Adds a record. Where more are waiting than a pipe takes, this is one too many, and is dropped.
    pub(crate) fn post(&mut self, record: [u8; N]) -> bool {
        if self.waiting() + N > 32 << 10 {
            return false;
        }
        self.writer.write_all(&record).is_ok()
    }

    /// Removes the records of an object that the application has not read, and returns how many.
    pub(crate) fn withdraw(&mut self, handle: u64) -> u32 {
        let mut removed = 0;
        for _ in 0..self.waiting() / N {
            let mut record = [0; N];
            if self.waiting() < N || self.reader.read_exact(&mut record).is_err() {
                break;
            }
            if record[..8] == handle.to_ne_bytes() {
                removed += 1;
            } else {
                self.post(record);
            }
        }
        removed
    }

    /// Returns how many bytes the application has not read.
    fn waiting(&self) -> usize {
        crate::memory::readable(&self.reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_one_object_are_taken_back() {
        let mut pipe = CompletionEvents::create().expect("a pipe");
        for handle in [1_u64, 2, 1, 3] {
            assert!(pipe.post(handle.to_ne_bytes()));
        }
        assert_eq!(pipe.withdraw(1), 2);
        assert_eq!(pipe.withdraw(1), 0);
        let mut left = [0; 16];
        pipe.reader.read_exact(&mut left).expect("two records");
        assert_eq!(left[..8], 2_u64.to_ne_bytes());
    }

    #[test]
    fn a_pipe_that_is_not_read_does_not_block() {
        let mut pipe = AsyncEvents::create().expect("a pipe");
        let taken = (0..10_000).take_while(|_| pipe.post([0; 16])).count();
        assert_eq!(taken, (32 << 10) / 16);
    }
}
