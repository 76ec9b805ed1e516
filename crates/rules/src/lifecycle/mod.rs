//! The chapter of the lifecycle: how both sides negotiate a version and capabilities, in both eras.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

pub(crate) mod capabilities;
pub(crate) mod initialize;
pub(crate) mod modern;
