//! Which well-known clients would leave out, refuse or rename the tools of a server, and why.
//!
//! Called by `mcpjoin validate --compatibility` with all pages of `tools/list`. It does no I/O: [`CLIENT_LIMITS`] has the
//! limits of each client, with the source and the date of each. A tool may conform to the
//! [specification](https://modelcontextprotocol.io/specification/2026-07-28/server/tools) and still not work in a client.
//!
//! ```
//! use mcpjoin_rules::{Consequence, compatibility};
//! use mcpjoin_proto::Raw;
//!
//! let tools = [
//!     Raw::parse(r#"{"name":"look.up","inputSchema":{"type":"object","properties":{}}}"#)?,
//!     Raw::parse(r#"{"name":"add","inputSchema":{"type":"object","properties":{}}}"#)?,
//! ];
//! let report = compatibility("demo", &tools);
//! let desktop = report.clients.iter().find(|result| result.client == "Claude Desktop").expect("in the table");
//! assert_eq!(desktop.findings[0].tool.as_deref(), Some("look.up"));
//! assert_eq!(desktop.findings[0].limit.then, Consequence::RequestsRejected);
//! assert_eq!(desktop.usable, 0);
//! # Ok::<(), mcpjoin_proto::scan::ScanError>(())
//! ```

mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Raw};

use crate::json::{elements, members};

pub use table::CLIENT_LIMITS;

/// The approximate number of bytes of JSON in a token: <https://help.openai.com/en/articles/4936856>.
const BYTES_PER_TOKEN: usize = 4;
/// How many bytes of one schema are searched for arrays without `items`: each level is read again for the next.
const LOOKED_THROUGH: usize = 16 << 20;

/// A limit of a client, and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limit {
    /// The client's name.
    pub client: &'static str,
    /// What it demands.
    pub demand: Demand,
    /// What happens to a tool that does not meet it.
    pub then: Consequence,
    /// The address of the report or documentation.
    pub source: &'static str,
    /// The date of the source: a client may have changed since.
    pub seen: Day,
}

/// A day of the Gregorian calendar, written as ISO 8601 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    /// The year.
    pub year: u16,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// What a client demands of a tool, or of all tools together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Demand {
    /// The name has at most this many characters, including the server's name if the client prefixes it.
    NameLength {
        /// The maximum number of characters.
        most: usize,
        /// The texts before and after the server's name; `None` if the client does not prefix it.
        around_server: Option<[&'static str; 2]>,
    },
    /// The name has only ASCII letters and digits, and these characters.
    NameCharacters(&'static str),
    /// `inputSchema` is present, and its `type` is `object`.
    InputIsObject,
    /// `outputSchema`, if present, has the `type` `object`.
    OutputIsObject,
    /// `inputSchema` has none of these keywords at its top level.
    NotAtTop(&'static [&'static str]),
    /// `inputSchema` has `properties`, even if empty.
    HasProperties,
    /// `required` of `inputSchema`, if present, is an array.
    RequiredIsList,
    /// Every array in `inputSchema` has `items`.
    ArraysHaveItems,
    /// `outputSchema` names no dialect but JSON Schema 2020-12.
    OutputIs2020,
    /// The description has at most this many characters.
    DescriptionLength(usize),
    /// At most this many tools, of all servers together.
    Tools(usize),
    /// At most about this many tokens for all tools together.
    Tokens(usize),
}

named! {
    /// What a client does with a tool that it does not accept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Consequence {
        /// The model sees it under another name.
        Renamed = "renamed",
        /// The text is truncated.
        Shortened = "truncated",
        /// The client groups, defers or drops some of the tools.
        Crowded = "too much",
        /// The tool is listed, and its calls fail.
        CallsFail = "calls fail",
        /// The tool is dropped.
        Dropped = "ignored",
        /// Every request to the model fails while the tool is listed.
        RequestsRejected = "every request to the model is rejected",
        /// The whole list is rejected: no tool of the server is available.
        ListRejected = "all tools of the server are rejected",
    }
}

