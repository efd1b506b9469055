//! What is known of registered memory beside its address: which registration it is of, and what kind of memory it is.

use core::num::NonZeroU32;

/// A registration, as the provider numbers those of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub NonZeroU32);

/// Which memory it is (`enum fi_hmem_iface`).
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
    /// Which one.
    pub region: RegionId,
    /// What kind of memory was registered.
    pub kind: MemoryKind,
}
