//! Many operations under way.

use oxifabric::{Buffer, Caps, Error, Operation};

use crate::node::on_each;

#[test]
fn buffers_go_round_in_a_window() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        // ANCHOR: window
        const WINDOW: usize = 16;
        const COUNT: u64 = 1000;

        // What is not in flight is here. Nothing is allocated after this.
        let mut free: Vec<Buffer> = (0..WINDOW).map(|_| Buffer::zeroed(1024)).collect();
        for _ in 0..WINDOW {
            node.endpoint.receive_tagged(1, 0, Buffer::zeroed(1024))?;
        }
        let (mut next, mut received) = (0_u64, 0_u64);
        while received < COUNT {
            while next < COUNT
                && let Some(mut buffer) = free.pop()
            {
                buffer[..8].copy_from_slice(&next.to_ne_bytes());
                match node.endpoint.send_tagged(node.me, 1, buffer) {
                    Ok(_) => next += 1,
                    Err(refused) if refused.is_again() => {
                        free.push(refused.buffer);
                        break;
                    }
                    Err(refused) => return Err(refused.into()),
                }
            }
            let (buffer, transfer) = node.next().ok()?;
            match transfer.operation {
                Operation::Receive => {
                    received += 1;
                    node.endpoint.receive_tagged(1, 0, buffer)?;
                }
                _ => free.push(buffer),
            }
        }
        // ANCHOR_END: window
        Ok(())
    })
}
