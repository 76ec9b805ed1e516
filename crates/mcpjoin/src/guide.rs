//! Guides: a page for each job. Their programs are compiled with the tests of this crate.
//!
//! The pages are in this documentation if the crate is built with `child`, `http-client` and `http-server`, which they use.

#[doc = include_str!("../docs/writing-a-server.md")]
pub mod writing_a_server {}

#[doc = include_str!("../docs/writing-a-client.md")]
pub mod writing_a_client {}

#[doc = include_str!("../docs/logging-in.md")]
pub mod logging_in {}

#[cfg(feature = "testing")]
#[doc = include_str!("../docs/testing.md")]
pub mod testing {}

#[doc = include_str!("../docs/embedding.md")]
pub mod embedding {}

#[doc = include_str!("../docs/writing-a-transport.md")]
pub mod writing_a_transport {}

#[cfg(feature = "otel")]
#[doc = include_str!("../docs/opentelemetry.md")]
pub mod opentelemetry {}

#[doc = include_str!("../docs/from-rmcp.md")]
pub mod from_rmcp {}
