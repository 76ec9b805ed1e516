//! The fields of a form: what each asks for, in words, and from a typed word to its value.
//!
//! Used by `terminal` and `answers`. It never asks and never prints. Texts of the server are escaped here.
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema>

use std::fmt::Display;

use mcpjoin::proto::types::{
    ElicitationSchema, EnumOption, LegacyTitledEnumSchema, Members, NumberType, PrimitiveSchema, StringFormat,
};
use mcpjoin::proto::{Kind as Json, Raw};
use mcpjoin_schema::CompiledSchema;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::visible::{self, counted};

/// The most fields of a form that a person is asked for.
pub(super) const MAX_FIELDS: usize = 64;
/// The most values of one choice.
pub(super) const MAX_CHOICES: usize = 200;
/// The longest text of the server in a question, in characters.
pub(super) const MAX_TEXT_CHARS: usize = 2000;
/// The longest name, title or value in a question, in characters.
const MAX_NAME_CHARS: usize = 200;

/// A form.
pub(super) struct Form {
    pub(super) fields: Vec<Field>,
    schema: ElicitationSchema,
}

/// A field of a form.
pub(super) struct Field {
    pub(super) name: String,
    title: Option<String>,
    description: Option<String>,
    pub(super) is_required: bool,
    /// As JSON.
    pub(super) default: Option<Raw>,
    kind: Kind,
}

enum Kind {
    Text {
        min: Option<i64>,
        max: Option<i64>,
        format: Option<StringFormat>,
    },
    Number {
        is_integer: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    Boolean,
    One(Vec<Choice>),
    Several {
        choices: Vec<Choice>,
        min: Option<i64>,
        max: Option<i64>,
    },
    /// A kind of the future: its value is typed as JSON.
    Unknown,
}

struct Choice {
    value: String,
    title: Option<String>,
}

impl Form {
    /// The fields in their order. The error says why no user can be asked for them.
    pub(super) fn new(schema: ElicitationSchema) -> Result<Self, String> {
        let count = schema.properties.iter().count();
        if count > MAX_FIELDS {
            return Err(format!("its form has {count} fields, and the limit is {MAX_FIELDS}"));
        }
        let required = schema.required.clone().unwrap_or_default();
        let mut fields = Vec::with_capacity(count);
        for (name, property) in schema.properties.iter() {
            let field = Field::new(name, property, required.iter().any(|required| required == name));
            let choices = field.choices().map_or(0, <[Choice]>::len);
            if choices > MAX_CHOICES {
                return Err(format!(
                    "its field {} has {choices} values to choose from, and the limit is {MAX_CHOICES}",
                    short(name)
                ));
            }
            fields.push(field);
        }
        Ok(Self { fields, schema })
    }

    /// Checks the values of a form that was not filled in on the terminal.
    pub(super) fn check(&self, values: &Members<Raw>) -> Result<(), String> {
        let unwritable = |error: mcpjoin::proto::json::WriteError| error.to_string();
        let schema = Raw::from_value(&self.schema).map_err(unwritable)?;
        let schema = CompiledSchema::new(&schema).map_err(|error| error.to_string())?;
        let object = Raw::from_value(values).map_err(unwritable)?;
        let violations = schema.violations(&object).map_err(|error| error.to_string())?;
        if !violations.is_empty() {
            return Err(violations.to_string());
        }
        // JSON Schema does not check formats.
        for field in &self.fields {
            let value = values.get(&field.name).and_then(Raw::to_string_value);
            if let (Kind::Text { format: Some(format), .. }, Some(text)) = (&field.kind, value) {
                check_format(format, &text)
                    .map_err(|problem| format!("{}: {problem}", short(&field.name)))?;
            }
        }
        Ok(())
    }
}

impl Field {
    fn new(name: &str, property: &PrimitiveSchema, is_required: bool) -> Self {
        use PrimitiveSchema as Schema;
        let text = |text: &Option<String>| text.as_deref().map(Raw::string);
        let list = |list: &Option<Vec<String>>| list.as_ref().and_then(|list| Raw::from_value(list).ok());
        let untitled = |values: &[String]| {
            values.iter().map(|value| Choice { value: value.clone(), title: None }).collect()
        };
        let titled = |options: &[EnumOption]| {
            let choice =
                |one: &EnumOption| Choice { value: one.value.clone(), title: Some(one.title.clone()) };
            options.iter().map(choice).collect()
        };
        let (title, description, default, kind) = match property {
            Schema::String(it) => {
                let kind = Kind::Text { min: it.min_length, max: it.max_length, format: it.format.clone() };
                (&it.title, &it.description, text(&it.default), kind)
            }
            Schema::Number(it) => {
                let is_integer = it.kind == NumberType::Integer;
                let kind = Kind::Number { is_integer, min: it.minimum, max: it.maximum };
                (
                    &it.title,
                    &it.description,
                    it.default.and_then(|number| number_raw(number, is_integer)),
                    kind,
                )
            }
            Schema::Boolean(it) => {
                let default = it.default.and_then(|default| Raw::from_value(&default).ok());
                (&it.title, &it.description, default, Kind::Boolean)
            }
            Schema::UntitledSingleSelect(it) => {
                (&it.title, &it.description, text(&it.default), Kind::One(untitled(&it.values)))
            }
            Schema::TitledSingleSelect(it) => {
                (&it.title, &it.description, text(&it.default), Kind::One(titled(&it.one_of)))
            }
            Schema::LegacyTitled(it) => (&it.title, &it.description, text(&it.default), Kind::One(named(it))),
            Schema::UntitledMultiSelect(it) => {
                let choices = untitled(&it.items.values);
                let kind = Kind::Several { choices, min: it.min_items, max: it.max_items };
                (&it.title, &it.description, list(&it.default), kind)
            }
            Schema::TitledMultiSelect(it) => {
                let choices = titled(&it.items.any_of);
                let kind = Kind::Several { choices, min: it.min_items, max: it.max_items };
                (&it.title, &it.description, list(&it.default), kind)
            }
            _ => (&None, &None, None, Kind::Unknown),
        };
        let (title, description) = (title.clone(), description.clone());
        Self { name: name.to_owned(), title, description, is_required, default, kind }
    }

