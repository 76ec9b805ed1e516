//! Lists of tools that pass the gateway: the arguments that clients repeat in headers.
//!
//! Used by `modern` for each list that a client receives.

use std::collections::VecDeque;
use std::sync::Arc;

use mcpjoin_proto::http::params::{HeaderMark, header_marks};
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::{Payload, Raw};
use parking_lot::Mutex;

use super::capacity::Caller;
use mcpjoin::internal::{KnownTools, MAX_KNOWN_TOOL_BYTES, MAX_KNOWN_TOOLS};

/// The member of a schema that marks an argument as repeated in a header.
const HEADER_MARK: &str = "x-mcp-header";

/// Principals and addresses whose marks are remembered. Beyond it, and beyond the limits of one table, those of the one that has read
/// a list least recently are forgotten.
const MAX_CALLERS: usize = 64;

/// The arguments that clients over HTTP repeat in headers, by client and tool, as learned from lists of tools that passed.
///
/// To its clients over HTTP the gateway is the server, so it must refuse a request whose headers and arguments differ:
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>. Requests to the server
/// have headers of their own. A tool that was never listed for a client is not checked: the client need not know it, and the
/// server may list another one for it.
#[derive(Default)]
pub(super) struct HeaderMarks(Mutex<VecDeque<(Caller, Marks)>>);

type Marks = KnownTools<Arc<[HeaderMark]>>;

impl HeaderMarks {
    /// Learns from the reply to a request of this client for a list of tools.
    pub(super) fn learn_from(&self, caller: &Caller, reply: &Reply) {
        match reply {
            Reply::Verbatim(list) => self.learn(caller, list),
            Reply::Complete(list) => self.learn(caller, &Payload::from_raw(list.clone())),
            _ => {}
        }
    }

    fn learn(&self, caller: &Caller, list: &Payload) {
        // Very few servers mark arguments. Without a mark the list is not parsed.
        if !self.0.lock().iter().any(|(known, _)| known == caller)
            && memchr::memmem::find(list.raw().as_str().as_bytes(), HEADER_MARK.as_bytes()).is_none()
        {
            return;
        }
        let tools: Vec<Raw> =
            list.raw().member("tools").and_then(|tools| tools.decode().ok()).unwrap_or_default();
        let mut all = self.0.lock();
        let place = all.iter().position(|(known, _)| known == caller);
        let mut known = place.and_then(|place| all.remove(place)).map(|(_, known)| known).unwrap_or_default();
        for tool in tools {
            let name = tool.member("name");
            let Some(name) = name.as_ref().and_then(Raw::to_string_value) else { continue };
            let schema = tool.member("inputSchema");
            // Clients ignore a tool with invalid marks.
            let marks = schema.and_then(|schema| header_marks(&schema).ok()).unwrap_or_default();
            if marks.is_empty() {
                known.remove(&name);
            } else {
                let bytes = marks.iter().map(HeaderMark::weight).sum();
                known.insert(&name, marks.into(), bytes);
            }
        }
        if !known.is_empty() {
            all.push_back((caller.clone(), known));
        }
        while all.len() > MAX_CALLERS || is_above_one_table(&all) {
            all.pop_front();
        }
    }

    /// The marks of a tool for a client; `None` if it has none or was never listed for it.
    pub(super) fn of(&self, caller: &Caller, tool: &str) -> Option<Arc<[HeaderMark]>> {
        let all = self.0.lock();
        all.iter().find(|(known, _)| known == caller)?.1.get(tool).cloned()
    }
}

