//! The registration of memory: its number in the provider domain, and the kind of memory.

use core::num::NonZeroU32;

/// The number of a registration in its provider domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub NonZeroU32);

/// The kind of memory: of the host, or of which devices (`enum fi_hmem_iface`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum MemoryKind {
    /// Memory of the host, which the processor reads and writes.
    #[default]
    Host,
    /// FI_HMEM_CUDA.
    Cuda,
    /// FI_HMEM_ROCR.
    Rocr,
    /// FI_HMEM_ZE.
    LevelZero,
    /// FI_HMEM_NEURON.
    Neuron,
    /// FI_HMEM_SYNAPSEAI.
    SynapseAi,
}

/// The registration of a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The number of the registration.
    pub region: RegionId,
    /// What kind of memory was registered.
    pub kind: MemoryKind,
}
