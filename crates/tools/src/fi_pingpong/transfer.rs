//! Sending and receiving one message at a time, with one receive always posted.

use std::io;
use std::time::{Duration, Instant};

use oxifabric::{
    Address, AddressVector, Buffer, Caps, Completion, CompletionQueue, Domain, Endpoint, Error,
    Fabric, Info, Level, Op, Operation, Peer, Refused, SendOptions,
};

use super::control::Control;
use super::options::{Options, Sizes};
use super::{Trouble, sizes};

/// An endpoint, its peer, and the control connection.
pub(super) struct Transfer {
    endpoint: Endpoint,
    queue: CompletionQueue,
    peers: AddressVector,
    to: Option<Peer>,
    control: Control,
    tag: Option<u64>,
    /// The buffer for sends, while none is under way.
    idle: Option<Buffer>,
    /// A message that arrived and was not taken yet.
    arrived: Option<Buffer>,
    /// Length of the receive buffer: enough for every size.
    room: usize,
    empty_polls: u32,
    closed_since: Option<Instant>,
}

/// The tag of all messages in tagged mode.
const TAG: u64 = 1234;
/// The least length of a receive buffer.
const LEAST_ROOM: usize = 64;
/// Polls between two looks at the control connection.
const POLLS_PER_LOOK: u32 = 1 << 16;
/// How long messages may still come after the other side closed the control connection.
const GRACE: Duration = Duration::from_secs(5);

impl Transfer {
    /// Opens an endpoint and posts its first receive.
    pub(super) fn open(options: &Options, info: &Info, control: Control) -> Result<Self, Trouble> {
        let fabric = Fabric::open(info)?;
        let domain = Domain::open(&fabric, info)?;
        let peers = AddressVector::open(&domain)?;
        let queue = CompletionQueue::polled(&domain, info.tx_size() + info.rx_size())?;
        let builder = Endpoint::builder(&domain).address_vector(&peers);
        let endpoint = builder.queue(&queue).enable()?;
        let longest = match options.sizes {
            Some(Sizes::One(size)) => size,
            _ => sizes::LONGEST,
        };
        let room = longest.min(info.max_message_size()).max(LEAST_ROOM);
        let mut transfer = Self {
            endpoint,
            queue,
            peers,
            to: None,
            control,
            tag: info.caps().contains(Caps::TAGGED).then_some(TAG),
            idle: Some(Buffer::zeroed(room)),
            arrived: None,
            room,
            empty_polls: 0,
            closed_since: None,
        };
        transfer.post_receive(Buffer::zeroed(room))?;
        Ok(transfer)
    }

    /// Returns the longest message that can be measured.
    pub(super) fn longest(&self) -> usize {
        self.room.min(self.endpoint.info().max_message_size())
    }

    pub(super) fn tell_address(&mut self) -> Result<(), Trouble> {
        let address = self.endpoint.address()?;
        Ok(self.control.send_address(&address)?)
    }

    pub(super) fn read_address(&mut self) -> Result<Address, Trouble> {
        self.with_control(|control, meanwhile| control.read_address_with(meanwhile))
    }

    pub(super) fn meet(&mut self, address: &Address) -> Result<(), Trouble> {
        self.to = Some(self.peers.insert(address)?);
        Ok(())
    }

    pub(super) fn sync(&mut self, client: bool) -> Result<(), Trouble> {
        self.with_control(|control, meanwhile| control.sync(client, meanwhile))
    }

    pub(super) fn agree_on_count(&mut self, client: bool, count: u64) -> Result<u64, Trouble> {
        self.with_control(|control, meanwhile| control.agree_on_count(client, count, meanwhile))
    }

