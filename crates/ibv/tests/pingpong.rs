//! Two processes play ping-pong by the safe interface, over softnic's device.
//!
//! The test runs itself as the program under `softnic run`; that process starts the second one.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use oxifabric_ibv::{
    Access, Capacity, Channel, Completion, Context, Cq, CqOptions, Device, EfaCaps, Gid, Mr,
    Opcode, Pd, Qp, QpKind, QpOptions, Send, SendOp, SendOps, StateChange, Status, Verbs,
};

const QKEY: u32 = 0x1234_5678;
const ROUNDS: u32 = 200;
const PLACE: usize = 4096;
/// How long a process waits for anything.
const WATCHDOG_MS: u16 = 60_000;
/// In which variable a process finds the socket of its peer.
const SOCKET: &str = "IBV_PINGPONG_SOCKET";

/// One end.
struct End {
    context: Arc<Context>,
    pd: Arc<Pd>,
    channel: Arc<Channel>,
    cq: Arc<Cq>,
    qp: RefCell<Qp>,
    memory: Mr,
    /// Newer devices and libraries have it.
    can_write: bool,
}

/// What the other end has to know.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Name {
    gid: Gid,
    qpn: u32,
    rkey: u32,
    addr: u64,
}

impl End {
    fn open(kind: QpKind) -> Self {
        let verbs = Verbs::get().expect("libibverbs");
        assert_eq!(verbs.efa_absence(), None);
        let devices = Device::list(verbs).expect("a list");
        let device = devices.first().expect("softnic's device");
        assert_eq!(device.name(), "efa_0");
        let context = device.open().expect("an open device");
        drop(devices);
        let attributes = context.attributes().expect("attributes");
        assert_eq!((attributes.vendor, attributes.part), (0x1d0f, 0xefa1));
        assert!(attributes.max_qp > 0 && attributes.max_cq > 0 && attributes.max_mr > 0);
        let efa = context.efa().expect("it is an EFA");
        assert!(efa.caps.contains(EfaCaps::RDMA_READ | EfaCaps::RNR_RETRY));
        let port = context.port(1).expect("a port");
        assert!(port.is_active && port.max_msg_len == 8928 && port.speed == 100_000_000_000);
        assert!(context.port(2).is_err() && context.gid(1, 1).is_err());
        let pd = Pd::new(&context).expect("a domain");
        let channel = Channel::new(&context).expect("a channel");
        let options = CqOptions {
            entries: 64,
            sgid: true,
            unsolicited: efa.caps.contains(EfaCaps::UNSOLICITED_WRITE_RECV),
        };
        let cq = Cq::efa(&context, Some(&channel), options).expect("a queue");
        let sends = SendOps::SEND | SendOps::SEND_WITH_IMM;
        let options = QpOptions {
            kind,
            capacity: Capacity {
                send_wr: 16,
                recv_wr: 16,
                send_sge: 2,
                recv_sge: 1,
                inline: 32,
            },
            send_ops: match kind {
                QpKind::Srd if efa.caps.contains(EfaCaps::RDMA_WRITE) => {
                    sends | SendOps::RDMA_READ | SendOps::RDMA_WRITE_WITH_IMM
                }
                QpKind::Srd => sends | SendOps::RDMA_READ,
                QpKind::Ud => sends,
            },
            unsolicited: options.unsolicited && kind == QpKind::Srd,
        };
        let qp = Qp::new(&pd, &cq, &cq, &options).expect("a queue pair");
        let retry = (kind == QpKind::Srd).then_some(7);
        let change = StateChange {
            qkey: QKEY,
            rnr_retry: retry,
        };
        qp.activate(1, change).expect("it is active");
        let mut access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        if efa.caps.contains(EfaCaps::RDMA_WRITE) {
            access = access | Access::REMOTE_WRITE;
        }
        let memory = pd.allocate(4 * PLACE, access).expect("memory");
        Self {
            context,
            pd,
            channel,
            cq,
            qp: RefCell::new(qp),
            memory,
            can_write: options.unsolicited,
        }
    }

    fn name(&self) -> Name {
        Name {
            gid: self.context.gid(1, 0).expect("an address"),
            qpn: self.qp.borrow().number(),
            rkey: self.memory.rkey(),
            addr: self.memory.address(),
        }
    }

    fn receive(&self, wr_id: u64, place: usize, len: usize) {
        let piece = self.memory.piece(place * PLACE, len).expect("it is in it");
        self.qp.borrow().post_recv(wr_id, &[piece]).expect("room");
    }

