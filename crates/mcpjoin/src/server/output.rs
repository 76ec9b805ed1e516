//! What handlers may return, and what becomes of it.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content>.

use mcpjoin_proto::Raw;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{
    BlobResourceContents, CallToolResult, Completion, Content, GetPromptResult, InputRequired, PromptMessage,
    ReadResourceResult, ResourceContents, TextResourceContents,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::HandlerError;
use super::schema;

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolReply {
    /// A result.
    Result(CallToolResult),
    /// Whatever the protocol has besides: a request for input made by hand, or a result in JSON, which is
    /// passed on as it is.
    Reply(Reply),
}

/// What a tool's handler may return: text, content, a whole [`CallToolResult`], [`Json`], and a [`Result`] of
/// these.
pub trait ToolOutput: Send {
    /// The JSON Schema of the structured result, where there is one.
    #[must_use]
    fn output_schema() -> Option<Raw> {
        None
    }

    /// About how many bytes of text it has, where that is known. Where each answer has a stream of its own (QUIC, HTTP),
    /// one from 512 KiB on is written on a thread for blocking work, so that it keeps no other waiting.
    #[must_use]
    fn size_hint(&self) -> usize {
        0
    }

    /// The answer.
    ///
    /// # Errors
    /// When the handler has failed.
    fn into_tool_reply(self) -> Result<ToolReply, HandlerError>;
}

/// A structured result: its schema is derived from the type and told in the list of tools, and the same value is
/// given as text for those who read no structured results.
///
/// Until 2025-11-25 a structured result is an object. A value that is none is told to such a client inside an
/// object, as its member `result`, and so says the schema it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send> ToolOutput for Json<T> {
    fn output_schema() -> Option<Raw> {
        schema::of_output::<T>()
    }

    fn into_tool_reply(self) -> Result<ToolReply, HandlerError> {
        Ok(ToolReply::Result(CallToolResult::structured(Raw::from_value(&self.0)?)))
    }
}

macro_rules! tool_output {
    ($($type:ty: $value:ident $(has $size:expr)? => $result:expr;)*) => {
        $(impl ToolOutput for $type {
            $(fn size_hint(&self) -> usize {
                let $value = self;
                $size
            })?

            fn into_tool_reply(self) -> Result<ToolReply, HandlerError> {
                let $value = self;
                Ok($result)
            }
        })*
    };
}

tool_output! {
    (): nothing => { let () = nothing; ToolReply::Result(CallToolResult::new(Vec::new())) };
    String: text has text.len() => ToolReply::Reply(Reply::Complete(CallToolResult::written_text(text)));
    &'static str: text => ToolReply::Reply(Reply::Complete(CallToolResult::written_text(text.to_owned())));
    Content: content has size(content) => ToolReply::Result(CallToolResult::new(vec![content]));
    Vec<Content>: content has content.iter().map(size).sum() => ToolReply::Result(CallToolResult::new(content));
    CallToolResult: result has size_of_result(result) => ToolReply::Result(result);
    InputRequired: input => ToolReply::Reply(Reply::NeedInput(Box::new(input)));
    Reply: reply => ToolReply::Reply(reply);
    ToolReply: reply has size_of_reply(reply) => reply;
}

impl<T: ToolOutput, E: Into<HandlerError> + Send> ToolOutput for Result<T, E> {
    fn output_schema() -> Option<Raw> {
        T::output_schema()
    }

    fn size_hint(&self) -> usize {
        self.as_ref().map_or(0, ToolOutput::size_hint)
    }

    fn into_tool_reply(self) -> Result<ToolReply, HandlerError> {
        self.map_err(Into::into)?.into_tool_reply()
    }
}

fn size(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.text.len(),
        Content::Image(image) => image.data.len(),
        Content::Audio(audio) => audio.data.len(),
        Content::Resource(embedded) => size_of_contents(&embedded.resource),
        _ => 0,
    }
}

fn size_of_contents(contents: &ResourceContents) -> usize {
    match contents {
        ResourceContents::Text(text) => text.text.len(),
        ResourceContents::Blob(blob) => blob.blob.len(),
        _ => 0,
    }
}

fn size_of_result(result: &CallToolResult) -> usize {
    let content: usize = result.content.iter().map(size).sum();
    content + result.structured_content.as_ref().map_or(0, Raw::len)
}

fn size_of_reply(reply: &ToolReply) -> usize {
    match reply {
        ToolReply::Result(result) => size_of_result(result),
        ToolReply::Reply(_) => 0,
    }
}

/// Writes a large answer on a thread for blocking work, where it keeps no other request of the connection waiting.
pub(super) async fn write_offloaded<R: Send + 'static>(write: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(write).await {
        Ok(written) => written,
        // The driver answers a panic, wherever it happened.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime ends, and with it whoever waits here.
        Err(_) => std::future::pending().await,
    }
}

