//! Hash index of many waiting messages, by tag and by source.

use crate::index::{Index, Indexed, hash};
use crate::list::{Linked, Links, List};
use crate::matching::{Class, Pattern};
use crate::message::Message;
use crate::slab::{Key, Slab};
use oxifabric_types::PeerId;

/// The purpose of chains of messages with one tag.
#[derive(Clone, Copy, Debug)]
struct ByTag;

/// The purpose of chains of messages from one peer.
#[derive(Clone, Copy, Debug)]
struct BySource;

/// The waiting messages, indexed.
#[derive(Debug)]
pub(super) struct WaitingIndex {
    by_tag: Index<ByTag>,
    by_source: Index<BySource>,
}

impl WaitingIndex {
    /// Indexes the messages of some lists, each in its order.
    pub(super) fn of(messages: &mut Slab<Message>, lists: &[List]) -> Self {
        let mut waiting_index = Self {
            by_tag: Index::new(),
            by_source: Index::new(),
        };
        for list in lists {
            list.visit(messages, |messages, key| waiting_index.push(messages, key));
        }
        waiting_index
    }

    /// Adds a message behind all others.
    pub(super) fn push(&mut self, messages: &mut Slab<Message>, key: Key) {
        self.by_tag.push(messages, key);
        self.by_source.push(messages, key);
    }

    /// Takes a message out; returns whether none is left.
    pub(super) fn unlink(&mut self, messages: &mut Slab<Message>, key: Key) -> bool {
        self.by_tag.unlink(messages, key);
        self.by_source.unlink(messages, key);
        self.by_tag.len() == 0
    }

    /// Finds the first message that a receive takes; `order` has all of its class in order.
    ///
    /// Of the chains that hold all messages that may fit, the shorter one is walked.
    pub(super) fn first(
        &self,
        messages: &Slab<Message>,
        order: &List,
        pattern: &Pattern,
    ) -> Option<Key> {
        let class = pattern.class;
        let tag = pattern.is_exact().then(|| {
            let tag = tag_hash(class, pattern.tag());
            self.by_tag.chain(tag)
        });
        let source = (pattern.source() != PeerId::ANY).then(|| {
            let source = source_hash(class, pattern.source());
            self.by_source.chain(source)
        });
        let fits =
            |message: &Message| message.arrival.class == class && pattern.accepts(&message.arrival);
        match (tag, source) {
            (Some(tag), Some(source)) if source.len() < tag.len() => first(source, messages, fits),
            (Some(tag), _) => first(tag, messages, fits),
            (None, Some(source)) => first(source, messages, fits),
            (None, None) => first(order, messages, fits),
        }
    }
}

fn first<By>(
    chain: &List<By>,
    messages: &Slab<Message>,
    fits: impl Fn(&Message) -> bool,
) -> Option<Key>
where
    Message: Linked<By>,
{
    let mut chain = chain.iter(messages);
    chain.find(|(_, message)| fits(message)).map(|(key, _)| key)
}

fn tag_hash(class: Class, tag: u64) -> u64 {
    hash(tag, class as u64)
}

fn source_hash(class: Class, source: PeerId) -> u64 {
    hash(u64::from(source.0), class as u64)
}

impl Linked<ByTag> for Message {
    fn links(&self) -> &Links {
        &self.index_links.tag
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.index_links.tag
    }
}

impl Indexed<ByTag> for Message {
    fn hash(&self) -> u64 {
        tag_hash(self.arrival.class, self.arrival.tag)
    }
}

impl Linked<BySource> for Message {
    fn links(&self) -> &Links {
        &self.index_links.source
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.index_links.source
    }
}

impl Indexed<BySource> for Message {
    fn hash(&self) -> u64 {
        source_hash(self.arrival.class, self.arrival.from)
    }
}
