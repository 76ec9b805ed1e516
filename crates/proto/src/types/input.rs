//! What a server asks a client in place of a result, and the answers in the request made again.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>. Used by the session, which lets
//! a server ask only for what the client has declared.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;

use serde::ser::{self, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::elicitation::{ElicitParams, ElicitResult};
use super::members::Members;
use super::roots::{ListRootsParams, ListRootsResult};
use super::sampling::{CreateMessageParams, CreateMessageResult};
use crate::json::{ReadError, WriteError};
use crate::{Kind, Raw};

/// The questions of a server, by names of its choice.
pub type InputRequests = Members<InputRequest>;

/// The answers to them, by the same names.
pub type InputResponses = Members<InputResponse>;

record! {
    /// A result that asks for input: the specification's `InputRequiredResult`. At least one of the two members
    /// is there.
    #[derive(Default)]
    InputRequired [result] {
        ---
        /// The questions.
        input_requests: InputRequests => with_input_requests,
        /// What is to be given back unchanged when the request is made again.
        request_state: String => with_request_state,
    }
}

/// A question of a server: a method and its parameters, without an id, since it is no request of its own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputRequest {
    /// `sampling/createMessage`: to the client's model.
    CreateMessage(Box<CreateMessageParams>),
    /// `elicitation/create`: to the client's user.
    Elicit(ElicitParams),
    /// `roots/list`: to the client itself.
    ListRoots(ListRootsParams),
    /// A method that this crate does not know, with its parameters as they were written.
    Other {
        /// The method.
        method: Box<str>,
        /// The parameters.
        params: Option<Raw>,
    },
}

impl InputRequest {
    /// The name of the method.
    #[must_use]
    pub fn method(&self) -> &str {
        match self {
            Self::CreateMessage(_) => "sampling/createMessage",
            Self::Elicit(_) => "elicitation/create",
            Self::ListRoots(_) => "roots/list",
            Self::Other { method, .. } => method,
        }
    }

    /// Whether the user is asked with a page in a browser.
    #[must_use]
    pub fn is_url_elicitation(&self) -> bool {
        match self {
            Self::Elicit(params) => params.is_url(),
            Self::Other { method, params: Some(params) } if **method == *"elicitation/create" => {
                params.member("mode").is_some_and(|mode| mode.to_string_value().as_deref() == Some("url"))
            }
            _ => false,
        }
    }

    /// The parameters as JSON; `None` when there are none.
    ///
    /// # Errors
    /// When they cannot be written: a number in them is not finite.
    pub fn params(&self) -> Result<Option<Raw>, WriteError> {
        match self {
            Self::CreateMessage(params) => Raw::from_value(params).map(Some),
            Self::Elicit(params) => Raw::from_value(params).map(Some),
            Self::ListRoots(params) if params.meta.is_none() => Ok(None),
            Self::ListRoots(params) => Raw::from_value(params).map(Some),
            Self::Other { params, .. } => Ok(params.clone()),
        }
    }

    /// A question from the name of its method and its parameters, as a request of a legacy server has them.
    ///
    /// # Errors
    /// When the method is one of the three and the parameters are not its parameters; says where.
    pub fn from_parts(method: &str, params: Option<Raw>) -> Result<Self, ReadError> {
        let or_empty = |params: Option<Raw>| params.unwrap_or_else(Raw::empty_object);
        match method {
            "sampling/createMessage" => or_empty(params).decode().map(Self::CreateMessage),
            "elicitation/create" => or_empty(params).decode().map(Self::Elicit),
            "roots/list" => or_empty(params).decode().map(Self::ListRoots),
            _ => Ok(Self::Other { method: method.into(), params }),
        }
    }
}

impl From<CreateMessageParams> for InputRequest {
    fn from(params: CreateMessageParams) -> Self {
        Self::CreateMessage(Box::new(params))
    }
}

impl<T: Into<ElicitParams>> From<T> for InputRequest {
    fn from(params: T) -> Self {
        Self::Elicit(params.into())
    }
}

impl From<ListRootsParams> for InputRequest {
    fn from(params: ListRootsParams) -> Self {
        Self::ListRoots(params)
    }
}

impl Serialize for InputRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("method", self.method())?;
        if let Some(params) = self.params().map_err(ser::Error::custom)? {
            object.serialize_entry("params", &params)?;
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for InputRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Parts<'a> {
            #[serde(borrow)]
            method: Cow<'a, str>,
            params: Option<Raw>,
        }

        let parts = Parts::deserialize(deserializer)?;
        Self::from_parts(&parts.method, parts.params)
            .map_err(|error| de::Error::custom(format_args!("params: {error}")))
    }
}

/// The answer to a question: the bare result of its method. What it must be shows in the question alone, so it
/// stays a JSON text until somebody knows that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct InputResponse(Raw);

impl InputResponse {
    /// The answer to `sampling/createMessage`.
    ///
    /// # Errors
    /// When the result cannot be written: a number in it is not finite.
    pub fn from_create_message(result: &CreateMessageResult) -> Result<Self, WriteError> {
        Raw::from_value(result).map(Self)
    }

    /// The answer to `elicitation/create`.
    ///
    /// # Errors
    /// When the result cannot be written.
    pub fn from_elicit(result: &ElicitResult) -> Result<Self, WriteError> {
        Raw::from_value(result).map(Self)
    }

    /// The answer to `roots/list`.
    ///
    /// # Errors
    /// When the result cannot be written.
    pub fn from_list_roots(result: &ListRootsResult) -> Result<Self, WriteError> {
        Raw::from_value(result).map(Self)
    }

    /// A result that is JSON already: an object. `None` when it is something else.
    #[must_use]
    pub fn from_raw(result: Raw) -> Option<Self> {
        (result.kind() == Kind::Object).then_some(Self(result))
    }

    /// Reads it as the answer to `sampling/createMessage`.
    ///
    /// # Errors
    /// When it is none; says where.
    pub fn to_create_message(&self) -> Result<CreateMessageResult, ReadError> {
        self.0.decode()
    }

    /// Reads it as the answer to `elicitation/create`.
    ///
    /// # Errors
    /// When it is none; says where.
    pub fn to_elicit(&self) -> Result<ElicitResult, ReadError> {
        self.0.decode()
    }

    /// Reads it as the answer to `roots/list`.
    ///
    /// # Errors
    /// When it is none; says where.
    pub fn to_list_roots(&self) -> Result<ListRootsResult, ReadError> {
        self.0.decode()
    }

    /// The answer as JSON.
    #[must_use]
    pub const fn raw(&self) -> &Raw {
        &self.0
    }

    /// The answer as JSON.
    #[must_use]
    pub fn into_raw(self) -> Raw {
        self.0
    }
}

impl<'de> Deserialize<'de> for InputResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(Raw::deserialize(deserializer)?)
            .ok_or_else(|| de::Error::custom("the answer to a request for input is an object"))
    }
}
