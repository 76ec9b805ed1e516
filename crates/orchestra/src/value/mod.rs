//! JSON as `google.protobuf.Struct`, in both directions.
//!
//! Called by whoever makes or reads a message of [`wire`](super::wire) that carries JSON: arguments, results, schemas.
//! A [`Struct`] stays encoded: it is read when its JSON is asked for, and no tree of values is ever built. The form is
//! that of <https://protobuf.dev/reference/protobuf/google.protobuf/#struct>, the conversions are those of Orchestra's
//! own programs, with one difference: a number that would come out as another is refused, unless
//! [`Numbers::Lossy`] is asked for.

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

/// How deep arrays and objects may lie in each other, as in all JSON that mcpjoin reads.
pub const MAX_DEPTH: usize = scan::MAX_DEPTH;

/// What becomes of a number that a float of 64 bits, which is all that a [`Struct`] has, does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// It is refused: [`ValueErrorKind::Rounded`]. A number that is a float to its last digit is taken, whatever its size
    /// (2^60, 1700000000000000000), and so is one that is written as programs print a float that they hold: a fraction of
    /// at most 17 significant digits, and, of a number with a point or an exponent, the fewest digits that give a float
    /// back (`1.7976931348623157e308`). A whole number that is written without either is what its digits say, to the last
    /// one.
    #[default]
    Exact,
    /// The nearest float is taken, as Orchestra's own programs do.
    Lossy,
}

/// A JSON object in the form of `google.protobuf.Struct`, encoded.
///
/// Two are equal when their bytes are, which depends on the order in which their members were written; compare their
/// JSON where that must not matter.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Struct {
    /// The field `fields` of the message, each entry with its key before it.
    entries: Vec<u8>,
}

/// The JSON of a [`Struct`], and what it does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Json {
    /// The object: keys in the order of their bytes, whole numbers without a fraction and below 1e21 with every digit of
    /// the float.
    pub json: Raw,
    /// Where the first whole number from 2^53 on and below 1e21 is, of either sign, as in `rows[3].id`. It is what has come,
    /// to the last digit; but its sender may have had an integer there that no float is, and have rounded it. What is
    /// larger is written with an exponent, as floats are, and is not reported.
    pub beyond_exact: Option<String>,
    /// Where the first number is that JSON has not: it has become the string `NaN`, `Infinity` or `-Infinity`.
    pub not_finite: Option<String>,
}

/// A value that one of the two forms does not have, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", At(.path))]
#[non_exhaustive]
pub struct ValueError {
    /// From the outermost object, as in `rows[3].id`; empty for the whole of it.
    pub path: String,
    /// What is wrong.
    pub kind: ValueErrorKind,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueErrorKind {
    /// Not an object, which is all that a [`Struct`] can be.
    #[error("only a JSON object can be sent there")]
    NotAnObject,
    /// A number that would arrive as another one.
    #[error("{0} does not fit a float of 64 bits, the only number that Orchestra has: send it as a string")]
    Rounded(String),
    /// A number beyond all floats, rounded or not.
    #[error("{0} is larger than any number that Orchestra has")]
    TooLarge(String),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} arrays and objects")]
    Depth,
    /// Longer than a frame of [`MAX_FRAME`](super::wire::MAX_FRAME) bytes holds.
    #[error("longer than the 16 MiB that fit into a frame of Orchestra")]
    TooLong,
    /// Text that is not UTF-8.
    #[error("text that is not UTF-8")]
    Utf8,
    /// Bytes that are no `google.protobuf.Struct`.
    #[error("no google.protobuf.Struct: {0}")]
    Malformed(&'static str),
}

struct At<'a>(&'a str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", Line::of(self.0)) }
    }
}

/// The place of a value, as in `rows[3].id`.
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
    /// A JSON object as a `Struct`. Of several members of one name the last counts, as on the wire.
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
    /// [`ValueError`] names the first value that cannot be sent.
    pub fn from_json(object: &Raw, numbers: Numbers) -> Result<Self, ValueError> {
        Ok(Self { entries: encode::object(object.as_str(), numbers)? })
    }

    /// The JSON object that it is. Nothing that arrives is lost in silence: see [`Json`].
    ///
    /// # Errors
    /// [`ValueError`] when the bytes are no `google.protobuf.Struct`, not UTF-8, or nested too deeply.
    pub fn to_json(&self) -> Result<Json, ValueError> {
        decode::json(&self.entries)
    }

    /// The JSON object as the text that Orchestra's own programs make of it, which is what Go's `encoding/json` writes:
    /// keys in the order of their bytes, `<`, `>`, `&`, U+2028 and U+2029 escaped, and of a whole number the fewest digits
    /// that give it back, with zeros behind them.
    ///
    /// # Errors
    /// As [`Struct::to_json`].
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

/// The one field of the message.
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
