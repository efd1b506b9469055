//! The vocabulary of libfabric: error numbers, capabilities, flags, addresses, endpoint descriptions.
