//! Datatypes and operations of atomics and collectives. Source: fi_atomic(3), fi_collective(3).

/// Where the datatypes and operations begin that only collectives have.
pub const FI_COLLECTIVE_OFFSET: u32 = 256;

/// Type of the elements that an atomic or a collective works on.
pub type fi_datatype = u32;
pub const FI_INT8: fi_datatype = 0;
pub const FI_UINT8: fi_datatype = 1;
pub const FI_INT16: fi_datatype = 2;
pub const FI_UINT16: fi_datatype = 3;
pub const FI_INT32: fi_datatype = 4;
pub const FI_UINT32: fi_datatype = 5;
pub const FI_INT64: fi_datatype = 6;
pub const FI_UINT64: fi_datatype = 7;
pub const FI_FLOAT: fi_datatype = 8;
pub const FI_DOUBLE: fi_datatype = 9;
pub const FI_FLOAT_COMPLEX: fi_datatype = 10;
pub const FI_DOUBLE_COMPLEX: fi_datatype = 11;
pub const FI_LONG_DOUBLE: fi_datatype = 12;
pub const FI_LONG_DOUBLE_COMPLEX: fi_datatype = 13;
pub const FI_INT128: fi_datatype = 14;
pub const FI_UINT128: fi_datatype = 15;
pub const FI_FLOAT16: fi_datatype = 16;
pub const FI_BFLOAT16: fi_datatype = 17;
pub const FI_FLOAT8_E4M3: fi_datatype = 18;
pub const FI_FLOAT8_E5M2: fi_datatype = 19;
pub const FI_VOID: fi_datatype = 256;

/// What an atomic or a reduction does to each element.
pub type fi_op = u32;
pub const FI_MIN: fi_op = 0;
pub const FI_MAX: fi_op = 1;
pub const FI_SUM: fi_op = 2;
pub const FI_PROD: fi_op = 3;
pub const FI_LOR: fi_op = 4;
pub const FI_LAND: fi_op = 5;
pub const FI_BOR: fi_op = 6;
pub const FI_BAND: fi_op = 7;
pub const FI_LXOR: fi_op = 8;
pub const FI_BXOR: fi_op = 9;
pub const FI_ATOMIC_READ: fi_op = 10;
pub const FI_ATOMIC_WRITE: fi_op = 11;
pub const FI_CSWAP: fi_op = 12;
pub const FI_CSWAP_NE: fi_op = 13;
pub const FI_CSWAP_LE: fi_op = 14;
pub const FI_CSWAP_LT: fi_op = 15;
pub const FI_CSWAP_GE: fi_op = 16;
pub const FI_CSWAP_GT: fi_op = 17;
pub const FI_MSWAP: fi_op = 18;
pub const FI_DIFF: fi_op = 19;
pub const FI_NOOP: fi_op = 256;

/// A collective operation.
pub type fi_collective_op = u32;
pub const FI_BARRIER: fi_collective_op = 0;
pub const FI_BROADCAST: fi_collective_op = 1;
pub const FI_ALLTOALL: fi_collective_op = 2;
pub const FI_ALLREDUCE: fi_collective_op = 3;
pub const FI_ALLGATHER: fi_collective_op = 4;
pub const FI_REDUCE_SCATTER: fi_collective_op = 5;
pub const FI_REDUCE: fi_collective_op = 6;
pub const FI_SCATTER: fi_collective_op = 7;
pub const FI_GATHER: fi_collective_op = 8;
