//! The values of a configuration file with their places: one tree for JSON and TOML, made by `jsonc-parser` and `toml`.
//!
//! `parsed_file` and `entry` read it. Of two members with one name both stay in the tree, so that a message can name the second one.

use std::time::Duration;

use jsonc_parser::ast::Value as Ast;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::called;
use super::source::Problem;

/// JSON as people write it by hand: with comments, trailing commas, and the rest of JSON5.
pub(super) const JSON: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: true,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: true,
    allow_hexadecimal_numbers: true,
    allow_unary_plus_numbers: true,
    allow_bare_decimal_point_numbers: true,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: true,
};
/// The longest timeout that a file may set.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// A value and its place: the offset in bytes.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    /// As the file has it.
    Number(String),
    Bool(bool),
    Null,
    List(Vec<Node>),
    Table(Vec<Member>),
    /// A date of TOML, which has no meaning here.
    Date,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// The place of the name.
    pub(super) at: usize,
    pub(super) node: Node,
}

impl Member {
    /// The value, which must be a text.
    pub(super) fn text(&self) -> Result<Text, Problem> {
        self.node.text(&self.name)
    }
}

/// A text and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) at: usize,
    pub(super) text: String,
}

/// The root of a JSON text; `None` when there is no value in it.
///
/// # Errors
/// When the text is not JSON. The message quotes nothing of the text, which may hold a secret.
pub(super) fn parse_json(text: &str) -> Result<Option<Node>, Problem> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &JSON);
    Ok(parsed.map_err(|error| json_error(&error))?.value.map(Node::of_json))
}

fn json_error(error: &ParseError) -> Problem {
    let text = match error.kind() {
        ParseErrorKind::String(_) => "a string is not well-formed".to_owned(),
        ParseErrorKind::UnterminatedObject => "the { opened here is never closed".into(),
        ParseErrorKind::UnterminatedArray => "the [ opened here is never closed".into(),
        ParseErrorKind::UnterminatedCommentBlock => "the comment opened here is never closed".into(),
        kind => {
            let text = kind.to_string();
            let mut letters = text.chars();
            letters
                .next()
                .map_or_else(String::new, |first| format!("{}{}", first.to_lowercase(), letters.as_str()))
        }
    };
    Problem::new(error.range().start, format!("invalid JSON: {text}"))
}

/// The members of a TOML text.
///
/// # Errors
/// When the text is not TOML. The message says what was expected and quotes nothing of the text.
pub(super) fn parse_toml(text: &str) -> Result<Vec<Member>, Problem> {
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Problem::new(at, format!("invalid TOML: {}", error.message()))
    })?;
    Ok(members_of_toml(root.into_inner()))
}

/// The members of a table in the order of the file.
fn members_of_toml(table: DeTable<'_>) -> Vec<Member> {
    let mut members: Vec<Member> = table
        .into_iter()
        .map(|(name, value)| Member {
            at: name.span().start,
            name: name.into_inner().into_owned(),
            node: Node::of_toml(value),
        })
        .collect();
    members.sort_by_key(|member| member.at);
    members
}

