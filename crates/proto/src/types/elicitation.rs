//! Asking a client's user: with a form, or with a page in a browser.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>. Used by the session, which asks
//! only in the way that the client has declared.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, de};

use super::members::Members;
use super::schema::ElicitationSchema;
use super::task::TaskMetadata;
use crate::{Kind, Raw};

open! {
    /// The way in which a user is asked.
    ElicitationMode {
        /// With a form.
        Form = "form",
        /// With a page in a browser.
        Url = "url",
    }
}

/// Parameters of `elicitation/create`; `mode` says which, and its absence means a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// With a form.
    Form(ElicitFormParams),
    /// With a page in a browser; since 2025-11-25.
    Url(ElicitUrlParams),
    /// In a way that this crate does not know, as it was written.
    Other(Raw),
}

impl ElicitParams {
    /// Whether the user is asked with a page in a browser.
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
            Some(None) => Err(de::Error::custom("the member `mode` is no string")),
        }
    }
}

record! {
    /// Asks with a form.
    ElicitFormParams [request] {
        /// What is asked, for the user.
        message: String as impl Into<String>,
        /// The form.
        requested_schema: ElicitationSchema,
        ---
        /// `form`, or absent, which means the same and is understood by 2025-06-18 too.
        mode: ElicitationMode => with_mode,
        /// Asks for a task instead of the result; 2025-11-25 alone.
        task: TaskMetadata => with_task,
    }
}

record! {
    /// Asks with a page in a browser, where the user tells what the client need not know.
    #[serde(tag = "mode", rename = "url")]
    ElicitUrlParams [request] {
        /// Why the page is to be opened, for the user.
        message: String as impl Into<String>,
        /// The page.
        url: String as impl Into<String>,
        ---
        /// The name under which `notifications/elicitation/complete` speaks of it; in 2025-11-25, where it
        /// must be there.
        elicitation_id: String => with_elicitation_id,
        /// Asks for a task instead of the result; 2025-11-25 alone.
        task: TaskMetadata => with_task,
    }
}

record! {
    /// Result of `elicitation/create`.
    ElicitResult [result] {
        /// What the user did.
        action: ElicitAction,
        ---
        /// What the user filled in: strings, numbers, booleans, and lists of strings. Only with
        /// [`ElicitAction::Accept`] and only of a form.
        content: Members<Raw> => with_content,
    }
}

open! {
    /// What the user did.
    ElicitAction {
        /// Filled in the form, or agreed to open the page.
        Accept = "accept",
        /// Said no.
        Decline = "decline",
        /// Went away without saying anything.
        Cancel = "cancel",
    }
}

record! {
    /// Parameters of `notifications/elicitation/complete`, 2025-11-25 alone: the user has done what the page
    /// was for.
    ElicitationCompleteParams [notification] {
        /// The name that the request gave.
        elicitation_id: String as impl Into<String>,
        ---
    }
}

record! {
    /// `data` of the error -32042, 2025-11-25 alone: the request can be made again when the user has done what
    /// these pages are for.
    UrlElicitationRequiredData {
        /// The pages.
        elicitations: Vec<ElicitUrlParams>,
        ---
    }
}
