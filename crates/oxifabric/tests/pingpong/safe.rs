//! The ping-pong through the safe interface.

use oxifabric::{
    Address, AddressVector, Backend, Buffer, Caps, CompletionQueue, Domain, Endpoint, Error,
    Fabric, Hints, Operation, Peer, Rdm,
};

use super::{Done, Side, TAG};

pub(crate) struct Safe {
    endpoint: Endpoint,
    queue: CompletionQueue,
    peers: AddressVector,
    peer: Option<Peer>,
    out: Option<Buffer>,
    into: Option<Buffer>,
}

impl Safe {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<Done>, Error> {
        let Some(completion) = self.queue.poll()? else {
            return Ok(None);
        };
        let (buffer, transfer) = completion.ok()?;
        Ok(Some(match transfer.operation {
            Operation::Receive => {
                self.into = Some(buffer);
                Done::Received
            }
            _ => {
                self.out = Some(buffer);
                Done::Sent
            }
        }))
    }
}

impl Side for Safe {
    fn open(provider: &str) -> Self {
        let hints = Hints::new().caps(Caps::TAGGED).provider(provider);
        let info = hints.best(Backend::builtin()).unwrap();
        let fabric = Fabric::open(&info).unwrap();
        let domain = Domain::open(&fabric, &info).unwrap();
        let peers = AddressVector::open(&domain).unwrap();
        let queue = CompletionQueue::polled(&domain, 64).unwrap();
        let builder = Endpoint::<Rdm>::builder(&domain).address_vector(&peers);
        Self {
            endpoint: builder.queue(&queue).enable().unwrap(),
            queue,
            peers,
            peer: None,
            out: Some(Buffer::from(b"8 bytes!")),
            into: Some(Buffer::zeroed(8)),
        }
    }

    fn address(&self) -> Vec<u8> {
        self.endpoint.address().unwrap().bytes().to_vec()
    }

    fn set_peer(&mut self, address: &[u8]) {
        let format = self.endpoint.address().unwrap().format();
        let peer = self.peers.insert(&Address::new(format, address));
        self.peer = Some(peer.unwrap());
    }

    #[inline(always)]
    fn post_receive(&mut self) {
        let into = self.into.take().unwrap();
        self.endpoint.receive_tagged(TAG, 0, into).unwrap();
    }

    #[inline(always)]
    fn send(&mut self, mark: u8) -> bool {
        let mut out = self.out.take().unwrap();
        out[0] = mark;
        match self.endpoint.send_tagged(self.peer.unwrap(), TAG, out) {
            Ok(_) => true,
            Err(refused) => {
                assert!(refused.is_again(), "{refused}");
                self.out = Some(refused.buffer);
                false
            }
        }
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<Done> {
        self.next().unwrap()
    }

    #[inline(always)]
    fn received(&self) -> u8 {
        self.into.as_ref().unwrap()[0]
    }
}
