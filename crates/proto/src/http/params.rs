//! Tool arguments in headers: the `x-mcp-header` marks in a tool's `inputSchema`, the `Mcp-Param-*` headers of a
//! client, and their check by a server.
//!
//! Used by the client's tool catalogue and by the server's tools.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::headers::{
    HeaderMismatch, HeaderProblem, Headers, compare, decode_value, encode_value, missing, name, single,
};
use crate::sorted_map::SortedSet;
use crate::{Kind, Raw, scan};

/// The keyword that marks a property.
const MARK: &str = "x-mcp-header";

/// The maximum total size of a tool's marks, in bytes as [`HeaderMark::weight`] counts them. A mark repeats the names
/// of the properties around it, so a short schema can have large marks.
const MAX_MARK_BYTES: usize = 256 * 1024;

/// The largest integer that every peer represents exactly: 2^53 - 1.
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// An argument that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMark {
    /// The header name without `Mcp-Param-`, as written in the schema.
    pub name: String,
    /// The names of the properties that lead to the argument, outermost first.
    pub path: Vec<String>,
    /// The type of the argument.
    pub kind: ParamKind,
}

impl HeaderMark {
    /// The complete header name.
    #[must_use]
    pub fn header(&self) -> String {
        format!("Mcp-Param-{}", self.name)
    }

    /// The approximate memory of the mark, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let path = self.path.iter().map(|property| property.len() + size_of::<String>());
        size_of::<Self>() + self.name.len() + path.sum::<usize>()
    }
}

/// The types of arguments in headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `boolean`
    Boolean,
}

/// Why the marks of a tool are invalid. A client on HTTP then omits the whole tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHeaderMark {
    /// The value is not a string.
    #[error("x-mcp-header is not a string")]
    NotAString,
    /// The value is the empty string.
    #[error("x-mcp-header is empty")]
    Empty,
    /// The value contains a character that is not allowed in a header name.
    #[error("x-mcp-header {name:?} is not a header name (RFC 9110 token)")]
    NotAToken {
        /// The value.
        name: String,
    },
    /// Two properties have the same value, ignoring case.
    #[error("x-mcp-header {name:?} is used twice")]
    Repeated {
        /// The repeated value.
        name: String,
    },
    /// The property is not a `string`, an `integer` or a `boolean`.
    #[error("x-mcp-header {name:?} is on a property whose type is not string, integer or boolean")]
    Type {
        /// The value.
        name: String,
    },
    /// The property cannot be reached through `properties` alone.
    #[error("x-mcp-header {name:?} is below {keyword:?}; it may be below `properties` only")]
    OutOfReach {
        /// The value.
        name: String,
        /// The keyword on the path to the property.
        keyword: String,
    },
    /// The marks exceed the size limit of this library. They violate no rule of the specification.
    #[error("the x-mcp-header marks of the tool are larger than 256 KiB in all")]
    TooLarge,
}

/// Finds the marks in a tool's `inputSchema`, in the order of the text.
///
/// # Errors
/// The first invalid mark.
pub fn header_marks(input_schema: &Raw) -> Result<Vec<HeaderMark>, InvalidHeaderMark> {
    let mut search = Search { marks: Vec::new(), bytes: 0, names: SortedSet::new(), path: Vec::new() };
    // Most schemas have none, and a text search is cheaper than parsing. An escape could hide the keyword.
    let text = input_schema.as_bytes();
    if memchr::memmem::find(text, MARK.as_bytes()).is_some() || memchr::memchr(b'\\', text).is_some() {
        search.schema(input_schema, None)?;
    }
    Ok(search.marks)
}

struct Search {
    marks: Vec<HeaderMark>,
    /// The total size of the marks.
    bytes: usize,
    /// Their names in lower case.
    names: SortedSet<String>,
    path: Vec<String>,
}

/// The kind of value of a keyword of JSON Schema 2020-12 (and of draft-07, for older servers).
enum Holds {
    Schema,
    Schemas,
    NamedSchemas,
    Data,
}

fn holds(keyword: &str) -> Holds {
    match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Schema,
        // `items` is one schema in 2020-12 and may be a list in older drafts.
        "allOf" | "anyOf" | "items" | "oneOf" | "prefixItems" => Holds::Schemas,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
            Holds::NamedSchemas
        }
        _ => Holds::Data,
    }
}

