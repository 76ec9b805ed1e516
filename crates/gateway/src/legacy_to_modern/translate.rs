//! Results and errors of a modern server in the words of a legacy revision. What differs is taken out or put in; every
//! other byte stays.

use std::sync::{Mutex, PoisonError};

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Profile, Raw, Version, code};

use mcpjoin::internal::KnownTools;
use mcpjoin::internal::{is_of_object, wrap, wrapped};

/// The tools whose structured results go into an object, as their lists have said.
#[derive(Default)]
pub(super) struct Wraps(Mutex<KnownTools<()>>);

/// Whether a result asks for input.
pub(super) fn needs_input(result: &Payload) -> bool {
    let kind = result.result_type();
    kind.as_ref().and_then(Raw::to_string_value).as_deref() == Some("input_required")
}

/// A result without the envelope of the modern era, in the words of that revision.
pub(super) fn result(
    profile: &Profile,
    method: &Method,
    asked: Option<&Payload>,
    result: Payload,
    wraps: &Wraps,
) -> Payload {
    let result = result
        .without_members(|name| {
            name == "resultType" || method.is_cacheable() && matches!(name, "ttlMs" | "cacheScope")
        })
        .without_meta_members(|key| key == key::SERVER_INFO);
    match method {
        Method::ListTools => tools(profile, result, wraps),
        Method::CallTool => called(profile, asked, result, wraps),
        Method::GetPrompt if !knows_all_content(profile) => each(result, "messages", |message| {
            let content = message.member("content")?;
            let shown = in_words_of(profile, &content)?;
            Some(Payload::from_raw(message.clone()).with_member("content", &shown).into_raw())
        }),
        _ => result,
    }
}

fn knows_all_content(profile: &Profile) -> bool {
    profile.audio && profile.resource_links
}

/// The members of an array, each changed where `change` says how.
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

/// A list of tools: until 2025-11-25 a structured result is an object, and before 2025-06-18 there is none.
fn tools(profile: &Profile, result: Payload, wraps: &Wraps) -> Payload {
    each(result, "tools", |tool| {
        let schema = tool.member("outputSchema")?;
        let other = Payload::from_raw(tool.clone());
        if !profile.structured_content {
            return Some(other.without_members(|name| name == "outputSchema").into_raw());
        }
        let name = tool.member("name")?;
        let name = name.to_string_value()?;
        if is_of_object(&schema) {
            wraps.forget(&name);
            return None;
        }
        wraps.keep(&name);
        Some(match wrapped(&schema) {
            Some(schema) => other.with_member("outputSchema", &schema).into_raw(),
            None => other.without_members(|name| name == "outputSchema").into_raw(),
        })
    })
}

/// The result of a tool.
fn called(profile: &Profile, asked: Option<&Payload>, result: Payload, wraps: &Wraps) -> Payload {
    let result = match result.raw().member("structuredContent") {
        Some(_) if !profile.structured_content => result.without_members(|name| name == "structuredContent"),
        Some(value) => {
            let name = asked.and_then(Payload::name_string);
            let wraps = value.kind() != Kind::Object || name.is_some_and(|name| wraps.has(&name));
            match wrap(&value).filter(|_| wraps) {
                Some(object) => result.with_member("structuredContent", &object),
                None => result,
            }
        }
        None => result,
    };
    if knows_all_content(profile) {
        return result;
    }
    each(result, "content", |content| in_words_of(profile, content))
}

/// Content that a revision has no word for, as text.
fn in_words_of(profile: &Profile, content: &Raw) -> Option<Raw> {
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

impl Wraps {
    fn with<T>(&self, act: impl FnOnce(&mut KnownTools<()>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, name: &str) {
        self.with(|names| names.insert(name, (), 0));
    }

    fn forget(&self, name: &str) {
        self.with(|names| names.remove(name));
    }

    fn has(&self, name: &str) -> bool {
        self.with(|names| names.get(name).is_some())
    }
}

/// An error in the words of that revision.
pub(super) fn error(profile: &Profile, method: &Method, error: ErrorObject) -> ErrorObject {
    match method {
        // What is no resource is said with the same code as parameters that do not fit.
        Method::ReadResource if error.code == code::INVALID_PARAMS => {
            ErrorObject { code: profile.resource_not_found, ..error }
        }
        _ => error,
    }
}

/// The answer to `server/discover` as one to `initialize`.
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
    use mcpjoin::internal::{MAX_KNOWN_TOOL_BYTES as MOST_BYTES, MAX_KNOWN_TOOLS as TOOLS};

    #[test]
    fn the_names_of_so_many_tools_are_remembered() {
        let wraps = Wraps::default();
        (0..=TOOLS).for_each(|name| wraps.keep(&name.to_string()));
        assert!((0..TOOLS).all(|name| wraps.has(&name.to_string())));
        assert!(!wraps.has(&TOOLS.to_string()));
        wraps.forget("0");
        wraps.keep("more");
        assert!(wraps.has("more"));
    }

    #[test]
    fn the_names_that_are_remembered_for_a_legacy_client_have_a_total_in_bytes() {
        let wraps = Wraps::default();
        let name = |of: &str| of.repeat(MOST_BYTES / 2);
        ["a", "b", "c"].iter().for_each(|of| wraps.keep(&name(of)));
        assert!(wraps.has(&name("a")) && wraps.has(&name("b")) && !wraps.has(&name("c")));
    }
}
