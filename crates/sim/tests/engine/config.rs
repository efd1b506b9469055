//! Configurations of the worlds that are simulated.

use oxifabric_engine::{Config as EngineConfig, Limits, OneSided};

use oxifabric_sim::plan::{AccessPlan, PacketOrder};

use crate::nic::{ALL, Nics};
use crate::packets::Packets;

/// A world.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) nodes: usize,
    /// Bodies arrive as streams; otherwise whole.
    pub(crate) stream: bool,
    pub(crate) limits: Limits,
    /// Only messages keep their order.
    pub(crate) unordered: bool,
    /// A peer grants the data that it asks for in windows of this length.
    pub(crate) window: Option<usize>,
    /// Pulls fail because the pair may not do it.
    pub(crate) pull_forbidden: bool,
    /// The links begin pulls, and tell peers of their end, without being asked to.
    pub(crate) pulls_unasked: bool,
    pub(crate) engine: EngineConfig,
    /// Number of frames that fit between two endpoints.
    pub(crate) lane_frames: usize,
    /// Steps of a thousand in which a connection breaks.
    pub(crate) breaks_per_mille: usize,
    /// One endpoint dies half-way.
    pub(crate) death: bool,
    /// Peers without a connection with an endpoint are not notified of its death.
    pub(crate) silent_death: bool,
    /// Endpoints send to themselves as well.
    pub(crate) loopback: bool,
    pub(crate) steps: usize,
    /// Lengths that messages and accesses have at most, the longest last.
    pub(crate) sizes: [usize; 6],
    /// The links are reliable channels over packets, not lanes of frames.
    pub(crate) packets: Option<Packets>,
    /// The links are adapters.
    pub(crate) nics: Option<Nics>,
    /// The endpoint that died comes back.
    pub(crate) rebirth: bool,
    /// Number of seeds that are tried.
    pub(crate) seeds: u64,
    pub(crate) sabotage: Option<Sabotage>,
}

/// What a broken link does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    Reorder,
    Duplicate,
    Lose,
    Corrupt,
    /// Messages overtake each other where only other frames may.
    Overtake,
    /// Accesses that the link carries out end before they are.
    SkipAccesses,
}

impl Config {
    /// Frames far smaller than any real link's, so that every path is taken often.
    fn base() -> Self {
        Self {
            nodes: 2,
            stream: false,
            limits: Limits {
                eager: 16,
                segmented: 64,
                segmented_rma: true,
                segment: 20,
                rndv_msg: true,
                rndv_tagged: true,
                rndv_rma: true,
                pull: true,
                ack_on_arrival: false,
                one_sided: OneSided::empty(),
            },
            unordered: false,
            window: None,
            pull_forbidden: false,
            pulls_unasked: false,
            engine: EngineConfig {
                tx_size: 12,
                rx_size: 16,
                unexpected_bytes: 1 << 20,
                unexpected_ceiling: 1 << 24,
                min_multi_recv: 40,
                directed_recv: true,
            },
            lane_frames: 6,
            breaks_per_mille: 0,
            death: false,
            silent_death: false,
            loopback: true,
            steps: 400,
            sizes: [0, 16, 17, 64, 65, 300],
            packets: None,
            nics: None,
            rebirth: false,
            seeds: 300,
            sabotage: None,
        }
    }

    fn streams() -> Self {
        let base = Self::base();
        Self {
            stream: true,
            limits: Limits {
                pull: false,
                ..base.limits
            },
            ..base
        }
    }

    pub(crate) fn two_endpoints_pull_from_each_other() -> Self {
        Self::base()
    }

    pub(crate) fn two_endpoints_over_streams() -> Self {
        Self::streams()
    }

    pub(crate) fn pulling_turns_out_to_be_forbidden() -> Self {
        Self {
            pull_forbidden: true,
            ..Self::base()
        }
    }

    /// The shape of efa.
    pub(crate) fn links_pull_unasked() -> Self {
        Self {
            pulls_unasked: true,
            unordered: true,
            ..Self::base()
        }
    }

    pub(crate) fn pulling_unasked_turns_out_to_be_forbidden() -> Self {
        Self {
            pull_forbidden: true,
            ..Self::links_pull_unasked()
        }
    }

    pub(crate) fn many_endpoints_pull_unasked() -> Self {
        Self {
            nodes: 5,
            steps: 800,
            ..Self::links_pull_unasked()
        }
    }

    pub(crate) fn links_pull_unasked_with_hardly_any_room() -> Self {
        Self {
            pulls_unasked: true,
            ..Self::hardly_any_room_for_the_unexpected()
        }
    }

    pub(crate) fn connections_break_while_pulling_unasked() -> Self {
        Self {
            pulls_unasked: true,
            ..Self::connections_break_while_pulling()
        }
    }