    /// Sleeps until there is a completion.
    fn completion(&self) -> Completion {
        let mut places = [Completion::NONE];
        loop {
            if self.cq.poll(&mut places) == 1 {
                return places[0];
            }
            self.cq.arm().expect("it can be armed");
            if self.cq.poll(&mut places) == 1 {
                return places[0];
            }
            let mut fds = [PollFd::new(self.channel.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut fds, PollTimeout::from(WATCHDOG_MS)).expect("it waits");
            assert!(
                ready == 1 && self.cq.take_events(),
                "nothing comes any more"
            );
        }
    }
}

fn exchange(stream: &mut UnixStream, own: &Name) -> Name {
    let mut bytes = Vec::new();
    bytes.extend(own.gid);
    bytes.extend(own.qpn.to_le_bytes());
    bytes.extend(own.rkey.to_le_bytes());
    bytes.extend(own.addr.to_le_bytes());
    stream.write_all(&bytes).expect("the peer reads");
    let mut theirs = [0; 32];
    stream.read_exact(&mut theirs).expect("the peer writes");
    let number = |from: usize, to: usize| {
        let bytes = theirs[from..to].iter().rev();
        bytes.fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    };
    let mut gid = [0; 16];
    gid.copy_from_slice(&theirs[..16]);
    Name {
        gid,
        qpn: number(16, 20) as u32,
        rkey: number(20, 24) as u32,
        addr: number(24, 32),
    }
}

fn meet(stream: &mut UnixStream) {
    stream.write_all(&[1]).expect("the peer reads");
    stream.read_exact(&mut [0]).expect("the peer writes");
}

fn play(mut stream: UnixStream, is_first: bool) {
    for kind in [QpKind::Srd, QpKind::Ud] {
        play_kind(&mut stream, is_first, kind);
    }
}

fn play_kind(stream: &mut UnixStream, is_first: bool, kind: QpKind) {
    let end = End::open(kind);
    let peer = exchange(stream, &end.name());
    let header = if kind == QpKind::Ud { 40 } else { 0 };
    end.receive(100, 0, PLACE);
    // Before the peer may send: a message tells the number of the handle that there is when it arrives.
    let ah = end.pd.destination(1, &peer.gid).expect("a destination");
    meet(stream);
    let send = |op: SendOp<'_>| {
        let request = Send {
            wr_id: 1,
            op,
            ah: &ah,
            qpn: peer.qpn,
            qkey: QKEY,
        };
        end.qp.borrow_mut().post_send(&request).expect("room");
    };
    panics_between_requests(&end, &ah, &peer);
    let mut sent = 0;
    let mut arrived = None;
    for round in 0..ROUNDS {
        let is_sender = is_first == round.is_multiple_of(2);
        if is_sender {
            let text = round.to_string().repeat(1 + round as usize % 700);
            if text.len() <= 32 {
                send(SendOp::Inline(text.as_bytes(), Some(round)));
            } else {
                end.memory.memory().write(PLACE, text.as_bytes());
                let (front, back) = (PLACE, PLACE + 16);
                let pieces = [
                    end.memory.piece(front, 16).expect("it is in it"),
                    end.memory
                        .piece(back, text.len() - 16)
                        .expect("it is in it"),
                ];
                send(SendOp::Message(&pieces, Some(round)));
            }
        }
        let sends = (round + u32::from(is_first)).div_ceil(2);
        // The peer's answer may overtake the completion of what it answers.
        while sent < sends || (!is_sender && arrived.is_none()) {
            let completion = end.completion();
            assert_eq!(completion.status, Status::SUCCESS, "{completion:?}");
            if completion.wr_id == 1 {
                sent += 1;
            } else {
                arrived = Some(completion);
            }
        }
        if !is_sender && let Some(completion) = arrived.take() {
            check(&end, &peer, &completion, round, header, &ah);
            end.receive(100, 0, PLACE);
        }
    }
    assert_eq!(sent, ROUNDS / 2);
    if kind == QpKind::Srd {
        read(&end, &peer, stream, &send);
        if end.can_write {
            write(&end, &peer, stream, &send);
        }
    }
    refused(&end);
    meet(stream);
}

fn check(
    end: &End,
    peer: &Name,
    completion: &Completion,
    round: u32,
    header: usize,
    ah: &oxifabric_ibv::Ah,
) {
    let expected = round.to_string().repeat(1 + round as usize % 700);
    assert_eq!(completion.opcode, Opcode::Recv);
    assert_eq!(completion.imm_data, Some(round));
    assert_eq!(completion.byte_len as usize, expected.len() + header);
    assert_eq!(completion.src_qp, peer.qpn);
    assert_eq!(completion.slid, ah.efa_number().expect("a number").into());
    assert_eq!(completion.sgid, None, "the peer has an address handle");
    let mut bytes = vec![0; expected.len()];
    end.memory.memory().read(header, &mut bytes);
    assert!(bytes == expected.as_bytes());
}