    fn choices(&self) -> Option<&[Choice]> {
        match &self.kind {
            Kind::One(choices) | Kind::Several { choices, .. } => Some(choices),
            _ => None,
        }
    }

    /// What is asked: the title, the name, the kind with its bounds, and the values to choose from on lines of their own.
    pub(super) fn question(&self) -> String {
        let mut text = match &self.title {
            Some(title) => format!("{} ({})", short(title), short(&self.name)),
            None => short(&self.name),
        };
        text.push_str(": ");
        text.push_str(&self.kind.words());
        if self.is_required {
            text.push_str(", required");
        }
        if let Some(description) = &self.description {
            text.push_str(&indented(description));
        }
        for (place, choice) in self.choices().unwrap_or_default().iter().enumerate() {
            let title = choice.title.as_ref().filter(|title| **title != choice.value);
            let title = title.map_or_else(String::new, |title| format!("  ({})", short(title)));
            text.push_str(&format!("\n  {:>2}  {}{title}", place + 1, short(&choice.value)));
        }
        text
    }

    /// A value for a person: a text without quotes.
    pub(super) fn shown(&self, value: &Raw) -> String {
        let words = match (value.kind(), value.to_string_value()) {
            (Json::Array, _) => value.decode::<Vec<String>>().ok().map(|values| values.join(", ")),
            (_, Some(text)) => Some(text.into_owned()),
            _ => None,
        };
        short(words.as_deref().unwrap_or_else(|| value.as_str()))
    }

    /// The value of a typed word; `None` where the field is left out. The error says what is wrong with the word.
    pub(super) fn value(&self, word: &str, default: Option<&Raw>) -> Result<Option<Raw>, String> {
        if word.is_empty() {
            return match default {
                Some(default) => Ok(Some(default.clone())),
                None if !self.is_required => Ok(None),
                None => Err("a value is required".into()),
            };
        }
        self.kind.value(word).map(Some)
    }
}

/// The values with their display names in a second list.
fn named(schema: &LegacyTitledEnumSchema) -> Vec<Choice> {
    let names = schema.enum_names.iter().flatten().cloned().map(Some).chain(std::iter::repeat(None));
    let values = schema.values.iter().cloned();
    values.zip(names).map(|(value, title)| Choice { value, title }).collect()
}

impl Kind {
    fn words(&self) -> String {
        match self {
            Self::Text { min, max, format } => {
                let what = match format {
                    Some(StringFormat::Email) => "email address".to_owned(),
                    Some(StringFormat::Uri) => "URI".to_owned(),
                    Some(StringFormat::Date) => "date, as 2026-11-27".to_owned(),
                    Some(StringFormat::DateTime) => "date and time, as 2026-11-27T09:30:00Z".to_owned(),
                    Some(other) => format!("text ({})", short(other.as_str())),
                    None => "text".to_owned(),
                };
                format!("{what}{}", range(*min, *max, characters))
            }
            Self::Number { is_integer, min, max } => {
                let what = if *is_integer { "whole number" } else { "number" };
                format!("{what}{}", range(*min, *max, |number| number.to_string()))
            }
            Self::Boolean => "yes or no".into(),
            Self::One(_) => "choose one".into(),
            Self::Several { min, max, .. } => {
                format!("choose any, as 1,2{}", range(*min, *max, |count| format!("{count} of them")))
            }
            Self::Unknown => "a value in JSON".into(),
        }
    }

