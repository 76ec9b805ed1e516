//! Encodes JSON as `google.protobuf.Struct` in two passes. The first one computes the length prefixes.

use mcpjoin_proto::{Kind, scan};
use prost::encoding::{encode_varint, encoded_len_varint};

use super::super::wire::MAX_FRAME;
use super::{MAX_DEPTH, Numbers, Path, Step, ValueError, ValueErrorKind, number};

// The tags of google.protobuf.Value with their wire types.
const NULL: u8 = 1 << 3;
const NUMBER: u8 = 2 << 3 | 1;
const STRING: u8 = 3 << 3 | 2;
const BOOL: u8 = 4 << 3;
const STRUCT: u8 = 5 << 3 | 2;
const LIST: u8 = 6 << 3 | 2;
/// The tag of field 1: an entry of `Struct.fields`, the key of an entry, or an element of `ListValue.values`.
const FIRST: u8 = 1 << 3 | 2;
/// The tag of field 2: the value of an entry.
const SECOND: u8 = 2 << 3 | 2;

/// Encodes a JSON object as the entries of a `Struct`.
pub(super) fn object(text: &str, numbers: Numbers) -> Result<Vec<u8>, ValueError> {
    let mut measure = Measure { text, at: 0, numbers, sizes: Vec::new(), min_size: 0, path: Path::default() };
    if measure.kind() != Kind::Object {
        return Err(measure.fault(ValueErrorKind::NotAnObject));
    }
    let size = measure.measured_object(1)?;
    if size > MAX_FRAME {
        measure.path.0.clear();
        return Err(measure.fault(ValueErrorKind::TooLong));
    }
    let mut writing =
        Encoder { text, at: 0, sizes: measure.sizes.into_iter(), out: Vec::with_capacity(size) };
    writing.object();
    Ok(writing.out)
}