    pub(crate) fn an_endpoint_that_pulls_unasked_dies() -> Self {
        Self {
            pulls_unasked: true,
            ..Self::an_endpoint_dies()
        }
    }

    pub(crate) fn many_endpoints_over_streams() -> Self {
        Self {
            nodes: 5,
            steps: 800,
            ..Self::streams()
        }
    }

    pub(crate) fn many_endpoints_over_packets() -> Self {
        Self {
            nodes: 5,
            steps: 800,
            ..Self::base()
        }
    }

    /// The shape of upstream's tcp protocol.
    pub(crate) fn acknowledged_on_arrival() -> Self {
        let streams = Self::streams();
        Self {
            limits: Limits {
                eager: 64,
                segmented: 64,
                rndv_msg: false,
                ack_on_arrival: true,
                ..streams.limits
            },
            ..streams
        }
    }

    pub(crate) fn long_messages_without_rendezvous() -> Self {
        let streams = Self::streams();
        Self {
            limits: Limits {
                rndv_msg: false,
                rndv_tagged: false,
                rndv_rma: false,
                ..streams.limits
            },
            ..streams
        }
    }

    pub(crate) fn hardly_any_room_for_the_unexpected() -> Self {
        let base = Self::base();
        Self {
            nodes: 3,
            engine: EngineConfig {
                unexpected_bytes: 700,
                unexpected_ceiling: 1 << 24,
                ..base.engine
            },
            ..base
        }
    }

    pub(crate) fn connections_break() -> Self {
        Self {
            nodes: 3,
            breaks_per_mille: 15,
            ..Self::streams()
        }
    }

    pub(crate) fn connections_break_while_pulling() -> Self {
        Self {
            nodes: 3,
            breaks_per_mille: 15,
            ..Self::base()
        }
    }

    /// The shape of RDMA over a reliable connection.
    pub(crate) fn peers_reach_memory_by_themselves() -> Self {
        let base = Self::base();
        Self {
            limits: Limits {
                one_sided: OneSided::all(),
                ..base.limits
            },
            ..base
        }
    }

    pub(crate) fn peers_reach_memory_by_themselves_but_send_no_data() -> Self {
        let base = Self::base();
        Self {
            nodes: 3,
            limits: Limits {
                one_sided: OneSided::WRITE | OneSided::READ,
                ..base.limits
            },
            ..base
        }
    }

    pub(crate) fn connections_break_amid_accesses() -> Self {
        Self {
            nodes: 3,
            breaks_per_mille: 15,
            ..Self::peers_reach_memory_by_themselves()
        }
    }

    /// The shape of EFA's scalable reliable datagrams.
    pub(crate) fn a_wire_without_order() -> Self {
        Self {
            unordered: true,
            ..Self::peers_reach_memory_by_themselves()
        }
    }

    pub(crate) fn many_endpoints_without_order() -> Self {
        let base = Self::base();
        Self {
            nodes: 5,
            steps: 800,
            unordered: true,
            lane_frames: 12,
            limits: Limits {
                pull: false,
                ..base.limits
            },
            ..base
        }
    }

    pub(crate) fn connections_break_without_order() -> Self {
        Self {
            unordered: true,
            ..Self::connections_break_amid_accesses()
        }
    }

    pub(crate) fn data_is_granted_by_windows() -> Self {
        let base = Self::base();
        Self {
            window: Some(50),
            limits: Limits {
                pull: false,
                ..base.limits
            },
            ..base
        }
    }

    pub(crate) fn an_endpoint_dies() -> Self {
        Self {
            nodes: 4,
            death: true,
            ..Self::base()
        }
    }

    fn over(packets: Packets) -> Self {
        let base = Self::base();
        Self {
            nodes: 3,
            limits: Limits {
                pull: false,
                ..base.limits
            },
            sizes: [0, 16, 64, 900, 3000, 140_000],
            packets: Some(packets),
            seeds: 120,
            ..base
        }
    }

    pub(crate) fn packets_are_lost() -> Self {
        Self::over(Packets {
            drop: 0.1,
            ..Packets::default()
        })
    }

    pub(crate) fn packets_are_doubled_and_overtaken() -> Self {
        Self::over(Packets {
            dup: 0.05,
            reorder: 0.1,
            ..Packets::default()
        })
    }

    pub(crate) fn queues_overflow() -> Self {
        Self::over(Packets {
            queue_bytes: Some(10_000),
            ..Packets::default()
        })
    }

    pub(crate) fn long_packets_vanish() -> Self {
        Self::over(Packets {
            drop: 0.02,
            reorder: 0.02,
            carries: Some(1400),
            ..Packets::default()
        })
    }

