//! Decodes `google.protobuf.Struct` to JSON in one pass over the bytes. Each length is checked against the rest.

use std::borrow::Cow;
use std::fmt::Write as _;

use mcpjoin_proto::{Kind, Raw};

use super::{FIELDS, Json, MAX_DEPTH, Path, Step, ValueError, ValueErrorKind, number};

type Fault = ValueErrorKind;

/// The JSON of the entries of a `Struct`.
pub(super) fn json(entries: &[u8]) -> Result<Json, ValueError> {
    let mut decoder = Decoder::new(entries, false);
    decoder.run(entries)?;
    let Decoder { out, beyond_exact, not_finite, .. } = decoder;
    // The text is valid JSON except for limits that are checked here.
    let json = Raw::parse(out).map_err(|_| fault(ValueErrorKind::Malformed("its JSON is too long")))?;
    debug_assert_eq!(json.kind(), Kind::Object, "a Struct is an object");
    Ok(Json { json, beyond_exact, not_finite })
}

/// The JSON as Go's `encoding/json` writes it.
pub(super) fn go_text(entries: &[u8]) -> Result<String, ValueError> {
    let mut decoder = Decoder::new(entries, true);
    decoder.run(entries)?;
    Ok(decoder.out)
}

const fn fault(kind: ValueErrorKind) -> ValueError {
    ValueError { path: String::new(), kind }
}

/// A field of a message.
enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

/// Iterates over the fields of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, Fault> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let Some(number) = u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number)) else {
            return Err(Fault::Malformed("a field with a number that none has"));
        };
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).ok().filter(|length| *length <= self.0.len());
                let Some(length) = length else {
                    return Err(Fault::Malformed("a length beyond the end"));
                };
                let (bytes, rest) = self.0.split_at(length);
                self.0 = rest;
                Field::Bytes(bytes)
            }
            5 => {
                self.array::<4>()?;
                Field::Fixed32
            }
            _ => return Err(Fault::Malformed("a wire type that it does not use")),
        };
        Ok(Some((number, field)))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let Some((array, rest)) = self.0.split_first_chunk() else {
            return Err(Fault::Malformed("cut off in a number"));
        };
        self.0 = rest;
        Ok(*array)
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for place in 0..10 {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if place == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault::Malformed("a number longer than 64 bits"))
    }
}

/// A decoded `Value`.
enum Value<'a> {
    Null,
    Number(f64),
    Text(&'a str),
    Bool(bool),
    Struct(&'a [u8]),
    List(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Decodes a value. If it has several kinds, the last one counts. A struct or list in two parts is rejected rather
    /// than merged, because no program writes one.
    fn of(body: &'a [u8]) -> Result<Self, Fault> {
        let mut fields = Fields(body);
        // An empty message is null.
        let mut value = Self::Null;
        while let Some((number, field)) = fields.next()? {
            value = match (number, field, &value) {
                (1, Field::Varint(_), _) => Self::Null,
                (2, Field::Fixed64(bits), _) => Self::Number(f64::from_bits(bits)),
                (3, Field::Bytes(text), _) => Self::Text(utf8(text)?),
                (4, Field::Varint(word), _) => Self::Bool(word != 0),
                (5, Field::Bytes(_), Self::Struct(_)) | (6, Field::Bytes(_), Self::List(_)) => {
                    return Err(Fault::Malformed("a value in two parts"));
                }
                (5, Field::Bytes(body), _) => Self::Struct(body),
                (6, Field::Bytes(body), _) => Self::List(body),
                (1..=6, ..) => return Err(Fault::Malformed("a value of another wire type than its kind")),
                _ => continue,
            };
        }
        Ok(value)
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::Utf8)
}

/// The key and value of a map entry.
fn entry(body: &[u8]) -> Result<(&str, &[u8]), Fault> {
    let mut fields = Fields(body);
    let (mut key, mut value) = ("", None);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(text)) => key = utf8(text)?,
            (2, Field::Bytes(_)) if value.is_some() => {
                return Err(Fault::Malformed("an entry with two values"));
            }
            (2, Field::Bytes(body)) => value = Some(body),
            (1 | 2, _) => return Err(Fault::Malformed("an entry of another wire type than a map has")),
            _ => {}
        }
    }
    Ok((key, value.unwrap_or_default()))
}

