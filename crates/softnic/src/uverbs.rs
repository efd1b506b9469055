//! The commands that libibverbs writes to a device file: `rdma/ib_user_verbs.h`, with the driver's data of `rdma/efa-abi.h` behind.

use std::ffi::c_int;

use self::bytes::Reader;
pub(crate) use self::bytes::Writer;

mod bytes;

/// A command, with where its answer belongs.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) reply: Reply,
}

/// Where the answer to a command belongs, and how much of it is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) addr: u64,
    pub(crate) core_len: usize,
    /// What the driver's answer may have behind that; commands of the first kind count both together.
    pub(crate) driver_len: Option<usize>,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    GetContext,
    QueryDevice {
        is_extended: bool,
    },
    QueryPort {
        port: u8,
    },
    AllocPd,
    DeallocPd {
        pd: u32,
    },
    CreateAh {
        pd: u32,
        gid: [u8; 16],
        is_global: bool,
    },
    DestroyAh {
        ah: u32,
    },
    RegMr(RegMr),
    DeregMr {
        mr: u32,
    },
    CreateChannel,
    CreateCq(CreateCq),
    DestroyCq {
        cq: u32,
    },
    CreateQp(CreateQp),
    ModifyQp(ModifyQp),
    QueryQp {
        qp: u32,
    },
    DestroyQp {
        qp: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RegMr {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) iova: u64,
    pub(crate) pd: u32,
    pub(crate) access: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateCq {
    pub(crate) user_handle: u64,
    pub(crate) entries: u32,
    pub(crate) vector: u32,
    pub(crate) channel: c_int,
    pub(crate) entry_len: u32,
    pub(crate) sub_queues: u16,
    pub(crate) flags: u8,
    pub(crate) is_extended: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateQp {
    pub(crate) pd: u32,
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    pub(crate) send_wr: u32,
    pub(crate) recv_wr: u32,
    pub(crate) send_sge: u32,
    pub(crate) recv_sge: u32,
    pub(crate) inline: u32,
    pub(crate) sq_sig_all: u8,
    pub(crate) qp_type: u8,
    pub(crate) has_srq: bool,
    pub(crate) recv_ring_len: u32,
    pub(crate) send_ring_len: u32,
    pub(crate) driver_type: u32,
    pub(crate) flags: u16,
    pub(crate) is_extended: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ModifyQp {
    pub(crate) qp: u32,
    pub(crate) mask: u32,
    pub(crate) qkey: u32,
    pub(crate) sq_psn: u32,
    pub(crate) pkey_index: u16,
    pub(crate) state: u8,
    pub(crate) current_state: u8,
    pub(crate) port: u8,
    pub(crate) rnr_retry: u8,
}

/// Set in the number of a command whose answer's place is in a second header.
const EXTENDED: u32 = 0x8000_0000;
const HEADER_LEN: usize = 8;
const EXTENDED_HEADER_LEN: usize = 24;

/// Reads a command.
///
/// # Errors
/// `EINVAL` if it is cut off or says so of itself, `EOPNOTSUPP` for one that the device does not have.
pub(crate) fn parse(bytes: &[u8]) -> Result<Request, c_int> {
    let mut reader = Reader(bytes);
    let number = reader.u32()?;
    let in_words = usize::from(reader.u16()?);
    let out_words = usize::from(reader.u16()?);
    let is_extended = number & EXTENDED != 0;
    let mut reply = Reply {
        addr: 0,
        core_len: out_words * 4,
        driver_len: None,
    };
    let said = if is_extended {
        reply.addr = reader.u64()?;
        let driver_in = usize::from(reader.u16()?);
        reply.core_len = out_words * 8;
        reply.driver_len = Some(usize::from(reader.u16()?) * 8);
        reader.skip(4)?;
        EXTENDED_HEADER_LEN + (in_words + driver_in) * 8
    } else {
        in_words * 4
    };
    if said != bytes.len() || bytes.len() < HEADER_LEN {
        return Err(libc::EINVAL);
    }
    let number = number & 0xff;
    // The commands that have no answer do not begin with its place.
    let has_answer = !matches!(number, 4 | 8 | 13 | 26);
    if !is_extended && has_answer {
        reply.addr = reader.u64()?;
    }
    let command = body(number, is_extended, in_words, &mut reader)?;
    Ok(Request { command, reply })
}

fn body(
    number: u32,
    is_extended: bool,
    in_words: usize,
    reader: &mut Reader<'_>,
) -> Result<Command, c_int> {
    // Of the commands with a second header, only those are known.
    if is_extended && !matches!(number, 1 | 18 | 24 | 26) {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(match number {
        0 => Command::GetContext,
        1 => Command::QueryDevice { is_extended },
        2 => Command::QueryPort { port: reader.u8()? },
        3 => Command::AllocPd,
        4 => Command::DeallocPd { pd: reader.u32()? },
        5 => create_ah(reader)?,
        8 => Command::DestroyAh { ah: reader.u32()? },
        9 => Command::RegMr(RegMr {
            start: reader.u64()?,
            len: reader.u64()?,
            iova: reader.u64()?,
            pd: reader.u32()?,
            access: reader.u32()?,
        }),
        13 => Command::DeregMr { mr: reader.u32()? },
        17 => Command::CreateChannel,
        18 => create_cq(is_extended, reader)?,
        20 => Command::DestroyCq { cq: reader.u32()? },
        24 => create_qp(is_extended, in_words, reader)?,
        25 => Command::QueryQp { qp: reader.u32()? },
        26 => modify_qp(reader)?,
        27 => Command::DestroyQp { qp: reader.u32()? },
        _ => return Err(libc::EOPNOTSUPP),
    })
}

fn create_ah(reader: &mut Reader<'_>) -> Result<Command, c_int> {
    reader.skip(8)?;
    let pd = reader.u32()?;
    reader.skip(4)?;
    let gid = reader.bytes()?;
    // Flow label, index, hops and class; then dlid, sl, path bits and rate.
    reader.skip(8 + 5)?;
    let is_global = reader.u8()? != 0;
    Ok(Command::CreateAh { pd, gid, is_global })
}

fn create_cq(is_extended: bool, reader: &mut Reader<'_>) -> Result<Command, c_int> {
    let user_handle = reader.u64()?;
    let entries = reader.u32()?;
    let vector = reader.u32()?;
    let channel = reader.u32()?.cast_signed();
    reader.skip(if is_extended { 12 } else { 4 })?;
    let _comp_mask = reader.u32()?;
    Ok(Command::CreateCq(CreateCq {
        user_handle,
        entries,
        vector,
        channel,
        entry_len: reader.u32()?,
        sub_queues: reader.u16()?,
        flags: reader.u8()?,
        is_extended,
    }))
}

fn create_qp(
    is_extended: bool,
    in_words: usize,
    reader: &mut Reader<'_>,
) -> Result<Command, c_int> {
    // The library's own name of it.
    reader.skip(8)?;
    let pd = reader.u32()?;
    let send_cq = reader.u32()?;
    let recv_cq = reader.u32()?;
    reader.skip(4)?;
    let [send_wr, recv_wr, send_sge, recv_sge, inline] = [
        reader.u32()?,
        reader.u32()?,
        reader.u32()?,
        reader.u32()?,
        reader.u32()?,
    ];
    let sq_sig_all = reader.u8()?;
    let qp_type = reader.u8()?;
    let has_srq = reader.u8()? != 0;
    reader.skip(1)?;
    if is_extended {
        // What of the core's structure is there beyond the 48 bytes read.
        reader.skip((in_words * 8).saturating_sub(48))?;
    }
    let _comp_mask = reader.u32()?;
    Ok(Command::CreateQp(CreateQp {
        pd,
        send_cq,
        recv_cq,
        send_wr,
        recv_wr,
        send_sge,
        recv_sge,
        inline,
        sq_sig_all,
        qp_type,
        has_srq,
        recv_ring_len: reader.u32()?,
        send_ring_len: reader.u32()?,
        driver_type: reader.u32()?,
        // libefa has these since rdma-core 49.
        flags: reader.u16().unwrap_or(0),
        is_extended,
    }))
}

fn modify_qp(reader: &mut Reader<'_>) -> Result<Command, c_int> {
    // Two destinations, which datagrams have not.
    reader.skip(64)?;
    let qp = reader.u32()?;
    let mask = reader.u32()?;
    let qkey = reader.u32()?;
    reader.skip(4)?;
    let sq_psn = reader.u32()?;
    reader.skip(8)?;
    let pkey_index = reader.u16()?;
    reader.skip(2)?;
    let state = reader.u8()?;
    let current_state = reader.u8()?;
    reader.skip(6)?;
    let port = reader.u8()?;
    reader.skip(2)?;
    Ok(Command::ModifyQp(ModifyQp {
        qp,
        mask,
        qkey,
        sq_psn,
        pkey_index,
        state,
        current_state,
        port,
        rnr_retry: reader.u8()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a command of the first kind, with its answer's place if it has one.
    fn command(number: u32, body: &[u8]) -> Vec<u8> {
        let words = ((HEADER_LEN + body.len()) / 4) as u16;
        let mut bytes = number.to_ne_bytes().to_vec();
        bytes.extend(words.to_ne_bytes());
        bytes.extend(4_u16.to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_command_is_read_with_the_place_of_its_answer() {
        let body = [0xaaaa_u64, 0x1000, 4096, 0x2000].map(u64::to_ne_bytes);
        let body = [body.concat(), vec![3, 0, 0, 0, 5, 0, 0, 0]].concat();
        let request = parse(&command(9, &body)).expect("a command");
        assert_eq!((request.reply.addr, request.reply.core_len), (0xaaaa, 16));
        let Command::RegMr(wanted) = request.command else {
            panic!("{request:?}");
        };
        assert_eq!(
            (wanted.start, wanted.len, wanted.iova),
            (0x1000, 4096, 0x2000)
        );
        assert_eq!((wanted.pd, wanted.access), (3, 5));
        let request = parse(&command(13, &[7, 0, 0, 0])).expect("a command without answer");
        assert!(matches!(request.command, Command::DeregMr { mr: 7 }));
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_refused() {
        let whole = command(13, &[7, 0, 0, 0]);
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]).err(), Some(libc::EINVAL), "{len}");
        }
        assert_eq!(parse(&command(13, &[])).err(), Some(libc::EINVAL));
        assert_eq!(parse(&command(9, &[0; 16])).err(), Some(libc::EINVAL));
        assert_eq!(parse(&command(28, &[0; 16])).err(), Some(libc::EOPNOTSUPP));
        assert!(parse(&command(EXTENDED | 3, &[0; 16])).is_err());
    }
}
