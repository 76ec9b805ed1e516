//! Tools that are not for clients: in no list, and not to be called.

use mcpjoin_proto::{ErrorObject, Method, Payload, Raw, Request};

use super::builder::{Allows, Settings};

/// Which tools there are for clients. All of them, mostly.
#[derive(Clone)]
pub(super) struct Filter(Option<Allows>);

pub(super) fn of(settings: &Settings) -> Filter {
    Filter(settings.allows.clone())
}

impl Filter {
    /// Refuses the call of a tool that there is not.
    pub(super) fn check(&self, request: &Request) -> Result<(), ErrorObject> {
        let (Some(allows), Method::CallTool) = (&self.0, &request.method) else { return Ok(()) };
        let name = request.params.as_ref().and_then(Payload::name_string);
        match name {
            // Which tool it is, or that it is none, the server says.
            None => Ok(()),
            Some(name) if allows(&name) => Ok(()),
            Some(name) => {
                let shown: String = name.chars().take(100).collect();
                Err(ErrorObject::invalid_params(format!("unknown tool: {}", shown.escape_debug())))
            }
        }
    }

    /// Takes them out of a list. The others stay as they were written.
    pub(super) fn apply(&self, method: &Method, result: Payload) -> Result<Payload, ErrorObject> {
        let (Some(allows), Method::ListTools) = (&self.0, method) else { return Ok(result) };
        let Some(tools) = result.raw().member("tools") else { return Ok(result) };
        // What cannot be read cannot be handed on: it may hold what is not for clients.
        let tools: Vec<Raw> = tools
            .decode()
            .map_err(|error| ErrorObject::internal(format!("the list of tools cannot be read: {error}")))?;
        let named = |tool: &&Raw| {
            let name = tool.member("name");
            name.as_ref().and_then(Raw::to_string_value).is_some_and(|name| allows(&name))
        };
        let kept: Vec<&str> = tools.iter().filter(named).map(Raw::as_str).collect();
        let kept = Raw::parse(format!("[{}]", kept.join(",")))
            .map_err(|error| ErrorObject::internal(error.to_string()))?;
        Ok(result.with_member("tools", &kept))
    }
}
