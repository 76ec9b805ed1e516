//! Checks whether a capability is declared.
//!
//! The paths are those of the table in `method.rs`, named as in the capability objects of the schemas:
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation>.

use alloc::format;

use crate::types::{ClientCapabilities, InputRequest, ServerCapabilities, task};
use crate::{ErrorObject, Method, Profile, Raw, code};

/// The capabilities that a server declares in a revision, without those that the revision has no methods for. Tasks are
/// a core capability in 2025-11-25 and an extension in 2026-07-28.
pub(super) fn supported_in(mut capabilities: ServerCapabilities, profile: &Profile) -> ServerCapabilities {
    if !profile.core_tasks {
        capabilities.tasks = None;
    }
    if profile.initialize
        && let Some(extensions) = &mut capabilities.extensions
        && extensions.remove(task::EXTENSION).is_some()
        && extensions.is_empty()
    {
        capabilities.extensions = None;
    }
    capabilities
}

/// Whether a server declares the capability with this path.
pub(super) fn server_declares(capabilities: &ServerCapabilities, path: &str) -> bool {
    let tools = capabilities.tools.as_ref();
    let resources = capabilities.resources.as_ref();
    let prompts = capabilities.prompts.as_ref();
    match path {
        "tools" => tools.is_some(),
        "tools.listChanged" => tools.is_some_and(|tools| tools.list_changed == Some(true)),
        "resources" => resources.is_some(),
        "resources.listChanged" => resources.is_some_and(|resources| resources.list_changed == Some(true)),
        "resources.subscribe" => resources.is_some_and(|resources| resources.subscribe == Some(true)),
        "prompts" => prompts.is_some(),
        "prompts.listChanged" => prompts.is_some_and(|prompts| prompts.list_changed == Some(true)),
        "completions" => capabilities.completions.is_some(),
        "logging" => capabilities.logging.is_some(),
        _ => false,
    }
}

/// Whether a client declares the capability with this path.
pub(super) fn client_declares(capabilities: &ClientCapabilities, path: &str) -> bool {
    let elicitation = capabilities.elicitation.as_ref();
    match path {
        "roots" => capabilities.roots.is_some(),
        "roots.listChanged" => {
            capabilities.roots.as_ref().is_some_and(|roots| roots.list_changed == Some(true))
        }
        "sampling" => capabilities.sampling.is_some(),
        "elicitation" => elicitation.is_some(),
        "elicitation.url" => elicitation.is_some_and(|elicitation| elicitation.url.is_some()),
        _ => false,
    }
}

/// The capability that a client lacks for this input request, as the JSON of a capability object.
pub(super) fn undeclared_input(
    request: &InputRequest,
    capabilities: &ClientCapabilities,
) -> Option<&'static str> {
    match Method::parse(request.method()) {
        Method::CreateMessage if capabilities.sampling.is_none() => Some("{\"sampling\":{}}"),
        Method::ListRoots if capabilities.roots.is_none() => Some("{\"roots\":{}}"),
        Method::Elicit => {
            let declared = capabilities.elicitation.as_ref();
            match (request.is_url_elicitation(), declared) {
                (true, Some(elicitation)) if elicitation.url.is_some() => None,
                (true, _) => Some("{\"elicitation\":{\"url\":{}}}"),
                // A client that declares an empty `elicitation` supports forms.
                (false, Some(elicitation)) if elicitation.form.is_some() || elicitation.url.is_none() => None,
                (false, _) => Some("{\"elicitation\":{\"form\":{}}}"),
            }
        }
        _ => None,
    }
}

pub(super) fn declares_tasks(capabilities: &ClientCapabilities) -> bool {
    capabilities.extensions.as_ref().is_some_and(|known| known.contains_key(task::EXTENSION))
}

/// The error for a client that uses tasks without declaring the extension.
pub(super) fn missing_tasks_capability() -> ErrorObject {
    missing_capability(&format!("{{\"extensions\":{{\"{}\":{{}}}}}}", task::EXTENSION))
}

pub(super) fn missing_capability(required: &str) -> ErrorObject {
    ErrorObject::new(
        code::MISSING_REQUIRED_CLIENT_CAPABILITY,
        format!("this request needs a client capability that it does not declare: {required}"),
    )
    .with_data(Raw::trusted(format!("{{\"requiredCapabilities\":{required}}}").into()))
}