/// One demand that is not met.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Incompatibility {
    /// The tool's name; `None` if it is about all tools together.
    pub tool: Option<Box<str>>,
    /// The problem, in a few words.
    pub problem: String,
    /// The limit that is not met.
    pub limit: &'static Limit,
}

/// The result for one client.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClientResult {
    /// The client's name.
    pub client: &'static str,
    /// How many tools work with it, as far as [`CLIENT_LIMITS`] goes.
    pub usable: usize,
    /// The unmet limits, limit by limit and tool by tool.
    pub findings: Vec<Incompatibility>,
}

/// The result for all clients.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Compatibility {
    /// The number of tools.
    pub tools: usize,
    /// The approximate number of tokens of all tools, by their length.
    pub tokens: usize,
    /// One for each client of the table, in its order, with findings or without.
    pub clients: Vec<ClientResult>,
}

/// Checks the tools of a server against the limits of each client. `server` is the server's name in the client's
/// configuration: some clients prefix the names of tools with it.
#[must_use]
pub fn compatibility(server: &str, tools: &[Raw]) -> Compatibility {
    let tools: Vec<Tool<'_>> = tools.iter().map(Tool::of).collect();
    let tokens = tools.iter().map(|tool| tool.raw.len()).sum::<usize>().div_ceil(BYTES_PER_TOKEN);
    let mut clients: Vec<ClientResult> = Vec::new();
    let of_client = CLIENT_LIMITS.chunk_by(|one, next| one.client == next.client);
    for limits in of_client {
        let mut findings = Vec::new();
        let (mut lost, mut all_lost) = (BTreeSet::new(), false);
        for limit in limits {
            if let Some(problem) = of_all(limit.demand, tools.len(), tokens) {
                findings.push(Incompatibility { tool: None, problem, limit });
            }
            for (place, tool) in tools.iter().enumerate() {
                let Some(problem) = tool.problem(limit.demand, server) else { continue };
                match limit.then {
                    Consequence::ListRejected | Consequence::RequestsRejected => all_lost = true,
                    Consequence::Dropped | Consequence::CallsFail => lost.extend([place]),
                    Consequence::Renamed | Consequence::Shortened | Consequence::Crowded => {}
                }
                findings.push(Incompatibility { tool: Some(tool.name.as_str().into()), problem, limit });
            }
        }
        let client = limits.first().map_or("", |limit| limit.client);
        let usable = if all_lost { 0 } else { tools.len() - lost.len() };
        clients.push(ClientResult { client, usable, findings });
    }
    Compatibility { tools: tools.len(), tokens, clients }
}

/// The problem of all tools together.
fn of_all(demand: Demand, tools: usize, tokens: usize) -> Option<String> {
    match demand {
        Demand::Tools(most) if tools > most => Some(format!("{tools} tools, at most {most} are accepted")),
        Demand::Tokens(most) if tokens > most => Some(format!(
            "about {tokens} tokens, at most {most} are \
            accepted"
        )),
        _ => None,
    }
}

/// The checked parts of a tool, read once for all clients.
struct Tool<'a> {
    raw: &'a Raw,
    name: String,
    description: usize,
    input: Option<Members<Raw>>,
    output: Option<Members<Raw>>,
    /// An array without `items` in the input.
    bare_array: Option<String>,
}

impl<'a> Tool<'a> {
    fn of(raw: &'a Raw) -> Self {
        let mut tool =
            Self { raw, name: String::new(), description: 0, input: None, output: None, bare_array: None };
        for (name, value) in members(raw).into_iter().flatten() {
            match name.as_str() {
                "name" => tool.name = value.to_string_value().unwrap_or_default().into_owned(),
                "description" => {
                    tool.description = value.to_string_value().map_or(0, |text| text.chars().count());
                }
                "inputSchema" => {
                    tool.bare_array = bare_array(&value);
                    tool.input = members(&value);
                }
                // A schema that is not an object has no type.
                "outputSchema" => tool.output = Some(members(&value).unwrap_or_default()),
                _ => {}
            }
        }
        tool
    }

