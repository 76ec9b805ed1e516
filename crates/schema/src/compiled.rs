//! A schema that is compiled once, and all that is wrong with a value.
//!
//! Used by servers that validate the arguments of their tools, which a peer has written. What cannot be decided within
//! the limits of `conformance` is an error, so that a caller can refuse it: no value passes because it is large.

use std::fmt;
use std::io;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ValidationError, Validator};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{Raw, Walk};
use serde_json::Value;

use crate::conformance::{
    Budget, MAX_PATTERNS, MAX_WORK, draft, has_few_patterns, innermost, member_place, options, place,
};
use crate::number::{has_large_integer, normalize, value};

/// How many violations of one value are returned.
pub const MAX_VIOLATIONS: usize = 8;
/// A value whose validation is more work than this gets its first violation alone: the others would take as much memory.
const MAX_WORK_FOR_ALL: usize = MAX_WORK / 20;
/// The maximum number of characters of a place.
const MAX_PLACE_CHARS: usize = 200;
/// The maximum number of characters of a value, and of what the schema demands.
const MAX_VALUE_CHARS: usize = 80;

/// A schema that was compiled. It has no references to other documents.
#[derive(Debug)]
pub struct CompiledSchema {
    schema: Value,
    draft: Draft,
    validator: Validator,
    /// A keyword compares values for equality, or may be violated by a rounded number in another way.
    compares_exactly: bool,
}

/// Why a schema cannot be compiled: it is not valid, its draft is not known, a pattern is no regular expression that can be
/// matched in linear time, or a reference leads to no place in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema cannot be compiled: {0}")]
pub struct Uncompilable(String);

/// Why it cannot be decided whether a value conforms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// The value has a number that cannot be read.
    #[error("the value cannot be read: {0}")]
    Unreadable(String),
    /// The value is so large, or the schema so deep, that validation would be too much work: about 100,000 schemas applied to
    /// parts of the value.
    #[error("the value is too large to be validated")]
    TooMuchWork,
}

/// What is wrong with a value. As text: `count: 0 violates minimum: 1; name: missing, violates required`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violations {
    /// The first ones, at most [`MAX_VIOLATIONS`]. Empty: the value conforms.
    pub first: Vec<Violation>,
    /// There may be more.
    pub has_more: bool,
}

/// A part of a value that violates a rule of its schema. Its texts are shortened, and safe to display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The place in the value, as in `orders[2].price`. Empty for the value itself.
    pub place: String,
    /// The keyword of the schema, as in `minimum`.
    pub rule: String,
    /// The value of the keyword as JSON, if it is short by its nature.
    pub demand: Option<String>,
    /// What is there, as JSON. `None` if it is missing.
    pub value: Option<String>,
}

impl CompiledSchema {
    /// Compiles a schema in the draft that it names, by default 2020-12.
    ///
    /// # Errors
    /// [`Uncompilable`], with the reason.
    pub fn new(schema: &Raw) -> Result<Self, Uncompilable> {
        let fault = |problem: &str| Uncompilable(Line::of(problem).truncated(MAX_PLACE_CHARS).to_string());
        let schema = value(schema).ok_or_else(|| {
            fault("it is larger than 256 KiB, or has a number that would have to be rounded")
        })?;
        let draft = draft(&schema).ok_or_else(|| fault("its draft is not known"))?;
        if !has_few_patterns(&schema, &mut Walk::new(MAX_PATTERNS)) {
            return Err(fault(&format!("it has more than {MAX_PATTERNS} patterns")));
        }
        let validator = options(draft).build(&schema).map_err(|error| fault(&error.to_string()))?;
        let compares_exactly = compares_exactly(&schema);
        Ok(Self { schema, draft, validator, compares_exactly })
    }

