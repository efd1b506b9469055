//! Posts on an endpoint: room for them, what they need, and why they are refused.

use oxifabric_types::{Caps, Errno};

use super::Endpoint;
use crate::completion_queue::read;
use crate::kind::Kind;
use crate::raw::{Inject, Memory, PollBackoff, Post};
use crate::{Buffer, Completion, Error, Op, Payload, Peer, Refused, Threading};

impl<K: Kind, T: Threading> Endpoint<K, T> {
    /// Posts an operation, and makes room for it first if there is none: reads the endpoint's queues, hands what it reads on to
    /// `completed`, and tries again.
    ///
    /// ```
    /// use oxifabric::{Buffer, Completion, Endpoint, Error, Op, Peer};
    ///
    /// fn answer(endpoint: &Endpoint, to: Peer, answer: Buffer, kept: &mut Vec<Completion>) -> Result<Op, Error> {
    ///     let post = |endpoint: &Endpoint, answer| endpoint.send_tagged(to, 1, answer);
    ///     Ok(endpoint.post(answer, post, |completion| kept.push(completion))?)
    /// }
    /// ```
    ///
    /// The buffer goes to `post`, and again after each refusal. An operation without one takes `Buffer::new()` and ignores it:
    /// `endpoint.post(Buffer::new(), |endpoint, _| endpoint.inject(to, b"now"), completed)`.
    ///
    /// It waits as long as it takes. What `completed` gets is read by no other call: a program that drops it loses the operation's
    /// outcome and its buffer. Futures wait for room by themselves ([`AsyncEndpoint`](crate::AsyncEndpoint)): their queues are read by nothing else.
    ///
    /// # Errors
    ///
    /// The reason why `post` was refused, other than `AGAIN`; an error of a queue.
    pub fn post<R, E: Into<Refused>>(
        &self,
        buffer: impl Into<Buffer>,
        mut post: impl FnMut(&Self, Buffer) -> Result<R, E>,
        mut completed: impl FnMut(Completion),
    ) -> Result<R, Refused> {
        let mut buffer = buffer.into();
        let mut backoff = PollBackoff::default();
        loop {
            match post(self, buffer).map_err(Into::into) {
                Ok(posted) => return Ok(posted),
                Err(refused) if refused.is_again() => buffer = refused.buffer,
                Err(refused) => return Err(refused),
            }
            if let Err(error) = self.read_queues(&mut backoff, &mut completed) {
                return Err(Refused { error, buffer });
            }
        }
    }

    /// Reads one completion of each queue, and backs off before the next read if there is none.
    fn read_queues(
        &self,
        backoff: &mut PollBackoff,
        completed: &mut impl FnMut(Completion),
    ) -> Result<(), Error> {
        let (tx, rx) = self.object.queues();
        let other = (!core::ptr::eq(tx, rx)).then_some(rx);
        let mut found = false;
        for queue in core::iter::once(tx).chain(other) {
            if let Some(completion) = read(queue, None).map_err(Error::call("fi_cq_read"))? {
                completed(completion);
                found = true;
            }
        }
        if found {
            *backoff = PollBackoff::default();
        } else {
            backoff.wait(&[tx, rx]);
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn submit(
        &self,
        call: &'static str,
        payload: impl Into<Payload<T>>,
        peer: Option<Peer>,
        post: Post<'_>,
    ) -> Result<Op, Refused> {
        let memory = payload.into().into_memory();
        let needs = post.needs(peer.is_some());
        if !self.caps.contains(needs) {
            return Err(refused_by(self.lacks(call, needs), memory));
        }
        match self.object.post(memory, peer, post) {
            Ok(op) => Ok(op),
            Err((errno, memory)) => {
                let error = self.refusal(call, errno, peer, &memory);
                Err(refused_by(error, memory))
            }
        }
    }

    /// Returns the error of an operation whose capabilities the endpoint was opened without.
    #[cold]
    pub(crate) fn lacks(&self, call: &'static str, needs: Caps) -> Error {
        let missing: Vec<String> = needs
            .difference(self.caps)
            .iter_names()
            .map(|(name, _)| format!("FI_{name}"))
            .collect();
        let missing = missing.join(" and ");
        let cause =
            format!("the endpoint was opened without {missing}; ask for it in `Hints::caps`");
        Error::unmet(call, Errno::OPNOTSUPP, cause)
    }

    /// Returns the error of a refused post.
    #[cold]
    pub(crate) fn refusal(
        &self,
        call: &'static str,
        errno: Errno,
        peer: Option<Peer>,
        memory: &Memory,
    ) -> Error {
        let most = self.info.max_message_size();
        match errno {
            Errno::INVAL => match self.object.obstacle(peer, memory) {
                Some(obstacle) => Error::unmet(call, errno, obstacle),
                None => Error::Call { call, errno },
            },
            Errno::MSGSIZE if memory.len() > most => {
                let cause = format!(
                    "{} bytes, and `Info::max_message_size` is {most}; send it in parts",
                    memory.len()
                );
                Error::unmet(call, errno, cause)
            }
            _ => Error::Call { call, errno },
        }
    }

    #[inline]
    pub(super) fn inject_bytes(
        &self,
        bytes: &[u8],
        peer: Option<Peer>,
        inject: Inject,
    ) -> Result<(), Error> {
        let needs = inject.needs();
        if !self.caps.contains(needs) {
            return Err(self.lacks(inject.call(), needs));
        }
        // Some providers do not check the length.
        if bytes.len() > self.info.inject_size() {
            return Err(self.too_long_to_inject(bytes.len(), inject));
        }
        self.object
            .inject(bytes, peer, inject)
            .map_err(|errno| self.refusal(inject.call(), errno, peer, &Memory::EMPTY))
    }

    #[cold]
    fn too_long_to_inject(&self, len: usize, inject: Inject) -> Error {
        let instead = match inject {
            Inject::Message { tag: None, .. } => "send",
            Inject::Message { tag: Some(_), .. } => "send_tagged",
            Inject::Write { .. } => "write",
        };
        let most = self.info.inject_size();
        let cause = format!(
            "{len} bytes, and `Info::inject_size` is {most}; use `{instead}`, or ask for more by `Hints::inject_size`"
        );
        Error::unmet(inject.call(), Errno::MSGSIZE, cause)
    }
}

#[cold]
pub(super) fn refused_by(error: Error, memory: Memory) -> Refused {
    Refused {
        error,
        buffer: memory.into_buffer(),
    }
}
