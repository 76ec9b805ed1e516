//! Which arguments of tools are repeated in headers, as the lists of tools say that have passed.
//!
//! Over HTTP a gateway is the server that its clients see, so a request whose headers and arguments differ is refused
//! here, as a server must: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>. What
//! goes to the server has headers of its own. A tool that nobody has listed is not known, and not looked at.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpjoin_proto::http::params::{HeaderMark, header_marks};
use mcpjoin_proto::{Payload, Raw};

use mcpjoin::internal::KnownTools;

/// What a schema has that marks an argument.
const MARK: &str = "x-mcp-header";

/// The marks of tools, by name.
#[derive(Default)]
pub(super) struct Marks(Mutex<KnownTools<Arc<[HeaderMark]>>>);

impl Marks {
    fn lock(&self) -> MutexGuard<'_, KnownTools<Arc<[HeaderMark]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A list of tools has passed.
    pub(super) fn learn(&self, list: &Payload) {
        // Nearly no server marks anything: then the list is not taken apart.
        if self.lock().is_empty()
            && memchr::memmem::find(list.raw().as_str().as_bytes(), MARK.as_bytes()).is_none()
        {
            return;
        }
        let tools: Vec<Raw> =
            list.raw().member("tools").and_then(|tools| tools.decode().ok()).unwrap_or_default();
        for tool in tools {
            let name = tool.member("name");
            let Some(name) = name.as_ref().and_then(Raw::to_string_value) else { continue };
            let schema = tool.member("inputSchema");
            // A tool whose marks are invalid is left out by every client.
            let marks = schema.and_then(|schema| header_marks(&schema).ok()).unwrap_or_default();
            let mut known = self.lock();
            if marks.is_empty() {
                known.remove(&name);
            } else {
                let bytes = marks.iter().map(HeaderMark::weight).sum();
                known.insert(&name, marks.into(), bytes);
            }
        }
    }

    /// Those of a tool; `None` where there are none, or none are known.
    pub(super) fn of(&self, tool: &str) -> Option<Arc<[HeaderMark]>> {
        self.lock().get(tool).cloned()
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::{Payload, Raw};

    use super::Marks;
    use mcpjoin::internal::{MAX_KNOWN_TOOL_BYTES as MOST_BYTES, MAX_KNOWN_TOOLS as TOOLS};

    const MARKED: &str = r#"{"type":"string","x-mcp-header":"Region"}"#;

    fn list(tools: &str) -> Payload {
        Payload::from_raw(Raw::parse(format!(r#"{{"tools":[{tools}]}}"#)).unwrap())
    }

    fn tool(name: &str, property: &str) -> String {
        format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"a":{property}}}}}}}"#)
    }

    #[test]
    fn marks_are_those_of_the_last_list_that_has_passed() {
        let marks = Marks::default();
        marks.learn(&list(&tool("plain", r#"{"type":"string"}"#)));
        assert!(marks.of("plain").is_none());
        marks.learn(&list(&[tool("one", MARKED), tool("two", MARKED), "7".into()].join(",")));
        assert_eq!(marks.of("one").unwrap()[0].header(), "Mcp-Param-Region");
        marks.learn(&list(&tool("one", r#"{"type":"string"}"#)));
        assert!(marks.of("one").is_none() && marks.of("two").is_some());
    }

    #[test]
    fn the_marks_of_so_many_tools_are_remembered_by_a_gateway() {
        let marks = Marks::default();
        let tools: Vec<String> = (0..=TOOLS).map(|number| tool(&number.to_string(), MARKED)).collect();
        marks.learn(&list(&tools.join(",")));
        assert!((0..TOOLS).all(|number| marks.of(&number.to_string()).is_some()));
        assert!(marks.of(&TOOLS.to_string()).is_none());
        marks.learn(&list(&tool("0", &MARKED.replace("Region", "Place"))));
        assert_eq!(marks.of("0").unwrap()[0].header(), "Mcp-Param-Place");
        // One that has none any more makes room.
        marks.learn(&list(&[tool("0", "{}"), tool("more", MARKED)].join(",")));
        assert!(marks.of("0").is_none() && marks.of("more").is_some());
    }

    #[test]
    fn the_names_and_marks_of_tools_that_a_gateway_remembers_have_a_total_in_bytes() {
        let marks = Marks::default();
        let name = |of: &str| of.repeat(MOST_BYTES / 2);
        marks
            .learn(&list(&[tool(&name("a"), MARKED), tool(&name("b"), MARKED), tool("c", MARKED)].join(",")));
        assert!(marks.of(&name("a")).is_some() && marks.of(&name("b")).is_none() && marks.of("c").is_some());
    }
}
