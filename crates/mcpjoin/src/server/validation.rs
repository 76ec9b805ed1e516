//! Validates the arguments of a tool against its schema (feature `json-schema`).
//!
//! Used by `tools`, for the tools and the servers that ask for it
//! ([`ServerBuilder::validate_arguments`](super::ServerBuilder::validate_arguments)). `mcpjoin-schema` decides, within its limits.
//! Arguments never pass because they could not be validated.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#security-considerations>

use std::sync::OnceLock;

use mcpjoin_proto::Raw;
use mcpjoin_schema::{CompiledSchema, Uncompilable};

/// The compiled schema of a tool, or why there is none. Compiled once.
#[derive(Default)]
pub(super) struct Validator(OnceLock<Result<CompiledSchema, Uncompilable>>);

/// Why a call does not reach its handler.
pub(super) enum Refused {
    /// The arguments are not valid, or too large to be validated. For the model.
    Arguments(String),
    /// The schema cannot be compiled. The fault of the server.
    Schema(Uncompilable),
}

impl Validator {
    /// Checks the arguments of a call. `schema` is called once.
    pub(super) fn check(&self, schema: impl FnOnce() -> Raw, arguments: &Raw) -> Result<(), Refused> {
        let compiled = self.0.get_or_init(|| CompiledSchema::new(&schema()));
        let compiled = compiled.as_ref().map_err(|problem| Refused::Schema(problem.clone()))?;
        match compiled.violations(arguments) {
            Ok(violations) if violations.is_empty() => Ok(()),
            Ok(violations) => Err(Refused::Arguments(violations.to_string())),
            Err(undecided) => Err(Refused::Arguments(undecided.to_string())),
        }
    }
}
