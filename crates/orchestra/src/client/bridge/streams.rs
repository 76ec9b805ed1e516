//! Streamed tool results: reports the chunks as progress, and returns all of them as one result, because MCP has no
//! streamed results.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpjoin_proto::types::{
    BlobResourceContents, CallToolResult, Content, EmbeddedResource, Meta, ResourceContents,
};
use mcpjoin_proto::{ErrorObject, Raw};
use serde::Serialize;

use super::super::super::wire::{StreamChunk, StreamEnd, StreamStart, ToolRequest, ToolResponse};
use super::super::{Orchestrator, StreamItem};
use super::handler::{Call, Progress, exchange_error, to_raw};
use super::results::{ERROR_CODE, error_text};
use mcpjoin::internal::adapt_content;

/// The content type of JSON chunks.
const JSON_TYPE: &str = "application/json";

/// Calls the tool and returns its result. Returns `None` if the server does not stream it and has not run it.
pub(super) async fn call(
    call: &Call<'_>,
    progress: &mut Progress<'_>,
    request: &ToolRequest,
) -> Result<Option<Raw>, ErrorObject> {
    let start = StreamStart {
        stream_id: String::new(),
        tool_name: request.tool_name.clone(),
        arguments: request.arguments.clone(),
        caller_plugin: request.caller_plugin.clone(),
    };
    let failed = |error| exchange_error("stream_start", &error);
    let orchestrator: &Orchestrator = &call.shared.orchestrator;
    let Some(mut stream) = progress.report_while(orchestrator.tool_stream(start)).await.map_err(failed)?
    else {
        return Ok(None);
    };
    let mut output = Output::default();
    let end = loop {
        match progress.report_while(stream.next()).await.map_err(failed)? {
            StreamItem::Chunk(chunk) => {
                let text = output.append(chunk);
                if output.bytes.len() > call.shared.message {
                    return Err(ErrorObject::internal(format!(
                        "orchestrator stream_start failed: the tool has sent {} bytes, more than the limit \
                         of a message ({}), and was cancelled; the request may have been executed: check \
                         before you try again",
                        output.bytes.len(),
                        call.shared.message
                    )));
                }
                if !text.is_empty() {
                    progress.send(&text);
                }
            }
            StreamItem::End(end) => break end,
        }
    };
    result(call, output, end).map(Some)
}

/// The chunks received so far.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// How many bytes were reported as text; all that there will be, after bytes that are not UTF-8.
    reported: usize,
    /// The chunks that are JSON.
    values: Vec<Raw>,
    content_type: Option<String>,
    has_other: bool,
}

impl Output {
    /// Adds a chunk and returns the new text. A character that is split between chunks is returned when it is complete.
    fn append(&mut self, chunk: StreamChunk) -> String {
        let is_json =
            chunk.content_type.split(';').next().is_some_and(|content_type| content_type.trim() == JSON_TYPE);
        let value = std::str::from_utf8(&chunk.data).ok().filter(|_| is_json);
        match value.and_then(|text| Raw::parse(text.trim().to_owned()).ok()) {
            Some(value) => {
                self.bytes.extend_from_slice(value.as_str().as_bytes());
                self.bytes.push(b'\n');
                self.values.push(value);
            }
            None => {
                self.has_other = true;
                self.bytes.extend_from_slice(&chunk.data);
            }
        }
        self.content_type.get_or_insert(chunk.content_type);
        let new = self.bytes.get(self.reported..).unwrap_or_default();
        let whole = match std::str::from_utf8(new) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(new.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
            }
            // Not UTF-8: the result will contain it as bytes, and what follows is not read again for each chunk.
            Err(_) => {
                self.reported = usize::MAX;
                return String::new();
            }
        };
        self.reported += whole.len();
        whole.trim_end_matches('\n').to_owned()
    }
}

#[derive(Serialize)]
struct Chunks {
    chunks: Vec<Raw>,
}

fn result(call: &Call<'_>, output: Output, end: StreamEnd) -> Result<Raw, ErrorObject> {
    let Output { bytes, values, content_type, has_other, .. } = output;
    let is_json = !values.is_empty() && !has_other;
    let mut content = Vec::new();
    match String::from_utf8(bytes) {
        Ok(mut text) => {
            if is_json {
                text.truncate(text.trim_end().len());
            }
            if end.success || !text.is_empty() {
                content.push(Content::text(text));
            }
        }
        Err(error) => {
            let mut blob = BlobResourceContents::new("orchestra://stream", STANDARD.encode(error.as_bytes()));
            blob.mime_type = content_type.filter(|content_type| !content_type.is_empty());
            content.push(Content::Resource(EmbeddedResource::new(ResourceContents::Blob(blob))));
        }
    }
    let mut meta = Meta::new();
    if !end.success {
        if !end.error_code.is_empty() {
            meta.insert(ERROR_CODE, Raw::string(&end.error_code));
        }
        let StreamEnd { error_code, error_message, .. } = end;
        let response = ToolResponse { error_code, error_message, ..ToolResponse::default() };
        content.push(Content::text(error_text(&response)));
    }
    adapt_content(call.profile, &mut content);
    let mut result = CallToolResult::new(content);
    if !end.success {
        result.is_error = Some(true);
    }
    if is_json && call.profile.structured_content {
        result.structured_content = Some(to_raw(&Chunks { chunks: values })?);
    }
    if !meta.is_empty() {
        result.meta = Some(meta);
    }
    to_raw(&result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_chunks_behind_bytes_that_are_not_utf_8_are_added_in_time() {
        let chunk = |data: Vec<u8>| StreamChunk { data: data.into(), ..StreamChunk::default() };
        let mut output = Output::default();
        assert_eq!(output.append(chunk("a€".as_bytes()[..3].to_vec())), "a");
        assert_eq!(output.append(chunk("€b".as_bytes()[2..].to_vec())), "€b");
        let mut large = vec![b'x'; 15 << 20];
        large.push(0xff);
        assert_eq!(output.append(chunk(large)), "");
        for _ in 0..200_000 {
            assert_eq!(output.append(chunk(b"c".to_vec())), "");
        }
        assert_eq!(output.bytes.len(), 5 + (15 << 20) + 1 + 200_000);
    }
}
