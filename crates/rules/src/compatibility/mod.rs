//! Which well-known clients would leave out, refuse or rename the tools of a server, and why.
//!
//! Called by `mcpjoin validate --compatibility` with what `tools/list` has brought, all pages of it. It does no I/O and asks
//! nobody: what each client takes stands in [`CLIENT_LIMITS`], each limit with the place where it was seen and the day. A tool
//! may be right by the [specification](https://modelcontextprotocol.io/specification/2026-07-28/server/tools) and still
//! be of no use in a client.
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
//! let desktop = report.clients.iter().find(|verdict| verdict.client == "Claude Desktop").expect("in the table");
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

/// About so many bytes of JSON are one token: <https://help.openai.com/en/articles/4936856>.
const BYTES_PER_TOKEN: usize = 4;
/// So many bytes of one schema are looked through for arrays without `items`: each level is read again for the next.
const LOOKED_THROUGH: usize = 16 << 20;

/// What a client takes, and where it was seen that it takes no more.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limit {
    /// The client's name.
    pub client: &'static str,
    /// What it demands.
    pub demand: Demand,
    /// What becomes of what does not meet it.
    pub then: Consequence,
    /// The address where it was seen.
    pub source: &'static str,
    /// The day on which it was seen there: a client may have changed since.
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

/// What a client demands of a tool, or of all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Demand {
    /// The name has at most so many characters, together with the server's name when the client puts that before it:
    /// then these two texts stand around the server's name.
    NameLength {
        /// So many characters.
        most: usize,
        /// What stands before and after the server's name.
        around_server: Option<[&'static str; 2]>,
    },
    /// The name has nothing but letters and digits of ASCII, and these.
    NameCharacters(&'static str),
    /// `inputSchema` is there, and its `type` is `object`.
    InputIsObject,
    /// `outputSchema`, where there is one, has the `type` `object`.
    OutputIsObject,
    /// `inputSchema` has none of these words at its top.
    NotAtTop(&'static [&'static str]),
    /// `inputSchema` has `properties`, even if there are none.
    HasProperties,
    /// `required` of `inputSchema`, where there is one, is a list.
    RequiredIsList,
    /// Every array in `inputSchema` says what its items are.
    ArraysHaveItems,
    /// `outputSchema` names no other dialect than JSON Schema 2020-12.
    OutputIs2020,
    /// The description has at most so many characters.
    DescriptionLength(usize),
    /// There are at most so many tools, of all servers together.
    Tools(usize),
    /// All tools together take about so many tokens at most.
    Tokens(usize),
}

named! {
    /// What a client makes of a tool that it does not take.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Consequence {
        /// The model sees it under another name.
        Renamed = "renamed",
        /// What is too long is cut off.
        Shortened = "cut off",
        /// There are more than the client takes well: some are grouped, put off or left out.
        Crowded = "too much",
        /// The tool is there, and its calls fail.
        CallsFail = "calls fail",
        /// The tool is left out.
        Dropped = "left out",
        /// Every request to the model fails for as long as the tool is there.
        RequestsRejected = "every request to the model is rejected",
        /// The whole list is refused: no tool of the server is there.
        ListRejected = "all tools of the server are refused",
    }
}

/// One demand that is not met.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Incompatibility {
    /// The tool's name as the server writes it; `None` when it is about all of them.
    pub tool: Option<Box<str>>,
    /// What is wrong with it, in a few words.
    pub problem: String,
    /// What it does not meet.
    pub limit: &'static Limit,
}

/// What one client makes of the tools.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClientVerdict {
    /// The client's name.
    pub client: &'static str,
    /// How many tools can be used with it: by what is known here.
    pub usable: usize,
    /// What is in the way, demand by demand and tool by tool.
    pub findings: Vec<Incompatibility>,
}

/// What all clients make of the tools of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Compatibility {
    /// How many tools there are.
    pub tools: usize,
    /// How many tokens they take in the context of a model: a guess, by their length.
    pub tokens: usize,
    /// One for each client of the table, in its order, with findings or without.
    pub clients: Vec<ClientVerdict>,
}

