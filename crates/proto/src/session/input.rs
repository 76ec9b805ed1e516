//! What asking a client for input needs.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use crate::Method;
use crate::types::{ClientCapabilities, InputRequest};

/// The capability, as the JSON of the object that declares it, which a client lacks for this question.
pub(super) fn undeclared(request: &InputRequest, capabilities: &ClientCapabilities) -> Option<&'static str> {
    match Method::parse(request.method()) {
        Method::CreateMessage if capabilities.sampling.is_none() => Some("{\"sampling\":{}}"),
        Method::ListRoots if capabilities.roots.is_none() => Some("{\"roots\":{}}"),
        Method::Elicit => {
            let declared = capabilities.elicitation.as_ref();
            match (request.is_url_elicitation(), declared) {
                (true, Some(elicitation)) if elicitation.url.is_some() => None,
                (true, _) => Some("{\"elicitation\":{\"url\":{}}}"),
                // A client that declares nothing in particular means forms.
                (false, Some(elicitation)) if elicitation.form.is_some() || elicitation.url.is_none() => None,
                (false, _) => Some("{\"elicitation\":{\"form\":{}}}"),
            }
        }
        _ => None,
    }
}
