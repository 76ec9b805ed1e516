//! Compares the declared capabilities of a client with what a handler needs, and unites those of mounted servers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#capability-negotiation>. The session
//! checks every request for input again. This check is earlier, and its errors are written for handlers.

use mcpjoin_proto::types::{
    ClientCapabilities, ElicitationCapability, InputRequest, ProtocolType, ServerCapabilities, task,
};
use mcpjoin_proto::{ErrorObject, Raw, code};
use serde::Serialize;
use serde_json::Value;

/// Returns the capability that the client lacks for this request for input.
pub fn undeclared(question: &InputRequest, capabilities: &ClientCapabilities) -> Option<&'static str> {
    let elicitation = capabilities.elicitation.as_ref();
    let (declared, capability) = match question {
        InputRequest::CreateMessage(_) => (capabilities.sampling.is_some(), "sampling"),
        InputRequest::ListRoots(_) => (capabilities.roots.is_some(), "roots"),
        InputRequest::Elicit(params) if params.is_url() => {
            (elicitation.is_some_and(|elicitation| elicitation.url.is_some()), "elicitation.url")
        }
        // An `elicitation` without members means forms.
        _ => (
            elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none()),
            "elicitation",
        ),
    };
    (!declared).then_some(capability)
}

/// Returns the path of the first needed capability that is not declared.
pub(super) fn missing(needed: &ClientCapabilities, declared: &ClientCapabilities) -> Option<String> {
    missing_in("", &object(needed), Some(&object(declared)))
}

/// The depth and size are those of `needed`, which the handler has written.
fn missing_in(path: &str, needed: &Value, declared: Option<&Value>) -> Option<String> {
    match (needed, declared) {
        (Value::Bool(false), _) => None,
        (_, None) => Some(path.to_owned()),
        (Value::Object(members), Some(declared)) => members.iter().find_map(|(name, member)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            missing_in(&path, member, declared.get(name))
        }),
        (Value::Bool(true), Some(declared)) => (declared != &Value::Bool(true)).then(|| path.to_owned()),
        _ => None,
    }
}

/// Returns the capabilities as JSON. An `elicitation` without members gets the member `form`.
fn object(capabilities: &ClientCapabilities) -> Value {
    let mut capabilities = capabilities.clone();
    if let Some(elicitation @ ElicitationCapability { form: None, url: None, .. }) =
        &mut capabilities.elicitation
    {
        elicitation.form = Some(Raw::empty_object());
    }
    capabilities.to_raw().ok().and_then(|raw| raw.decode().ok()).unwrap_or_default()
}

/// Adds the capabilities of a mounted server to those of the server that it is mounted on.
pub(super) fn unite(to: &mut ServerCapabilities, mounted: &ServerCapabilities) {
    if let Some(mounted) = &mounted.tools {
        let declared = to.tools.get_or_insert_default();
        declared.list_changed = either(declared.list_changed, mounted.list_changed);
    }
    if let Some(mounted) = &mounted.prompts {
        let declared = to.prompts.get_or_insert_default();
        declared.list_changed = either(declared.list_changed, mounted.list_changed);
    }
    if let Some(mounted) = &mounted.resources {
        let declared = to.resources.get_or_insert_default();
        declared.list_changed = either(declared.list_changed, mounted.list_changed);
        declared.subscribe = either(declared.subscribe, mounted.subscribe);
    }
    to.completions = to.completions.take().or_else(|| mounted.completions.clone());
    to.logging = to.logging.take().or_else(|| mounted.logging.clone());
    to.tasks = to.tasks.take().or_else(|| mounted.tasks.clone());
    if let Some(mounted) = &mounted.extensions {
        let declared = to.extensions.get_or_insert_default();
        for (name, settings) in mounted.iter() {
            if !declared.contains_key(name) {
                declared.insert(name, settings.clone());
            }
        }
    }
}

fn either(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    one.filter(|is_declared| *is_declared).or(other).or(one)
}

/// Returns the capabilities of a client that accepts tasks.
pub(super) fn of_tasks() -> ClientCapabilities {
    ClientCapabilities::default().with_extensions([(task::EXTENSION, Raw::empty_object())])
}

/// Returns the error of the modern era for a missing capability.
pub(super) fn error(required: &ClientCapabilities, message: &str) -> ErrorObject {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data<'a> {
        required_capabilities: &'a ClientCapabilities,
    }

    let error = ErrorObject::new(code::MISSING_REQUIRED_CLIENT_CAPABILITY, message);
    match Raw::from_value(&Data { required_capabilities: required }) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;
    use mcpjoin_proto::types::ClientCapabilities;

    use super::missing;

    fn read(text: &'static str) -> ClientCapabilities {
        Raw::parse(text).expect("JSON").decode().expect("capabilities")
    }

    #[test]
    fn what_is_needed_is_found_at_every_depth() {
        for (needed, declared, lacking) in [
            ("{}", "{}", None),
            (r#"{"sampling":{}}"#, "{}", Some("sampling")),
            (r#"{"sampling":{}}"#, r#"{"sampling":{"tools":{}}}"#, None),
            (r#"{"sampling":{"tools":{}}}"#, r#"{"sampling":{}}"#, Some("sampling.tools")),
            (r#"{"roots":{"listChanged":true}}"#, r#"{"roots":{}}"#, Some("roots.listChanged")),
            (
                r#"{"roots":{"listChanged":true}}"#,
                r#"{"roots":{"listChanged":false}}"#,
                Some("roots.listChanged"),
            ),
            (r#"{"roots":{"listChanged":false}}"#, r#"{"roots":{}}"#, None),
            (r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{}}}"#, None),
            (r#"{"elicitation":{"form":{}}}"#, r#"{"elicitation":{}}"#, None),
            (r#"{"elicitation":{}}"#, r#"{"elicitation":{"url":{}}}"#, Some("elicitation.form")),
            (r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":{}}"#, Some("elicitation.url")),
            (r#"{"extensions":{"a/b":{}}}"#, r#"{"extensions":{}}"#, Some("extensions.a/b")),
            (r#"{"own":{}}"#, r#"{"own":{"x":1}}"#, None),
        ] {
            assert_eq!(missing(&read(needed), &read(declared)).as_deref(), lacking, "{needed} {declared}");
        }
    }
}