    /// Returns what is wrong with a value.
    ///
    /// # Errors
    /// [`Undecided`] if that cannot be decided.
    pub fn violations(&self, instance: &Raw) -> Result<Violations, Undecided> {
        // An integer beyond 64 bits is rounded. It stays on its side of each limit, but is not equal to what it was.
        let (mut instance, is_rounded) = match instance.decode::<Value>() {
            Ok(exact) => {
                let is_rounded = self.compares_exactly && has_large_integer(&exact);
                (exact, is_rounded)
            }
            Err(_) => {
                let rounded = serde_json::from_str(instance.as_str());
                (rounded.map_err(|error| Undecided::Unreadable(error.to_string()))?, true)
            }
        };
        if is_rounded && self.compares_exactly {
            return Err(Undecided::Unreadable("an integer does not fit in 64 bits".into()));
        }
        if !normalize(&mut instance) {
            return Err(Undecided::Unreadable("a number is out of range".into()));
        }
        let mut budget = Budget { root: &self.schema, draft: self.draft, work: MAX_WORK };
        if !budget.apply(&self.schema, &instance, 0) {
            return Err(Undecided::TooMuchWork);
        }
        let mut found = Violations { first: Vec::new(), has_more: false };
        let Err(first) = self.validator.validate(&instance) else { return Ok(found) };
        if MAX_WORK - budget.work > MAX_WORK_FOR_ALL {
            found.add(self, &first);
            found.has_more = true;
            return Ok(found);
        }
        for error in self.validator.iter_errors(&instance) {
            if found.has_more {
                break;
            }
            found.add(self, &error);
        }
        Ok(found)
    }

    /// What the keyword at a place of the schema demands, if it is a text, a number or a list of values.
    fn demand(&self, pointer: &str, rule: &str) -> Option<String> {
        match self.schema.pointer(pointer)? {
            Value::Object(_) => None,
            Value::Array(_) if !matches!(rule, "enum" | "type") => None,
            demand => Some(shown(demand)),
        }
    }
}

/// Whether a schema has a keyword that compares values for equality, or that a rounded number may violate in another way.
fn compares_exactly(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            matches!(&**name, "const" | "enum" | "multipleOf" | "uniqueItems") || compares_exactly(value)
        }),
        Value::Array(items) => items.iter().any(compares_exactly),
        _ => false,
    }
}

impl Violations {
    /// Adds what an error says.
    fn add(&mut self, schema: &CompiledSchema, error: &ValidationError<'_>) {
        use ValidationErrorKind as Kind;
        let inner = innermost(error);
        let is_further = inner.instance_path().as_str().len() > error.instance_path().as_str().len();
        let error = if is_further { inner } else { error };
        let pointer = error.schema_path().as_str();
        let rule = match error.kind() {
            Kind::FalseSchema => "false",
            _ => pointer.rsplit('/').next().unwrap_or_default(),
        };
        let place = place(error.instance_path());
        let instance: &Value = error.instance();
        let demand = schema.demand(pointer, rule);
        match error.kind() {
            Kind::Required { property } => {
                let property = property.as_str().unwrap_or_default();
                self.push(&member_place(&place, property), rule, None, None);
            }
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                for name in unexpected {
                    let member = instance.get(&**name).map(shown);
                    self.push(&member_place(&place, name), rule, demand.clone(), member);
                    if self.has_more {
                        break;
                    }
                }
            }
            Kind::PropertyNames { error } => {
                let name = error.instance().as_str().unwrap_or_default();
                self.push(&member_place(&place, name), rule, None, Some(shown(error.instance())));
            }
            _ => self.push(&place, rule, demand, Some(shown(instance))),
        }
    }

    fn push(&mut self, place: &str, rule: &str, demand: Option<String>, value: Option<String>) {
        if self.first.len() == MAX_VIOLATIONS {
            self.has_more = true;
            return;
        }
        let short = |text: &str, chars| Line::of(text).truncated(chars).to_string();
        self.first.push(Violation {
            place: short(place, MAX_PLACE_CHARS),
            rule: short(rule, MAX_VALUE_CHARS),
            demand,
            value,
        });
    }

    /// Whether the value conforms.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}

/// The start of a value as JSON.
fn shown(value: &Value) -> String {
    let mut start = Start(Vec::new());
    // An error says that there is enough.
    let _ = serde_json::to_writer(&mut start, value);
    Line::of(&String::from_utf8_lossy(&start.0)).truncated(MAX_VALUE_CHARS).to_string()
}

/// Takes as many bytes as the shown characters may have, and a few more.
struct Start(Vec<u8>);

impl io::Write for Start {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let left = (4 * MAX_VALUE_CHARS + 4).saturating_sub(self.0.len());
        if left == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let taken = &part[..part.len().min(left)];
        self.0.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, violation) in self.first.iter().enumerate() {
            write!(f, "{}{violation}", if number == 0 { "" } else { "; " })?;
        }
        f.write_str(if self.has_more { "; and more" } else { "" })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        match &self.value {
            Some(value) => write!(f, "{value} violates {}", self.rule)?,
            None => write!(f, "missing, violates {}", self.rule)?,
        }
        match &self.demand {
            Some(demand) => write!(f, ": {demand}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
