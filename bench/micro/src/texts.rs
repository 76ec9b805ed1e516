//! The messages for the measurement of decoding.

use bytes::Bytes;
use serde_json::json;

/// A `tools/call` of 163 bytes, a typical size.
pub(crate) fn call() -> Bytes {
    let line = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{text}"}}}}}}"#
        )
    };
    let padding = 163 - line("").len();
    Bytes::from(line(&"x".repeat(padding)))
}

/// The result of `tools/list` with 110 tools, 70 KB: much structure, short strings.
pub(crate) fn tools_list() -> Bytes {
    let tools: Vec<_> = (0..110)
        .map(|number| {
            json!({
                "name": format!("tool_{number:03}"),
                "title": format!("Tool number {number}"),
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
                },
                "annotations": { "readOnlyHint": true, "openWorldHint": false }
            })
        })
        .collect();
    let message = json!({ "jsonrpc": "2.0", "id": 2, "result": { "tools": tools } });
    Bytes::from(message.to_string())
}

/// A result with one text of `length` bytes: prose with occasional line breaks, quotes and characters outside ASCII.
pub(crate) fn text_result(length: usize) -> Bytes {
    let line =
        "The quick brown fox says \"naïve\" and jumps over the lazy dog, line after line after line.\n";
    let text: String = line.chars().cycle().take(length).collect();
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": false });
    Bytes::from(json!({ "jsonrpc": "2.0", "id": 3, "result": result }).to_string())
}
