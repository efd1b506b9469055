//! libfabric.so.1: exported symbols, their versions, and the registry of providers.
