//! Unmodified programs run against a `libfabric.so.1`.
