//! Elicitation: questions to a client's user, in a form or on a web page.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>. Used by the session, which sends only
//! the kinds that the client has declared.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::members::Members;
use super::schema::ElicitationSchema;
use super::task::TaskMetadata;
use crate::{ErrorObject, Kind, Raw};

open! {
    /// The kind of an elicitation.
    ElicitationMode {
        /// A form.
        Form = "form",
        /// A web page.
        Url = "url",
    }
}

/// Parameters of `elicitation/create`. `mode` selects the kind; an absent `mode` means a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form.
    Form(ElicitFormParams),
    /// A web page; since 2025-11-25.
    Url(ElicitUrlParams),
    /// An unknown kind, unchanged.
    Other(Raw),
}

impl ElicitParams {
    /// What the user is asked. `None` for an unknown kind.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Form(form) => Some(&form.message),
            Self::Url(page) => Some(&page.message),
            Self::Other(_) => None,
        }
    }

    /// Whether the user is sent to a web page.
    #[must_use]
    pub const fn is_url(&self) -> bool {
        matches!(self, Self::Url(_))
    }
}

variants! {
    ElicitParams {
        Form(ElicitFormParams),
        Url(ElicitUrlParams),
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        if raw.kind() != Kind::Object {
            return Err(de::Error::custom("the parameters of an elicitation are an object"));
        }
        let mode = raw.member("mode").filter(|mode| mode.kind() != Kind::Null);
        match mode.as_ref().map(Raw::to_string_value) {
            None => raw.decode().map(Self::Form).map_err(de::Error::custom),
            Some(Some(mode)) if mode == "form" => raw.decode().map(Self::Form).map_err(de::Error::custom),
            Some(Some(mode)) if mode == "url" => raw.decode().map(Self::Url).map_err(de::Error::custom),
            Some(Some(_)) => Ok(Self::Other(raw)),
            Some(None) => Err(de::Error::custom("the member `mode` is not a string")),
        }
    }
}

record! {
    /// Asks the user to fill in a form.
    ElicitFormParams [request] {
        /// The question to the user.
        message: String as impl Into<String>,
        /// The schema of the form.
        requested_schema: ElicitationSchema,
        ---
        /// `form`, or absent with the same meaning, which 2025-06-18 understands too.
        mode: ElicitationMode => with_mode,
        /// Requests a task instead of the result; 2025-11-25 alone.
        task: TaskMetadata => with_task,
    }
}

record! {
    /// Asks the user to open a web page, so that the client does not see what the user enters there.
    ElicitUrlParams "mode": "url" [request] {
        /// The purpose of the page, for the user.
        message: String as impl Into<String>,
        /// The URL of the page.
        url: String as impl Into<String>,
        ---
        /// The id that `notifications/elicitation/complete` refers to. Required in 2025-11-25.
        elicitation_id: String => with_elicitation_id,
        /// Requests a task instead of the result; 2025-11-25 alone.
        task: TaskMetadata => with_task,
    }
}

record! {
    /// Result of `elicitation/create`.
    ElicitResult [result] {
        /// The reaction of the user.
        action: ElicitAction,
        ---
        /// The values of the form: strings, numbers, booleans, and lists of strings. Only with
        /// [`ElicitAction::Accept`], and only of a form.
        content: Members<Raw> => with_content,
    }
}

impl ElicitResult {
    /// The user accepts. `values` are those of the form: a struct, a map or a JSON object. `()` is for a page, which has no
    /// values.
    ///
    /// The error has the type that the handler of a client returns:
    ///
    /// ```
    /// use mcpjoin_proto::types::ElicitResult;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Person { name: String }
    ///
    /// let result = ElicitResult::accept(Person { name: "Ada".into() })?;
    /// assert_eq!(result.content.unwrap().get("name").unwrap().as_str(), r#""Ada""#);
    /// # Ok::<(), mcpjoin_proto::ErrorObject>(())
    /// ```
    ///
    /// # Errors
    /// [`code::INTERNAL_ERROR`](crate::code::INTERNAL_ERROR) when `values` is not an object, or cannot be written.
    pub fn accept(values: impl Serialize) -> Result<Self, ErrorObject> {
        let values = Raw::from_value(&values).map_err(|error| ErrorObject::internal(error.to_string()))?;
        let mut result = Self::new(ElicitAction::Accept);
        if values.kind() != Kind::Null {
            let content = values.decode().map_err(|error| ErrorObject::internal(error.to_string()))?;
            result.content = Some(content);
        }
        Ok(result)
    }

    /// The user refuses.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The user has closed the question without a decision.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

open! {
    /// The reaction of the user.
    ElicitAction {
        /// The user submitted the form, or agreed to open the page.
        Accept = "accept",
        /// The user refused.
        Decline = "decline",
        /// The user closed the question without a decision.
        Cancel = "cancel",
    }
}

record! {
    /// Parameters of `notifications/elicitation/complete`, 2025-11-25 alone: the user has finished on the web page.
    ElicitationCompleteParams [notification] {
        /// The id of the elicitation.
        elicitation_id: String as impl Into<String>,
        ---
    }
}

record! {
    /// `data` of the error -32042, 2025-11-25 alone: the request can be repeated once the user has finished on these
    /// pages.
    UrlElicitationRequiredData {
        /// The pages.
        elicitations: Vec<ElicitUrlParams>,
        ---
    }
}
