//! The messages to send, and the checks of the replies.

use memchr::memmem;
use serde_json::Value;

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"0.0.0"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// A call up to its id.
pub(crate) const HEAD: &[u8] = br#"{"jsonrpc":"2.0","id":"#;

/// A text of `size` bytes: words with a line feed in every 64 bytes, which JSON writes as an escape, so that a server must
/// process the text; in ASCII, or in three other scripts.
pub(crate) fn text(size: usize, ascii: bool) -> String {
    let unit = if ascii {
        "the quick brown fox jumps over the lazy dog 0123456789 ABCDEFGH\n"
    } else {
        "die größere Straße, быстрая лиса, 素早い茶色の狐\n"
    };
    let mut text: String = unit
        .chars()
        .cycle()
        .scan(0, |bytes, character| {
            *bytes += character.len_utf8();
            (*bytes <= size).then_some(character)
        })
        .collect();
    while text.len() < size {
        text.push('x');
    }
    text
}

/// The part of a call after its id, with its line feed.
pub(crate) fn tail(tool: &str, text: &str) -> Vec<u8> {
    let text = Value::from(text);
    let tail =
        format!(r#","method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":{text}}}}}}}"#);
    (tail + "\n").into_bytes()
}

/// The same in 2026-07-28, with the required data about the client, and without a line feed.
pub(crate) fn modern_tail(tool: &str, text: &str) -> Vec<u8> {
    let text = Value::from(text);
    format!(
        r#","method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":{text}}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"load","version":"0.0.0"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
    .into_bytes()
}

/// The arguments of a call alone, for a server whose tools are paths.
pub(crate) fn plain_tail(text: &str) -> Vec<u8> {
    serde_json::json!({ "message": text }).to_string().into_bytes()
}

/// Checks a reply in full: it is JSON, not an error, and contains the text that was sent.
pub(crate) fn check(reply: &[u8], text: &str) -> Result<(), String> {
    let shown = || String::from_utf8_lossy(&reply[..reply.len().min(400)]).into_owned();
    let value: Value = serde_json::from_slice(reply)
        .map_err(|error| format!("a reply is not JSON: {error}: {}", shown()))?;
    // A server whose tools are paths answers with the text alone.
    match value["result"]["content"][0]["text"].as_str().or_else(|| value.as_str()) {
        Some(echoed) if echoed == text => Ok(()),
        Some(_) => Err("the echoed text is another one".into()),
        None => Err(format!("a reply without a text: {}", shown())),
    }
}

/// The id of a reply, searched where servers write it: at the beginning, or among the last bytes.
pub(crate) fn id(reply: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"\"id\":";
    let number = |bytes: &[u8]| {
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
    };
    if let Some(rest) = reply.strip_prefix(HEAD) {
        return number(rest);
    }
    let last = &reply[reply.len().saturating_sub(64)..];
    if let Some(found) = memmem::rfind(last, NAME).and_then(|at| number(&last[at + NAME.len()..])) {
        return Some(found);
    }
    serde_json::from_slice::<Value>(reply).ok()?["id"].as_u64()
}

/// The token of a progress notification.
pub(crate) fn progress_token(message: &[u8]) -> Option<u64> {
    let message: Value = serde_json::from_slice(message).ok()?;
    (message["method"] == "notifications/progress").then(|| message["params"]["progressToken"].as_u64())?
}
