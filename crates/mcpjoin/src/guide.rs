//! Guides: a page for each job. Their programs are compiled with the tests of this crate.
//!
//! The pages are in the documentation of every set of features. Their programs are compiled where the crate has the features that
//! they use: `child`, `http-client` and `http-server`, `testing`, `otel`.
//!
//! A page links to another one with a reference, such as `[testing.md]`, which it defines for those who read it in the
//! repository. Of two definitions the first one counts, so those in this file lead to the page in this documentation. All other
//! links are complete addresses.

/// [testing.md]: crate::guide::testing
#[doc = include_str!("../docs/writing-a-server.md")]
pub mod writing_a_server {}

/// [embedding.md]: crate::guide::embedding
/// [logging-in.md]: crate::guide::logging_in
/// [testing.md]: crate::guide::testing
#[doc = include_str!("../docs/writing-a-client.md")]
pub mod writing_a_client {}

/// [writing-a-server.md]: crate::guide::writing_a_server#with-access-tokens
#[doc = include_str!("../docs/logging-in.md")]
pub mod logging_in {}

#[cfg(any(feature = "testing", all(doc, not(doctest))))]
#[doc = include_str!("../docs/testing.md")]
pub mod testing {}

/// [writing-a-client.md]: crate::guide::writing_a_client#work-that-blocks
/// [writing-a-server.md]: crate::guide::writing_a_server#one-server-out-of-several
#[doc = include_str!("../docs/embedding.md")]
pub mod embedding {}

#[doc = include_str!("../docs/writing-a-transport.md")]
pub mod writing_a_transport {}

#[cfg(any(feature = "otel", all(doc, not(doctest))))]
#[doc = include_str!("../docs/opentelemetry.md")]
pub mod opentelemetry {}

/// [logging-in.md]: crate::guide::logging_in
/// [testing.md]: crate::guide::testing
#[doc = include_str!("../docs/from-rmcp.md")]
pub mod from_rmcp {}
