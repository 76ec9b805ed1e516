//! The value of a tool's result as a type of Rust, the same in every revision.

use alloc::string::String;
use core::fmt;

use serde::de::DeserializeOwned;

use super::meta::key;
use super::{CallToolResult, Members};
use crate::json::ReadError;
use crate::{Kind, Raw};

/// The member that a value is wrapped in where a structured result has to be an object.
const WRAPPED_IN: &str = "result";

/// Why a result of a tool gives no value of a type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolValueError {
    /// The tool has failed: the texts of its content, which say how.
    Failed(String),
    /// There is neither a structured result nor exactly one text that is JSON.
    Absent,
    /// The value does not fit the type.
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
    /// The value of the result: what a tool answered as `Json(value)` of this library, in every revision.
    ///
    /// Revisions without structured results carry the value as a text of JSON. From 2025-06-18 to 2025-11-25 a structured
    /// result has to be an object, and another value comes inside one, as its member `result`. A server of this library
    /// says so in `_meta` ([`key::WRAPPED_RESULT`]); of another server's object whose only member is `result`, that member
    /// is the value where the whole does not fit `T`.
    ///
    /// # Errors
    /// When the tool has failed, with what it said; when there is no value, or one that does not fit.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ToolValueError> {
        if self.is_error == Some(true) {
            return Err(ToolValueError::Failed(self.texts()));
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
        let mut texts = self.content.iter().filter_map(|content| content.as_text());
        let (Some(text), None) = (texts.next(), texts.next()) else { return Err(ToolValueError::Absent) };
        let value = Raw::parse(String::from(text)).map_err(|_| ToolValueError::Absent)?;
        value.decode().map_err(ToolValueError::Unfit)
    }

    fn is_wrapped(&self) -> bool {
        let mark = self.meta.as_ref().and_then(|meta| meta.member(key::WRAPPED_RESULT));
        mark.is_some_and(|mark| mark.as_str() == "true")
    }

    /// The texts of the content, one below the other.
    fn texts(&self) -> String {
        let mut texts = String::new();
        for text in self.content.iter().filter_map(|content| content.as_text()) {
            if !texts.is_empty() {
                texts.push('\n');
            }
            texts.push_str(text);
        }
        texts
    }
}

/// The value of the member `result` of an object without other members.
fn only_member(value: &Raw) -> Option<Raw> {
    if value.kind() != Kind::Object {
        return None;
    }
    let members: Members<Raw> = value.decode().ok()?;
    if members.len() == 1 { members.get(WRAPPED_IN).cloned() } else { None }
}
