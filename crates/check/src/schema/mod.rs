//! JSON Schema as far as rules need it: whether a schema is one of its draft ([`fault`]), and whether a value conforms
//! ([`Fit`]). Nothing is fetched: a `$ref` that leads elsewhere is not followed.
//!
//! What cannot be decided here (a pattern, a reference to another document, a draft that is not known) accuses nobody.
//!
//! <https://json-schema.org/draft/2020-12>

mod draft;
mod fit;

use mcpjoin_proto::Raw;

pub(crate) use self::draft::{Draft, fault};
pub(crate) use self::fit::{Fit, conforms, lost_reference};
use crate::json::Json;

/// Why a value does not conform to a JSON Schema; `None` where it does, and where that cannot be told without fetching
/// something or running a pattern.
#[must_use]
pub fn misfit(schema: &Raw, value: &Raw) -> Option<String> {
    match conforms(&Json::of(schema)?, &Json::of(value)?) {
        Fit::No(why) => Some(why),
        Fit::Yes | Fit::Unknown => None,
    }
}
