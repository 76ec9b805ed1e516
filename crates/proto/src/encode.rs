//! Message -> bytes.