    /// Sends a message that `fill` writes, and waits until its buffer is free again.
    pub(super) fn send(
        &mut self,
        size: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Trouble> {
        let mut buffer = self.take_idle(size)?;
        fill(&mut buffer);
        let (to, tag) = (self.peer()?, self.tag);
        if size >= self.endpoint.info().inject_size() {
            self.post(buffer, |endpoint, buffer| match tag {
                None => endpoint.send(to, buffer),
                Some(tag) => endpoint.send_tagged(to, tag, buffer),
            })?;
            return self.wait_for_idle();
        }
        loop {
            let injected = match tag {
                None => self.endpoint.inject(to, &buffer),
                Some(tag) => self.endpoint.inject_tagged(to, tag, &buffer),
            };
            match injected {
                Err(error) if error.is_again() => self.poll()?,
                other => {
                    self.idle = Some(buffer);
                    return Ok(other?);
                }
            }
        }
    }

    /// Sends the last message, and waits until it no longer depends on this side.
    pub(super) fn send_last(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let mut buffer = self.take_idle(bytes.len())?;
        buffer.copy_from_slice(bytes);
        let (to, tag) = (self.peer()?, self.tag);
        let mut options = SendOptions::new().level(Level::Transmit);
        options.tag = tag;
        self.post(buffer, |endpoint, buffer| {
            endpoint.send_with(to, buffer, options)
        })?;
        self.wait_for_idle()
    }

    /// Waits for a message, lets `look` see it, and posts its buffer for the next.
    pub(super) fn receive<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<T, Trouble> {
        loop {
            if let Some(mut buffer) = self.arrived.take() {
                let seen = look(&buffer);
                buffer.resize(self.room);
                self.post_receive(buffer)?;
                return Ok(seen);
            }
            self.poll()?;
        }
    }

    /// Waits for the last message.
    pub(super) fn receive_last(&mut self) -> Result<Buffer, Trouble> {
        loop {
            if let Some(buffer) = self.arrived.take() {
                return Ok(buffer);
            }
            self.poll()?;
        }
    }

    fn post_receive(&mut self, buffer: Buffer) -> Result<(), Trouble> {
        let tag = self.tag;
        self.post(buffer, |endpoint, buffer| match tag {
            None => endpoint.receive(buffer),
            Some(tag) => endpoint.receive_tagged(tag, 0, buffer),
        })
    }

    fn post(
        &mut self,
        mut buffer: Buffer,
        post: impl Fn(&Endpoint, Buffer) -> Result<Op, Refused>,
    ) -> Result<(), Trouble> {
        loop {
            match post(&self.endpoint, buffer) {
                Ok(_) => return Ok(()),
                Err(refused) if refused.is_again() => buffer = refused.buffer,
                Err(refused) => return Err(Error::from(refused).into()),
            }
            self.poll()?;
        }
    }

    fn peer(&self) -> Result<Peer, Trouble> {
        let missing = || Trouble::Missing("no peer is known yet".to_owned());
        self.to.ok_or_else(missing)
    }

    fn take_idle(&mut self, size: usize) -> Result<Buffer, Trouble> {
        self.wait_for_idle()?;
        let mut buffer = self.idle.take().unwrap_or_default();
        buffer.resize(size);
        Ok(buffer)
    }

    fn wait_for_idle(&mut self) -> Result<(), Trouble> {
        while self.idle.is_none() {
            self.poll()?;
        }
        Ok(())
    }

    /// Reads the control connection, and drives the endpoint meanwhile.
    fn with_control<T>(
        &mut self,
        talk: impl FnOnce(&mut Control, super::control::Meanwhile<'_>) -> io::Result<T>,
    ) -> Result<T, Trouble> {
        let Self {
            queue,
            control,
            idle,
            arrived,
            ..
        } = self;
        let mut trouble = None;
        let talked = talk(control, &mut || match queue
            .poll()
            .and_then(|read| sort(read, idle, arrived))
        {
            Ok(_) => Ok(()),
            Err(error) => {
                let text = error.to_string();
                trouble = Some(error);
                Err(io::Error::other(text))
            }
        });
        match trouble {
            Some(error) => Err(error.into()),
            None => Ok(talked?),
        }
    }

    fn poll(&mut self) -> Result<(), Trouble> {
        let read = self.queue.poll()?;
        if sort(read, &mut self.idle, &mut self.arrived)? {
            self.empty_polls = 0;
            return Ok(());
        }
        self.empty_polls += 1;
        if self.empty_polls >= POLLS_PER_LOOK {
            self.empty_polls = 0;
            self.look_for_end()?;
        }
        Ok(())
    }

    /// Fails when the other side ended some time ago.
    fn look_for_end(&mut self) -> Result<(), Trouble> {
        if !self.control.is_closed() {
            return Ok(());
        }
        let since = *self.closed_since.get_or_insert_with(Instant::now);
        if since.elapsed() < GRACE {
            return Ok(());
        }
        let gone = io::ErrorKind::ConnectionAborted;
        Err(io::Error::new(gone, "the other side ended before the last message").into())
    }
}

/// Keeps the buffer of a completion, as the arrived message or the idle send buffer; returns whether there was a completion.
fn sort(
    read: Option<Completion>,
    idle: &mut Option<Buffer>,
    arrived: &mut Option<Buffer>,
) -> Result<bool, Error> {
    let Some(Completion {
        buffer, outcome, ..
    }) = read
    else {
        return Ok(false);
    };
    match outcome?.operation {
        Operation::Receive => *arrived = Some(buffer),
        _ => *idle = Some(buffer),
    }
    Ok(true)
}
