//! Converts JSON to `google.protobuf.Struct` and back.
//!
//! Used for the arguments, results and schemas in the messages of [`wire`](super::wire). A [`Struct`] stays encoded
//! until its JSON is requested; no tree of values is built. The format is
//! <https://protobuf.dev/reference/protobuf/google.protobuf/#struct>. The conversions are those of Orchestra's own
//! programs, except that a number that would change is rejected unless [`Numbers::Lossy`] is given.

mod decode;
mod encode;
mod number;

use std::borrow::Cow;
use std::fmt;

use bytes::{Buf, BufMut, Bytes};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{Raw, scan};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, skip_field};

/// Maximum nesting of arrays and objects, as for all JSON in mcpjoin.
pub const MAX_DEPTH: usize = scan::MAX_DEPTH;

/// How to treat a number that a 64-bit float, the only number in a [`Struct`], cannot represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Rejects it with [`ValueErrorKind::Rounded`]. Accepted are numbers that equal a float exactly, whatever their
    /// size (2^60, 1700000000000000000), and numbers in the form in which programs print a float: a fraction of at most
    /// 17 significant digits, or, with a point or an exponent, the fewest digits that identify a float
    /// (`1.7976931348623157e308`). A whole number without point and exponent must be exact to its last digit.
    #[default]
    Exact,
    /// Uses the nearest float, as Orchestra's own programs do.
    Lossy,
}

/// A JSON object encoded as `google.protobuf.Struct`.
///
/// Two are equal if their bytes are, which depends on the order of members. Compare the JSON if the order must not
/// matter.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Struct {
    /// The field `fields` of the message, with the tag of each entry.
    entries: Vec<u8>,
}

/// The JSON of a [`Struct`], with the numbers that it may misrepresent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Json {
    /// The object. Keys are in byte order; whole numbers below 1e21 are written with all digits of the float.
    pub json: Raw,
    /// The path of the first whole number with an absolute value from 2^53 to below 1e21, for example `rows[3].id`. The
    /// JSON has every digit of it, but its sender may have rounded an integer. Larger numbers are written with an
    /// exponent and are not reported.
    pub beyond_exact: Option<String>,
    /// The path of the first number that JSON cannot represent. It became the string `NaN`, `Infinity` or `-Infinity`.
    pub not_finite: Option<String>,
}

/// A value that cannot be converted, and its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", At(.path))]
#[non_exhaustive]
pub struct ValueError {
    /// The path from the outermost object, for example `rows[3].id`; empty for the object itself.
    pub path: String,
    /// The problem.
    pub kind: ValueErrorKind,
}

/// Why a value cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueErrorKind {
    /// It is not an object.
    #[error("only a JSON object can be sent there")]
    NotAnObject,
    /// The number would change.
    #[error("{0} does not fit a float of 64 bits, the only number that Orchestra has: send it as a string")]
    Rounded(String),
    /// The number exceeds all floats.
    #[error("{0} is larger than any number that Orchestra has")]
    TooLarge(String),
    /// It is nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} arrays and objects")]
    Depth,
    /// It exceeds a frame of [`MAX_FRAME`](super::wire::MAX_FRAME) bytes.
    #[error("longer than the 16 MiB that fit into a frame of Orchestra")]
    TooLong,
    /// The text is not UTF-8.
    #[error("text that is not UTF-8")]
    Utf8,
    /// The bytes are not a `google.protobuf.Struct`.
    #[error("no google.protobuf.Struct: {0}")]
    Malformed(&'static str),
}

struct At<'a>(&'a str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", Line::of(self.0)) }
    }
}

/// The path of a value, formatted as in `rows[3].id`.
#[derive(Default)]
struct Path<'a>(Vec<Step<'a>>);

enum Step<'a> {
    Key(Cow<'a, str>),
    Index(usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut dot = "";
        for step in &self.0 {
            match step {
                Step::Key(key) => write!(f, "{dot}{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
            if !matches!(step, Step::Key(key) if key.is_empty()) {
                dot = ".";
            }
        }
        Ok(())
    }
}

impl Struct {
    /// Converts a JSON object. Of members with the same name the last one counts, as on the wire.
    ///
    /// ```
    /// use mcpjoin_orchestra::value::{Numbers, Struct};
    /// use mcpjoin::proto::Raw;
    ///
    /// let arguments = Raw::parse(r#"{"title":"Log in","count":3}"#)?;
    /// let sent = Struct::from_json(&arguments, Numbers::Exact)?;
    /// assert_eq!(sent.to_json()?.json, Raw::parse(r#"{"count":3,"title":"Log in"}"#)?);
    ///
    /// let identity = Raw::parse(r#"{"id":12345678901234567890}"#)?;
    /// let refused = Struct::from_json(&identity, Numbers::Exact).expect_err("a float rounds it");
    /// assert_eq!(refused.path, "id");
    /// let rounded = Struct::from_json(&identity, Numbers::Lossy)?.to_json()?;
    /// assert_eq!(rounded.json.as_str(), r#"{"id":12345678901234567168}"#);
    /// assert_eq!(rounded.beyond_exact.as_deref(), Some("id"), "it never happens in silence");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ValueError`] names the first value that cannot be converted.
    pub fn from_json(object: &Raw, numbers: Numbers) -> Result<Self, ValueError> {
        Ok(Self { entries: encode::object(object.as_str(), numbers)? })
    }

    /// Converts to a JSON object. [`Json`] also reports numbers that may be wrong.
    ///
    /// # Errors
    /// [`ValueError`] if the bytes are not a `google.protobuf.Struct`, not UTF-8, or nested too deeply.
    pub fn to_json(&self) -> Result<Json, ValueError> {
        decode::json(&self.entries)
    }

    /// Converts to JSON text as Orchestra's own programs do, that is as Go's `encoding/json`: keys in byte order, `<`,
    /// `>`, `&`, U+2028 and U+2029 escaped, and whole numbers with the fewest digits that identify the float, followed
    /// by zeros.
    ///
    /// # Errors
    /// As for [`Struct::to_json`].
    pub fn to_go_text(&self) -> Result<String, ValueError> {
        decode::go_text(&self.entries)
    }

    /// Whether it has no members.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl fmt::Debug for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Struct({} bytes)", self.entries.len())
    }
}

/// The only field of the message.
const FIELDS: u32 = 1;

impl prost::Message for Struct {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.entries);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag != FIELDS {
            return skip_field(wire_type, tag, buf, ctx);
        }
        let mut entry = Bytes::new();
        prost::encoding::bytes::merge(wire_type, &mut entry, buf, ctx)?;
        encode::push_bytes(FIELDS, &entry, &mut self.entries);
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.entries.len()
    }

    fn clear(&mut self) {
        self.entries.clear();
    }
}