/// Reads the peer's memory.
fn read(end: &End, peer: &Name, stream: &mut UnixStream, send: &dyn Fn(SendOp<'_>)) {
    let own: Vec<u8> = (0..PLACE).map(|index| (index * 7) as u8).collect();
    end.memory.memory().write(3 * PLACE, &own);
    meet(stream);
    let into = end.memory.piece(2 * PLACE, PLACE).expect("it is in it");
    send(SendOp::Read(into, peer.rkey, peer.addr + 3 * PLACE as u64));
    assert_eq!(end.completion().status, Status::SUCCESS);
    let mut bytes = vec![0; PLACE];
    end.memory.memory().read(2 * PLACE, &mut bytes);
    assert!(bytes == own);
    send(SendOp::Read(into, peer.rkey, peer.addr - 1));
    let completion = end.completion();
    // libefa knows what that number means since rdma-core 46.
    let known = [Status::REM_ACCESS_ERR, Status::GENERAL_ERR];
    assert!(known.contains(&completion.status) && completion.vendor_err == 7);
    meet(stream);
}

/// Writes the peer's memory, which it is told without a receive.
fn write(end: &End, peer: &Name, stream: &mut UnixStream, send: &dyn Fn(SendOp<'_>)) {
    end.memory.memory().write(0, &[7; 64]);
    end.memory.memory().write(3 * PLACE, &[0; 65]);
    meet(stream);
    let from = end.memory.piece(0, 64).expect("it is in it");
    send(SendOp::Write(
        from,
        peer.rkey,
        peer.addr + 3 * PLACE as u64,
        Some(9),
    ));
    for _ in 0..2 {
        let completion = end.completion();
        assert_eq!(completion.status, Status::SUCCESS);
        if completion.opcode == Opcode::RecvRdmaWithImm {
            assert!(completion.is_unsolicited);
            assert_eq!((completion.imm_data, completion.byte_len), (Some(9), 64));
        } else {
            assert_eq!(completion.opcode, Opcode::RdmaWrite);
        }
    }
    let mut bytes = [1; 65];
    end.memory.memory().read(3 * PLACE, &mut bytes);
    assert!(bytes[..64] == [7; 64] && bytes[64] == 0);
    meet(stream);
}

/// Requests that are not all there because the caller panics are not posted, and the queue goes on.
fn panics_between_requests(end: &End, ah: &oxifabric_ibv::Ah, peer: &Name) {
    let requests = (0..2).map(|number| {
        assert_eq!(number, 0, "there is no second request");
        Send {
            wr_id: 7,
            op: SendOp::Inline(b"half", None),
            ah,
            qpn: peer.qpn,
            qkey: QKEY,
        }
    });
    let posted = std::panic::catch_unwind(AssertUnwindSafe(|| {
        end.qp.borrow_mut().post_sends(requests)
    }));
    assert!(posted.is_err());
}

/// What does not fit is refused, and what is posted comes back when a queue pair fails.
fn refused(end: &End) {
    assert_eq!(end.memory.piece(4 * PLACE - 1, 2), None);
    assert_eq!(end.memory.piece(usize::MAX, 1), None);
    let piece = end.memory.piece(0, 64).expect("it is in it");
    let post = |count| {
        let receives = (0..count).map(|at| (100 + at, piece));
        end.qp.borrow().post_recvs(receives)
    };
    // One is posted already, and of what goes beyond the end of the queue a part is taken.
    assert_eq!((post(0), post(20)), (0, Qp::RECEIVES));
    assert_eq!((post(20), post(1)), (15 - Qp::RECEIVES, 0));
    let full = end
        .qp
        .borrow()
        .post_recv(100, &[piece])
        .expect_err("it is full");
    assert_eq!(full.raw(), 12);
    end.qp.borrow().fail().expect("it can fail");
    for _ in 0..16 {
        assert_eq!(end.completion().status, Status::WR_FLUSH_ERR);
    }
}

#[test]
fn two_processes_play_ping_pong() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        return process(Path::new(&socket));
    }
    let Some(softnic) = softnic() else {
        println!("SKIP: softnic is not built");
        return;
    };
    let verbs = Verbs::get();
    if let Some(absence) = verbs.map_or_else(Some, Verbs::efa_absence) {
        println!("SKIP: {absence}");
        return;
    }
    let socket = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pingpong.socket");
    let _ = std::fs::remove_file(&socket);
    let mut run = Command::new(softnic);
    run.args(["run", "--hosts", "2", "--"]).arg(itself());
    let run = run.args(ONLY_THIS).env(SOCKET, &socket).output();
    let _ = std::fs::remove_file(&socket);
    let run = run.expect("softnic runs");
    let said = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}{errors}");
    assert!(said.contains("both have played"), "{said}");
}

/// The arguments with which this program runs the test alone.
const ONLY_THIS: [&str; 3] = ["--exact", "two_processes_play_ping_pong", "--nocapture"];

fn itself() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// Returns the program that makes the device, if it was built where this one was.
fn softnic() -> Option<PathBuf> {
    let program = itself().parent()?.parent()?.join("softnic");
    program.exists().then_some(program)
}

/// Is one of the two: the first one listens and starts the second one.
fn process(socket: &Path) {
    // SIGALRM ends a process whose peer does not come.
    nix::unistd::alarm::set(120);
    if let Ok(stream) = UnixStream::connect(socket) {
        return play(stream, false);
    }
    let listener = UnixListener::bind(socket).expect("a free name");
    let mut second = Command::new(itself());
    let second = second.args(ONLY_THIS).env("SOFTNIC_HOST", "1").spawn();
    let (stream, _) = listener.accept().expect("the second process");
    play(stream, true);
    let status = second.expect("a process").wait();
    assert!(status.expect("it ends").success());
    println!("both have played");
}
