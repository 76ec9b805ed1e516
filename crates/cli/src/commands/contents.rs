//! Pieces of content for a person: text as it is, and one line for what is none.
//!
//! Called by `call`, `prompt` and `read`.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mcpjoin::proto::Raw;

use crate::object::Object;
use crate::visible;

/// Many a server leaves out the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Each piece on lines of its own.
pub(super) fn page(contents: &[Raw]) -> String {
    let mut out = String::new();
    for content in contents {
        match Object::of(content) {
            Some(content) => match (content.text("type").as_deref(), content.text("text")) {
                (Some("text"), Some(text)) => out.push_str(&text),
                _ => out.push_str(&line(&content)),
            },
            None => out.push_str("[content that is no object]"),
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// One line that describes a piece of content that is not text.
pub(super) fn line(content: &Object) -> String {
    let kind = content.text("type").unwrap_or_else(|| "content without a type".into());
    let inner = content.value("resource").and_then(Object::of);
    described(&kind, inner.as_ref().unwrap_or(content))
}

/// One line with what is known of a resource, a picture or a sound.
pub(super) fn described(kind: &str, facts: &Object) -> String {
    let text = |name: &str| facts.text(name).map(|text| visible::line(&text).into_owned());
    let mut parts = vec![visible::line(kind).into_owned()];
    parts.extend(text("uri"));
    parts.extend(text("name"));
    parts.extend(text("mimeType"));
    if let Some(data) = facts.text("data").or_else(|| facts.text("blob")) {
        parts.push(format!("{} bytes", decoded_length(&data)));
    } else if let Some(text) = facts.text("text") {
        parts.push(format!("{} characters", text.chars().count()));
    } else if let Some(size) = facts.value("size") {
        parts.push(format!("{} bytes", visible::line(size.as_str())));
    }
    format!("[{}]", parts.join(", "))
}

/// The bytes that a piece is, or why its base64 is none; `None` when it has none of its own.
pub(super) fn bytes(facts: &Object) -> Option<Result<Vec<u8>, base64::DecodeError>> {
    if let Some(text) = facts.text("text") {
        return Some(Ok(text.into_bytes()));
    }
    let mut data = facts.text("blob").or_else(|| facts.text("data"))?;
    // Line breaks stand in what some encoders write.
    data.retain(|character| !character.is_ascii_whitespace());
    Some(BASE64.decode(data))
}

/// The number of bytes that a text in base64 stands for.
fn decoded_length(data: &str) -> usize {
    let digits =
        data.bytes().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'));
    digits.count() / 4 * 3
        + match data.trim_end_matches('=').len() % 4 {
            2 => 1,
            3 => 2,
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{decoded_length, line};
    use crate::object::Object;

    #[test]
    fn what_is_not_text_is_described_in_one_line() {
        for (content, described) in [
            (r#"{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}"#, "[image, image/png, 5 bytes]"),
            (r#"{"type":"audio","data":"","mimeType":"audio/wav"}"#, "[audio, audio/wav, 0 bytes]"),
            (
                r#"{"type":"resource","resource":{"uri":"a://b","mimeType":"text/plain","text":"äb"}}"#,
                "[resource, a://b, text/plain, 2 characters]",
            ),
            (
                r#"{"type":"resource_link","uri":"a://b","name":"b","size":7}"#,
                "[resource_link, a://b, b, 7 bytes]",
            ),
            (r#"{"type":"hologram\u001b","x":1}"#, "[hologram\\u{1b}]"),
            (r#"{"text":7}"#, "[content without a type]"),
        ] {
            let raw = Raw::parse(content.as_bytes().to_vec()).unwrap();
            assert_eq!(line(&Object::of(&raw).unwrap()), described, "{content}");
        }
    }

    #[test]
    fn base64_is_counted_without_being_decoded() {
        for (data, length) in [("", 0), ("YQ==", 1), ("YQ", 1), ("YWI=", 2), ("YWJj", 3), ("YWJjZA==", 4)] {
            assert_eq!(decoded_length(data), length, "{data}");
        }
    }
}
