//! Whether what a method needs was declared.
//!
//! The paths are those of the table in `method.rs`, which are those of the schemas' capability objects:
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation>.

use crate::Profile;
use crate::types::{ClientCapabilities, ServerCapabilities, task};

/// What a server declares in that revision: all but what the revision has no methods for. Tasks are in the core of one
/// revision and an extension of another; a server that has them says so in the words of each.
pub(super) fn in_revision(mut capabilities: ServerCapabilities, profile: &Profile) -> ServerCapabilities {
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

/// Whether a server has declared the capability of that path.
pub(super) fn by_server(capabilities: &ServerCapabilities, path: &str) -> bool {
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

/// Whether a client has declared the capability of that path.
pub(super) fn by_client(capabilities: &ClientCapabilities, path: &str) -> bool {
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
