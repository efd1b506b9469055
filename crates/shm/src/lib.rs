//! The shm provider.
