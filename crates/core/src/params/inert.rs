//! Parameters of the C library as a whole that change nothing here: known, so that they are not taken for misspelt.

use oxifabric_provider::params::{Parameter, ParameterKind};

macro_rules! table {
    ($($name:literal: $kind:ident, $default:literal, $why:literal;)*) => {
        [$(Parameter {
            name: $name,
            kind: ParameterKind::$kind,
            help: concat!("Of the C library, without effect: ", $why),
            default: $default,
        },)*]
    };
}

/// FI_HMEM_* and FI_MR_*, with FI_HMEM itself and some more.
pub(crate) static PARAMETERS: [Parameter; 21] = table! {
    "fork_unsafe": Bool, "0", "fork(2) is safe with every provider";
    "universe_size": Size, "256", "tables grow with the peers that there are";
    "av_remove_cleanup": Bool, "0", "removing an address leaves connections as they are";
    "offload_coll_provider": Text, "", "providers have collectives of their own";
    "hmem": Text, "", "there is no device memory";
    "hmem_disable_p2p": Bool, "0", "there is no device memory";
    "hmem_cuda_use_gdrcopy": Bool, "1", "there is no device memory";
    "hmem_cuda_use_dmabuf": Bool, "1", "there is no device memory";
    "hmem_cuda_enable_async_copy": Bool, "0", "there is no device memory";
    "hmem_rocr_use_dmabuf": Bool, "0", "there is no device memory";
    "hmem_ze_copy_engine": Text, "", "there is no device memory";
    "hmem_ze_use_dmabuf": Bool, "1", "there is no device memory";
    "hmem_neuron_use_dmabuf": Bool, "1", "there is no device memory";
    "hmem_synapseai_use_dmabuf": Bool, "1", "there is no device memory";
    "rocr_d2h_threshold": Size, "16384", "there is no device memory";
    "mr_cache_max_size": Size, "", "registering costs nothing, so there is no cache";
    "mr_cache_max_count": Size, "1024", "registering costs nothing, so there is no cache";
    "mr_cache_monitor": Text, "", "registering costs nothing, so there is no cache";
    "mr_cuda_cache_monitor_enabled": Bool, "1", "registering costs nothing, so there is no cache";
    "mr_rocr_cache_monitor_enabled": Bool, "1", "registering costs nothing, so there is no cache";
    "mr_ze_cache_monitor_enabled": Bool, "1", "registering costs nothing, so there is no cache";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_there_once_and_says_why_it_has_no_effect() {
        for row in &PARAMETERS {
            assert!(row.help.starts_with("Of the C library"), "{}", row.name);
            let same = PARAMETERS.iter().filter(|other| other.name == row.name);
            assert_eq!(same.count(), 1, "{}", row.name);
        }
    }
}
