//! Tools that answer bit by bit, for those that the bridge was told of: what comes is told as progress and given as one
//! result at the end, which is all that MCP has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpjoin_proto::types::{
    BlobResourceContents, CallToolResult, Content, EmbeddedResource, Meta, ResourceContents,
};
use mcpjoin_proto::{ErrorObject, Raw};
use serde::Serialize;

use super::super::super::wire::{StreamChunk, StreamEnd, StreamStart, ToolRequest, ToolResponse};
use super::super::{Orchestrator, Streamed};
use super::beats::Beats;
use super::handler::{Asked, failed};
use super::results::{ERROR_CODE, error_text};
use mcpjoin::internal::adapt_content;

/// What chunks are when the sender says that they are JSON.
const JSON: &str = "application/json";

/// The result of the tool; `None` when it does not answer so, and has not run.
pub(super) async fn call(
    asked: &Asked<'_>,
    beats: &mut Beats<'_>,
    request: &ToolRequest,
) -> Result<Option<Raw>, ErrorObject> {
    let start = StreamStart {
        stream_id: String::new(),
        tool_name: request.tool_name.clone(),
        arguments: request.arguments.clone(),
        caller_plugin: request.caller_plugin.clone(),
    };
    let lost = |error| failed("stream_start", &error);
    let orchestrator: &Orchestrator = &asked.shared.orchestrator;
    let Some(mut stream) = beats.during(orchestrator.tool_stream(start)).await.map_err(lost)? else {
        return Ok(None);
    };
    let mut said = Said::default();
    let end = loop {
        match beats.during(stream.next()).await.map_err(lost)? {
            Streamed::Chunk(chunk) => {
                let news = said.take(chunk);
                if said.bytes.len() > asked.shared.message {
                    return Err(ErrorObject::internal(format!(
                        "orchestrator stream_start failed: the tool has sent {} bytes, which is more than a message may \
                         have ({}), and was given up; it may have been done or not, look before you ask again",
                        said.bytes.len(),
                        asked.shared.message
                    )));
                }
                if !news.is_empty() {
                    beats.tell(&news);
                }
            }
            Streamed::End(end) => break end,
        }
    };
    result(asked, said, end).map(Some)
}

/// What has come.
#[derive(Default)]
struct Said {
    bytes: Vec<u8>,
    /// How many of them were told as text already.
    told: usize,
    /// The chunks, as long as each is JSON.
    values: Vec<Raw>,
    kind: Option<String>,
    is_other: bool,
}

impl Said {
    /// Keeps a chunk, and gives what is new as text. A character that is cut in two is told with its end.
    fn take(&mut self, chunk: StreamChunk) -> String {
        let is_json = chunk.content_type.split(';').next().is_some_and(|kind| kind.trim() == JSON);
        let value = std::str::from_utf8(&chunk.data).ok().filter(|_| is_json);
        match value.and_then(|text| Raw::parse(text.trim().to_owned()).ok()) {
            Some(value) => {
                self.bytes.extend_from_slice(value.as_str().as_bytes());
                self.bytes.push(b'\n');
                self.values.push(value);
            }
            None => {
                self.is_other = true;
                self.bytes.extend_from_slice(&chunk.data);
            }
        }
        self.kind.get_or_insert(chunk.content_type);
        let new = self.bytes.get(self.told..).unwrap_or_default();
        let whole = match std::str::from_utf8(new) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(new.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
            }
            // It is no text, and will be given as what it is.
            Err(_) => "",
        };
        self.told += whole.len();
        whole.trim_end_matches('\n').to_owned()
    }
}

#[derive(Serialize)]
struct Chunks {
    chunks: Vec<Raw>,
}

fn result(asked: &Asked<'_>, said: Said, end: StreamEnd) -> Result<Raw, ErrorObject> {
    let Said { bytes, values, kind, is_other, .. } = said;
    let is_json = !values.is_empty() && !is_other;
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
            blob.mime_type = kind.filter(|kind| !kind.is_empty());
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
    adapt_content(asked.profile, &mut content);
    let mut result = CallToolResult::new(content);
    if !end.success {
        result.is_error = Some(true);
    }
    if is_json && asked.profile.structured_content {
        let structured = Raw::from_value(&Chunks { chunks: values });
        result.structured_content =
            Some(structured.map_err(|error| ErrorObject::internal(error.to_string()))?);
    }
    if !meta.is_empty() {
        result.meta = Some(meta);
    }
    Raw::from_value(&result).map_err(|error| ErrorObject::internal(error.to_string()))
}
