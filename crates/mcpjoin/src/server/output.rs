//! What handlers may return, and how it is encoded.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpjoin_proto::Raw;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{
    BlobResourceContents, CallToolResult, Completion, Content, GetPromptResult, InputRequired, PromptMessage,
    ProtocolType, ReadResourceResult, ResourceContents, Role, TextResourceContents,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{HandlerError, IntoHandlerError, schema};

/// The response of a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolReply {
    /// A result, which is adapted to the revision.
    Result(CallToolResult),
    /// Any other reply of the protocol, sent as it is: a request for input, a task, or a result in JSON.
    Reply(Reply),
}

/// What the handler of a tool may return: text, content, a whole [`CallToolResult`], [`Json`], or a [`Result`] of these.
///
/// Wrap a value that is `Serialize` and `JsonSchema` in [`Json`]. The errors that a handler may return: [`IntoHandlerError`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a tool may return",
    note = "wrap a value that is `Serialize + JsonSchema` in `mcpjoin::server::Json(..)`",
    note = "a tool may also return `String`, `&'static str`, `Content`, `Vec<Content>`, `CallToolResult`, or a `Result` of these"
)]
pub trait ToolOutput: Send {
    /// Returns the JSON Schema of the structured result, if there is one. Default: none.
    #[must_use]
    fn output_schema() -> Option<Raw> {
        None
    }

    /// Returns roughly how many bytes of text the output has, if that is known. Default: 0.
    ///
    /// Where each response has a stream of its own (QUIC, HTTP), an output of 512 KiB or more is encoded on a blocking
    /// thread, so that it does not delay other responses.
    #[doc(hidden)]
    #[must_use]
    fn size_hint(&self) -> usize {
        0
    }

    /// Converts the output into the response.
    ///
    /// # Errors
    /// [`HandlerError`] if the handler has failed.
    fn into_tool_reply(self) -> Result<ToolReply, HandlerError>;
}

/// A structured result. Its schema is derived from the type and part of the list of tools. The same value is sent as text,
/// for clients that read no structured results.
///
/// Until 2025-11-25 a structured result must be an object. Other values are sent to such clients as the member `result` of
/// an object, and the schema that these clients receive says so.
///
/// ```
/// use mcpjoin::server::{Json, NoArguments, Server, tool};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Weather { celsius: f64 }
///
/// let server = Server::builder("weather", "1.0.0")
///     .tool(tool("now"), |_: NoArguments, _| async { Json(Weather { celsius: 21.5 }) })
///     .build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
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
    String: text has text.len() => ToolReply::Reply(Reply::Complete(CallToolResult::text_json(text)));
    &'static str: text => ToolReply::Reply(Reply::Complete(CallToolResult::text_json(text.to_owned())));
    Content: content has size(content) => ToolReply::Result(CallToolResult::new(vec![content]));
    Vec<Content>: content has content.iter().map(size).sum() => ToolReply::Result(CallToolResult::new(content));
    CallToolResult: result has size_of_result(result) => ToolReply::Result(result);
    InputRequired: input => ToolReply::Reply(Reply::NeedInput(Box::new(input)));
    Reply: reply => ToolReply::Reply(reply);
    ToolReply: reply has size_of_reply(reply) => reply;
}

impl<T: ToolOutput, E: IntoHandlerError> ToolOutput for Result<T, E> {
    fn output_schema() -> Option<Raw> {
        T::output_schema()
    }

    fn size_hint(&self) -> usize {
        self.as_ref().map_or(0, ToolOutput::size_hint)
    }

    fn into_tool_reply(self) -> Result<ToolReply, HandlerError> {
        self.map_err(IntoHandlerError::into_handler_error)?.into_tool_reply()
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

/// Encodes a large output on a blocking thread, where it does not delay the other requests of the connection.
pub(super) async fn write_offloaded<R: Send + 'static>(write: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(write).await {
        Ok(written) => written,
        // The driver turns a panic into an error, wherever it happened.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime shuts down, and drops this future.
        Err(_) => std::future::pending().await,
    }
}

/// What the handler of a prompt may return: one text of the user, messages, a whole [`GetPromptResult`], or a [`Result`] of
/// these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a prompt may return",
    note = "return a text of the user, `Vec<PromptMessage>`, `GetPromptResult`, or a `Result` of these"
)]
pub trait PromptOutput: Send {
    /// Converts the output into the response.
    ///
    /// # Errors
    /// [`HandlerError`] if the handler has failed.
    fn into_prompt_reply(self) -> Result<Reply, HandlerError>;
}

/// What the handler of a resource may return: text, bytes (`Vec<u8>`), contents, a whole [`ReadResourceResult`], or an
/// [`Option`] or a [`Result`] of these. `None` is the error for a resource that does not exist.
///
/// ```
/// use std::collections::HashMap;
///
/// use mcpjoin::server::{Server, resource_template};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct NoteId { id: u64 }
///
/// let notes = HashMap::from([(1, "buy milk")]);
/// let server = Server::builder("notes", "1.0.0")
///     .resource_template(resource_template("note://{id}", "note"), move |NoteId { id }, _| {
///         std::future::ready(notes.get(&id).copied())
///     })
///     .build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a resource may return",
    note = "return a text, `Vec<u8>`, `ResourceContents`, `ReadResourceResult`, or an `Option` or a `Result` of these",
    note = "for JSON, return its text: `serde_json::to_string(&value)`"
)]
pub trait ResourceOutput: Send {
    /// See [`ToolOutput::size_hint`].
    #[doc(hidden)]
    #[must_use]
    fn size_hint(&self) -> usize {
        0
    }

