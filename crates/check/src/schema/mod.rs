//! JSON Schema as far as rules need it: whether a schema is one of its draft ([`fault`]), and whether a value conforms
//! ([`Fit`]). Nothing is fetched: a `$ref` that leads elsewhere is not followed.
//!
//! What cannot be decided here (a pattern, a reference to another document, a draft that is not known) accuses nobody.
//!
//! <https://json-schema.org/draft/2020-12>

mod draft;
mod fit;

pub(crate) use draft::{Draft, fault};
pub(crate) use fit::{Fit, conforms, lost_reference};
