//! Messages of the block device over a fabric. What is accepted is written back as it was read, and what a target carries out lies
//! inside its disk and its limits.

use oxifabric_kernel_blk::{
    Features, Flags, Hello, Limits, Op, Reason, Refusal, Request, Response, SECTOR, Status, Welcome,
};

/// The first byte says which message the others are; before a request, which is the rest with its data, is a welcome that describes the disk.
pub(super) fn run(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, bytes)) => hello(bytes),
        Some((1, bytes)) => {
            welcome(bytes);
        }
        Some((2, bytes)) => refusal(bytes),
        Some((3, bytes)) => response(bytes),
        Some((_, bytes)) => request(bytes),
        None => {}
    }
}

fn hello(bytes: &[u8]) {
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(hello.encode(), bytes[..Hello::LEN]);
    }
}

fn welcome(bytes: &[u8]) -> Option<Welcome> {
    let welcome = Welcome::decode(bytes).ok()?;
    assert_eq!(welcome.encode(), bytes[..Welcome::LEN]);
    assert!(welcome.is_meant());
    Some(welcome)
}

fn refusal(bytes: &[u8]) {
    if let Ok(refusal) = Refusal::decode(bytes) {
        assert_eq!(refusal.encode(), bytes[..Refusal::LEN]);
    }
}

fn response(bytes: &[u8]) {
    if let Ok(response) = Response::decode(bytes) {
        assert_eq!(response.encode(), bytes);
        let (len, id) = (response.len, response.id);
        assert_eq!(
            response.ends(id, len),
            response.status == Status::Done || len == 0
        );
        assert!(!response.ends(id, len.wrapping_add(1)) || response.status != Status::Done);
        assert!(!response.ends(!id, len));
    }
}

fn request(bytes: &[u8]) {
    let Some((disk, bytes)) = bytes.split_at_checked(Welcome::LEN) else {
        return;
    };
    let Ok(request) = Request::decode(bytes) else {
        return;
    };
    let (head, data) = bytes.split_at(Request::LEN);
    assert_eq!(request.encode(), head);
    let is_inline = request.flags.has(Flags::INLINE);
    assert_eq!(data.len(), if is_inline { request.len as usize } else { 0 });
    let Some(disk) = welcome(disk) else {
        return;
    };
    let Ok(job) = request.job(&disk) else {
        return;
    };
    let end = u128::from(job.position) + u128::from(job.len);
    assert!(end <= u128::from(disk.capacity) * u128::from(SECTOR));
    assert!(job.position.is_multiple_of(disk.block.into()));
    assert!(job.len.is_multiple_of(disk.block));
    assert_eq!(job.is_inline, is_inline);
    if is_inline {
        assert!(job.op == Op::Write && job.len as usize == data.len());
        assert!(job.len <= disk.inline_data);
    }
    if matches!(job.op, Op::Read | Op::Write) {
        assert!(job.len <= disk.limits.longest);
    }
    if matches!(job.op, Op::Write | Op::Discard | Op::Zero) {
        assert!(!disk.features.has(Features::READ_ONLY));
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let limits = Limits {
        depth: 64,
        longest: 1 << 17,
    };
    let hello = Hello {
        initiator: [9; 16],
        limits,
    };
    let disk = Welcome {
        limits,
        block: 512,
        inline_data: 1024,
        features: Features(Features::CACHE | Features::DISCARD | Features::ZERO),
        capacity: 2048,
        content: 5,
    };
    let refusal = Refusal {
        reason: Reason::Full,
    };
    let response = Response {
        status: Status::Done,
        len: 4096,
        id: 3,
    };
    let mut seeds = vec![
        [&[0], &hello.encode()[..]].concat(),
        [&[1], &disk.encode()[..]].concat(),
        [&[2], &refusal.encode()[..]].concat(),
        [&[3], &response.encode()[..]].concat(),
    ];
    seeds.extend((0..=5).filter_map(Op::from_number).map(|op| {
        let has_blocks = !matches!(op, Op::Nothing | Op::Flush);
        let request = Request {
            op,
            flags: Flags(u8::from(op == Op::Write)),
            len: if has_blocks { 4096 } else { 0 },
            id: 3,
            sector: if has_blocks { 2040 } else { 0 },
            addr: 4096,
            key: 1,
        };
        [&[4], &disk.encode()[..], &request.encode()[..]].concat()
    }));
    let inline = Request {
        op: Op::Write,
        flags: Flags(Flags::INLINE),
        len: 512,
        id: 4,
        sector: 0,
        addr: 0,
        key: 0,
    };
    let message = [&inline.encode()[..], &[6; 512]].concat();
    seeds.push([&[4], &disk.encode()[..], &message].concat());
    seeds
}
