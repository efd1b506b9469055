#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

@definitions tagged.rs

/* A tag in the format FI_TAG_MPI. Source: fi_tagged(3). */
static inline uint64_t fi_tag_mpi(int tag, uint8_t payload_id)
{
    return (uint32_t) tag | ((uint64_t) payload_id << 32);
}

@calls calls/tagged.rs