    fn value(&self, word: &str) -> Result<Raw, String> {
        match self {
            Self::Text { min, max, format } => {
                let length = i64::try_from(word.chars().count()).unwrap_or(i64::MAX);
                check_range(length, *min, *max, "it has", characters)?;
                format.as_ref().map_or(Ok(()), |format| check_format(format, word))?;
                Ok(Raw::string(word))
            }
            Self::Number { is_integer, min, max } => {
                let what = if *is_integer { "whole number" } else { "number" };
                let raw = Raw::parse(word.to_owned()).ok().filter(|raw| raw.kind() == Json::Number);
                let number = raw.as_ref().and_then(|raw| raw.decode::<f64>().ok());
                let number = number.filter(|number| !is_integer || number.fract() == 0.0);
                let (Some(raw), Some(number)) = (raw, number) else {
                    return Err(format!("{} is not a {what}", short(word)));
                };
                check_range(number, *min, *max, "it is", |number| number.to_string())?;
                Ok(raw)
            }
            Self::Boolean => match word.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Raw::parse("true").map_err(|error| error.to_string()),
                "n" | "no" | "false" => Raw::parse("false").map_err(|error| error.to_string()),
                _ => Err("answer yes or no".into()),
            },
            Self::One(choices) => Ok(Raw::string(&chosen(choices, word)?.value)),
            Self::Several { choices, min, max } => {
                let mut values: Vec<&str> = Vec::new();
                for word in word.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                    let value = chosen(choices, word)?.value.as_str();
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
                check_range(count, *min, *max, "you chose", |count| count.to_string())?;
                Raw::from_value(&values).map_err(|error| error.to_string())
            }
            Self::Unknown => {
                Raw::parse(word.to_owned()).map_err(|error| format!("this is not JSON: {error}"))
            }
        }
    }
}

/// The choice that a number or a value names.
fn chosen<'a>(choices: &'a [Choice], word: &str) -> Result<&'a Choice, String> {
    let numbered = word.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    let is_named = |choice: &&Choice| choice.value == word || choice.title.as_deref() == Some(word);
    numbered.or_else(|| choices.iter().find(is_named)).ok_or_else(|| {
        format!("{} is not one of them: type a number from 1 to {}", short(word), choices.len())
    })
}

/// `, 1 to 20 characters`
fn range<N: Display>(min: Option<N>, max: Option<N>, named: impl Fn(N) -> String) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!(", {min} to {}", named(max)),
        (Some(min), None) => format!(", at least {}", named(min)),
        (None, Some(max)) => format!(", at most {}", named(max)),
        (None, None) => String::new(),
    }
}

fn characters(number: impl Display) -> String {
    counted(number, "character")
}

fn check_range<N: Display + PartialOrd + Copy>(
    number: N,
    min: Option<N>,
    max: Option<N>,
    what: &str,
    named: impl Fn(N) -> String,
) -> Result<(), String> {
    let (side, limit) = match (min.filter(|min| number < *min), max.filter(|max| number > *max)) {
        (Some(min), _) => ("least", min),
        (None, Some(max)) => ("most", max),
        (None, None) => return Ok(()),
    };
    Err(format!("{what} {}, but at {side} {limit} is allowed", named(number)))
}

fn check_format(format: &StringFormat, text: &str) -> Result<(), String> {
    let (is_valid, what) = match format {
        StringFormat::Email => {
            let halves = text.rsplit_once('@');
            let is_valid = halves.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
            (is_valid && !text.contains(char::is_whitespace), "an email address, as ada@example.com")
        }
        StringFormat::Uri => {
            let scheme = text.split_once(':').map(|(scheme, _)| scheme);
            let is_scheme = |scheme: &str| {
                scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            };
            (
                scheme.is_some_and(is_scheme) && !text.contains(char::is_whitespace),
                "a URI, as https://example.com",
            )
        }
        StringFormat::Date => (is_time(&format!("{text}T00:00:00Z")), "a date, as 2026-11-27"),
        StringFormat::DateTime => (is_time(text), "a date and time with its zone, as 2026-11-27T09:30:00Z"),
        _ => return Ok(()),
    };
    if is_valid { Ok(()) } else { Err(format!("{} is not {what}", short(text))) }
}

fn is_time(text: &str) -> bool {
    OffsetDateTime::parse(text, &Rfc3339).is_ok()
}

/// A default in the spelling of its kind.
fn number_raw(number: f64, is_integer: bool) -> Option<Raw> {
    let text = if is_integer { format!("{number:.0}") } else { number.to_string() };
    Raw::parse(text).ok()
}

/// A name of the server on one line.
pub(super) fn short(text: &str) -> String {
    visible::line(&visible::cut_chars(text, MAX_NAME_CHARS)).into_owned()
}

/// A text of the server on lines of its own, each with a line feed before it.
pub(super) fn indented(text: &str) -> String {
    let text = visible::cut_chars(text.trim(), MAX_TEXT_CHARS);
    text.lines().take(MAX_LINES).map(|line| format!("\n  {}", visible::line(line).trim_end())).collect()
}

/// The most lines of one text of the server: a screen.
const MAX_LINES: usize = 20;

#[cfg(test)]
mod tests;