/// Appends a length-delimited field.
pub(super) fn push_bytes(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_varint(u64::from(field << 3 | 2), out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// The size of a length-delimited field, in bytes.
const fn field(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

/// The size of a `Value`, in bytes. `inside` is the size of its string, `Struct` or `ListValue`.
const fn value_size(kind: Kind, inside: usize) -> usize {
    match kind {
        Kind::Null | Kind::Bool => 2,
        Kind::Number => 9,
        Kind::String | Kind::Object | Kind::Array => field(inside),
    }
}

fn kind(text: &str, at: usize) -> Kind {
    match text.as_bytes().get(at) {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') | None => Kind::Null,
        Some(_) => Kind::Number,
    }
}

/// The end of the number or word at this position.
fn word_end(text: &str, at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().position(ends).unwrap_or(rest.len())
}

/// Skips white space, commas and colons.
fn next(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t' | b',' | b':')) {
        at += 1;
    }
    at
}

/// Whether an array or object ends at this position.
fn closes(text: &str, at: usize) -> bool {
    matches!(text.as_bytes().get(at), Some(b'}' | b']') | None)
}

/// The first pass. The text comes from a [`Raw`](mcpjoin_proto::Raw) and is valid JSON.
struct Measure<'a> {
    text: &'a str,
    at: usize,
    numbers: Numbers,
    /// The size of each length-delimited value, in the order in which the values begin.
    sizes: Vec<u32>,
    /// A lower bound of the total size, in bytes.
    min_size: usize,
    path: Path<'a>,
}

impl<'a> Measure<'a> {
    fn kind(&self) -> Kind {
        kind(self.text, self.at)
    }

    #[cold]
    fn fault(&self, kind: ValueErrorKind) -> ValueError {
        ValueError { path: self.path.to_string(), kind }
    }

    /// Skips an object and returns the size of its `Struct`.
    fn measured_object(&mut self, depth: usize) -> Result<usize, ValueError> {
        self.enter(depth)?;
        let mut size = 0;
        while !closes(self.text, self.at) {
            let (key, end) = scan::string(self.text, self.at + 1);
            self.at = next(self.text, end + 1);
            let length = key.len();
            self.min_size += length;
            self.path.0.push(Step::Key(key));
            let value = self.measured_value(depth)?;
            self.path.0.pop();
            size += field(field(length) + field(value));
        }
        self.at += 1;
        Ok(size)
    }

    /// Skips an array and returns the size of its `ListValue`.
    fn measured_array(&mut self, depth: usize) -> Result<usize, ValueError> {
        self.enter(depth)?;
        let mut size = 0;
        let mut index = 0;
        while !closes(self.text, self.at) {
            self.path.0.push(Step::Index(index));
            let value = self.measured_value(depth)?;
            self.path.0.pop();
            index += 1;
            size += field(value);
        }
        self.at += 1;
        Ok(size)
    }

    fn enter(&mut self, depth: usize) -> Result<(), ValueError> {
        if depth > MAX_DEPTH {
            return Err(self.fault(ValueErrorKind::Depth));
        }
        self.at = next(self.text, self.at + 1);
        Ok(())
    }

    /// Skips a value and the separator after it, and returns the size of its `Value`.
    fn measured_value(&mut self, depth: usize) -> Result<usize, ValueError> {
        // A value takes at least two bytes, and its head two.
        self.min_size += 4;
        if self.min_size > MAX_FRAME {
            return Err(self.fault(ValueErrorKind::TooLong));
        }
        let kind = self.kind();
        let inside = match kind {
            Kind::Object | Kind::Array => {
                let place = self.sizes.len();
                self.sizes.push(0);
                let object = kind == Kind::Object;
                let size =
                    if object { self.measured_object(depth + 1)? } else { self.measured_array(depth + 1)? };
                if let Some(slot) = self.sizes.get_mut(place) {
                    // A size above 32 bits exceeds the limit, which is checked for the whole.
                    *slot = u32::try_from(size).unwrap_or(u32::MAX);
                }
                size
            }
            Kind::String => {
                let (value, end) = scan::string(self.text, self.at + 1);
                self.at = end + 1;
                self.min_size += value.len();
                self.sizes.push(u32::try_from(value.len()).unwrap_or(u32::MAX));
                value.len()
            }
            Kind::Number | Kind::Bool | Kind::Null => {
                let end = word_end(self.text, self.at);
                if kind == Kind::Number {
                    let number = self.text.get(self.at..end).unwrap_or_default();
                    number::float(number, self.numbers).map_err(|kind| self.fault(kind))?;
                }
                self.at = end;
                0
            }
        };
        self.at = next(self.text, self.at);
        Ok(value_size(kind, inside))
    }
}

/// The second pass, which cannot fail.
struct Encoder<'a> {
    text: &'a str,
    at: usize,
    sizes: std::vec::IntoIter<u32>,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn object(&mut self) {
        self.at = next(self.text, self.at + 1);
        while !closes(self.text, self.at) {
            let (key, end) = scan::string(self.text, self.at + 1);
            self.at = next(self.text, end + 1);
            let (kind, inside) = self.ahead();
            let value = value_size(kind, inside);
            self.head(FIRST, field(key.len()) + field(value));
            self.head(FIRST, key.len());
            self.out.extend_from_slice(key.as_bytes());
            self.head(SECOND, value);
            self.value(kind, inside);
        }
        self.at += 1;
    }

    fn array(&mut self) {
        self.at = next(self.text, self.at + 1);
        while !closes(self.text, self.at) {
            let (kind, inside) = self.ahead();
            self.head(FIRST, value_size(kind, inside));
            self.value(kind, inside);
        }
        self.at += 1;
    }

    /// The kind of the next value, and its size from the first pass.
    fn ahead(&mut self) -> (Kind, usize) {
        let kind = kind(self.text, self.at);
        let sized = matches!(kind, Kind::Object | Kind::Array | Kind::String);
        (kind, if sized { self.sizes.next().unwrap_or_default() as usize } else { 0 })
    }

    fn head(&mut self, tag: u8, length: usize) {
        self.out.push(tag);
        encode_varint(length as u64, &mut self.out);
    }

    fn value(&mut self, kind: Kind, inside: usize) {
        match kind {
            Kind::Object => {
                self.head(STRUCT, inside);
                self.object();
            }
            Kind::Array => {
                self.head(LIST, inside);
                self.array();
            }
            Kind::String => {
                let (value, end) = scan::string(self.text, self.at + 1);
                self.head(STRING, inside);
                self.out.extend_from_slice(value.as_bytes());
                self.at = end + 1;
            }
            Kind::Number | Kind::Bool | Kind::Null => {
                let end = word_end(self.text, self.at);
                let word = self.text.get(self.at..end).unwrap_or_default();
                match kind {
                    Kind::Number => {
                        self.out.push(NUMBER);
                        // The first pass has rejected invalid numbers.
                        let float = word.parse::<f64>().unwrap_or_default();
                        self.out.extend_from_slice(&float.to_le_bytes());
                    }
                    Kind::Bool => self.out.extend_from_slice(&[BOOL, u8::from(word == "true")]),
                    _ => self.out.extend_from_slice(&[NULL, 0]),
                }
                self.at = end;
            }
        }
        self.at = next(self.text, self.at);
    }
}
