//! Adds the members of the envelope to params and results by splicing text. Every byte of the caller's text is kept.
//!
//! `_meta` of requests: <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>; `resultType`:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#resulttype>.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use super::shared::result_object;
use crate::{ErrorObject, Method, Payload, Raw, scan};

/// The members to add to an object.
#[derive(Debug, Default)]
pub(super) struct Additions<'a> {
    /// Text at the start: complete members, each followed by a comma.
    pub(super) lead: &'a str,
    /// Members of `_meta`, each a key and a JSON text. They replace members with the same key.
    pub(super) meta: &'a [(&'a str, &'a str)],
    /// One more member of `_meta`.
    pub(super) token: Option<(&'a str, &'a str)>,
}

impl<'a> Additions<'a> {
    /// Whether there is nothing to add.
    pub(super) fn is_empty(&self) -> bool {
        self.lead.is_empty() && self.meta().next().is_none()
    }

    /// The maximum number of bytes that are added. The keys are our own and need no escapes.
    pub(super) fn max_added_bytes(&self) -> usize {
        let members: usize = self.meta().map(|(key, value)| key.len() + value.len() + "\"\":,".len()).sum();
        self.lead.len() + members + "{\"_meta\":{},}".len()
    }

    fn meta(&self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone {
        self.meta.iter().copied().chain(self.token)
    }
}

/// Returns the object with the additions, or an object of the additions alone. An object that `lacks_meta` is known to
/// have no `_meta` and is not searched for it.
pub(super) fn splice(object: Option<Payload>, lacks_meta: bool, additions: &Additions<'_>) -> Payload {
    match object {
        Some(object) if additions.is_empty() => object,
        Some(large) if lacks_meta && additions.lead.is_empty() && large.raw().len() >= Raw::SHARED_FROM => {
            append(large, additions)
        }
        object => copy(object.as_ref(), lacks_meta, additions),
    }
}

/// Appends the additions to a large object without `_meta`, in place. Copies the object if its buffer is shared or
/// full.
fn append(object: Payload, additions: &Additions<'_>) -> Payload {
    let is_empty = |text: &str| text[1..].trim_start().starts_with('}');
    if is_empty(object.raw().as_str()) {
        return copy(Some(&object), true, additions);
    }
    let mut end = String::from(",\"_meta\":");
    merge(&mut end, "{}", additions);
    end.push('}');
    match object.into_raw().into_bytes().try_into_mut() {
        Ok(mut text) => {
            text.truncate(text.len() - 1);
            text.extend_from_slice(end.as_bytes());
            Payload::from_raw(Raw::trusted(text.freeze()))
        }
        Err(shared) => copy(Some(&Payload::from_raw(Raw::trusted(shared))), true, additions),
    }
}

/// Copies the object, with the additions at the start.
fn copy(object: Option<&Payload>, lacks_meta: bool, additions: &Additions<'_>) -> Payload {
    Payload::from_raw(Raw::trusted(copied_text(object, lacks_meta, additions).into()))
}

fn copied_text(object: Option<&Payload>, lacks_meta: bool, additions: &Additions<'_>) -> String {
    let empty = Raw::empty_object();
    let has_meta = additions.meta().next().is_some();
    let (text, existing) = match object {
        Some(payload) if lacks_meta || !has_meta => (payload.raw().as_str(), None),
        Some(payload) => (payload.raw().as_str(), payload.meta_range()),
        None => (empty.as_str(), None),
    };
    let added: usize = additions.meta().map(|(key, value)| key.len() + value.len() + "\"\":,".len()).sum();
    // The exact length for an object with members and without `_meta`, so that the text needs no second allocation.
    let around = if has_meta { "\"_meta\":{},".len() - ",".len() } else { 0 };
    let mut out = String::with_capacity(text.len() + additions.lead.len() + added + around);
    out.push('{');
    out.push_str(additions.lead);
    let inside = text[1..].trim_start();
    match existing {
        Some(range) => {
            let before = &text[1..range.start];
            out.push_str(before);
            merge(&mut out, &text[range.clone()], additions);
            out.push_str(&text[range.end..]);
        }
        None => {
            if has_meta {
                out.push_str("\"_meta\":");
                merge(&mut out, "{}", additions);
                out.push(',');
            }
            if inside.starts_with('}') && out.ends_with(',') {
                out.pop();
            }
            out.push_str(inside);
        }
    }
    out
}

/// Writes the members of `ours`, and then those of the object `existing`.
fn merge(out: &mut String, existing: &str, ours: &Additions<'_>) {
    out.push('{');
    let mut first = true;
    let mut comma = |out: &mut String| {
        if !core::mem::take(&mut first) {
            out.push(',');
        }
    };
    // Our keys need no escapes.
    for (key, value) in ours.meta() {
        comma(out);
        out.push('"');
        out.push_str(key);
        out.push_str("\":");
        out.push_str(value);
    }
    if existing == "{}" {
        out.push('}');
        return;
    }
    for (key, range) in scan::members_of(existing) {
        if ours.meta().any(|(ours, _)| ours == key) {
            continue;
        }
        comma(out);
        crate::json::push_string(&key, out);
        out.push(':');
        out.push_str(&existing[range]);
    }
    out.push('}');
}

/// Replaces the progress token and no other byte. `None` when the params have no token.
pub(super) fn replace_token(params: &Payload, token: &str) -> Option<Payload> {
    params.meta()?.member("progressToken")?;
    Some(params.with_meta_member("progressToken", &Raw::trusted(token.to_owned().into())))
}

/// The `resultType` of a complete result, as a first member.
pub(super) const COMPLETE: &str = "\"resultType\":\"complete\",";

/// The data for the envelope of a result: see [`Session::result_envelope`](super::Session::result_envelope).
#[derive(Clone, Debug)]
pub struct ResultEnvelope {
    meta: Vec<(&'static str, String)>,
    method: Method,
}

/// A result with its envelope.
#[derive(Clone, Debug, PartialEq)]
pub struct WrappedResult(pub(super) Payload);

impl ResultEnvelope {
    pub(super) const fn new(meta: Vec<(&'static str, String)>, method: Method) -> Self {
        Self { meta, method }
    }

    /// The method of the request.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// Adds the envelope to a result. The time grows with the length of the result.
    ///
    /// # Errors
    /// When the result is not an object.
    pub fn around(&self, result: Raw) -> Result<WrappedResult, ErrorObject> {
        let meta: Vec<_> = self.meta.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let result = result_object(result)?.indexed();
        Ok(WrappedResult(complete(&meta, &self.method, &result)))
    }
}

/// Adds the envelope to a complete result. A result that a gateway forwards may already have it.
pub(super) fn complete(meta: &[(&str, &str)], method: &Method, result: &Payload) -> Payload {
    let has = |key: &str| result.raw().member(key).is_some();
    let mut hints = String::new();
    if method.is_cacheable() {
        // Without hints of the handler the result is stale at once and not shared.
        if !has("ttlMs") {
            hints.push_str("\"ttlMs\":0,");
        }
        if !has("cacheScope") {
            hints.push_str("\"cacheScope\":\"private\",");
        }
    }
    enclose(meta, COMPLETE, &hints, result)
}

/// Adds `resultType`, if it is missing, and the cache hints at the start.
pub(super) fn enclose(meta: &[(&str, &str)], kind: &str, hints: &str, result: &Payload) -> Payload {
    let kind = if result.result_type_text().is_some() { "" } else { kind };
    let lead = [kind, hints].concat();
    splice(Some(result.clone()), false, &Additions { lead: &lead, meta, token: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(object: Option<&str>, lead: &str, meta: &[(&str, &str)]) -> String {
        let payload = object.map(|text| Payload::from_raw(Raw::parse(text.to_owned()).expect("valid")));
        let out = splice(payload, false, &Additions { lead, meta, token: None });
        Raw::parse(out.raw().as_str().to_owned()).expect("what is spliced is valid");
        out.raw().as_str().to_owned()
    }

    use alloc::borrow::ToOwned;
    use alloc::format;

    #[test]
    fn nothing_becomes_an_object_of_the_additions() {
        assert_eq!(spliced(None, "", &[("k", "1")]), r#"{"_meta":{"k":1}}"#);
        assert_eq!(spliced(Some("{ }"), "\"a\":1,", &[]), r#"{"a":1}"#);
        assert_eq!(spliced(None, "", &[]), "{}");
    }

    #[test]
    fn a_text_without_meta_is_written_without_room_to_spare() {
        let object = Payload::from_raw(Raw::parse(r#"{"name":"x"}"#.to_owned()).expect("valid"));
        let two = [("k", "1"), ("long", "{}")];
        for (meta, token) in [(&[][..], None), (&two[..1], None), (&two, None), (&two, Some(("t", "22")))] {
            for lead in ["", COMPLETE] {
                let text = copied_text(Some(&object), false, &Additions { lead, meta, token });
                assert_eq!(text.capacity(), text.len(), "{text}");
            }
        }
    }

    #[test]
    fn a_large_object_is_added_to_where_it_lies() {
        let text = |members: &str| format!(r#"{{"a":"{}"{members}}}"#, "x".repeat(Raw::SHARED_FROM));
        let payload = |text: &str| Payload::from_raw(Raw::parse(text.to_owned()).expect("valid"));
        let additions = Additions { lead: "", meta: &[("k", "1")], token: Some(("t", "2")) };
        let large = payload(&text(""));
        let shared = large.clone();
        let copied_text = splice(Some(large), true, &additions);
        assert!(
            copied_text.raw().as_str().starts_with(r#"{"_meta":{"k":1,"t":2},"a":"x"#),
            "it is held elsewhere"
        );
        let appended = splice(Some(shared), true, &additions);
        assert_eq!(appended.raw().as_str(), text(r#","_meta":{"k":1,"t":2}"#));
        Raw::parse(appended.raw().as_str().to_owned()).expect("what is appended is valid");
        // White space alone makes no members.
        let blank = payload(&format!("{{{}}}", " ".repeat(Raw::SHARED_FROM)));
        assert_eq!(splice(Some(blank), true, &additions).raw().as_str(), r#"{"_meta":{"k":1,"t":2}}"#);
    }

    #[test]
    fn the_text_around_stays_as_it_was_written() {
        assert_eq!(
            spliced(Some(r#"{ "name" : "x","arguments":{"n":1.50} }"#), "", &[("k", "1")]),
            r#"{"_meta":{"k":1},"name" : "x","arguments":{"n":1.50} }"#
        );
        assert_eq!(
            spliced(Some(r#"{"a":1e5,"_meta":{"theirs":[1, 2],"k":0} , "b":2}"#), "\"l\":1,", &[("k", "1")]),
            r#"{"l":1,"a":1e5,"_meta":{"k":1,"theirs":[1, 2]} , "b":2}"#
        );
    }

    #[test]
    fn an_enclosure_is_what_an_answer_gets() {
        let enclosed = |method, result: &str| {
            let enclosure = ResultEnvelope::new(alloc::vec![("k", "1".to_owned())], method);
            let result = Raw::parse(result.to_owned()).expect("valid");
            enclosure.around(result).map(|enclosed| enclosed.0.raw().as_str().to_owned())
        };
        assert_eq!(
            enclosed(Method::CallTool, r#"{"content":[]}"#).as_deref(),
            Ok(r#"{"resultType":"complete","_meta":{"k":1},"content":[]}"#)
        );
        assert_eq!(
            enclosed(Method::ListTools, r#"{"resultType":"x","ttlMs":5,"_meta":{"k":2,"l":3}}"#).as_deref(),
            Ok(r#"{"cacheScope":"private","resultType":"x","ttlMs":5,"_meta":{"k":1,"l":3}}"#)
        );
        assert!(enclosed(Method::CallTool, "[]").is_err());
    }
}
