//! Splits lists that have one page: shows whether a client reads all pages.
//!
//! Called with each message before it is forwarded. The client gets all entries of the server, in the same order; the
//! last ones have a cursor of ours, which the server never sees.

use std::collections::{HashMap, HashSet};

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Message, Method, Raw, RequestId, code};
use mcpjoin_rules::Line;

use crate::engine::only_request;

/// The cursor of the entries that were split off.
const REST: &str = "mcpjoin-look-rest";
/// The cursor of the last entry, in the era in which an empty cursor is valid.
const EMPTY: &str = "";
/// How long a client may cache such a page, in milliseconds, in the era that says it: long enough for each list, short
/// enough to see whether the client asks again.
const TTL_MS: &str = "1000";
/// Requests without a response whose lists may be split.
const MAX_IN_FLIGHT: usize = 1000;

/// The lists that were split.
#[derive(Default)]
pub(super) struct Pages {
    /// The further pages, by run, method and cursor.
    rest: HashMap<(usize, Method, &'static str), Rest>,
    /// The requests for lists without a response, and whether each has a cursor.
    in_flight: HashMap<(usize, RequestId), (Method, bool)>,
    /// The runs in which a cursor was refused.
    refused: HashSet<usize>,
    /// Whether one cursor of each run is refused.
    refuses: bool,
}

struct Rest {
    result: Members<Raw>,
    entries: Vec<Raw>,
    next: Option<&'static str>,
}

impl Pages {
    pub(super) fn new(refuses: bool) -> Self {
        Self { refuses, ..Self::default() }
    }

    /// The response to a request of the client, if it asks for a page of ours.
    pub(super) fn response_to(&mut self, run: usize, modern: bool, line: &Line) -> Option<Vec<u8>> {
        let request = only_request(line)?;
        let key = key(&request.method)?;
        let cursor = request.params.as_ref().and_then(|params| params.raw().member("cursor"));
        let cursor = cursor.filter(|cursor| cursor.kind() != Kind::Null);
        let given = cursor.as_ref().and_then(Raw::to_string_value);
        let known = [REST, EMPTY].into_iter().find(|ours| given.as_deref() == Some(*ours));
        let rest = known.and_then(|ours| self.rest.get(&(run, request.method.clone(), ours)));
        let Some(rest) = rest else {
            if self.in_flight.len() < MAX_IN_FLIGHT {
                self.in_flight.insert((run, request.id.clone()), (request.method.clone(), cursor.is_some()));
            }
            return None;
        };
        if self.refuses && modern && self.refused.insert(run) {
            let error = format!(r#"{{"code":{},"message":"The cursor has expired"}}"#, code::INVALID_PARAMS);
            return response(&request.id, "error", &error);
        }
        let result = page(&rest.result, key, &rest.entries, rest.next)?;
        response(&request.id, "result", result.as_str())
    }

    /// The response of the server with fewer entries, if it is the last page of a list.
    pub(super) fn split(&mut self, run: usize, modern: bool, line: &Line) -> Option<Vec<u8>> {
        let mut parts = line.parts();
        let (Some(Ok(Message::Response(answer))), None) = (parts.next(), parts.next()) else { return None };
        let id = answer.id.as_ref()?;
        let (method, is_later) = self.in_flight.remove(&(run, id.clone()))?;
        let result: Members<Raw> = answer.outcome.as_ref().ok()?.raw().decode().ok()?;
        if line.is_array() || result.get("nextCursor").is_some_and(|next| next.kind() != Kind::Null) {
            return None;
        }
        let key = key(&method)?;
        let mut entries: Vec<Raw> = result.get(key)?.decode().ok()?;
        let mut hold = |ours: &'static str, entries: Vec<Raw>, next| {
            let rest = Rest { result: result.clone(), entries, next };
            self.rest.insert((run, method.clone(), ours), rest);
        };
        let next = match (entries.len(), modern, is_later) {
            (0 | 1, ..) => return None,
            (2, true, false) | (_, false, _) => {
                hold(REST, entries.split_off(entries.len() - 1), None);
                REST
            }
            (_, true, false) => {
                hold(EMPTY, entries.split_off(entries.len() - 1), None);
                hold(REST, entries.split_off(entries.len() - 1), Some(EMPTY));
                REST
            }
            (_, true, true) => {
                hold(EMPTY, entries.split_off(entries.len() - 1), None);
                EMPTY
            }
        };
        let page = page(&result, key, &entries, Some(next))?;
        response(id, "result", page.as_str())
    }
}

/// A response of ours.
pub(super) fn response(id: &RequestId, name: &str, outcome: &str) -> Option<Vec<u8>> {
    let id = Raw::from_value(id).ok()?;
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{outcome}}}"#).into_bytes())
}

/// The member with the entries of a list.
const fn key(method: &Method) -> Option<&'static str> {
    match method {
        Method::ListTools => Some("tools"),
        Method::ListPrompts => Some("prompts"),
        Method::ListResources => Some("resources"),
        Method::ListResourceTemplates => Some("resourceTemplates"),
        _ => None,
    }
}

fn page(result: &Members<Raw>, key: &str, entries: &[Raw], next: Option<&str>) -> Option<Raw> {
    let mut page = result.clone().with(key, Raw::from_value(entries).ok()?);
    if let Some(next) = next {
        page.insert("nextCursor", Raw::string(next));
    }
    if page.contains_key("ttlMs") {
        page.insert("ttlMs", Raw::parse(TTL_MS).ok()?);
    }
    Raw::from_value(&page).ok()
}
