//! What HTTP adds.