impl Node {
    fn of_json(ast: Ast<'_>) -> Self {
        let member = |member: jsonc_parser::ast::ObjectProp<'_>| Member {
            name: member.name.as_str().to_owned(),
            at: member.range.start,
            node: Self::of_json(member.value),
        };
        let (at, value) = match ast {
            Ast::StringLit(text) => (text.range.start, Value::Text(text.value.into_owned())),
            Ast::NumberLit(number) => (number.range.start, Value::Number(number.value.to_owned())),
            Ast::BooleanLit(value) => (value.range.start, Value::Bool(value.value)),
            Ast::NullKeyword(null) => (null.range.start, Value::Null),
            Ast::Array(array) => {
                (array.range.start, Value::List(array.elements.into_iter().map(Self::of_json).collect()))
            }
            Ast::Object(object) => {
                (object.range.start, Value::Table(object.properties.into_iter().map(member).collect()))
            }
        };
        Self { at, value }
    }

    fn of_toml(value: Spanned<DeValue<'_>>) -> Self {
        let at = value.span().start;
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            // No member has a number of another base.
            DeValue::Integer(number) if number.radix() == 10 => Value::Number(number.as_str().to_owned()),
            DeValue::Integer(number) => Value::Number(format!("base {} {}", number.radix(), number.as_str())),
            DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
            DeValue::Boolean(value) => Value::Bool(value),
            DeValue::Datetime(_) => Value::Date,
            DeValue::Array(items) => Value::List(items.into_iter().map(Self::of_toml).collect()),
            DeValue::Table(table) => Value::Table(members_of_toml(table)),
        };
        Self { at, value }
    }

    const fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Number(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Null => "null",
            Value::List(_) => "a list",
            Value::Table(_) => "an object",
            Value::Date => "a date",
        }
    }

    fn not(&self, name: &str, wanted: &str) -> Problem {
        Problem::new(self.at, format!("{name} must be {wanted}, but is {}", self.kind()))
    }

    pub(super) fn text(&self, name: &str) -> Result<Text, Problem> {
        match &self.value {
            Value::Text(text) => Ok(Text { at: self.at, text: text.clone() }),
            _ => Err(self.not(name, "a string")),
        }
    }

    pub(super) fn bool(&self, name: &str) -> Result<bool, Problem> {
        match self.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.not(name, "true or false")),
        }
    }

    pub(super) fn items(&self, name: &str) -> Result<&[Self], Problem> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.not(name, "a list")),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<Text>, Problem> {
        match &self.value {
            Value::List(items) => items.iter().map(|item| item.text(&format!("each of {name}"))).collect(),
            _ => Err(self.not(name, "a list of strings")),
        }
    }

    pub(super) fn members(&self, name: &str) -> Result<&[Member], Problem> {
        match &self.value {
            Value::Table(members) => Ok(members),
            _ => Err(self.not(name, "an object")),
        }
    }

    /// A whole number, 0 or more.
    pub(super) fn whole(&self, name: &str) -> Result<u64, Problem> {
        match &self.value {
            Value::Number(number) => {
                number.parse().map_err(|_| Problem::new(self.at, format!("{name} must be a whole number")))
            }
            _ => Err(self.not(name, "a number")),
        }
    }

    /// A time in seconds, which may have a fraction: above 0 and at most a day.
    pub(super) fn seconds(&self, name: &str) -> Result<Duration, Problem> {
        let Value::Number(number) = &self.value else {
            return Err(self.not(name, "a number"));
        };
        let seconds = number.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds
            .filter(|time| !time.is_zero() && *time <= MAX_TIMEOUT)
            .ok_or_else(|| Problem::new(self.at, format!("{name} must be above 0 and at most one day")))
    }

    /// A time in units of `unit` milliseconds: above 0 and at most a day, as on the command line.
    pub(super) fn time(&self, name: &str, unit: u64) -> Result<Duration, Problem> {
        let time = self.whole(name)?.checked_mul(unit).map(Duration::from_millis);
        time.filter(|time| !time.is_zero() && *time <= MAX_TIMEOUT)
            .ok_or_else(|| Problem::new(self.at, format!("{name} must be at least 1 and at most one day")))
    }
}

/// The member with one of these names. A member that is null counts as absent.
///
/// # Errors
/// When the table has more than one of them.
pub(super) fn find<'a>(members: &'a [Member], spellings: &[&str]) -> Result<Option<&'a Member>, Problem> {
    let mut found = members.iter().filter(|member| spellings.contains(&member.name.as_str()));
    let first = found.next();
    if let (Some(first), Some(second)) = (first, found.next()) {
        let text = if first.name == second.name {
            format!("{} is given twice", called(&first.name))
        } else {
            format!("{} and {} are the same", called(&first.name), called(&second.name))
        };
        return Err(Problem::new(second.at, text));
    }
    Ok(first.filter(|member| !matches!(member.node.value, Value::Null)))
}

/// A warning for each member whose name is neither in `known` nor in `ignored`. It suggests a similar name of `known`.
pub(super) fn unknown<'a>(
    members: &'a [Member],
    known: &'a [&'static str],
    ignored: &'a [&'static str],
) -> impl Iterator<Item = Problem> {
    /// Comparing names takes time, and in a table with more unknown members they are not misspelled.
    const MAX_SUGGESTIONS: usize = 10;
    let unknown = members.iter().filter(move |member| {
        let name = member.name.as_str();
        !known.contains(&name) && !ignored.contains(&name)
    });
    unknown.enumerate().map(move |(place, member)| {
        let mut text = format!("{} is unknown and not used", called(&member.name));
        if place < MAX_SUGGESTIONS
            && let Some(meant) = similar(&member.name, known.iter().copied())
        {
            text.push_str(&format!("; did you mean {meant}?"));
        }
        Problem::new(member.at, text)
    })
}

/// The known word that was probably meant.
pub(crate) fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer names are not compared: the time grows with the product of both lengths.
    const MAX_COMPARED_BYTES: usize = 128;
    /// The similarity of clap's own suggestions.
    const MIN_SIMILARITY: f64 = 0.7;
    if word.len() > MAX_COMPARED_BYTES {
        return None;
    }
    // Otherwise a short word is like every long one that has its letters.
    let is_comparable = |known: &str| {
        let (short, long) = if known.len() < word.len() { (known, word) } else { (word, known) };
        2 * short.len() >= long.len() || long.to_lowercase().starts_with(&short.to_lowercase())
    };
    let alike = |known: &'a str| (strsim::jaro(&word.to_lowercase(), &known.to_lowercase()), known);
    known
        .into_iter()
        .filter(|known| known.len() <= MAX_COMPARED_BYTES && is_comparable(known))
        .map(alike)
        .filter(|(alike, _)| *alike > MIN_SIMILARITY)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, known)| known)
}
