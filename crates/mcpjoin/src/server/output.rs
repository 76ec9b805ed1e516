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
    ($($type:ty: $value:ident => $result:expr;)*) => {
        $(impl ToolOutput for $type {
            fn into_tool_reply(self) -> Result<ToolReply, HandlerError> {
                let $value = self;
                Ok($result)
            }
        })*
    };
}

tool_output! {
    (): nothing => { let () = nothing; ToolReply::Result(CallToolResult::new(Vec::new())) };
    String: text => ToolReply::Reply(Reply::Complete(CallToolResult::written_text(text)));
    &'static str: text => ToolReply::Reply(Reply::Complete(CallToolResult::written_text(text.to_owned())));
    Content: content => ToolReply::Result(CallToolResult::new(vec![content]));
    Vec<Content>: content => ToolReply::Result(CallToolResult::new(content));
    CallToolResult: result => ToolReply::Result(result);
    InputRequired: input => ToolReply::Reply(Reply::NeedInput(Box::new(input)));
    Reply: reply => ToolReply::Reply(reply);
    ToolReply: reply => reply;
}

impl<T: ToolOutput, E: Into<HandlerError> + Send> ToolOutput for Result<T, E> {
    fn output_schema() -> Option<Raw> {
        T::output_schema()
    }

    fn into_tool_reply(self) -> Result<ToolReply, HandlerError> {
        self.map_err(Into::into)?.into_tool_reply()
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
    fn into_resource_reply(self, _: &str, _: Option<&str>) -> Result<Reply, HandlerError> {
        complete(&self)
    }
}

impl ResourceOutput for Vec<ResourceContents> {
    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        ReadResourceResult::new(self).into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for ResourceContents {
    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        vec![self].into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for TextResourceContents {
    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        ResourceContents::Text(self).into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for BlobResourceContents {
    fn into_resource_reply(self, uri: &str, mime_type: Option<&str>) -> Result<Reply, HandlerError> {
        ResourceContents::Blob(self).into_resource_reply(uri, mime_type)
    }
}

impl ResourceOutput for String {
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
