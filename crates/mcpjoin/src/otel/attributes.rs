//! What a request is about and how it travels, as attributes of the
//! [conventions](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md).
//!
//! Used by `operation`. A peer chooses names, URIs and ids, so each has a limit here.

use std::borrow::Cow;

use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{Method, Payload};

/// Bytes of a name, a method or an id.
pub(super) const MAX_NAME_BYTES: usize = 128;

/// Bytes of a URI, an address, or the message of an error.
pub(super) const MAX_TEXT_BYTES: usize = 1024;

/// The beginning of a text, of at most `limit` bytes.
pub(super) fn bounded(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What a request is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Tool(Cow<'a, str>),
    Prompt(Cow<'a, str>),
    Resource(Cow<'a, str>),
    Nothing,
}

impl<'a> Target<'a> {
    pub(super) fn of(method: &Method, params: Option<&'a Payload>) -> Self {
        let name = || params.and_then(Payload::name_string).map(|name| cut(name, MAX_NAME_BYTES));
        match method {
            Method::CallTool => name().map_or(Self::Nothing, Self::Tool),
            Method::GetPrompt => name().map_or(Self::Nothing, Self::Prompt),
            Method::ReadResource | Method::Subscribe | Method::Unsubscribe => {
                let uri = params.and_then(Payload::uri);
                let uri = uri.as_ref().and_then(|uri| uri.to_string_value());
                uri.map_or(Self::Nothing, |uri| Self::Resource(cut(uri, MAX_TEXT_BYTES).into_owned().into()))
            }
            _ => Self::Nothing,
        }
    }

    /// The part of the name of the span after the method. A URI is none, because there may be very many.
    pub(super) fn in_name(&self) -> Option<&str> {
        match self {
            Self::Tool(name) | Self::Prompt(name) => Some(name),
            Self::Resource(_) | Self::Nothing => None,
        }
    }
}

fn cut(text: Cow<'_, str>, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text;
    }
    bounded(&text, limit).to_owned().into()
}

/// How messages travel, and the address of the peer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Network<'a> {
    /// `network.transport`.
    pub(super) transport: Option<&'static str>,
    /// `network.protocol.name`.
    pub(super) protocol: Option<&'static str>,
    /// The host or the path of the peer.
    pub(super) address: Option<&'a str>,
    pub(super) port: Option<u16>,
}

impl<'a> Network<'a> {
    pub(super) fn of(origin: &'a Origin) -> Self {
        let peer = origin.peer.as_deref();
        let on_pipe = Self { transport: Some("pipe"), ..Self::default() };
        match origin.link {
            "stdio" | "child" => on_pipe,
            "unix" => Self { transport: Some("unix"), address: peer, ..Self::default() },
            "tcp" => Self::at(peer, None).over("tcp", None),
            "quic" => Self::at(peer, None).over("quic", None),
            "http" => {
                let url = peer.and_then(|peer| peer.split_once("://"));
                let default_port = match url {
                    Some(("https", _)) => Some(443),
                    Some(_) => Some(80),
                    None => None,
                };
                let authority = url.map_or(peer, |(_, rest)| rest.split('/').next());
                Self::at(authority, default_port).over("tcp", Some("http"))
            }
            _ => Self::default(),
        }
    }

    const fn over(self, transport: &'static str, protocol: Option<&'static str>) -> Self {
        Self { transport: Some(transport), protocol, ..self }
    }

    /// The peer at `host:port`, or at a host with a default port. What is neither is no address.
    fn at(place: Option<&'a str>, default_port: Option<u16>) -> Self {
        let Some(place) = place else { return Self::default() };
        let (host, port) = match place.rsplit_once(':') {
            // What follows the last colon of an address in brackets is its end.
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (place, default_port),
        };
        let Some(port) = port else { return Self::default() };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Self { address: Some(bounded(host, MAX_TEXT_BYTES)), port: Some(port), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(bounded("abc", 3), "abc");
        assert_eq!(bounded("abc", 2), "ab");
        assert_eq!(bounded("aé", 2), "a");
        assert_eq!(bounded("é", 0), "");
    }

    #[test]
    fn names_of_tools_and_prompts_are_targets_and_uris_are_not_in_names() {
        let params = |text: &str| Payload::from_raw(Raw::parse(text.to_owned()).expect("JSON"));
        let target = |method, text: &str| {
            let params = params(text);
            let target = Target::of(&method, Some(&params));
            (format!("{target:?}"), target.in_name().map(ToOwned::to_owned))
        };
        assert_eq!(target(Method::CallTool, r#"{"name":"a"}"#).1.as_deref(), Some("a"));
        assert_eq!(target(Method::GetPrompt, r#"{"name":"a"}"#).1.as_deref(), Some("a"));
        let (resource, in_name) = target(Method::ReadResource, r#"{"uri":"a:b"}"#);
        assert_eq!((resource.as_str(), in_name), (r#"Resource("a:b")"#, None));
        assert_eq!(target(Method::CallTool, r#"{"name":7}"#).0, "Nothing");
        assert_eq!(target(Method::ListTools, r#"{"name":"a"}"#).0, "Nothing");
        let long = target(Method::CallTool, &format!(r#"{{"name":"{}"}}"#, "x".repeat(1000)));
        assert_eq!(long.1.map(|name| name.len()), Some(MAX_NAME_BYTES));
    }

    #[test]
    fn the_network_is_read_from_the_origin() {
        let of = |link, peer: &str| {
            let origin = Origin { peer: Some(peer.into()), ..Origin::new(link) };
            let network = Network::of(&origin);
            (network.transport, network.address.map(ToOwned::to_owned), network.port)
        };
        let expected =
            |transport, address: &str, port| (Some(transport), Some(address.to_owned()), Some(port));
        assert_eq!(of("http", "https://example.com/mcp"), expected("tcp", "example.com", 443));
        assert_eq!(of("http", "http://localhost:8080/mcp"), expected("tcp", "localhost", 8080));
        assert_eq!(of("http", "http://[::1]:8080/mcp"), expected("tcp", "::1", 8080));
        assert_eq!(of("http", "http://[::1]/mcp"), expected("tcp", "::1", 80));
        assert_eq!(of("http", "10.1.2.80:65123"), expected("tcp", "10.1.2.80", 65123));
        assert_eq!(of("http", "[::1]:65123"), expected("tcp", "::1", 65123));
        assert_eq!(of("tcp", "example.com:7"), expected("tcp", "example.com", 7));
        assert_eq!(of("tcp", "nonsense"), (Some("tcp"), None, None));
        assert_eq!(of("quic", "example.com:7"), expected("quic", "example.com", 7));
        assert_eq!(of("unix", "/tmp/my.sock"), (Some("unix"), Some("/tmp/my.sock".to_owned()), None));
        assert_eq!(of("child", "/usr/bin/server"), (Some("pipe"), None, None));
        assert_eq!(of("memory", "x"), (None, None, None));
    }
}
