//! Rings and locks shared by the providers.
