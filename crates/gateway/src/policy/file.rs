//! The file of a policy: its format, and where in it a fault is.
//!
//! Read by [`Policy::read`](super::Policy::read); `rules` compiles it. The types are the format: their names are the
//! names in the file, their documentation is that of its JSON schema (`docs/policy.schema.json`), and a name that they
//! do not have is a fault. Limits that are numbers have their unit in their name.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::credentials::TargetCredentials;

/// Bytes of the file of a policy: some ten thousand names.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The longest distance at which a known name is suggested for an unknown one.
const MAX_TYPING_DISTANCE: usize = 2;

/// What clients may use of the targets of a gateway, and how much of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "A policy of mcpjoin bridge")]
pub(super) struct PolicyFile {
    /// The limits of each client, for all targets together. A client is a principal, or an address if there is none.
    pub(super) limits: LimitsTable,
    /// What each target has whose own table does not give the same member.
    pub(super) defaults: TargetTable,
    /// The targets by their names.
    pub(super) target: BTreeMap<String, TargetTable>,
    /// What some clients have instead of what all have.
    pub(super) rule: Vec<RuleTable>,
}

/// The policy of one target. Tools are named as the server names them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TargetTable {
    /// Patterns of the tools that clients may list and call. Default: all.
    pub(super) allow: Option<Vec<String>>,
    /// Patterns of the tools that no client may list or call, even if `allow` names them.
    pub(super) deny: Option<Vec<String>>,
    /// Other names for tools, by their names at the server. Clients know only the new name.
    pub(super) rename: Option<BTreeMap<String, String>>,
    /// Other descriptions for tools, by their names at the server.
    pub(super) redescribe: Option<BTreeMap<String, String>>,
    /// The scopes that a client needs for tools, by patterns of the tools. The tools are hidden from other clients.
    pub(super) scopes: Option<BTreeMap<String, Vec<String>>>,
    /// A file that `mcpjoin list --json` has written, relative to this one. A tool that the file does not have, or has
    /// with another definition, is in no list and cannot be called.
    pub(super) pin: Option<PathBuf>,
    /// Whether the target may ask clients to sample from their models. Default: it may.
    pub(super) sampling: Option<bool>,
    /// Whether the target may ask clients for their roots. Default: it may.
    pub(super) roots: Option<bool>,
    /// The time that one request may take in all, in milliseconds. Streams of notifications have none.
    pub(super) timeout_ms: Option<NonZeroU64>,
    /// The limits of this target, for all clients together.
    pub(super) limits: Option<LimitsTable>,
    /// How the bridge authorizes itself at the target. Not in `defaults`: credentials are for one server.
    pub(super) credentials: Option<TargetCredentials>,
}

/// Limits of requests. One that is not given does not exist.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsTable {
    /// Requests in a minute, in the long run.
    pub(super) requests_per_minute: Option<NonZeroU32>,
    /// Requests at once after a pause. Default: those of one second, and at least one.
    pub(super) burst: Option<NonZeroU32>,
    /// Requests in flight at once. Streams of notifications do not count.
    pub(super) concurrent_requests: Option<NonZeroU32>,
    /// Bytes of the parameters and of the result of one request.
    pub(super) message_bytes: Option<NonZeroU64>,
}

/// What some clients have instead of what all have. It needs `principals` or `scopes`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleTable {
    /// Patterns of the principals that it is for.
    pub(super) principals: Option<Vec<String>>,
    /// It is for clients that have all of these scopes.
    pub(super) scopes: Option<Vec<String>>,
    /// Patterns of the targets that `allow` and `deny` are about. Default: all.
    pub(super) targets: Option<Vec<String>>,
    /// Patterns of the tools that these clients may use, of those that the target allows. Default: all of them.
    pub(super) allow: Option<Vec<String>>,
    /// Patterns of the tools that these clients may not use.
    pub(super) deny: Option<Vec<String>>,
    /// The limits of each of these clients. Those of the first rule that is for a client and has limits replace
    /// `limits`.
    pub(super) limits: Option<LimitsTable>,
}

