//! Input requests: what a server asks of a client in a result, and the responses in the repeated request.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>. Used by the session, which allows
//! only input requests that the client has declared.

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

/// The input requests of a server, by keys of its choice.
pub type InputRequests = Members<InputRequest>;

/// The responses, by the same keys.
pub type InputResponses = Members<InputResponse>;

record! {
    /// A result that requests input: the specification's `InputRequiredResult`. It has at least one of the two members.
    #[derive(Default)]
    InputRequired [result] {
        ---
        /// The input requests.
        input_requests: InputRequests => with_input_requests,
        /// A text to send back unchanged with the repeated request.
        request_state: String => with_request_state,
    }
}

/// An input request: a method and its params, without an id, because it is not a message of its own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputRequest {
    /// `sampling/createMessage`: for the client's model.
    CreateMessage(Box<CreateMessageParams>),
    /// `elicitation/create`: for the client's user.
    Elicit(ElicitParams),
    /// `roots/list`: for the client itself.
    ListRoots(ListRootsParams),
    /// An unknown method with its unchanged params.
    Other {
        /// The method.
        method: Box<str>,
        /// The params.
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

    /// Whether the user is sent to a web page.
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

    /// The params as JSON; `None` when there are none.
    ///
    /// # Errors
    /// When a number in them is not finite.
    pub fn params(&self) -> Result<Option<Raw>, WriteError> {
        match self {
            Self::CreateMessage(params) => Raw::from_value(params).map(Some),
            Self::Elicit(params) => Raw::from_value(params).map(Some),
            Self::ListRoots(params) if params.meta.is_none() => Ok(None),
            Self::ListRoots(params) => Raw::from_value(params).map(Some),
            Self::Other { params, .. } => Ok(params.clone()),
        }
    }

    /// Builds an input request from a method and its params, as a request of a legacy server has them.
    ///
    /// # Errors
    /// When the method is one of the three and its params are not valid; the error says where.
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

/// The response to an input request: the plain result of its method. It stays JSON until the caller reads it as the
/// result type of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct InputResponse(Raw);

impl InputResponse {
    /// A response to `sampling/createMessage`.
    ///
    /// # Errors
    /// When a number in the result is not finite.
    pub fn from_create_message(result: &CreateMessageResult) -> Result<Self, WriteError> {
        Raw::from_value(result).map(Self)
    }

    /// A response to `elicitation/create`.
    ///
    /// # Errors
    /// When the result cannot be serialized.
    pub fn from_elicit(result: &ElicitResult) -> Result<Self, WriteError> {
        Raw::from_value(result).map(Self)
    }

    /// A response to `roots/list`.
    ///
    /// # Errors
    /// When the result cannot be serialized.
    pub fn from_list_roots(result: &ListRootsResult) -> Result<Self, WriteError> {
        Raw::from_value(result).map(Self)
    }

    /// A response from JSON. `None` when it is not an object.
    #[must_use]
    pub fn from_raw(result: Raw) -> Option<Self> {
        (result.kind() == Kind::Object).then_some(Self(result))
    }

    /// Reads it as a response to `sampling/createMessage`.
    ///
    /// # Errors
    /// When it is not one; the error says where.
    pub fn to_create_message(&self) -> Result<CreateMessageResult, ReadError> {
        self.0.decode()
    }

    /// Reads it as a response to `elicitation/create`.
    ///
    /// # Errors
    /// When it is not one; the error says where.
    pub fn to_elicit(&self) -> Result<ElicitResult, ReadError> {
        self.0.decode()
    }

    /// Reads it as a response to `roots/list`.
    ///
    /// # Errors
    /// When it is not one; the error says where.
    pub fn to_list_roots(&self) -> Result<ListRootsResult, ReadError> {
        self.0.decode()
    }

    /// The response as JSON.
    #[must_use]
    pub const fn raw(&self) -> &Raw {
        &self.0
    }

    /// The response as JSON.
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
