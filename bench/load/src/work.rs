//! What is asked of a server over stdio: calls of one size, a mixture of calls, a list of tools, or a resource.

use serde_json::Value;

use crate::messages::{check, tail, text};

/// The URI of the resource.
const RESOURCE: &str = "bench://file";
/// The length of the period of a mixture, in calls: one of 4 MiB, nine of 64 KiB and ninety of 64 B, ten of them with progress.
const PERIOD: u64 = 100;

/// The requests of a load, which follow one another by their ids.
pub(crate) struct Work(Vec<Request>);

/// One request.
pub(crate) struct Request {
    /// For a call with progress, the bytes between its id and its token, which is the id as well.
    pub(crate) before_token: Option<Vec<u8>>,
    /// The bytes behind the id or the token, with a line feed.
    pub(crate) tail: Vec<u8>,
    expected: Expected,
}

enum Expected {
    /// A result of echo.
    Echo(String),
    /// The contents of the resource.
    Contents(String),
    Tools(Vec<Value>),
}

impl Work {
    /// Reads the name of the work. `file` is what the echo has to say or the resource to contain, or a list of tools in JSON.
    pub(crate) fn new(name: &str, file: String) -> Result<Self, String> {
        let request =
            |tail: String, expected| Request { before_token: None, tail: tail.into_bytes(), expected };
        Ok(Self(match name {
            "echo" => vec![Request::echo(file)],
            "mixed" => {
                let sizes = [64, 64 << 10, 4 << 20].map(|size| text(size, true));
                let reported = Request::reported(&sizes[0]);
                sizes.into_iter().map(Request::echo).chain([reported]).collect()
            }
            "tools" => {
                let tools =
                    serde_json::from_str(&file).map_err(|error| format!("the list of tools: {error}"))?;
                vec![request(",\"method\":\"tools/list\"}\n".into(), Expected::Tools(tools))]
            }
            "resource" => {
                let tail =
                    format!(",\"method\":\"resources/read\",\"params\":{{\"uri\":\"{RESOURCE}\"}}}}\n");
                vec![request(tail, Expected::Contents(file))]
            }
            _ => return Err("--work echo|mixed|tools|resource".into()),
        }))
    }

    pub(crate) fn kinds(&self) -> usize {
        self.0.len()
    }

    /// The place of the request with this id among the kinds of requests.
    pub(crate) fn kind(&self, id: u64) -> usize {
        match id % PERIOD {
            _ if self.0.len() == 1 => 0,
            0 => 2,
            place if place % 10 == 0 => 1,
            place if place % 10 == 5 => 3,
            _ => 0,
        }
    }

    pub(crate) fn request(&self, kind: usize) -> &Request {
        &self.0[kind]
    }
}

impl Request {
    fn echo(text: String) -> Self {
        Self { before_token: None, tail: tail("echo", &text), expected: Expected::Echo(text) }
    }

    /// A call of the tool that reports progress once and then answers like echo.
    fn reported(text: &str) -> Self {
        let arguments = serde_json::json!({ "message": text });
        Self {
            before_token: Some(br#","method":"tools/call","params":{"_meta":{"progressToken":"#.to_vec()),
            tail: format!("}},\"name\":\"report\",\"arguments\":{arguments}}}}}\n").into_bytes(),
            expected: Expected::Echo(text.to_owned()),
        }
    }

    /// Checks a reply in full.
    pub(crate) fn check(&self, reply: &[u8]) -> Result<(), String> {
        let value = || -> Result<Value, String> {
            serde_json::from_slice(reply).map_err(|error| format!("a reply is not JSON: {error}"))
        };
        let shown = || String::from_utf8_lossy(&reply[..reply.len().min(300)]).into_owned();
        match &self.expected {
            Expected::Echo(text) => check(reply, text),
            Expected::Contents(text) => match value()?["result"]["contents"][0]["text"].as_str() {
                Some(contents) if contents == text => Ok(()),
                _ => Err(format!("other contents than those of the file: {}", shown())),
            },
            Expected::Tools(tools) => {
                let result = value()?["result"].take();
                let same = |(tool, listed): (&Value, &Value)| {
                    // A server may say more of a tool than it was told.
                    ["name", "description", "inputSchema"].iter().all(|name| tool[name] == listed[name])
                };
                match result["tools"].as_array() {
                    Some(listed) if listed.len() == tools.len() && result.get("nextCursor").is_none() => {
                        tools.iter().zip(listed).all(same).then_some(()).ok_or_else(|| "another tool".into())
                    }
                    _ => Err(format!("not all tools at once: {}", shown())),
                }
            }
        }
    }
}

/// A list of `count` tools in JSON, each with five parameters.
pub(crate) fn tools(count: usize) -> Value {
    (0..count)
        .map(|number| {
            serde_json::json!({
                "name": format!("tool_{number:04}"),
                "description": "Reads rows from a table, filters them by a condition and gives them page by page.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "table": { "type": "string", "description": "The table to read from" },
                        "where": { "type": "string", "description": "A condition in \"SQL\", without the keyword" },
                        "limit": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 50 },
                        "columns": { "type": "array", "items": { "type": "string" }, "uniqueItems": true },
                        "order": { "type": "string", "enum": ["asc", "desc"] }
                    },
                    "required": ["table"],
                    "additionalProperties": false
                }
            })
        })
        .collect()
}