    pub(crate) fn a_partition_heals() -> Self {
        Self::over(Packets {
            drop: 0.02,
            cut_ms: Some(3000.0),
            ..Packets::default()
        })
    }

    pub(crate) fn a_partition_outlasts_the_timeout() -> Self {
        Self::over(Packets {
            drop: 0.02,
            cut_ms: Some(8000.0),
            ..Packets::default()
        })
    }

    pub(crate) fn an_endpoint_behind_packets_dies() -> Self {
        Self {
            nodes: 4,
            death: true,
            ..Self::packets_are_lost()
        }
    }

    pub(crate) fn an_endpoint_behind_packets_comes_back() -> Self {
        Self {
            rebirth: true,
            ..Self::an_endpoint_behind_packets_dies()
        }
    }

    /// Returns whether endpoints may lose peers.
    pub(crate) fn loses_peers(&self) -> bool {
        let cut_off = self.packets.is_some_and(|packets| packets.loses_peers())
            || self.nics.is_some_and(|nics| nics.loses_peers());
        cut_off || self.death || self.breaks_per_mille > 0
    }

    /// Lengths around those at which frames, windows of segments and requests of adapters end.
    fn over_adapters(order: PacketOrder, one_sided: &'static [AccessPlan]) -> Self {
        Self {
            sizes: [0, 16, 4096, 4500, 20_000, 140_000],
            nics: Some(Nics {
                order,
                one_sided,
                cut_ms: None,
            }),
            unordered: order == PacketOrder::Unordered,
            seeds: 120,
            ..Self::base()
        }
    }

    pub(crate) fn adapters_with_order() -> Self {
        Self::over_adapters(PacketOrder::Ordered, &[])
    }

    pub(crate) fn adapters_without_order() -> Self {
        Self::over_adapters(PacketOrder::Unordered, &[])
    }

    pub(crate) fn adapters_carry_out_accesses_in_order() -> Self {
        Self::over_adapters(PacketOrder::Ordered, ALL)
    }

    pub(crate) fn adapters_carry_out_accesses_in_any_order() -> Self {
        Self::over_adapters(PacketOrder::Unordered, ALL)
    }

    pub(crate) fn adapters_carry_out_writes_only() -> Self {
        Self::over_adapters(PacketOrder::Unordered, &[AccessPlan::Write])
    }

    pub(crate) fn many_adapters_without_order() -> Self {
        Self {
            nodes: 5,
            steps: 800,
            ..Self::adapters_without_order()
        }
    }

    pub(crate) fn many_adapters_carry_out_accesses_in_order() -> Self {
        Self {
            nodes: 5,
            steps: 800,
            ..Self::adapters_carry_out_accesses_in_order()
        }
    }

    pub(crate) fn many_adapters_carry_out_accesses_in_any_order() -> Self {
        Self {
            nodes: 5,
            steps: 800,
            ..Self::adapters_carry_out_accesses_in_any_order()
        }
    }

    pub(crate) fn adapters_with_hardly_any_room_for_the_unexpected() -> Self {
        let adapters = Self::adapters_carry_out_accesses_in_any_order();
        Self {
            nodes: 3,
            engine: EngineConfig {
                unexpected_bytes: 7000,
                ..adapters.engine
            },
            ..adapters
        }
    }

    pub(crate) fn connections_of_adapters_break() -> Self {
        Self {
            nodes: 3,
            breaks_per_mille: 15,
            ..Self::adapters_carry_out_accesses_in_any_order()
        }
    }

    pub(crate) fn connections_of_ordered_adapters_break() -> Self {
        Self {
            nodes: 3,
            breaks_per_mille: 15,
            ..Self::adapters_with_order()
        }
    }

    fn cut_off_for(ms: f64) -> Self {
        let adapters = Self::adapters_carry_out_accesses_in_any_order();
        let cut_ms = Some(ms);
        Self {
            nodes: 3,
            nics: adapters.nics.map(|nics| Nics { cut_ms, ..nics }),
            ..adapters
        }
    }

    pub(crate) fn a_partition_of_adapters_heals() -> Self {
        Self::cut_off_for(3000.0)
    }

    pub(crate) fn a_partition_of_adapters_outlasts_the_timeout() -> Self {
        Self::cut_off_for(8000.0)
    }

    pub(crate) fn an_endpoint_with_an_adapter_dies() -> Self {
        Self {
            nodes: 4,
            death: true,
            ..Self::adapters_carry_out_accesses_in_any_order()
        }
    }

    pub(crate) fn an_endpoint_with_an_adapter_comes_back() -> Self {
        Self {
            rebirth: true,
            ..Self::an_endpoint_with_an_adapter_dies()
        }
    }
}
