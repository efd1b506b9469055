//! User buffers behind a safe face.
