//! Reads the result of a tool as a Rust type, in the same way for every revision.

use alloc::string::String;
use core::fmt;

use serde::de::DeserializeOwned;

use super::content::join_lines;
use super::meta::key;
use super::{CallToolResult, Content, Members};
use crate::json::ReadError;
use crate::{Kind, Raw};

/// The member that contains a value in revisions whose structured results are objects.
const WRAPPED_IN: &str = "result";

/// Why the result of a tool cannot be read as a type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolValueError {
    /// The tool failed: the texts of its content.
    Failed(String),
    /// There is neither a structured result nor a single text with JSON.
    Absent,
    /// The value does not match the type.
    Unfit(ReadError),
}

impl fmt::Display for ToolValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(said) if said.is_empty() => f.write_str("the tool failed"),
            Self::Failed(said) => f.write_str(said),
            Self::Absent => f.write_str("the result of the tool has no structured value"),
            Self::Unfit(error) => write!(f, "the value of the tool's result does not fit: {error}"),
        }
    }
}

impl core::error::Error for ToolValueError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Unfit(error) => Some(error),
            _ => None,
        }
    }
}

impl CallToolResult {
    /// The value that a tool of this library returned as `Json(value)`, in every revision.
    ///
    /// Revisions without structured results carry the value as JSON text. From 2025-06-18 to 2025-11-25 a structured
    /// result must be an object, so any other value is wrapped in an object with the member `result`. A server of this
    /// library marks that in `_meta` ([`key::WRAPPED_RESULT`]). For other servers, an object whose only member is
    /// `result` is unwrapped if the whole object does not match `T`.
    ///
    /// Without a structured result, a single text is read as JSON. If that does not match `T`, the text itself is the
    /// value, so a tool that returns text has a `String`.
    ///
    /// ```
    /// use mcpjoin_proto::Raw;
    /// use mcpjoin_proto::types::CallToolResult;
    ///
    /// let sum: i64 = CallToolResult::structured(Raw::parse("42")?).decode()?;
    /// let greeting: String = CallToolResult::text("hello").decode()?;
    /// let failed = CallToolResult::error("no such city").decode::<i64>();
    /// assert_eq!((sum, greeting.as_str()), (42, "hello"));
    /// assert_eq!(failed.unwrap_err().to_string(), "no such city");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the tool failed, with its text; when there is no value; when the value does not match `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ToolValueError> {
        if self.is_error == Some(true) {
            return Err(ToolValueError::Failed(self.to_text()));
        }
        let Some(value) = &self.structured_content else { return self.decode_text() };
        if self.is_wrapped()
            && let Some(inner) = value.member(WRAPPED_IN)
        {
            return inner.decode().map_err(ToolValueError::Unfit);
        }
        value.decode().or_else(|error| {
            let inner = only_member(value).and_then(|inner| inner.decode().ok());
            inner.ok_or(ToolValueError::Unfit(error))
        })
    }

    fn decode_text<T: DeserializeOwned>(&self) -> Result<T, ToolValueError> {
        let mut texts = self.content.iter().filter_map(Content::as_text);
        let (Some(text), None) = (texts.next(), texts.next()) else { return Err(ToolValueError::Absent) };
        let json = Raw::parse(String::from(text)).map(|value| value.decode());
        if let Ok(Ok(value)) = json {
            return Ok(value);
        }
        Raw::string(text).decode().map_err(|_| match json {
            Ok(Err(error)) => ToolValueError::Unfit(error),
            _ => ToolValueError::Absent,
        })
    }

    fn is_wrapped(&self) -> bool {
        let mark = self.meta.as_ref().and_then(|meta| meta.member(key::WRAPPED_RESULT));
        mark.is_some_and(|mark| mark.as_str() == "true")
    }

    /// The texts of the content, joined by line feeds. Content of other kinds is left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        join_lines(self.content.iter().filter_map(Content::as_text))
    }

    /// This result, or the failure of the tool as an error.
    ///
    /// # Errors
    /// [`ToolValueError::Failed`] with the text of the content when [`is_error`](Self::is_error) is true.
    pub fn into_result(self) -> Result<Self, ToolValueError> {
        if self.is_error == Some(true) { Err(ToolValueError::Failed(self.to_text())) } else { Ok(self) }
    }
}

/// The member `result` of an object without other members.
fn only_member(value: &Raw) -> Option<Raw> {
    if value.kind() != Kind::Object {
        return None;
    }
    let members: Members<Raw> = value.decode().ok()?;
    if members.len() == 1 { members.get(WRAPPED_IN).cloned() } else { None }
}
