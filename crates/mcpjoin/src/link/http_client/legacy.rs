//! What a legacy session is to the transport: its id, its version, and what makes it again.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderValue};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::reply::is_session_id;
use mcpjoin_proto::session::{Inbound, Limits};
use mcpjoin_proto::{Message, Method, Payload, Profile, Request, RequestId, Version};

/// How many subscriptions are remembered: as many as a server of ours grants, and none with more parameters than one of
/// ours takes for a name.
const SUBSCRIPTIONS: usize = 1024;

/// A session as every request names it.
#[derive(Clone, Debug)]
pub(super) struct LegacySession {
    /// As the server gave it, if it did.
    pub(super) id: Option<HeaderValue>,
    /// The agreed revision, and the header that says it where it has one.
    pub(super) agreed: String,
    pub(super) header: Option<HeaderValue>,
    /// Whether the revision has a stream to be opened with GET.
    pub(super) streams: bool,
    /// How many came before it.
    pub(super) generation: u64,
}

impl LegacySession {
    /// The session that a reply to `initialize` opens; `None` when it opens none.
    pub(super) fn of(reply: &Inbound, head: &HeaderMap, owed: &RequestId) -> Result<Option<Self>, String> {
        let Inbound::Message { message: Message::Response(reply), .. } = reply else { return Ok(None) };
        let Ok(result) = &reply.outcome else { return Ok(None) };
        if reply.id.as_ref() != Some(owed) {
            return Ok(None);
        }
        let version = result.raw().member("protocolVersion");
        let Some(version) = version.as_ref().and_then(|version| version.to_string_value()) else {
            return Ok(None);
        };
        let mut ids = head.get_all(name::SESSION_ID).iter();
        let id = ids.next().cloned();
        if ids.next().is_some() {
            return Err("two Mcp-Session-Id came back, and which one counts is not known".into());
        }
        if let Some(id) = &id
            && !is_session_id(id.as_bytes())
        {
            let shown = id.as_bytes()[..id.len().min(80)].escape_ascii();
            return Err(format!("the Mcp-Session-Id `{shown}` is not visible ASCII"));
        }
        let parsed = Version::parse(&version);
        let profile = Profile::of(&parsed);
        let header = profile.filter(|profile| profile.http_version_header).map(|_| &*version);
        Ok(Some(Self {
            header: header.and_then(|version| HeaderValue::from_str(version).ok()),
            streams: id.is_some() || profile.is_some_and(|profile| profile.http_sessions),
            agreed: version.into_owned(),
            id,
            generation: 0,
        }))
    }

    /// The headers of every request after `initialize`.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            let mut id = id.clone();
            id.set_sensitive(true);
            headers.insert(name::SESSION_ID, id);
        }
        if let Some(version) = &self.header {
            headers.insert(name::PROTOCOL_VERSION, version.clone());
        }
    }
}

/// What it takes to make the session again: how it was opened, and what was set in it since.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) initialize: Option<Request>,
    level: Option<Payload>,
    subscribed: BTreeMap<String, Payload>,
}

impl Memory {
    /// Notes what a request sets.
    pub(super) fn note(&mut self, request: &Request) {
        let uri = || request.params.as_ref()?.uri()?.to_string_value().map(std::borrow::Cow::into_owned);
        match request.method {
            Method::Initialize => *self = Self { initialize: Some(request.clone()), ..Self::default() },
            Method::SetLevel => self.level.clone_from(&request.params),
            Method::Subscribe => {
                if let (Some(uri), Some(params)) = (uri(), &request.params)
                    && params.raw().len() <= Limits::default().subscription_bytes
                    && (self.subscribed.len() < SUBSCRIPTIONS || self.subscribed.contains_key(&uri))
                {
                    self.subscribed.insert(uri, params.clone());
                }
            }
            Method::Unsubscribe => {
                if let Some(uri) = uri() {
                    self.subscribed.remove(&uri);
                }
            }
            _ => {}
        }
    }

    /// The requests that set everything again, under ids that no session uses.
    pub(super) fn requests(&self) -> Vec<Request> {
        let level = self.level.iter().map(|params| (Method::SetLevel, params));
        let subscribed = self.subscribed.values().map(|params| (Method::Subscribe, params));
        let all = level.chain(subscribed).enumerate();
        all.map(|(place, (method, params))| Request {
            id: RequestId::from(format!("mcpjoin-restore-{place}").as_str()),
            method,
            params: Some(params.clone()),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::*;

    #[test]
    fn so_many_subscriptions_are_made_again_in_a_new_session() {
        let mut memory = Memory::default();
        let params = |uri: usize, more: &str| {
            Payload::from_raw(Raw::parse(format!("{{\"uri\":\"{uri:04}\"{more}}}")).expect("JSON"))
        };
        let mut note = |method: Method, params: Payload| {
            memory.note(&Request { id: RequestId::from(1), method, params: Some(params) });
        };
        for uri in 0..=SUBSCRIPTIONS {
            note(Method::Subscribe, params(uri, ""));
        }
        note(Method::Subscribe, params(0, ",\"n\":1"));
        note(Method::Subscribe, params(1, &format!(",\"n\":\"{}\"", "x".repeat(8 * 1024))));
        note(Method::Unsubscribe, params(2, ""));
        note(Method::Subscribe, params(SUBSCRIPTIONS + 1, ""));
        let again: Vec<Payload> =
            memory.requests().into_iter().filter_map(|request| request.params).collect();
        let first = [params(0, ",\"n\":1"), params(1, "")];
        let rest = (3..SUBSCRIPTIONS).chain([SUBSCRIPTIONS + 1]).map(|uri| params(uri, ""));
        assert_eq!(again, first.into_iter().chain(rest).collect::<Vec<_>>());
    }
}