/// Why a policy cannot be used: `FILE:LINE:COLUMN: cause`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}{}: {cause}", file.display(), place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default())]
pub struct PolicyError {
    /// The file of the policy, also where the fault is in a file that it names.
    pub(super) file: PathBuf,
    /// The line and the column, both counted from 1, if the fault has a place.
    pub(super) place: Option<(usize, usize)>,
    pub(super) cause: String,
}

impl PolicyError {
    /// Returns the line, counted from 1. `None` if the file cannot be read at all.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }

    /// Returns what is wrong, without the place.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.cause
    }

    pub(super) fn unplaced(file: &Path, cause: String) -> Self {
        Self { file: file.into(), place: None, cause }
    }

    fn at(file: &Path, text: &str, offset: Option<usize>, cause: String) -> Self {
        Self { file: file.into(), place: offset.map(|offset| line_and_column(text, offset)), cause }
    }
}

/// A fault of what a file says, at the value to which these keys lead.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) keys: Vec<String>,
    pub(super) cause: String,
}

impl Problem {
    pub(super) fn new(keys: &[&str], cause: impl Into<String>) -> Self {
        Self { keys: keys.iter().map(|key| (*key).to_owned()).collect(), cause: cause.into() }
    }

    pub(super) fn placed(self, file: &Path, text: &str) -> PolicyError {
        PolicyError::at(file, text, place_of(text, &self.keys).map(|span| span.start), self.cause)
    }
}

/// Parses the text of a file.
pub(super) fn parse(file: &Path, text: &str) -> Result<PolicyFile, PolicyError> {
    toml::from_str(text).map_err(|error| {
        let message = in_terms_of_toml(error.message());
        let suggestion = suggestion(&message).map(|name| format!("; did you mean `{name}`?"));
        let cause = message + &suggestion.unwrap_or_default();
        PolicyError::at(file, text, error.span().map(|span| span.start), cause)
    })
}

/// The message of a value of another type, without the names of serde and Rust for types.
fn in_terms_of_toml(message: &str) -> String {
    let Some((given, expected)) =
        message.split_once(", expected ").filter(|_| message.starts_with("invalid "))
    else {
        return message.to_owned();
    };
    let given = given.replace(": sequence", ": an array").replace(": map", ": a table");
    let expected = match expected {
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "a nonzero u64" => "a whole number above 0",
        "a sequence" => "an array",
        "a map" => "a table",
        "path string" => "the path of a file",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    };
    format!("{given}, expected {expected}")
}

/// The known name that an unknown one was probably meant to be. serde quotes the unknown name first, and then all that
/// are known.
fn suggestion(message: &str) -> Option<&str> {
    let names = message.strip_prefix("unknown field ")?;
    let mut quoted = names.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    let near = quoted.map(|known| (strsim::damerau_levenshtein(unknown, known), known));
    near.filter(|(distance, _)| *distance <= MAX_TYPING_DISTANCE).min().map(|(_, known)| known)
}

/// The line and the column of an offset, both counted from 1.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The place of the value to which the keys lead. Numbers are positions in arrays. The last key that exists counts.
fn place_of(text: &str, keys: &[String]) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let (mut value, mut place) = (DeValue::Table(root.into_inner()), None);
    for key in keys {
        let (next, span) = match value {
            DeValue::Table(table) => {
                let (name, value) = table.into_iter().find(|(name, _)| name.get_ref() == key)?;
                (value.into_inner(), name.span())
            }
            DeValue::Array(array) => {
                let item = key.parse().ok().and_then(|index: usize| array.into_iter().nth(index));
                let item = item?;
                let span = item.span();
                (item.into_inner(), span)
            }
            _ => return place,
        };
        (value, place) = (next, Some(span));
    }
    place
}