    /// Converts the output into the response, for the resource with this URI and this media type, if it has one.
    ///
    /// # Errors
    /// [`HandlerError`] if the handler has failed.
    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError>;
}

/// What the handler of a completion may return: the values, a whole [`Completion`], or a [`Result`] of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a completion may return",
    note = "return `Vec<String>`, `Vec<&str>`, `Completion`, or a `Result` of these"
)]
pub trait CompletionOutput: Send {
    /// Converts the output into the response. Values beyond [`Completion::MAX_VALUES`] are left out, and the response says
    /// so.
    ///
    /// # Errors
    /// [`HandlerError`] if the handler has failed.
    fn into_completion(self) -> Result<Completion, HandlerError>;
}

fn complete<T: ProtocolType>(result: &T) -> Result<Reply, HandlerError> {
    Ok(Reply::Complete(result.to_raw()?))
}

macro_rules! prompt_output {
    ($($type:ty: $value:ident => $reply:expr;)*) => {
        $(impl PromptOutput for $type {
            fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
                let $value = self;
                $reply
            }
        })*
    };
}

prompt_output! {
    GetPromptResult: result => complete(&result);
    Vec<PromptMessage>: messages => complete(&GetPromptResult::new(messages));
    String: text => vec![PromptMessage::new(Role::User, Content::text(text))].into_prompt_reply();
    &'static str: text => text.to_owned().into_prompt_reply();
    InputRequired: input => Ok(Reply::NeedInput(Box::new(input)));
    Reply: reply => Ok(reply);
}

impl<T: PromptOutput, E: IntoHandlerError> PromptOutput for Result<T, E> {
    fn into_prompt_reply(self) -> Result<Reply, HandlerError> {
        self.map_err(IntoHandlerError::into_handler_error)?.into_prompt_reply()
    }
}

macro_rules! resource_output {
    ($($type:ty: $value:ident $(has $size:expr)?, ($uri:ident, $mime_type:ident) => $reply:expr;)*) => {
        $(impl ResourceOutput for $type {
            $(fn size_hint(&self) -> usize {
                let $value = self;
                $size
            })?

            fn into_resource_reply(self, $uri: &str, $mime_type: Option<&str>) -> Result<Reply, HandlerError> {
                let $value = self;
                $reply
            }
        })*
    };
}

resource_output! {
    ReadResourceResult: result has result.contents.iter().map(size_of_contents).sum(), (_uri, _type)
        => complete(&result);
    Vec<ResourceContents>: contents has contents.iter().map(size_of_contents).sum(), (_uri, _type)
        => complete(&ReadResourceResult::new(contents));
    ResourceContents: contents has size_of_contents(contents), (uri, mime_type)
        => vec![contents].into_resource_reply(uri, mime_type);
    TextResourceContents: text has text.text.len(), (uri, mime_type)
        => ResourceContents::Text(text).into_resource_reply(uri, mime_type);
    BlobResourceContents: blob has blob.blob.len(), (uri, mime_type)
        => ResourceContents::Blob(blob).into_resource_reply(uri, mime_type);
    String: text has text.len(), (uri, mime_type)
        => Ok(Reply::Complete(ReadResourceResult::text_json(uri, mime_type, text)));
    &'static str: text, (uri, mime_type) => text.to_owned().into_resource_reply(uri, mime_type);
    Vec<u8>: bytes has bytes.len(), (uri, mime_type)
        => Ok(Reply::Complete(ReadResourceResult::blob_json(uri, mime_type, STANDARD.encode(bytes))));
    InputRequired: input, (_uri, _type) => Ok(Reply::NeedInput(Box::new(input)));
    Reply: reply, (_uri, _type) => Ok(reply);
}

impl<T: ResourceOutput, E: IntoHandlerError> ResourceOutput for Result<T, E> {
    fn size_hint(&self) -> usize {
        self.as_ref().map_or(0, ResourceOutput::size_hint)
    }

    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        self.map_err(IntoHandlerError::into_handler_error)?.into_resource_reply(uri, mime_type)
    }
}

impl<T: ResourceOutput> ResourceOutput for Option<T> {
    fn size_hint(&self) -> usize {
        self.as_ref().map_or(0, ResourceOutput::size_hint)
    }

    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        self.ok_or_else(|| HandlerError::resource_not_found(uri))?.into_resource_reply(uri, mime_type)
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

impl<T: CompletionOutput, E: IntoHandlerError> CompletionOutput for Result<T, E> {
    fn into_completion(self) -> Result<Completion, HandlerError> {
        self.map_err(IntoHandlerError::into_handler_error)?.into_completion()
    }
}
