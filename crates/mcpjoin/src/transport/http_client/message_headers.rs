//! The headers of a message, as its revision asks for, with values from the message itself.
//!
//! Called by the transport for every message that it posts. The rules are those of `proto::http`.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>

use std::collections::BTreeSet;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use mcpjoin_proto::http::headers::{encode_value, name, named_by};
use mcpjoin_proto::http::params::{HeaderMark, header_marks, param_headers};
use mcpjoin_proto::session::{Inbound, Outbound};
use mcpjoin_proto::types::{ListToolsResult, ProtocolType, meta};
use mcpjoin_proto::{Message, Method, Payload, Profile, Raw, Request, RequestId, Version};

use super::session::LegacySession;
use crate::known_tools::KnownTools;

/// The headers of a message in every revision.
pub(super) fn message_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(name::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(name::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// Makes the headers of messages. Learns from lists of tools which arguments are repeated in headers.
#[derive(Debug, Default)]
pub(super) struct MessageHeaders {
    /// The revision of the last request with a revision in its `_meta`.
    modern: Option<HeaderValue>,
    /// The pending requests for lists of tools.
    listing: BTreeSet<RequestId>,
    /// By tool: the arguments that are repeated in headers. Tools without any are not here.
    marks: KnownTools<Vec<HeaderMark>>,
}

/// A message with its headers.
pub(super) struct HeadedMessage {
    pub(super) headers: HeaderMap,
    /// It needs no session, as in 2026-07-28.
    pub(super) modern: bool,
}

impl MessageHeaders {
    /// The headers of a message.
    ///
    /// # Errors
    /// When a value cannot be written in a header, described for people.
    pub(super) fn of_message(
        &mut self,
        outbound: &Outbound,
        session: Option<&LegacySession>,
    ) -> Result<HeadedMessage, String> {
        let mut headers = message_headers();
        let message = match outbound {
            Outbound::Message { message, .. } => Some(message),
            _ => None,
        };
        if let Some(Message::Request(request)) = message {
            if let Some(version) = declared(request) {
                self.request(request, &version, &mut headers)?;
                return Ok(HeadedMessage { headers, modern: true });
            }
            if request.method == Method::Initialize {
                return Ok(HeadedMessage { headers, modern: false });
            }
        }
        if let Some(session) = session {
            session.write(&mut headers);
            return Ok(HeadedMessage { headers, modern: false });
        }
        let Some(version) = self.modern.clone() else { return Ok(HeadedMessage { headers, modern: false }) };
        // This revision defines no headers for notifications; these agree with the body.
        headers.insert(name::PROTOCOL_VERSION, version);
        if let Some(Message::Notification(notification)) = message {
            headers.insert(name::METHOD, value(notification.method.as_str(), "the method")?);
        }
        Ok(HeadedMessage { headers, modern: true })
    }

    fn request(&mut self, request: &Request, version: &str, headers: &mut HeaderMap) -> Result<(), String> {
        let profile = Profile::of(&Version::parse(version));
        let version = value(version, "the protocol version")?;
        self.modern = Some(version.clone());
        headers.insert(name::PROTOCOL_VERSION, version);
        if !profile.is_none_or(|profile| profile.http_method_headers) {
            return Ok(());
        }
        headers.insert(name::METHOD, value(request.method.as_str(), "the method")?);
        let params = request.params.as_ref();
        let named = named_by(&request.method)
            .and_then(|named| params?.raw().member(named.member))
            .and_then(|named| named.to_string_value().map(std::borrow::Cow::into_owned));
        if let Some(named) = &named {
            headers.insert(name::NAME, value(&encode_value(named), "the name")?);
        }
        match request.method {
            Method::CallTool => {
                let marks = named.and_then(|named| self.marks.get(&named));
                let arguments = params.and_then(Payload::arguments);
                for (key, text) in param_headers(marks.map_or(&[][..], Vec::as_slice), arguments.as_ref())
                    .map_err(|error| error.to_string())?
                {
                    let key = HeaderName::from_bytes(key.as_bytes())
                        .map_err(|_| format!("{key} is not a header name"))?;
                    headers.insert(key, value(&text, "an argument")?);
                }
            }
            Method::ListTools => {
                self.listing.insert(request.id.clone());
            }
            _ => {}
        }
        Ok(())
    }

    /// Learns from the end of a request, if it was a pending request for a list of tools.
    pub(super) fn learn(&mut self, id: &RequestId, inbound: &Inbound) {
        if !self.listing.remove(id) {
            return;
        }
        let Inbound::Message { message: Message::Response(reply), .. } = inbound else { return };
        if let Ok(result) = &reply.outcome {
            self.learn_page(result.raw());
        }
    }

    /// Learns from one page. Tools on other pages are not changed: the client may have cached those pages.
    fn learn_page(&mut self, page: &Raw) {
        if self.marks.is_empty() && !is_marked(page) {
            return;
        }
        let Ok(list) = ListToolsResult::read(page) else { return };
        for tool in list.tools {
            match header_marks(&tool.input_schema) {
                Ok(marks) if !marks.is_empty() => {
                    let bytes = marks.iter().map(HeaderMark::weight).sum();
                    self.marks.insert(&tool.name, marks, bytes);
                }
                _ => self.marks.remove(&tool.name),
            }
        }
    }

    /// Learns from all pages with marks of a list. Returns whether the call gets other headers now.
    pub(super) fn relearn(&mut self, pages: &[Raw], call: &Request) -> bool {
        let before = self.marks_of(call).cloned();
        self.marks = KnownTools::default();
        for page in pages {
            self.learn_page(page);
        }
        before.as_ref() != self.marks_of(call)
    }

    fn marks_of(&self, call: &Request) -> Option<&Vec<HeaderMark>> {
        self.marks.get(&call.params.as_ref()?.name_string()?)
    }

    /// The headers of the transport's own request for a list; `None` before the first modern request.
    pub(super) fn of_list(&self) -> Option<HeaderMap> {
        let mut headers = message_headers();
        headers.insert(name::PROTOCOL_VERSION, self.modern.clone()?);
        headers.insert(name::METHOD, HeaderValue::from_static("tools/list"));
        Some(headers)
    }

    /// The request was aborted.
    pub(super) fn forget(&mut self, id: &RequestId) {
        self.listing.remove(id);
    }
}

/// Whether a page may have marks. Most tools have none, and a search for the word costs less than decoding the list. An
/// escape could hide the word.
pub(super) fn is_marked(page: &Raw) -> bool {
    [&b"x-mcp-header"[..], b"\\u"].iter().any(|sign| memchr::memmem::find(page.as_bytes(), sign).is_some())
}

/// The revision in the `_meta` of a request.
fn declared(request: &Request) -> Option<String> {
    let meta = request.params.as_ref()?.meta()?;
    let version = meta.member(meta::key::PROTOCOL_VERSION)?;
    version.to_string_value().map(std::borrow::Cow::into_owned)
}

fn value(text: &str, what: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|_| format!("{what} cannot be sent in a header"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known_tools::{MAX_TOOL_BYTES, MAX_TOOLS};

    fn tool(name: &str, header: &str) -> String {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"a":{{"type":"string"{header}}}}}}}}}"#
        )
    }

    fn learn(outgoing: &mut MessageHeaders, tools: &[String]) {
        outgoing.learn_page(&Raw::parse(format!(r#"{{"tools":[{}]}}"#, tools.join(","))).expect("JSON"));
    }

    fn of(outgoing: &MessageHeaders, name: &str) -> Option<String> {
        Some(outgoing.marks.get(name)?[0].header())
    }

    const ONE: &str = r#","x-mcp-header":"One""#;

    #[test]
    fn the_number_of_tools_with_header_marks_in_a_link_is_limited() {
        let mut outgoing = MessageHeaders::default();
        let all = |header| (0..=MAX_TOOLS).map(|name| tool(&name.to_string(), header)).collect::<Vec<_>>();
        for (header, known) in [(ONE, "Mcp-Param-One"), (r#","x-mcp-header":"Two""#, "Mcp-Param-Two")] {
            learn(&mut outgoing, &all(header));
            assert!((0..MAX_TOOLS).all(|name| of(&outgoing, &name.to_string()).as_deref() == Some(known)));
            assert_eq!(of(&outgoing, &MAX_TOOLS.to_string()), None);
        }
        learn(&mut outgoing, &[tool("0", ""), tool("more", ONE)]);
        assert!(of(&outgoing, "0").is_none() && of(&outgoing, "more").is_some());
    }

    #[test]
    fn the_names_and_marks_that_a_link_remembers_have_a_total_in_bytes() {
        let mut outgoing = MessageHeaders::default();
        let name = |of: &str| of.repeat(MAX_TOOL_BYTES / 2);
        learn(&mut outgoing, &[tool(&name("a"), ONE), tool(&name("b"), ONE), tool("c", ONE)]);
        assert!(of(&outgoing, &name("a")).is_some() && of(&outgoing, "c").is_some());
        assert_eq!(of(&outgoing, &name("b")), None);
    }
}