/// Whether the tables of all clients together are larger than one may be.
fn is_above_one_table(all: &VecDeque<(Caller, Marks)>) -> bool {
    let tools: usize = all.iter().map(|(_, known)| known.len()).sum();
    let bytes: usize = all.iter().map(|(_, known)| known.bytes()).sum();
    tools > MAX_KNOWN_TOOLS || bytes > MAX_KNOWN_TOOL_BYTES
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::{Payload, Raw};

    use super::{Caller, HeaderMarks, MAX_CALLERS};
    use mcpjoin::internal::{MAX_KNOWN_TOOL_BYTES, MAX_KNOWN_TOOLS};

    const ONE: Caller = Caller::Local;

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
        marks.learn(&ONE, &list(&tool("plain", r#"{"type":"string"}"#)));
        assert!(marks.of(&ONE, "plain").is_none());
        marks.learn(&ONE, &list(&[tool("one", MARKED), tool("two", MARKED), "7".into()].join(",")));
        assert_eq!(marks.of(&ONE, "one").unwrap()[0].header(), "Mcp-Param-Region");
        marks.learn(&ONE, &list(&tool("one", r#"{"type":"string"}"#)));
        assert!(marks.of(&ONE, "one").is_none() && marks.of(&ONE, "two").is_some());
    }

    #[test]
    fn the_number_of_tools_with_header_marks_in_a_gateway_is_limited() {
        let marks = HeaderMarks::default();
        let tools: Vec<String> =
            (0..=MAX_KNOWN_TOOLS).map(|number| tool(&number.to_string(), MARKED)).collect();
        marks.learn(&ONE, &list(&tools.join(",")));
        assert!((0..MAX_KNOWN_TOOLS).all(|number| marks.of(&ONE, &number.to_string()).is_some()));
        assert!(marks.of(&ONE, &MAX_KNOWN_TOOLS.to_string()).is_none());
        marks.learn(&ONE, &list(&tool("0", &MARKED.replace("Region", "Place"))));
        assert_eq!(marks.of(&ONE, "0").unwrap()[0].header(), "Mcp-Param-Place");
        // A tool that lost its marks makes room.
        marks.learn(&ONE, &list(&[tool("0", "{}"), tool("more", MARKED)].join(",")));
        assert!(marks.of(&ONE, "0").is_none() && marks.of(&ONE, "more").is_some());
    }

    #[test]
    fn the_names_and_marks_of_tools_that_a_gateway_remembers_have_a_total_in_bytes() {
        let marks = HeaderMarks::default();
        let name = |of: &str| of.repeat(MAX_KNOWN_TOOL_BYTES / 2);
        marks.learn(
            &ONE,
            &list(&[tool(&name("a"), MARKED), tool(&name("b"), MARKED), tool("c", MARKED)].join(",")),
        );
        assert!(
            marks.of(&ONE, &name("a")).is_some()
                && marks.of(&ONE, &name("b")).is_none()
                && marks.of(&ONE, "c").is_some()
        );
    }

    #[test]
    fn marks_are_those_of_the_lists_of_the_same_client() {
        let (marks, two) = (HeaderMarks::default(), Caller::Principal("two".into()));
        marks.learn(&ONE, &list(&tool("a", MARKED)));
        assert!(marks.of(&ONE, "a").is_some() && marks.of(&two, "a").is_none());
        marks.learn(&two, &list(&tool("a", "{}")));
        assert!(marks.of(&ONE, "a").is_some() && marks.of(&two, "a").is_none());
    }

    #[test]
    fn the_clients_whose_marks_a_gateway_remembers_are_limited_and_have_one_table_together() {
        let marks = HeaderMarks::default();
        let caller = |number: usize| Caller::Principal(number.to_string().into());
        for number in 0..=MAX_CALLERS {
            marks.learn(&caller(number), &list(&tool("a", MARKED)));
        }
        assert!(marks.of(&caller(0), "a").is_none());
        assert!((1..=MAX_CALLERS).all(|number| marks.of(&caller(number), "a").is_some()));
        // The marks of one more client fill the table.
        let long = "x".repeat(MAX_KNOWN_TOOL_BYTES / 2);
        for number in 0..2 {
            marks.learn(&caller(number), &list(&tool(&long, MARKED)));
        }
        assert!(marks.of(&caller(0), &long).is_none() && marks.of(&caller(1), &long).is_some());
        assert_eq!(marks.0.lock().len(), 1);
    }
}
