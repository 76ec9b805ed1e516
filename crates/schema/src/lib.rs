//! JSON Schema within limits: whether a schema is valid in its draft ([`fault`]), and whether a value conforms to one
//! ([`conforms`]).
//!
//! Used by the rules about tools, sampling and elicitation (`mcpjoin-rules`), and by `mcpjoin validate` for the arguments of
//! calls. The crate `jsonschema` decides;
//! this crate limits its work and words its findings. Nothing is fetched. `format`, `contentEncoding` and `contentMediaType` are
//! annotations. Patterns are matched in linear time, so look-around and back-references do not compile.
//!
//! <https://json-schema.org/draft/2020-12>
#![forbid(unsafe_code)]

mod conformance;
mod number;

pub use conformance::{Conformance, conforms, fault, lost_reference, nonconformity};
pub use number::{canonical_number, value};
