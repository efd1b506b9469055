//! Putting an endpoint together.

use oxifabric::{Caps, Endpoint, Errno, Error, Rdm};

use crate::node::on_each;

#[test]
fn a_builder_says_what_is_missing() -> Result<(), Error> {
    on_each(Caps::TAGGED, |node| {
        // ANCHOR: enable
        let builder = Endpoint::<Rdm>::builder(&node.domain).address_vector(&node.peers);
        let error = builder.enable().expect_err("it has no queue");
        // "fi_enable failed: ... give the builder a completion queue for each direction"
        println!("{error}");
        assert_eq!(error.errno(), Errno::NOCQ);

        let endpoint = Endpoint::<Rdm>::builder(&node.domain)
            .address_vector(&node.peers)
            .transmit_queue(&node.queue)
            .receive_queue(&node.queue)
            .enable()?;
        println!("peers reach it at {}", endpoint.address()?);
        // ANCHOR_END: enable
        Ok(())
    })
}
