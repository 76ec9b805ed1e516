use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::escape::enclose_string;
use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    from_raw(&raw(text)).map_err(|error| error.to_string())
}

fn written<T: Serialize>(value: T) -> String {
    let text = to_raw(&value).unwrap();
    assert_eq!(Raw::parse(text.as_str().to_owned()).as_ref(), Ok(&text), "what is written must be JSON");
    text.to_string()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    yes: bool,
    small: i8,
    large: u64,
    huge: i128,
    float: f64,
    single: f32,
    letter: char,
    text: String,
    none: Option<u8>,
    some: Option<u8>,
    unit: (),
    newtype: Newtype,
    tuple: (u8, String),
    list: Vec<Shape>,
    map: BTreeMap<String, i32>,
    numbered: BTreeMap<u32, bool>,
    verbatim: Raw,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Newtype(u16);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Point,
    Circle(f64),
    Line(i32, i32),
    Box { width: u8, height: u8 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content {
    Text { text: String },
    Blob { data: Raw, size: Option<u64> },
}

fn everything() -> Everything {
    Everything {
        yes: true,
        small: -128,
        large: u64::MAX,
        huge: i128::MIN,
        float: 0.1,
        single: 1.5e-7,
        letter: 'é',
        text: "a\"\\\n\u{0}\u{1f}\u{2028}😀".into(),
        none: None,
        some: Some(0),
        unit: (),
        newtype: Newtype(9),
        tuple: (1, "x".into()),
        list: vec![Shape::Point, Shape::Circle(1.0), Shape::Line(-1, 2), Shape::Box { width: 1, height: 2 }],
        map: [("a".to_owned(), -1), ("b\n".to_owned(), 2)].into(),
        numbered: [(7, true)].into(),
        verbatim: raw(r#"{"n":1.00, "m":123456789012345678901234567890}"#),
    }
}

#[test]
fn every_shape_that_serde_has_is_read_back_as_it_was_written() {
    let value = everything();
    let text = to_raw(&value).unwrap();
    assert_eq!(from_raw::<Everything>(&text), Ok(value.clone()));
    assert!(
        text.as_str().contains(r#""verbatim":{"n":1.00, "m":123456789012345678901234567890}}"#),
        "{text}"
    );
    // serde_json reads what we have written, and we read what it has written.
    assert_eq!(
        serde_json::from_str::<Everything>(text.as_str()).unwrap().list,
        value.list,
        "the same shapes for serde_json"
    );
    let simple = (value.list, value.map, value.numbered, value.text);
    let theirs = serde_json::to_string(&simple).unwrap();
    assert_eq!(written(&simple), theirs);
    assert_eq!(read(&theirs), Ok(simple));
}

#[test]
fn an_internally_tagged_enum_is_read_and_written() {
    let blob = Content::Blob { data: raw(r#"{"a":[1,2.5,null,true,"\n"]}"#), size: Some(3) };
    assert_eq!(written(&blob), r#"{"type":"blob","data":{"a":[1,2.5,null,true,"\n"]},"size":3}"#);
    assert_eq!(read(&written(&blob)), Ok(blob));
    // The tag may also come last.
    assert_eq!(
        read(r#"{"text":"x\ty","other":[{}],"type":"text"}"#),
        Ok(Content::Text { text: "x\ty".into() })
    );
}

#[test]
fn an_error_says_where_and_what_was_expected() {
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read into")]
    struct List {
        tools: Vec<Tool>,
    }
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read into")]
    struct Tool {
        name: String,
    }
    let error = from_raw::<List>(&raw(r#"{"tools":[{"name":"a"},{"name":7}]}"#)).unwrap_err();
    assert_eq!(error.path(), "tools[1].name");
    assert_eq!(error.to_string(), "tools[1].name: invalid type: integer `7`, expected a string");
    let error = read::<List>(r#"{"tools":[{}]}"#).unwrap_err();
    assert_eq!(error, "tools[0]: `name` is missing");
    // Types of Rust mean nothing to the sender of the value.
    assert_eq!(read::<List>("[[]]").unwrap_err(), "invalid type: an array, expected an object");
    assert_eq!(
        read::<core::num::NonZeroU32>("0").unwrap_err(),
        "invalid value: integer `0`, expected a whole number from 1 to 4294967295"
    );
    assert_eq!(
        read::<u8>("300").unwrap_err(),
        "invalid value: integer `300`, expected a whole number from 0 to 255"
    );
    assert_eq!(read::<i64>("[]").unwrap_err(), "invalid type: an array, expected a whole number");
    assert_eq!(read::<f64>("{}").unwrap_err(), "invalid type: an object, expected a number");
    assert_eq!(read::<Vec<u8>>("{}").unwrap_err(), "invalid type: an object, expected an array");
    assert_eq!(read::<(u8, u8)>("{}").unwrap_err(), "invalid type: an object, expected an array");
    assert_eq!(read::<BTreeMap<String, u8>>("[]").unwrap_err(), "invalid type: an array, expected an object");
    // An error never repeats a message as long as it came.
    let long = format!("{{\"{0}\":{{\"{0}\":\"{0}\"}}}}", "k".repeat(100_000));
    assert!(read::<BTreeMap<String, BTreeMap<String, Shape>>>(&long).unwrap_err().len() < 1000);
}

#[test]
fn numbers_are_read_exactly_or_rejected() {
    assert_eq!(read::<u8>("255"), Ok(255));
    assert!(read::<u8>("256").is_err());
    assert!(read::<u8>("-1").is_err());
    assert_eq!(read::<i64>("-9223372036854775808"), Ok(i64::MIN));
    assert!(read::<i64>("9223372036854775808").is_err());
    assert_eq!(read::<u64>("18446744073709551615"), Ok(u64::MAX));
    assert!(read::<u64>("18446744073709551616").is_err());
    assert_eq!(read::<u128>("340282366920938463463374607431768211455"), Ok(u128::MAX));
    assert!(read::<u128>("340282366920938463463374607431768211456").is_err());
    assert_eq!(read::<i128>("-170141183460469231731687303715884105728"), Ok(i128::MIN));
    assert_eq!(read::<f64>("1e308"), Ok(1e308));
    assert!(read::<f64>("1e309").is_err());
    assert_eq!(read::<f64>("1e-400"), Ok(0.0));
    assert_eq!(read::<f64>("-0").map(f64::to_bits), Ok((-0.0_f64).to_bits()));
    assert_eq!(read::<f64>("9007199254740993"), Ok(9_007_199_254_740_992.0));
    // What JSON Schema calls an integer.
    assert_eq!(read::<u32>("5.0"), Ok(5));
    assert_eq!(read::<i32>("-5e2"), Ok(-500));
    assert!(read::<i32>("5.5").is_err());
    assert!(read::<i64>("1.0000000000000000001").is_err());
    assert!(read::<i64>("1e300").is_err());
    assert!(read::<u8>("300.0").is_err());
    // For those that take anything: 128 bits, and nothing rounded.
    assert!(read::<de::IgnoredAny>("1e999").is_ok());
    assert!(read::<serde_json::Value>("1e999").is_err());
}

#[test]
fn what_json_cannot_say_is_not_written() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(to_raw(&value).is_err());
        assert!(to_raw(&(value as f32)).is_err());
    }
    assert!(to_raw(&BTreeMap::from([((), 1)])).is_err());
    assert!(to_raw(&BTreeMap::from([(vec![1], 1)])).is_err());
    assert_eq!(written(BTreeMap::from([(true, 1)])), r#"{"true":1}"#);
    assert_eq!(written(BTreeMap::from([(-7_i64, 1)])), r#"{"-7":1}"#);
    assert_eq!(written(BTreeMap::from([('"', 1)])), r#"{"\"":1}"#);
}

#[test]
fn floats_are_written_so_that_they_come_back() {
    for value in [0.0, -0.0, 1.0, 0.1, 1e16, 1e21, 1e-7, 5e-324, f64::MAX, 123_456_789.125] {
        assert_eq!(read::<f64>(&written(value)).map(f64::to_bits), Ok(value.to_bits()));
    }
    assert_eq!(read::<f32>(&written(0.1_f32)), Ok(0.1_f32));
}

#[test]
fn nesting_without_end_is_refused_in_both_directions() {
    let mut text = raw("[]");
    for _ in 0..300 {
        text = to_raw(&[&text]).unwrap();
    }
    assert!(text.as_str().starts_with(&"[".repeat(301)));
    // Passing on needs no stack; reading into a type does.
    assert_eq!(from_raw::<Raw>(&text).as_ref(), Ok(&text));
    assert!(from_raw::<de::IgnoredAny>(&text).is_ok());
    assert!(from_raw::<serde_json::Value>(&text).is_err());
    assert!(serde_json::to_string(&text).is_err());

    #[derive(Serialize)]
    struct Chain(Option<Box<[Self; 1]>>);
    let mut chain = Chain(None);
    for _ in 0..300 {
        chain = Chain(Some(Box::new([chain])));
    }
    assert!(to_raw(&chain).is_err());
}

#[test]
fn a_raw_is_its_value_in_other_formats() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        schema: Raw,
    }
    let text = r#"{"schema":{"b":[1,-2,0.5,"\n",null,true],"a":{}}}"#;
    let theirs: Holder = serde_json::from_str(text).unwrap();
    assert_eq!(theirs.schema.as_str(), r#"{"b":[1,-2,0.5,"\n",null,true],"a":{}}"#);
    assert_eq!(serde_json::to_string(&theirs).unwrap(), text);
    let value = serde_json::to_value(&theirs).unwrap();
    assert_eq!(serde_json::from_value::<Holder>(value).unwrap(), theirs);
    assert_eq!(read::<Holder>(text), Ok(theirs));
}

#[test]
fn a_text_from_a_format_of_strings_is_checked() {
    use serde::de::value::StrDeserializer;
    // A format that is not human-readable and knows nothing of us: its text is not to be trusted.
    struct Compact<'a>(&'a str);
    impl<'de> de::Deserializer<'de> for Compact<'_> {
        type Error = de::value::Error;
        fn is_human_readable(&self) -> bool {
            false
        }
        fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            StrDeserializer::new(self.0).deserialize_any(visitor)
        }
        fn deserialize_newtype_struct<V: de::Visitor<'de>>(
            self,
            _name: &'static str,
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            visitor.visit_newtype_struct(self)
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
        }
    }
    assert_eq!(Raw::deserialize(Compact("{\"a\":1}")).unwrap(), raw("{\"a\":1}"));
    assert!(Raw::deserialize(Compact("{\"a\":")).is_err());
}

#[test]
fn both_escapes_say_the_same() {
    let all: String = (0..0x100).filter_map(char::from_u32).chain(['\u{2028}', '😀']).collect();
    let places = (0..40).map(|place| "x".repeat(place) + "\\\n" + &"é".repeat(20));
    for value in ["", "plain", "\"", "0123456789abcdef\"", &all].map(String::from).into_iter().chain(places) {
        let value = value.as_str();
        let (mut pushed, mut written) = (Vec::new(), String::new());
        append_string(value, &mut pushed);
        let pushed = String::from_utf8(pushed).unwrap();
        write_string(value, &mut written).unwrap();
        assert_eq!(pushed, written);
        let mut third = String::from("x");
        push_string(value, &mut third);
        assert_eq!(third[1..], pushed);
        assert_eq!(serde_json::from_str::<String>(&pushed).unwrap(), value);
        assert_eq!(string_value(raw(&pushed).as_str()).as_deref(), Some(value));
    }
    assert_eq!(string_value("1"), None);
}

/// Every way to write and to read a string, beside serde_json.
fn check_string(value: &str) {
    let expected = serde_json::to_string(value).unwrap();
    let mut text = b"[".to_vec();
    append_string(value, &mut text);
    assert_eq!(core::str::from_utf8(&text).unwrap(), format!("[{expected}"));
    assert_eq!(enclose_string(value.to_owned(), b"", b""), expected.as_bytes());
    let enclosed = enclose_string(value.to_owned(), b"{\"a\":", b"}");
    assert_eq!(enclosed, format!("{{\"a\":{expected}}}").as_bytes());
    // With more behind it than it takes itself, and with nothing.
    for behind in ["", &", 1".repeat(100)] {
        let list = raw(&format!("[{expected}{behind}]"));
        let (first, end) = scan::string(list.as_str(), 2);
        assert_eq!((&*first, end), (value, expected.len()));
        assert_eq!(scan::string_end(list.as_bytes(), 2).0, expected.len());
        if let Cow::Owned(first) = first {
            assert!(first.capacity() <= 2 * first.len() + 128, "{} of {}", first.capacity(), first.len());
        }
    }
}

#[test]
fn a_stop_is_read_and_written_at_every_place() {
    for length in 0..200 {
        for stop in ["\n", "\"", "\\", "\u{1}", "é", "😀", "\u{1}\u{2}\n\n\"x\"\u{3}"] {
            let plain = "x".repeat(length);
            check_string(&format!("{plain}{stop}"));
            check_string(&format!("{plain}{stop}{plain}{stop}0123456789"));
        }
    }
}

#[test]
fn strings_of_stops_alone_are_read_and_written() {
    for stop in ["\n", "\u{1}", "\u{1}x", "\"ab", "\\\"\u{0}é"] {
        for count in [1, 63, 64, 65, 500, 20_000] {
            check_string(&stop.repeat(count));
            check_string(&("x".repeat(10_000) + &stop.repeat(count)));
        }
    }
}

#[test]
fn a_text_with_too_much_room_becomes_a_string_without_it() {
    let mut text = String::with_capacity(1 << 20);
    text.push_str(&"some words\n".repeat(2000));
    let written = enclose_string(text, b"", b"");
    assert_eq!(written.len(), 2 + 12 * 2000);
    assert!(written.capacity() <= 2 * written.len(), "{}", written.capacity());
}

proptest::proptest! {
    #[test]
    fn any_string_is_read_and_written(parts in proptest::collection::vec(".{0,90}|[\\x00-\\x20\"\\\\]{0,90}|[a-z]{0,200}", 0..6)) {
        check_string(&parts.concat());
    }
}

#[test]
fn a_short_string_takes_no_room_for_what_is_behind_it() {
    let word = "a line\n".repeat(20);
    let list = to_raw(&vec![word.as_str(); 10_000]).unwrap();
    let read: Vec<String> = list.decode().unwrap();
    assert!(read.iter().all(|read| *read == word && read.capacity() <= 2 * word.len() + 128));
}

#[test]
fn ids_keep_their_digits_through_types() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Meta {
        token: crate::ProgressToken,
    }
    for token in ["18446744073709551616", "-0", "\"1\"", "1", "1.0"] {
        let text = format!("{{\"token\":{token}}}");
        assert_eq!(written(read::<Meta>(&text).unwrap()), text);
    }
    for text in [r#"{"token":1.5}"#, r#"{"token":null}"#, r#"{"token":[]}"#] {
        assert_eq!(read::<Meta>(text).unwrap_err(), "token: expected an integer or a string");
    }
}

#[test]
fn a_value_is_read_and_written_256_deep() {
    #[derive(Serialize, Deserialize)]
    struct Nested(Vec<Self>);

    let nested = |depth: usize| (1..depth).fold(Nested(Vec::new()), |inside, _| Nested(vec![inside]));
    let text = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(to_raw(&nested(256)).unwrap().as_str(), text(256));
    assert!(from_text::<Nested>(&text(256)).is_ok());
    assert_eq!(to_raw(&nested(257)).unwrap_err().to_string(), "nested too deeply");
    let error = from_text::<Nested>(&text(257)).err().unwrap().to_string();
    assert!(error.ends_with("nested too deeply"), "{error}");
}
