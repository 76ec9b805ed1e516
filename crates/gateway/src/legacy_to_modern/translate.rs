//! Translates results and errors of a modern server into a legacy revision. Members that differ are removed, added or
//! replaced; every other byte stays.

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Profile, Raw, Version, code};
use parking_lot::Mutex;

use mcpjoin::internal::{KnownTools, is_of_object, wrap, wrapped};

/// The tools whose structured results are wrapped in an object, as learned from lists.
#[derive(Default)]
pub(super) struct WrappedTools(Mutex<KnownTools<()>>);

/// Whether a result asks for input.
pub(super) fn needs_input(result: &Payload) -> bool {
    let kind = result.result_type();
    kind.as_ref().and_then(Raw::to_string_value).as_deref() == Some("input_required")
}

/// Translates a result into that revision, without the envelope of the modern era.
pub(super) fn result(
    profile: &Profile,
    method: &Method,
    params: Option<&Payload>,
    result: Payload,
    wrapped_tools: &WrappedTools,
) -> Payload {
    let result = result
        .without_members(|name| {
            name == "resultType" || method.is_cacheable() && matches!(name, "ttlMs" | "cacheScope")
        })
        .without_meta_members(|key| key == key::SERVER_INFO);
    match method {
        Method::ListTools => tools(profile, result, wrapped_tools),
        Method::CallTool => called(profile, params, result, wrapped_tools),
        Method::GetPrompt if !has_all_content(profile) => each(result, "messages", |message| {
            let content = message.member("content")?;
            let content = translated_content(profile, &content)?;
            Some(Payload::from_raw(message.clone()).with_member("content", &content).into_raw())
        }),
        _ => result,
    }
}

fn has_all_content(profile: &Profile) -> bool {
    profile.audio && profile.resource_links
}

/// Replaces the members of an array for which `change` gives another value.
fn each(result: Payload, name: &str, change: impl Fn(&Raw) -> Option<Raw>) -> Payload {
    let Some(members) = result.raw().member(name).and_then(|array| array.decode::<Vec<Raw>>().ok()) else {
        return result;
    };
    let mut changed = false;
    let members: Vec<Raw> = members
        .into_iter()
        .map(|member| match change(&member) {
            Some(other) => {
                changed = true;
                other
            }
            None => member,
        })
        .collect();
    if !changed {
        return result;
    }
    match Raw::from_value(&members) {
        Ok(members) => result.with_member(name, &members),
        Err(_) => result,
    }
}

/// Translates a list of tools. Until 2025-11-25 a structured result is an object, and before 2025-06-18 there is none.
fn tools(profile: &Profile, result: Payload, wrapped_tools: &WrappedTools) -> Payload {
    each(result, "tools", |tool| {
        let schema = tool.member("outputSchema")?;
        let other = Payload::from_raw(tool.clone());
        if !profile.structured_content {
            return Some(other.without_members(|name| name == "outputSchema").into_raw());
        }
        let name = tool.member("name")?;
        let name = name.to_string_value()?;
        if is_of_object(&schema) {
            wrapped_tools.remove(&name);
            return None;
        }
        wrapped_tools.insert(&name);
        Some(match wrapped(&schema) {
            Some(schema) => other.with_member("outputSchema", &schema).into_raw(),
            None => other.without_members(|name| name == "outputSchema").into_raw(),
        })
    })
}

/// Translates the result of a tool.
fn called(
    profile: &Profile,
    params: Option<&Payload>,
    result: Payload,
    wrapped_tools: &WrappedTools,
) -> Payload {
    let result = match result.raw().member("structuredContent") {
        Some(_) if !profile.structured_content => result.without_members(|name| name == "structuredContent"),
        Some(value) => {
            let name = params.and_then(Payload::name_string);
            let is_wrapped =
                value.kind() != Kind::Object || name.is_some_and(|name| wrapped_tools.contains(&name));
            match wrap(&value).filter(|_| is_wrapped) {
                Some(object) => result.with_member("structuredContent", &object),
                None => result,
            }
        }
        None => result,
    };
    if has_all_content(profile) {
        return result;
    }
    each(result, "content", |content| translated_content(profile, content))
}

/// Content of a type that the revision does not have, as text.
fn translated_content(profile: &Profile, content: &Raw) -> Option<Raw> {
    let member = |name: &str| content.member(name)?.to_string_value().map(std::borrow::Cow::into_owned);
    let text = match member("type")?.as_str() {
        "resource_link" if !profile.resource_links => member("uri").unwrap_or_default(),
        "audio" if !profile.audio => {
            format!("[sound of type {}]", member("mimeType").unwrap_or_default())
        }
        _ => return None,
    };
    Raw::from_value(&mcpjoin_proto::types::Content::text(text)).ok()
}

impl WrappedTools {
    fn with<T>(&self, act: impl FnOnce(&mut KnownTools<()>) -> T) -> T {
        act(&mut self.0.lock())
    }

    fn insert(&self, name: &str) {
        self.with(|names| names.insert(name, (), 0));
    }

    fn remove(&self, name: &str) {
        self.with(|names| names.remove(name));
    }

    fn contains(&self, name: &str) -> bool {
        self.with(|names| names.get(name).is_some())
    }
}

/// Translates an error into that revision.
pub(super) fn error(profile: &Profile, method: &Method, error: ErrorObject) -> ErrorObject {
    match method {
        // The modern era uses the code for invalid parameters for a resource that does not exist.
        Method::ReadResource if error.code == code::INVALID_PARAMS => {
            ErrorObject { code: profile.resource_not_found, ..error }
        }
        _ => error,
    }
}

/// Translates the result of `server/discover` into one of `initialize`.
pub(super) fn initialized(discovered: Payload, version: &Version) -> Payload {
    let unnamed =
        || Raw::parse(r#"{"name":"unknown","version":"unknown"}"#).unwrap_or_else(|_| Raw::empty_object());
    let info = discovered.meta().and_then(|meta| meta.member(key::SERVER_INFO)).unwrap_or_else(unnamed);
    discovered
        .without_members(|name| matches!(name, "resultType" | "ttlMs" | "cacheScope" | "supportedVersions"))
        .without_meta_members(|key| key == key::SERVER_INFO)
        .with_member("serverInfo", &info)
        .with_member("protocolVersion", &Raw::string(version.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcpjoin::internal::{MAX_KNOWN_TOOL_BYTES, MAX_KNOWN_TOOLS};

    #[test]
    fn the_number_of_remembered_tool_names_is_limited() {
        let tools = WrappedTools::default();
        (0..=MAX_KNOWN_TOOLS).for_each(|name| tools.insert(&name.to_string()));
        assert!((0..MAX_KNOWN_TOOLS).all(|name| tools.contains(&name.to_string())));
        assert!(!tools.contains(&MAX_KNOWN_TOOLS.to_string()));
        tools.remove("0");
        tools.insert("more");
        assert!(tools.contains("more"));
    }

    #[test]
    fn the_names_that_are_remembered_for_a_legacy_client_have_a_total_in_bytes() {
        let tools = WrappedTools::default();
        let name = |of: &str| of.repeat(MAX_KNOWN_TOOL_BYTES / 2);
        ["a", "b", "c"].iter().for_each(|of| tools.insert(&name(of)));
        assert!(tools.contains(&name("a")) && tools.contains(&name("b")) && !tools.contains(&name("c")));
    }
}