/// Looks at the tools of a server with the eyes of each client. The server's name is the one that a user gives it in
/// the client's configuration: some clients put it before the names of tools.
#[must_use]
pub fn compatibility(server: &str, tools: &[Raw]) -> Compatibility {
    let tools: Vec<Tool<'_>> = tools.iter().map(Tool::of).collect();
    let tokens = tools.iter().map(|tool| tool.raw.len()).sum::<usize>().div_ceil(BYTES_PER_TOKEN);
    let mut clients: Vec<ClientVerdict> = Vec::new();
    let of_client = CLIENT_LIMITS.chunk_by(|one, next| one.client == next.client);
    for limits in of_client {
        let mut findings = Vec::new();
        let mut lost = BTreeSet::new();
        for limit in limits {
            if let Some(problem) = of_all(limit.demand, tools.len(), tokens) {
                findings.push(Incompatibility { tool: None, problem, limit });
            }
            for (place, tool) in tools.iter().enumerate() {
                let Some(problem) = tool.problem(limit.demand, server) else { continue };
                match limit.then {
                    Consequence::ListRejected | Consequence::RequestsRejected => lost.extend(0..tools.len()),
                    Consequence::Dropped | Consequence::CallsFail => lost.extend([place]),
                    Consequence::Renamed | Consequence::Shortened | Consequence::Crowded => {}
                }
                findings.push(Incompatibility { tool: Some(tool.name.as_str().into()), problem, limit });
            }
        }
        let client = limits.first().map_or("", |limit| limit.client);
        clients.push(ClientVerdict { client, usable: tools.len() - lost.len(), findings });
    }
    Compatibility { tools: tools.len(), tokens, clients }
}

/// What is wrong with all tools together.
fn of_all(demand: Demand, tools: usize, tokens: usize) -> Option<String> {
    match demand {
        Demand::Tools(most) if tools > most => Some(format!("{tools} tools, and {most} are taken")),
        Demand::Tokens(most) if tokens > most => Some(format!("about {tokens} tokens, and {most} are taken")),
        _ => None,
    }
}

/// What is looked at of a tool: read once, for all clients.
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
                // What is no object has no type either.
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
                    .then(|| format!("the name has {with}{length} characters, and {most} are taken"))
            }
            Demand::NameCharacters(others) => {
                let foreign = self.name.chars().find(|&c| !c.is_ascii_alphanumeric() && !others.contains(c));
                foreign.map(|c| format!("the name has the character {c:?}"))
            }
            Demand::InputIsObject => (!is_object(self.input.as_ref()))
                .then(|| "inputSchema is missing, or its type is not \"object\"".to_owned()),
            Demand::OutputIsObject => (self.output.is_some() && !is_object(self.output.as_ref()))
                .then(|| "the type of outputSchema is not \"object\"".to_owned()),
            Demand::NotAtTop(words) => {
                let input = self.input.as_ref()?;
                let word = words.iter().find(|word| input.contains_key(word))?;
                Some(format!("inputSchema has {word} at its top"))
            }
            Demand::HasProperties => {
                let input = self.input.as_ref()?;
                (!input.contains_key("properties")).then(|| "inputSchema has no properties".to_owned())
            }
            Demand::RequiredIsList => {
                let required = self.input.as_ref()?.get("required")?;
                (required.kind() != Kind::Array).then(|| "required of inputSchema is no list".to_owned())
            }
            Demand::ArraysHaveItems => {
                self.bare_array.as_ref().map(|name| format!("the array {name:?} in inputSchema has no items"))
            }
            Demand::OutputIs2020 => {
                let dialect = self.output.as_ref()?.get("$schema")?.to_string_value()?;
                let known = dialect.trim_end_matches('#') == "https://json-schema.org/draft/2020-12/schema";
                (!known).then(|| "outputSchema names another dialect than JSON Schema 2020-12".to_owned())
            }
            Demand::DescriptionLength(most) => (self.description > most).then(|| {
                format!("the description has {} characters, and {most} are taken", self.description)
            }),
            Demand::Tools(_) | Demand::Tokens(_) => None,
        }
    }
}

fn is_object(schema: Option<&Members<Raw>>) -> bool {
    schema.and_then(|schema| schema.get("type")?.to_string_value()).as_deref() == Some("object")
}

/// The name of the first array found in a schema that does not say what its items are. References are not followed:
/// what they lead to stands in the schema too.
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
