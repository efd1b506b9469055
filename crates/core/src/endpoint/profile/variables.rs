//! Which variables a profile has, and their values at one moment.

use core::ffi::CStr;
use core::ptr::null_mut;

use oxifabric_abi::{
    FI_TYPE_CQ_ERR_ENTRY, FI_UINT64, FI_VAR_CONN_ACCEPT, FI_VAR_CONN_REJECT, FI_VAR_CONN_REQUEST,
    FI_VAR_CONNECTION_CNT, FI_VAR_MSG_QUEUE_CNT, FI_VAR_UNEXP_MSG_CNT, FI_VAR_UNEXP_MSG_QUEUE,
    fi_cq_err_entry, fi_defined_type, fi_primitive_type, fi_profile_datatype, fi_profile_desc,
};
use oxifabric_engine::{Completion, Engine, Waiting};
use oxifabric_provider::device::{Connections, Device};
use oxifabric_provider::operations::Operations;
use oxifabric_types::Errno;

use super::super::state::EndpointState;

/// All variables; those of connections are last.
const ALL: [fi_profile_desc; 7] = [
    number(
        FI_VAR_UNEXP_MSG_CNT,
        c"FI_VAR_UNEXP_MSG_CNT",
        c"Messages that no receive was posted for yet",
    ),
    messages(
        FI_VAR_UNEXP_MSG_QUEUE,
        c"FI_VAR_UNEXP_MSG_QUEUE",
        c"What those messages are: an entry each, by kind and then in order of arrival",
    ),
    number(
        FI_VAR_MSG_QUEUE_CNT,
        c"FI_VAR_MSG_QUEUE_CNT",
        c"Message queues made: all peers of an enabled endpoint share one",
    ),
    number(
        FI_VAR_CONNECTION_CNT,
        c"FI_VAR_CONNECTION_CNT",
        c"Connections that came into use",
    ),
    number(
        FI_VAR_CONN_REQUEST,
        c"FI_VAR_CONN_REQUEST",
        c"Requests for a connection that were sent",
    ),
    number(
        FI_VAR_CONN_ACCEPT,
        c"FI_VAR_CONN_ACCEPT",
        c"Requests of peers that were accepted",
    ),
    number(
        FI_VAR_CONN_REJECT,
        c"FI_VAR_CONN_REJECT",
        c"Requests of peers that were refused",
    ),
];

/// How many of them there are without connections.
const WITHOUT_CONNECTIONS: usize = 3;

/// Lists the variables of endpoints over a kind of device.
pub(super) const fn variables<D: Device>() -> &'static [fi_profile_desc] {
    const { &ALL }
        .split_at(if D::COUNTS_CONNECTIONS {
            ALL.len()
        } else {
            WITHOUT_CONNECTIONS
        })
        .0
}

const fn number(id: u32, name: &'static CStr, desc: &'static CStr) -> fi_profile_desc {
    fi_profile_desc {
        id,
        datatype_sel: fi_primitive_type,
        datatype: fi_profile_datatype {
            primitive: FI_UINT64,
        },
        flags: 0,
        size: size_of::<u64>(),
        name: name.as_ptr(),
        desc: desc.as_ptr(),
    }
}

/// Describes values as entries of messages.
pub(super) const fn messages(id: u32, name: &'static CStr, desc: &'static CStr) -> fi_profile_desc {
    fi_profile_desc {
        datatype_sel: fi_defined_type,
        datatype: fi_profile_datatype {
            defined: FI_TYPE_CQ_ERR_ENTRY,
        },
        size: size_of::<fi_cq_err_entry>(),
        ..number(id, name, desc)
    }
}

/// The values of all variables at one moment.
#[derive(Debug)]
pub(super) struct Values {
    waiting: u64,
    queue: Vec<fi_cq_err_entry>,
    queues: u64,
    connections: Connections,
}

/// The value of one variable.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    Messages(&'a [fi_cq_err_entry]),
}

impl Values {
    /// Reads them off an endpoint; connections count from `since` on. The messages are listed only on demand.
    pub(super) fn of<D: Device>(
        state: &mut EndpointState<D>,
        listed: bool,
        since: &Connections,
    ) -> Self {
        let messages: Vec<Waiting> = match listed {
            true => state
                .operations
                .engine()
                .map(|engine| engine.waiting().collect())
                .unwrap_or_default(),
            false => Vec::new(),
        };
        let queue = messages.iter().map(|message| {
            let source = state.out.name_or_none(&completion(message));
            entry(message, source.0)
        });
        Self {
            queue: queue.collect(),
            waiting: state.operations.engine().map_or(0, Engine::unexpected) as u64,
            queues: u64::from(state.enabled),
            connections: state.device.connections().since(since),
        }
    }

    /// Returns the value of a variable.
    ///
    /// # Errors
    /// `INVAL` for one that does not exist.
    pub(super) fn get(&self, id: u32) -> Result<Value<'_>, Errno> {
        let connections = &self.connections;
        Ok(Value::Number(match id {
            FI_VAR_UNEXP_MSG_QUEUE => return Ok(Value::Messages(&self.queue)),
            FI_VAR_UNEXP_MSG_CNT => self.waiting,
            FI_VAR_MSG_QUEUE_CNT => self.queues,
            FI_VAR_CONNECTION_CNT => connections.established,
            FI_VAR_CONN_REQUEST => connections.requested,
            FI_VAR_CONN_ACCEPT => connections.accepted,
            FI_VAR_CONN_REJECT => connections.rejected,
            _ => return Err(Errno::INVAL),
        }))
    }
}

/// Returns what a message that waits will be reported as, but for the receive.
pub(super) fn completion(message: &Waiting) -> Completion {
    Completion {
        context: 0,
        flags: message.flags,
        len: message.len as u64,
        buf: 0,
        data: message.data,
        tag: message.tag,
        from: message.from,
        wanted: false,
    }
}

/// Describes a message as fi_profile(3) asks, with what its source is called.
pub(super) fn entry(message: &Waiting, source: u64) -> fi_cq_err_entry {
    fi_cq_err_entry {
        op_context: null_mut(),
        flags: message.flags.bits(),
        len: message.len,
        buf: null_mut(),
        data: message.data,
        tag: message.tag,
        olen: 0,
        err: 0,
        prov_errno: 0,
        err_data: null_mut(),
        err_data_size: 0,
        src_addr: source,
    }
}