    fn problem(&self, demand: Demand, server: &str) -> Option<String> {
        match demand {
            Demand::NameLength { most, around_server } => {
                let before = around_server
                    .map_or(0, |[before, after]| before.len() + server.chars().count() + after.len());
                let length = before + self.name.chars().count();
                let with = if before > 0 { "with the server's name " } else { "" };
                (length > most)
                    .then(|| format!("the name has {with}{length} characters, at most {most} are accepted"))
            }
            Demand::NameCharacters(others) => {
                let foreign = self.name.chars().find(|&c| !c.is_ascii_alphanumeric() && !others.contains(c));
                foreign.map(|c| format!("the name contains the character {c:?}"))
            }
            Demand::InputIsObject => (!is_object(self.input.as_ref()))
                .then(|| "inputSchema is missing, or its type is not \"object\"".to_owned()),
            Demand::OutputIsObject => (self.output.is_some() && !is_object(self.output.as_ref()))
                .then(|| "the type of outputSchema is not \"object\"".to_owned()),
            Demand::NotAtTop(words) => {
                let input = self.input.as_ref()?;
                let word = words.iter().find(|word| input.contains_key(word))?;
                Some(format!("inputSchema has {word} at its top level"))
            }
            Demand::HasProperties => {
                let input = self.input.as_ref()?;
                (!input.contains_key("properties")).then(|| "inputSchema has no properties".to_owned())
            }
            Demand::RequiredIsList => {
                let required = self.input.as_ref()?.get("required")?;
                (required.kind() != Kind::Array).then(|| "`required` of inputSchema is not a list".to_owned())
            }
            Demand::ArraysHaveItems => {
                self.bare_array.as_ref().map(|name| format!("the array {name:?} in inputSchema has no items"))
            }
            Demand::OutputIs2020 => {
                let dialect = self.output.as_ref()?.get("$schema")?.to_string_value()?;
                let known = dialect.trim_end_matches('#') == "https://json-schema.org/draft/2020-12/schema";
                (!known).then(|| "outputSchema names a dialect other than JSON Schema 2020-12".to_owned())
            }
            Demand::DescriptionLength(most) => (self.description > most).then(|| {
                format!("the description has {} characters, at most {most} are accepted", self.description)
            }),
            Demand::Tools(_) | Demand::Tokens(_) => None,
        }
    }
}

fn is_object(schema: Option<&Members<Raw>>) -> bool {
    schema.and_then(|schema| schema.get("type")?.to_string_value()).as_deref() == Some("object")
}

/// The name of the first array in a schema without `items`. References are not followed, because their targets are in the
/// schema too.
fn bare_array(schema: &Raw) -> Option<String> {
    let mut room = LOOKED_THROUGH;
    let mut open = vec![(String::new(), schema.clone())];
    while let Some((name, schema)) = open.pop() {
        room = room.checked_sub(schema.len())?;
        let Some(schema) = members(&schema) else { continue };
        let is_array = schema.get("type").and_then(Raw::to_string_value).as_deref() == Some("array");
        if is_array && !schema.contains_key("items") {
            return Some(name);
        }
        for (word, value) in schema {
            match word.as_str() {
                "properties" | "patternProperties" | "$defs" | "definitions" => {
                    open.extend(members(&value).into_iter().flatten());
                }
                "items" | "additionalProperties" | "not" | "if" | "then" | "else"
                    if value.kind() == Kind::Object =>
                {
                    open.push((name.clone(), value));
                }
                "items" | "prefixItems" | "anyOf" | "oneOf" | "allOf" => {
                    open.extend(elements(&value).into_iter().flatten().map(|value| (name.clone(), value)));
                }
                _ => {}
            }
        }
    }
    None
}
