//! The text of the messages that open a session, and of requests in the manner of each era.
//!
//! Text only: nothing here waits, and nothing names what a server offers.

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Raw, Version};
use mcpjoin_rules::Probe;

/// The capabilities that are declared: none.
pub(crate) const NO_CAPABILITIES: &str = "{}";

/// The `reason` of every cancellation.
const CANCEL_REASON: &str = "a look from outside";

/// How the requests of an era are written.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    /// The parameters alone.
    Legacy,
    /// With version, client and capabilities in `_meta`, in this version.
    Modern(Version),
}

impl Manner {
    /// The method that every server of the era responds to.
    pub(crate) const fn control(&self) -> &'static str {
        match self {
            Self::Legacy => "ping",
            Self::Modern(_) => "server/discover",
        }
    }

    pub(crate) const fn is_legacy(&self) -> bool {
        matches!(self, Self::Legacy)
    }
}

/// A request without its id.
pub(crate) struct Question<'q> {
    pub(crate) probe: Probe,
    pub(crate) method: Method,
    pub(crate) members: Vec<(&'q str, Raw)>,
    /// Further members of `_meta`.
    pub(crate) meta: Vec<(&'q str, Raw)>,
    /// Further headers, over HTTP.
    pub(crate) headers: Vec<(String, String)>,
    /// The capabilities that it declares, in the modern era.
    pub(crate) capabilities: &'static str,
}

impl<'q> Question<'q> {
    pub(crate) fn new(probe: Probe, method: Method) -> Self {
        Self {
            probe,
            method,
            members: Vec::new(),
            meta: Vec::new(),
            headers: Vec::new(),
            capabilities: NO_CAPABILITIES,
        }
    }

    pub(crate) fn with(mut self, name: &'q str, value: Raw) -> Self {
        self.members.push((name, value));
        self
    }

    pub(crate) fn text(self, name: &'q str, value: &str) -> Self {
        self.with(name, Raw::string(value))
    }

    pub(crate) fn meta(mut self, name: &'q str, value: Raw) -> Self {
        self.meta.push((name, value));
        self
    }

    /// The text of the request. `id` is JSON.
    pub(crate) fn line(&self, manner: &Manner, id: &str) -> String {
        let mut params: Vec<String> = self.members.iter().map(written).collect();
        let own = match manner {
            Manner::Legacy => Vec::new(),
            Manner::Modern(version) => meta_members(Some(version.as_str()), Some(self.capabilities)),
        };
        let meta: Vec<String> = own.into_iter().chain(self.meta.iter().map(written)).collect();
        if !meta.is_empty() {
            params.push(format!(r#""_meta":{{{}}}"#, meta.join(",")));
        }
        let method = Raw::string(self.method.as_str());
        if params.is_empty() {
            return format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}}}"#);
        }
        let params = params.join(",");
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{{{params}}}}}"#)
    }
}

fn written((name, value): &(&str, Raw)) -> String {
    format!("{}:{value}", Raw::string(name))
}

/// A request without parameters. `id` is JSON.
pub(crate) fn request(manner: &Manner, id: &str, method: &str) -> String {
    Question::new(Probe::Ping, Method::parse(method)).line(manner, id)
}

/// The cancellation of a request; with `None`, one that names no request. `id` is JSON.
pub(crate) fn cancel(id: Option<&str>) -> String {
    let id = id.map_or_else(String::new, |id| format!(r#""requestId":{id},"#));
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{{id}"reason":"{CANCEL_REASON}"}}}}"#
    )
}

/// `initialize` with a version, which need not exist.
pub(crate) fn initialize(id: &str, version: &str) -> String {
    initialize_with(id, &format!(r#""protocolVersion":{},"#, Raw::string(version)))
}

/// `initialize` without a version.
pub(crate) fn initialize_bare(id: &str) -> String {
    initialize_with(id, "")
}

fn initialize_with(id: &str, version: &str) -> String {
    let info = client_info();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{{version}"capabilities":{{}},"clientInfo":{info}}}}}"#
    )
}

pub(crate) fn initialized() -> String {
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into()
}

fn client_info() -> String {
    format!(r#"{{"name":"mcpjoin","version":{}}}"#, Raw::string(env!("CARGO_PKG_VERSION")))
}

/// The members of `_meta` that a request of the modern era has. Each may be left out on purpose, but for the client.
pub(crate) fn meta_members(version: Option<&str>, capabilities: Option<&str>) -> Vec<String> {
    let version = version.map(|version| format!(r#""{}":{}"#, key::PROTOCOL_VERSION, Raw::string(version)));
    let client = format!(r#""{}":{}"#, key::CLIENT_INFO, client_info());
    let capabilities = capabilities.map(|declared| format!(r#""{}":{declared}"#, key::CLIENT_CAPABILITIES));
    version.into_iter().chain([client]).chain(capabilities).collect()
}

/// The version in a member of an object.
pub(crate) fn version_of(object: &Raw, name: &str) -> Option<Version> {
    Some(Version::parse(&object.member(name)?.to_string_value()?))
}
