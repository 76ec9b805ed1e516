//! JSON Schema within limits: whether a schema is valid in its draft ([`fault`]), whether a value conforms to one
//! ([`conforms`]), and all that is wrong with a value ([`CompiledSchema`]).
//!
//! Used by the rules about tools, sampling and elicitation (`mcpjoin-rules`), by `mcpjoin validate` for the arguments of calls,
//! and by servers that validate the arguments of their tools (`mcpjoin`, feature `json-schema`). The crate `jsonschema` decides;
//! this crate limits its work and words its findings. Nothing is fetched. `format`, `contentEncoding` and `contentMediaType` are
//! annotations. Patterns are matched in linear time, so look-around and back-references do not compile.
//!
//! <https://json-schema.org/draft/2020-12>
#![forbid(unsafe_code)]

mod compiled;
mod conformance;
mod number;

pub use compiled::{CompiledSchema, MAX_VIOLATIONS, Uncompilable, Undecided, Violation, Violations};
pub use conformance::{Conformance, conforms, fault, lost_reference, nonconformity};
pub use number::{canonical_number, value};