/// What a prompt's handler may return: one text of the user, messages, a whole [`GetPromptResult`], and a
/// [`Result`] of these.
pub trait PromptOutput: Send {
    /// The answer.
    ///
    /// # Errors
    /// When the handler has failed.
    fn into_prompt_reply(self) -> Result<Reply, HandlerError>;
}

/// What a resource's handler may return: text, bytes in base64 ([`BlobResourceContents`]), contents, a whole
/// [`ReadResourceResult`], and a [`Result`] of these.
pub trait ResourceOutput: Send {
    /// As [`ToolOutput::size_hint`].
    #[must_use]
    fn size_hint(&self) -> usize {
        0
    }

    /// The answer, for the resource of that URI and, where it is known, that media type.
    ///
    /// # Errors
    /// When the handler has failed.
    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError>;
}

/// What a completion's handler may return: the proposals, a whole [`Completion`], and a [`Result`] of these.
pub trait CompletionOutput: Send {
    /// The answer. What is beyond [`Completion::MAX_VALUES`] is left out, and the answer says so.
    ///
    /// # Errors
    /// When the handler has failed.
    fn into_completion(self) -> Result<Completion, HandlerError>;
}

fn complete<T: Serialize>(result: &T) -> Result<Reply, HandlerError> {
    Ok(Reply::Complete(Raw::from_value(result)?))
}

impl PromptOutput for GetPromptResult {
    fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
        complete(&self)
    }
}

impl PromptOutput for Vec<PromptMessage> {
    fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
        GetPromptResult::new(self).into_prompt_reply()
    }
}

impl PromptOutput for String {
    fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
        vec![PromptMessage::new(mcpjoin_proto::types::Role::User, Content::text(self))].into_prompt_reply()
    }
}

impl PromptOutput for &'static str {
    fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
        self.to_owned().into_prompt_reply()
    }
}

impl PromptOutput for InputRequired {
    fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
        Ok(Reply::NeedInput(Box::new(self)))
    }
}

impl PromptOutput for Reply {
    fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
        Ok(self)
    }
}

impl<T: PromptOutput, E: Into<HandlerError> + Send> PromptOutput for Result<T, E> {
    fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
        self.map_err(Into::into)?.into_prompt_reply()
    }
}

impl ResourceOutput for ReadResourceResult {
    fn size_hint(&self) -> usize {
        self.contents.iter().map(size_of_contents).sum()
    }

    fn into_resource_reply(self, _: &str, _: Option<&str>) -> Result<Reply, HandlerError> {
        complete(&self)
    }
}

impl ResourceOutput for Vec<ResourceContents> {
    fn size_hint(&self) -> usize {
        self.iter().map(size_of_contents).sum()
    }

    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        ReadResourceResult::new(self).into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for ResourceContents {
    fn size_hint(&self) -> usize {
        size_of_contents(self)
    }

    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        vec![self].into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for TextResourceContents {
    fn size_hint(&self) -> usize {
        self.text.len()
    }

    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        ResourceContents::Text(self).into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for BlobResourceContents {
    fn size_hint(&self) -> usize {
        self.blob.len()
    }

    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        ResourceContents::Blob(self).into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for String {
    fn size_hint(&self) -> usize {
        self.len()
    }

    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        let mut contents = TextResourceContents::new(uri, self);
        contents.mime_type = mime_type.map(ToOwned::to_owned);
        contents.into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for &'static str {
    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        self.to_owned().into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for InputRequired {
    fn into_resource_reply(self, _: &str, _: Option<&str>) -> Result<Reply, HandlerError> {
        Ok(Reply::NeedInput(Box::new(self)))
    }
}

impl ResourceOutput for Reply {
    fn into_resource_reply(self, _: &str, _: Option<&str>) -> Result<Reply, HandlerError> {
        Ok(self)
    }
}

impl<T: ResourceOutput, E: Into<HandlerError> + Send> ResourceOutput for Result<T, E> {
    fn size_hint(&self) -> usize {
        self.as_ref().map_or(0, ResourceOutput::size_hint)
    }

    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        self.map_err(Into::into)?.into_resource_reply(uri, mime_type)
    }
}

impl CompletionOutput for Completion {
    fn into_completion(mut self) -> Result<Completion, HandlerError> {
        let found = self.values.len();
        if found > Self::MAX_VALUES {
            self.values.truncate(Self::MAX_VALUES);
            self.has_more = Some(true);
            self.total = self.total.or_else(|| i64::try_from(found).ok());
        }
        Ok(self)
    }
}

impl<S: Into<String> + Send> CompletionOutput for Vec<S> {
    fn into_completion(self) -> Result<Completion, HandlerError> {
        Completion::new(self.into_iter().map(Into::into).collect()).into_completion()
    }
}

impl<T: CompletionOutput, E: Into<HandlerError> + Send> CompletionOutput for Result<T, E> {
    fn into_completion(self) -> Result<Completion, HandlerError> {
        self.map_err(Into::into)?.into_completion()
    }
}
