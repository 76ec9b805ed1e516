//! Lists of tools that pass the gateway: the arguments that clients repeat in headers.
//!
//! Used by `modern` for each list that a client receives.

use std::sync::Arc;

use mcpjoin_proto::http::params::{HeaderMark, header_marks};
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::{Payload, Raw};
use parking_lot::Mutex;

use mcpjoin::internal::KnownTools;

/// The member of a schema that marks an argument as repeated in a header.
const HEADER_MARK: &str = "x-mcp-header";

/// The arguments that clients over HTTP repeat in headers, by tool, as learned from lists of tools that passed.
///
/// To its clients over HTTP the gateway is the server, so it must refuse a request whose headers and arguments differ:
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>. Requests to the server
/// have headers of their own. A tool that was never listed is not checked.
#[derive(Default)]
pub(super) struct HeaderMarks(Mutex<KnownTools<Arc<[HeaderMark]>>>);

impl HeaderMarks {
    /// Learns from the reply to a request for a list of tools.
    pub(super) fn learn_from(&self, reply: &Reply) {
        match reply {
            Reply::Verbatim(list) => self.learn(list),
            Reply::Complete(list) => self.learn(&Payload::from_raw(list.clone())),
            _ => {}
        }
    }

    /// Learns from a list of tools.
    pub(super) fn learn(&self, list: &Payload) {
        // Very few servers mark arguments. Without a mark the list is not parsed.
        if self.0.lock().is_empty()
            && memchr::memmem::find(list.raw().as_str().as_bytes(), HEADER_MARK.as_bytes()).is_none()
        {
            return;
        }
        let tools: Vec<Raw> =
            list.raw().member("tools").and_then(|tools| tools.decode().ok()).unwrap_or_default();
        for tool in tools {
            let name = tool.member("name");
            let Some(name) = name.as_ref().and_then(Raw::to_string_value) else { continue };
            let schema = tool.member("inputSchema");
            // Clients ignore a tool with invalid marks.
            let marks = schema.and_then(|schema| header_marks(&schema).ok()).unwrap_or_default();
            let mut known = self.0.lock();
            if marks.is_empty() {
                known.remove(&name);
            } else {
                let bytes = marks.iter().map(HeaderMark::weight).sum();
                known.insert(&name, marks.into(), bytes);
            }
        }
    }

    /// The marks of a tool; `None` if it has none or was never listed.
    pub(super) fn of(&self, tool: &str) -> Option<Arc<[HeaderMark]>> {
        self.0.lock().get(tool).cloned()
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::{Payload, Raw};

    use super::HeaderMarks;
    use mcpjoin::internal::{MAX_KNOWN_TOOL_BYTES, MAX_KNOWN_TOOLS};

    const MARKED: &str = r#"{"type":"string","x-mcp-header":"Region"}"#;

    fn list(tools: &str) -> Payload {
        Payload::from_raw(Raw::parse(format!(r#"{{"tools":[{tools}]}}"#)).unwrap())
    }

    fn tool(name: &str, property: &str) -> String {
        format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"a":{property}}}}}}}"#)
    }

    #[test]
    fn marks_are_those_of_the_last_list_that_has_passed() {
        let marks = HeaderMarks::default();
        marks.learn(&list(&tool("plain", r#"{"type":"string"}"#)));
        assert!(marks.of("plain").is_none());
        marks.learn(&list(&[tool("one", MARKED), tool("two", MARKED), "7".into()].join(",")));
        assert_eq!(marks.of("one").unwrap()[0].header(), "Mcp-Param-Region");
        marks.learn(&list(&tool("one", r#"{"type":"string"}"#)));
        assert!(marks.of("one").is_none() && marks.of("two").is_some());
    }

    #[test]
    fn the_number_of_tools_with_header_marks_in_a_gateway_is_limited() {
        let marks = HeaderMarks::default();
        let tools: Vec<String> =
            (0..=MAX_KNOWN_TOOLS).map(|number| tool(&number.to_string(), MARKED)).collect();
        marks.learn(&list(&tools.join(",")));
        assert!((0..MAX_KNOWN_TOOLS).all(|number| marks.of(&number.to_string()).is_some()));
        assert!(marks.of(&MAX_KNOWN_TOOLS.to_string()).is_none());
        marks.learn(&list(&tool("0", &MARKED.replace("Region", "Place"))));
        assert_eq!(marks.of("0").unwrap()[0].header(), "Mcp-Param-Place");
        // A tool that lost its marks makes room.
        marks.learn(&list(&[tool("0", "{}"), tool("more", MARKED)].join(",")));
        assert!(marks.of("0").is_none() && marks.of("more").is_some());
    }

    #[test]
    fn the_names_and_marks_of_tools_that_a_gateway_remembers_have_a_total_in_bytes() {
        let marks = HeaderMarks::default();
        let name = |of: &str| of.repeat(MAX_KNOWN_TOOL_BYTES / 2);
        marks
            .learn(&list(&[tool(&name("a"), MARKED), tool(&name("b"), MARKED), tool("c", MARKED)].join(",")));
        assert!(marks.of(&name("a")).is_some() && marks.of(&name("b")).is_none() && marks.of("c").is_some());
    }
}