impl Search {
    /// Searches a schema. `under` is the keyword that left the path of `properties`. The recursion is as deep as the
    /// text, which the scanner limits.
    fn schema(&mut self, schema: &Raw, under: Option<&str>) -> Result<(), InvalidHeaderMark> {
        if schema.kind() != Kind::Object {
            return Ok(());
        }
        for (keyword, value) in members(schema) {
            match &*keyword {
                MARK => self.mark(schema, &value, under)?,
                "properties" => {
                    for (property, schema) in members(&value) {
                        self.path.push(property.into_owned());
                        self.schema(&schema, under)?;
                        self.path.pop();
                    }
                }
                _ => {
                    let under = Some(under.unwrap_or(&keyword));
                    match holds(&keyword) {
                        Holds::Schema => self.schema(&value, under)?,
                        Holds::Schemas if value.kind() == Kind::Object => self.schema(&value, under)?,
                        Holds::Schemas => {
                            for schema in elements(&value) {
                                self.schema(&schema, under)?;
                            }
                        }
                        Holds::NamedSchemas => {
                            for (_, schema) in members(&value) {
                                self.schema(&schema, under)?;
                            }
                        }
                        Holds::Data => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn mark(&mut self, schema: &Raw, value: &Raw, under: Option<&str>) -> Result<(), InvalidHeaderMark> {
        let name = value.to_string_value().ok_or(InvalidHeaderMark::NotAString)?.into_owned();
        if name.is_empty() {
            return Err(InvalidHeaderMark::Empty);
        }
        if !name.bytes().all(is_token) {
            return Err(InvalidHeaderMark::NotAToken { name });
        }
        if let Some(keyword) = under {
            return Err(InvalidHeaderMark::OutOfReach { name, keyword: keyword.to_owned() });
        }
        let kind = match schema.member("type").as_ref().and_then(Raw::to_string_value).as_deref() {
            Some("string") => ParamKind::String,
            Some("integer") => ParamKind::Integer,
            Some("boolean") => ParamKind::Boolean,
            _ => return Err(InvalidHeaderMark::Type { name }),
        };
        if self.path.is_empty() {
            return Err(InvalidHeaderMark::Type { name });
        }
        if !self.names.add(name.to_ascii_lowercase()) {
            return Err(InvalidHeaderMark::Repeated { name });
        }
        let path: usize = self.path.iter().map(String::len).sum();
        if path > MAX_MARK_BYTES {
            return Err(InvalidHeaderMark::TooLarge);
        }
        let mark = HeaderMark { name, path: self.path.clone(), kind };
        self.bytes += mark.weight();
        if self.bytes > MAX_MARK_BYTES {
            return Err(InvalidHeaderMark::TooLarge);
        }
        self.marks.push(mark);
        Ok(())
    }
}

/// The members of an object; none for any other value.
fn members(raw: &Raw) -> impl Iterator<Item = (Cow<'_, str>, Raw)> {
    let object = (raw.kind() == Kind::Object).then(|| scan::members(raw));
    object.into_iter().flatten().map(|(key, range)| (key, raw.slice(range)))
}

/// The elements of an array; none for any other value.
fn elements(raw: &Raw) -> impl Iterator<Item = Raw> {
    let array = (raw.kind() == Kind::Array).then(|| scan::elements(raw.as_str()));
    array.into_iter().flatten().map(|range| raw.slice(range))
}

/// Whether a byte may be in a token (RFC 9110, 5.6.2).
pub(super) const fn is_token(byte: u8) -> bool {
    matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
        | b'|' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z')
}

/// The value of an argument for its header.
enum Argument {
    /// Absent or `null`: no header.
    Absent,
    String(String),
    Integer(i64),
    Boolean(bool),
    /// A value that cannot be in a header; its text.
    Other(String),
}

impl Argument {
    fn find(mark: &HeaderMark, arguments: Option<&Raw>) -> Self {
        let Some(mut value) = arguments.cloned() else { return Self::Absent };
        for property in &mark.path {
            let mut found = members(&value).filter(|(key, _)| key == property);
            let Some((_, first)) = found.next() else { return Self::Absent };
            // Arguments may repeat a key, and readers would choose different ones.
            if found.next().is_some() {
                return Self::Other(value.to_string());
            }
            drop(found);
            value = first;
        }
        match value.kind() {
            Kind::Null => Self::Absent,
            Kind::Bool => Self::Boolean(value.as_str() == "true"),
            Kind::String => {
                value.to_string_value().map_or(Self::Absent, |string| Self::String(string.into_owned()))
            }
            Kind::Number => {
                integer(value.as_str()).map_or_else(|| Self::Other(value.to_string()), Self::Integer)
            }
            Kind::Object | Kind::Array => Self::Other(value.to_string()),
        }
    }
}

/// A marked argument cannot be represented in a header, so the call cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the argument for {header} is neither a string, a boolean nor an integer within 2^53 - 1")]
pub struct ParamHeaderError {
    /// The complete header name.
    pub header: String,
}

/// The headers of a call: one for each mark whose argument is present and not null.
///
/// # Errors
/// When an argument cannot be represented in a header; a server would reject the call.
pub fn param_headers(
    marks: &[HeaderMark],
    arguments: Option<&Raw>,
) -> Result<Vec<(String, String)>, ParamHeaderError> {
    let mut headers = Vec::new();
    for mark in marks {
        let value = match Argument::find(mark, arguments) {
            Argument::Absent => continue,
            Argument::String(string) => encode_value(&string).into_owned(),
            Argument::Integer(integer) => integer.to_string(),
            Argument::Boolean(boolean) => boolean.to_string(),
            Argument::Other(_) => return Err(ParamHeaderError { header: mark.header() }),
        };
        headers.push((mark.header(), value));
    }
    Ok(headers)
}

/// Compares the `Mcp-Param-*` headers of a call with its arguments: integers as numbers (`42.0` is `42`), everything
/// else as text. Headers without a mark are ignored.
///
/// # Errors
/// The first header that is missing, invalid or different, or that has no argument.
pub fn check_param_headers(
    headers: &(impl Headers + ?Sized),
    marks: &[HeaderMark],
    arguments: Option<&Raw>,
) -> Result<(), HeaderMismatch> {
    for mark in marks {
        let written = mark.header();
        let key = format!("{}{}", name::PARAM_PREFIX, mark.name.to_ascii_lowercase());
        let argument = Argument::find(mark, arguments);
        let Some(value) = single(headers, &key, &written)? else {
            match argument {
                Argument::Absent => continue,
                Argument::String(body) | Argument::Other(body) => return Err(missing(&written, &body)),
                Argument::Integer(body) => return Err(missing(&written, &body.to_string())),
                Argument::Boolean(body) => return Err(missing(&written, &body.to_string())),
            }
        };
        let found = decode_value(value)
            .map_err(|error| HeaderMismatch::new(written.as_str(), HeaderProblem::Invalid(error)))?;
        match argument {
            Argument::Absent => {
                let problem = HeaderProblem::Unexpected { header: found.into_owned() };
                return Err(HeaderMismatch::new(written, problem));
            }
            Argument::Integer(body) if integer(&found) == Some(body) => {}
            Argument::Integer(body) => compare(&written, &found, &body.to_string())?,
            Argument::Boolean(body) => compare(&written, &found, if body { "true" } else { "false" })?,
            Argument::String(body) => compare(&written, &found, &body)?,
            Argument::Other(body) => {
                let problem = HeaderProblem::Differs { header: found.into_owned(), body };
                return Err(HeaderMismatch::new(written, problem));
            }
        }
    }
    Ok(())
}

/// The value of a number, if it is an integer within 2^53 - 1. Computed exactly, without floating point.
fn integer(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        // An exponent outside of `i32` is out of range, unless all digits are zero.
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let places = i32::try_from(fraction.len()).ok()?;
    let mut digits = format!("{whole}{fraction}");
    let mut scale = exponent.checked_sub(places)?;
    digits.drain(..digits.len() - digits.trim_start_matches('0').len());
    if digits.is_empty() {
        return Some(0);
    }
    let significant = digits.trim_end_matches('0').len();
    scale = scale.checked_add(i32::try_from(digits.len() - significant).ok()?)?;
    digits.truncate(significant);
    // 2^53 has 16 digits.
    let zeros = usize::try_from(scale).ok()?;
    if digits.len().saturating_add(zeros) > 16 {
        return None;
    }
    digits.extend(core::iter::repeat_n('0', zeros));
    let value = digits.parse::<i64>().ok().filter(|value| *value <= SAFE_INTEGER)?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_repeat_long_names_of_properties_have_a_total() {
        let schema = |long: usize, marks: usize| {
            let marks: Vec<String> = (0..marks)
                .map(|mark| format!(r#""{mark}":{{"type":"string","x-mcp-header":"A{mark}"}}"#))
                .collect();
            let (long, marks) = ("x".repeat(long), marks.join(","));
            let schema = format!(r#"{{"properties":{{"{long}":{{"properties":{{{marks}}}}}}}}}"#);
            header_marks(&Raw::parse(schema).expect("JSON")).map(|marks| marks.len())
        };
        assert_eq!(schema(2000, 100), Ok(100));
        // 10 MB would become a terabyte.
        assert_eq!(schema(5_000_000, 100_000), Err(InvalidHeaderMark::TooLarge));
        assert_eq!(schema(2000, 200), Err(InvalidHeaderMark::TooLarge));
    }

    #[test]
    fn numbers_are_whole_or_they_are_not() {
        for (text, value) in [
            ("42", Some(42)),
            ("42.0", Some(42)),
            ("4.2e1", Some(42)),
            ("420E-1", Some(42)),
            ("-0", Some(0)),
            ("0.000e9", Some(0)),
            ("-7", Some(-7)),
            ("9007199254740991", Some(9_007_199_254_740_991)),
            ("9007199254740992", None),
            ("42.0000000000000000001", None),
            ("1e400", None),
            ("1e99999999999", None),
            ("0.5", None),
            ("", None),
            ("-", None),
            ("4 2", None),
            ("0x2a", None),
            ("+1", None),
        ] {
            assert_eq!(integer(text), value, "{text}");
        }
    }
}