struct Decoder<'a> {
    out: String,
    go: bool,
    path: Path<'a>,
    beyond_exact: Option<String>,
    not_finite: Option<String>,
}

impl<'a> Decoder<'a> {
    fn new(entries: &[u8], go: bool) -> Self {
        let out = String::with_capacity(entries.len());
        Self { out, go, path: Path::default(), beyond_exact: None, not_finite: None }
    }

    fn run(&mut self, entries: &'a [u8]) -> Result<(), ValueError> {
        self.object(entries, 1).map_err(|kind| ValueError { path: self.path.to_string(), kind })
    }

    fn object(&mut self, body: &'a [u8], depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::Depth);
        }
        let mut fields = Fields(body);
        let mut members = Vec::new();
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (FIELDS, Field::Bytes(body)) => members.push(entry(body)?),
                (FIELDS, _) => return Err(Fault::Malformed("fields of another wire type than a map has")),
                _ => {}
            }
        }
        // A map is unordered on the wire. Of equal keys the last one counts: the sort is stable.
        members.sort_by_key(|(key, _)| *key);
        self.out.push('{');
        let mut first = true;
        for (place, (key, value)) in members.iter().enumerate() {
            if members.get(place + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            if !first {
                self.out.push(',');
            }
            first = false;
            self.string(key);
            self.out.push(':');
            self.path.0.push(Step::Key(Cow::Borrowed(key)));
            self.value(value, depth)?;
            self.path.0.pop();
        }
        self.out.push('}');
        Ok(())
    }

    fn list(&mut self, body: &'a [u8], depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::Depth);
        }
        let mut fields = Fields(body);
        let mut index = 0;
        self.out.push('[');
        while let Some((number, field)) = fields.next()? {
            let value = match (number, field) {
                (1, Field::Bytes(value)) => value,
                (1, _) => return Err(Fault::Malformed("an element of another wire type than a list has")),
                _ => continue,
            };
            if index > 0 {
                self.out.push(',');
            }
            self.path.0.push(Step::Index(index));
            self.value(value, depth)?;
            self.path.0.pop();
            index += 1;
        }
        self.out.push(']');
        Ok(())
    }

    fn value(&mut self, body: &'a [u8], depth: usize) -> Result<(), Fault> {
        match Value::of(body)? {
            Value::Null => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if value { "true" } else { "false" }),
            Value::Text(text) => self.string(text),
            Value::Number(value) => self.number(value),
            Value::Struct(body) => self.object(body, depth + 1)?,
            Value::List(body) => self.list(body, depth + 1)?,
        }
        Ok(())
    }

    fn number(&mut self, value: f64) {
        if value.is_finite() {
            if (number::EXACT..number::EXPONENT).contains(&value.abs()) && self.beyond_exact.is_none() {
                self.beyond_exact = Some(self.path.to_string());
            }
            let push = if self.go { number::push_as_go } else { number::push };
            push(value, &mut self.out);
            return;
        }
        if self.not_finite.is_none() {
            self.not_finite = Some(self.path.to_string());
        }
        self.out.push_str(match value {
            f64::INFINITY => r#""Infinity""#,
            f64::NEG_INFINITY => r#""-Infinity""#,
            _ => r#""NaN""#,
        });
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        let mut from = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                0x08 => "\\b",
                0x0c => "\\f",
                0..0x20 => "",
                b'<' | b'>' | b'&' if self.go => "",
                // The first byte of U+2028 and U+2029, among others.
                0xe2 if self.go
                    && matches!(text.as_bytes().get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) =>
                {
                    ""
                }
                _ => continue,
            };
            self.out.push_str(text.get(from..at).unwrap_or_default());
            let character = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or_default();
            if escape.is_empty() {
                // Writing to a string does not fail.
                let _ = write!(self.out, "\\u{:04x}", u32::from(character));
            } else {
                self.out.push_str(escape);
            }
            from = at + character.len_utf8();
        }
        self.out.push_str(text.get(from..).unwrap_or_default());
        self.out.push('"');
    }
}
