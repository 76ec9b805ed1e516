use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;

fn fault(text: impl AsRef<[u8]>) -> (ScanErrorKind, usize) {
    let error = value(text.as_ref()).expect_err("should be refused");
    (error.kind, error.at)
}

#[test]
fn values_of_every_kind_are_found_inside_white_space() {
    for text in [
        "{}",
        "[]",
        "0",
        "-0",
        "-1.5e+10",
        "1E5",
        "true",
        "false",
        "null",
        "\"\"",
        "\"é\\u00e9\"",
        "[1,{\"a\":[]}]",
        "{\"a\":{}}",
    ] {
        assert_eq!(value(text.as_bytes()), Ok(0..text.len()), "{text}");
        assert_eq!(value(format!(" \r\n\t{text} \n").as_bytes()), Ok(4..4 + text.len()), "{text}");
    }
}

#[test]
fn faults_have_their_kind_and_place() {
    use ScanErrorKind::*;
    for (text, kind, at) in [
        ("", Empty, 0),
        ("  ", Empty, 2),
        ("{", Truncated, 1),
        ("[1", Truncated, 2),
        ("[1,", Truncated, 3),
        ("{\"a\"", Truncated, 4),
        ("{\"a\":", Truncated, 5),
        ("\"abc", Truncated, 4),
        ("\"abc\\", Truncated, 5),
        ("\"\\u00", Truncated, 5),
        ("\"\\ud800", Truncated, 7),
        ("\"\\ud800\\", Truncated, 8),
        ("\"\\ud800\\udc", Truncated, 11),
        ("-", Truncated, 1),
        ("1.", Truncated, 2),
        ("1e", Truncated, 2),
        ("tru", Truncated, 3),
        ("trap", Unexpected(b'a'), 2),
        ("nul1", Unexpected(b'1'), 3),
        ("[1,]", Unexpected(b']'), 3),
        ("[1}", Unexpected(b'}'), 2),
        ("{\"a\":1]", Unexpected(b']'), 6),
        ("{,}", Unexpected(b','), 1),
        ("{\"a\":1,}", Unexpected(b'}'), 7),
        ("{\"a\" 1}", Unexpected(b'1'), 5),
        ("{a:1}", Unexpected(b'a'), 1),
        ("[\u{e9}]", Unexpected(0xc3), 1),
        ("'a'", Unexpected(b'\''), 0),
        ("NaN", Unexpected(b'N'), 0),
        ("+1", Unexpected(b'+'), 0),
        (".5", Unexpected(b'.'), 0),
        ("01", Number, 1),
        ("-a", Number, 1),
        ("1.a", Number, 2),
        ("1e+a", Number, 3),
        ("\"a\nb\"", Control(b'\n'), 2),
        ("\"\0\"", Control(0), 1),
        ("\"a\\x\"", Escape, 2),
        ("\"\\u12g4\"", Escape, 1),
        ("\"\\u12\"", Escape, 1),
        ("\"\\ud800\"", Surrogate, 1),
        ("\"\\ud800x\"", Surrogate, 1),
        ("\"\\ud800\\n\"", Surrogate, 1),
        ("\"\\ud800\\ud800\"", Surrogate, 1),
        ("\"\\udc00\"", Surrogate, 1),
        ("1 2", Trailing, 2),
        ("{}{}", Trailing, 2),
        ("1\0", Trailing, 1),
        ("{\"a\":1,\"b\":2,\"a\":3}", DuplicateKey, 14),
        ("{\"a\":1,\"\\u0061\":3}", DuplicateKey, 8),
        ("{\"\\u0061\":1,\"a\":3}", DuplicateKey, 13),
    ] {
        assert_eq!(fault(text), (kind, at), "{text:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_found_where_they_lie() {
    for (text, at) in [
        (&b"\"ab\xff\""[..], 3),
        (b"\"\xc3\"", 1),
        (b"\"\xed\xa0\x80\"", 1),
        (b"\"\xc0\x80\"", 1),
        (b"\"\xf5\x80\x80\x80\"", 1),
        (b"\"0123456789012345678901234567890123456789\xe2\x82\"", 41),
        (b"\"\xff\n\"", 1),
        (b"[\xff]", 1),
    ] {
        assert_eq!(fault(text), (ScanErrorKind::Utf8, at), "{}", text.escape_ascii());
    }
    // Cut off inside a character: the text is truncated, not wrong.
    assert_eq!(fault(b"\"\xe2\x82"), (ScanErrorKind::Truncated, 3));
}

#[test]
fn a_fault_is_found_at_every_place_of_a_long_string() {
    for length in 0..200 {
        for (bad, kind) in [
            (&b"\x01"[..], ScanErrorKind::Control(1)),
            (b"\xff", ScanErrorKind::Utf8),
            (b"\\q", ScanErrorKind::Escape),
            (b"\\ud800", ScanErrorKind::Surrogate),
        ] {
            let mut text = Vec::from(&b"\""[..]);
            text.extend_from_slice("x".repeat(length).as_bytes());
            text.extend_from_slice(bad);
            text.extend_from_slice(&[b'y'; 70]);
            text.push(b'"');
            assert_eq!(fault(&text), (kind, length + 1), "{length}");
        }
    }
}

#[test]
fn other_encodings_are_named() {
    let utf16 = |mark: bool, be: bool| -> Vec<u8> {
        let text = if mark { "\u{feff}{\"id\":1}" } else { "{\"id\":1}" };
        text.encode_utf16()
            .flat_map(|unit| if be { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect()
    };
    for mark in [true, false] {
        assert_eq!(fault(utf16(mark, true)), (ScanErrorKind::Encoding(Encoding::Utf16Be), 0));
        assert_eq!(fault(utf16(mark, false)), (ScanErrorKind::Encoding(Encoding::Utf16Le), 0));
    }
    assert_eq!(fault("\u{feff}{}"), (ScanErrorKind::Encoding(Encoding::Utf8WithMark), 0));
    assert!(ScanErrorKind::Encoding(Encoding::Utf16Le).to_string().contains("UTF-16LE"));
}

#[test]
fn many_keys_are_all_compared() {
    let object = |extra: &str| {
        let keys: Vec<String> = (0..1000).map(|key| format!("\"k{key}\":{key}")).collect();
        format!("{{{},{extra}:0}}", keys.join(","))
    };
    let text = object("\"k1000\"");
    assert_eq!(value(text.as_bytes()), Ok(0..text.len()));
    for repeated in ["\"k0\"", "\"k999\"", "\"\\u006b500\""] {
        let text = object(repeated);
        assert_eq!(
            fault(&text),
            (ScanErrorKind::DuplicateKey, text.len() - 3 - (repeated.len() - 1)),
            "{repeated}"
        );
    }
}

#[test]
fn the_first_of_several_repeated_keys_is_named() {
    let keys: Vec<String> = (0..40).chain([7, 3]).map(|key| format!("\"{key}\":0")).collect();
    let text = format!("{{{}}}", keys.join(","));
    assert_eq!(fault(&text).1, text.rfind("\"7\"").map_or(0, |at| at + 1));
}

#[test]
fn depth_is_pinned() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [1, 127, 128] {
            let inner = if open == "[" { String::new() } else { "0".into() };
            let text = open.repeat(depth) + &inner + &close.repeat(depth);
            assert_eq!(value(text.as_bytes()), Ok(0..text.len()), "{depth}");
        }
        let text = open.repeat(129);
        assert_eq!(fault(&text), (ScanErrorKind::Depth(128), open.len() * 128));
        assert_eq!(fault(open.repeat(100_000)).0, ScanErrorKind::Depth(128));
    }
    // An empty one counts as well.
    assert_eq!(fault("[".repeat(128) + "{}").0, ScanErrorKind::Depth(128));
}

#[test]
fn members_are_walked_in_their_order() {
    let raw =
        Raw::parse(r#" { "a" : 1 , "b\n" : [ 1 , "}" , {"x":[]} ] , "c":"\"," , "d" : {} , "e":-1.5e3 } "#)
            .unwrap();
    let found: Vec<_> = members(&raw).map(|(key, range)| (key.into_owned(), &raw.as_str()[range])).collect();
    let expected =
        [("a", "1"), ("b\n", r#"[ 1 , "}" , {"x":[]} ]"#), ("c", r#""\",""#), ("d", "{}"), ("e", "-1.5e3")];
    assert_eq!(found, expected.map(|(key, text)| (key.to_string(), text)));
    assert_eq!(raw.member("d"), Some(Raw::empty_object()));
    assert_eq!(raw.member("x"), None);
    for none in ["[1]", "1", "null", "\"{\"", "{}"] {
        assert_eq!(members(&Raw::parse(none).unwrap()).count(), 0);
    }
}

#[test]
fn of_several_members_of_one_name_the_last_is_found() {
    let raw = Raw::parse(r#"[{"a":1,"a":2}]"#).unwrap();
    assert_eq!(raw.slice(1..raw.len() - 1).member("a"), Some(Raw::parse("2").unwrap()));
}

#[test]
fn escapes_are_resolved() {
    for (written, meant) in [
        (r"a\nb", "a\nb"),
        (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r"\u0041\u00e9\u20ac", "Aé€"),
        (r"\ud83d\ude00x", "😀x"),
        (r"\uD83D\uDE00", "😀"),
        (r"\u0000", "\0"),
        ("0123456789012345678901234567890\\n", "0123456789012345678901234567890\n"),
    ] {
        assert_eq!(unescape(written, true), meant);
    }
}

#[test]
fn walking_what_is_not_json_ends() {
    for text in [
        "{",
        "{\"",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{:",
        "{,,,",
        "{\"a\"}",
        "{\"\\",
        "{\"a\":\"\\",
        "[\"\\",
        "[[[",
        "[,,",
    ] {
        assert!(members_of(text).count() < 10);
        assert!(elements(text).count() < 10);
        assert!(skip_value(text.as_bytes(), 0) <= text.len());
    }
    for text in ["\\", "\\u", "\\u12", "\\ud800", "\\ud800\\u", "\\uzzzz"] {
        assert!(unescape(text, true).len() <= 9);
    }
}
