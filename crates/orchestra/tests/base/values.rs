//! JSON and `google.protobuf.Struct` in both directions.

use bytes::Bytes;
use mcpjoin::proto::Raw;
use mcpjoin_orchestra::value::{MAX_DEPTH, Numbers, Struct, ValueError, ValueErrorKind};
use prost::Message as _;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap_or_else(|error| panic!("{error}: {}", &text[..text.len().min(80)]))
}

fn sent(text: &str) -> Result<Struct, ValueError> {
    Struct::from_json(&raw(text), Numbers::Exact)
}

/// The JSON after encoding and decoding.
fn back(value: &Struct) -> String {
    let bytes = Bytes::from(value.encode_to_vec());
    Struct::decode(bytes).unwrap().to_json().unwrap().json.as_str().to_owned()
}

/// `{"k": NUMBER}`, encoded and decoded.
fn number(text: &str, numbers: Numbers) -> Result<String, ValueErrorKind> {
    let value = Struct::from_json(&raw(&format!("{{\"k\":{text}}}")), numbers).map_err(|error| error.kind)?;
    let json = back(&value);
    Ok(json.strip_prefix("{\"k\":").unwrap().strip_suffix('}').unwrap().to_owned())
}

#[test]
fn what_goes_there_comes_back() {
    for (there, here) in [
        ("{}", "{}"),
        (r#"{"b":1,"a":[true,false,null,"x",{"":[]}]}"#, r#"{"a":[true,false,null,"x",{"":[]}],"b":1}"#),
        (
            r#" { "a" : [ 1 , 2.5 ] , "c" : "\u00e9\n\ud83d\ude00\"\\\/" } "#,
            "{\"a\":[1,2.5],\"c\":\"é\\n😀\\\"\\\\/\"}",
        ),
        ("{\"k\":\"\\u0000\\u001f\\b\\f\\r\\t\"}", "{\"k\":\"\\u0000\\u001f\\b\\f\\r\\t\"}"),
        (r#"{"<&>":"<&>\u2028"}"#, "{\"<&>\":\"<&>\u{2028}\"}"),
        (r#"{"é":1,"z":2,"Z":3}"#, r#"{"Z":3,"z":2,"é":1}"#),
    ] {
        assert_eq!(back(&sent(there).unwrap()), here);
    }
}

#[test]
fn the_text_of_the_original_is_that_of_go() {
    let value =
        sent(r#"{"b":"<a href=\"x\">&\u2028\u2029\u007f","a":[1.50,1e21,-1e-7,100,0.000001]}"#).unwrap();
    let text = "{\"a\":[1.5,1e+21,-1e-7,100,0.000001],\"b\":\"\\u003ca href=\\\"x\\\"\\u003e\\u0026\\u2028\\u2029\u{7f}\"}";
    assert_eq!(value.to_go_text().unwrap(), text);
}

#[test]
fn of_two_members_of_one_name_the_last_counts() {
    assert_eq!(back(&sent(r#"{"o":{"a":1,"b":2,"a":3}}"#).unwrap()), r#"{"o":{"a":3,"b":2}}"#);
}

#[test]
fn numbers_that_a_float_holds_come_back_as_they_were() {
    for (there, here) in [
        ("0", "0"),
        ("-0", "-0"),
        ("-0.0", "-0"),
        ("2", "2"),
        ("2.0", "2"),
        ("-17", "-17"),
        ("9007199254740992", "9007199254740992"),
        ("-9007199254740992", "-9007199254740992"),
        ("9007199254740994", "9007199254740994"),
        ("9007199254740994.0", "9007199254740994"),
        ("18014398509481984", "18014398509481984"),
        ("-1152921504606846976", "-1152921504606846976"),
        ("1152921504606846976.0", "1152921504606846976"),
        ("1.152921504606847e+18", "1152921504606846976"),
        ("1700000000000000000", "1700000000000000000"),
        ("1.7e18", "1700000000000000000"),
        ("100000000000000000000", "100000000000000000000"),
        ("10000000000000000000000", "1e+22"),
        ("0.1000000000000000055511151231257827021181583404541015625", "0.1"),
        ("0.1", "0.1"),
        ("0.10000000000000001", "0.1"),
        ("3.141592653589793", "3.141592653589793"),
        ("1e3", "1000"),
        ("1E+20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("5e-324", "5e-324"),
        ("1e-7", "1e-7"),
        ("0e99999999999", "0"),
        ("0.000", "0"),
    ] {
        assert_eq!(number(there, Numbers::Exact).as_deref(), Ok(here), "{there}");
    }
}

#[test]
fn numbers_that_a_float_rounds_are_refused_unless_that_is_wanted() {
    for (there, rounded) in [
        ("9007199254740993", "9007199254740992"),
        ("-9007199254740993", "-9007199254740992"),
        ("9007199254740993.0", "9007199254740992"),
        ("12345678901234567890", "12345678901234567168"),
        // JavaScript prints 2^60 like this, with digits that are another number.
        ("1152921504606847000", "1152921504606846976"),
        ("100000000000000000000000", "1e+23"),
        ("3.14159265358979323846", "3.141592653589793"),
        ("0.10000000000000000555111512312578270212", "0.1"),
        ("1e-400", "0"),
    ] {
        let refused = number(there, Numbers::Exact);
        assert_eq!(refused, Err(ValueErrorKind::Rounded(there.to_owned())), "{there}");
        assert_eq!(number(there, Numbers::Lossy).as_deref(), Ok(rounded), "{there}");
    }
    for numbers in [Numbers::Exact, Numbers::Lossy] {
        let refused = number("1e400", numbers);
        assert_eq!(refused, Err(ValueErrorKind::TooLarge("1e400".to_owned())), "{numbers:?}");
    }
    let long = format!("1{}", "0".repeat(400));
    let Err(ValueErrorKind::TooLarge(shown)) = number(&long, Numbers::Exact) else { panic!("too large") };
    assert!(shown.len() < 50, "{shown}");
}

/// A small random generator (xorshift) with a fixed sequence.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % u64::from(sides)) as u32
    }

    /// A whole number of up to 126 bits, half of the time near a float.
    fn whole(&mut self) -> u128 {
        let bits = 1 + self.roll(126);
        let any = (0..4).fold(0, |value: u128, _| value << 32 | u128::from(self.roll(u32::MAX)));
        let value = 1 << (bits - 1) | any & ((1 << (bits - 1)) - 1);
        let float = value >> bits.saturating_sub(53) << bits.saturating_sub(53);
        match self.roll(4) {
            0 => value,
            1 => float,
            2 => float + 1,
            _ => (float - 1).max(1),
        }
    }
}

/// Whole numbers of all sizes in several notations. Those that are floats pass with their own digits; of the others
/// only those in the form in which a program prints a float.
#[test]
fn whole_numbers_pass_when_they_are_floats_whatever_their_size_and_form() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut passed = 0;
    for _ in 0..20_000 {
        let value = dice.whole();
        let float = value as f64;
        let is_float = 128 - value.leading_zeros() - value.trailing_zeros() <= 53;
        let digits = value.to_string();
        let (first, rest) = digits.split_at(1 + dice.roll(digits.len() as u32) as usize);
        let forms = [
            (digits.clone(), true),
            (format!("{digits}.000"), false),
            (format!("{first}.{rest}0e{}", rest.len()), false),
            (format!("{first}{rest}0E-1"), false),
        ];
        for (form, alone) in forms {
            for (sign, signed) in [("", float), ("-", -float)] {
                let sent = sent(&format!("{{\"k\":{sign}{form}}}"));
                let shortest = format!("{float:e}").split('e').next().unwrap().replace('.', "");
                let as_printed = !alone && digits.trim_end_matches('0') == shortest;
                assert_eq!(sent.is_ok(), is_float || as_printed, "{sign}{form}");
                let Ok(sent) = sent else { continue };
                passed += 1;
                let json = sent.to_json().unwrap();
                let back = json.json.member("k").unwrap();
                assert_eq!(back.as_str().parse::<f64>(), Ok(signed), "{form}");
                let as_integer = float < 1e21;
                if as_integer && is_float {
                    assert_eq!(back.as_str(), format!("{sign}{digits}"));
                }
                let reported = as_integer && float >= 9_007_199_254_740_992.0;
                assert_eq!(json.beyond_exact.is_some(), reported, "{form}");
            }
        }
    }
    assert!(passed > 20_000, "{passed}");
}

#[test]
fn a_number_that_may_have_been_rounded_by_its_sender_is_reported() {
    let reported = |text: &str| sent(text).unwrap().to_json().unwrap().beyond_exact;
    assert_eq!(reported(r#"{"rows":[{"id":1},{"id":1e20}]}"#).as_deref(), Some("rows[1].id"));
    // 2^53 + 1 would have the same result.
    assert_eq!(reported(r#"{"id":-9007199254740992}"#).as_deref(), Some("id"));
    // None of these can be a rounded integer: they are smaller, or written as floats.
    assert_eq!(reported(r#"{"id":9007199254740991,"a":0.1,"b":1e21,"c":-1e300}"#), None);
}

#[test]
fn numbers_that_json_has_not_become_strings_and_are_reported() {
    for (float, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")] {
        let mut bytes = b"\x0a\x0e\x0a\x01k\x12\x09\x11".to_vec();
        bytes.extend_from_slice(&float.to_le_bytes());
        let json = Struct::decode(Bytes::from(bytes)).unwrap().to_json().unwrap();
        assert_eq!(json.json.as_str(), format!("{{\"k\":\"{text}\"}}"));
        assert_eq!(json.not_finite.as_deref(), Some("k"));
    }
}

#[test]
fn only_an_object_can_be_sent() {
    for text in ["[]", "1", "null", "\"x\"", "true"] {
        assert_eq!(sent(text).unwrap_err().kind, ValueErrorKind::NotAnObject, "{text}");
    }
}

/// A `Struct` of this many nested objects.
fn nested(depth: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 1..depth {
        let mut value = Vec::new();
        prost::encoding::bytes::encode(5, &body, &mut value);
        let mut entry = b"\x0a\x01k".to_vec();
        prost::encoding::bytes::encode(2, &value, &mut entry);
        body.clear();
        prost::encoding::bytes::encode(1, &entry, &mut body);
    }
    body
}

#[test]
fn h153_depth_is_bounded_both_ways() {
    let deepest = format!("{}1{}", "{\"k\":".repeat(MAX_DEPTH), "}".repeat(MAX_DEPTH));
    let value = sent(&deepest).unwrap();
    assert_eq!(back(&value), deepest);
    assert!(Struct::decode(Bytes::from(nested(MAX_DEPTH))).unwrap().to_json().is_ok());
    for depth in [MAX_DEPTH + 1, 10_000] {
        let error = Struct::decode(Bytes::from(nested(depth))).unwrap().to_json().unwrap_err();
        assert_eq!(error.kind, ValueErrorKind::Depth, "{depth}");
    }
}

#[test]
fn what_is_longer_than_a_frame_is_refused_before_it_is_made() {
    for text in [
        format!("{{\"k\":\"{}\"}}", "x".repeat(17 << 20)),
        format!("{{\"k\":[{}0]}}", "0,".repeat(5 << 20)),
        format!("{{\"k\":[{}0]}}", "0,".repeat(1_600_000)),
    ] {
        assert_eq!(sent(&text).unwrap_err().kind, ValueErrorKind::TooLong);
    }
}

#[test]
fn h153_hostile_values_are_errors_and_never_panics() {
    let cases: [(&str, &[u8]); 9] = [
        ("an entry of another wire type", b"\x0a\x02\x08\x01"),
        ("a key that is not UTF-8", b"\x0a\x03\x0a\x01\xff"),
        ("text that is not UTF-8", b"\x0a\x08\x0a\x01k\x12\x03\x1a\x01\xff"),
        ("a number that is cut off", b"\x0a\x07\x0a\x01k\x12\x02\x11\x00"),
        ("a length beyond the end", b"\x0a\x05\x0a\x09k\x12\x00"),
        ("a bool with a length", b"\x0a\x07\x0a\x01k\x12\x02\x22\x00"),
        ("a varint without end", b"\x0a\x0f\x0a\x01k\x12\x0a\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("an entry with two values", b"\x0a\x07\x0a\x01k\x12\x00\x12\x00"),
        ("a list in two parts", b"\x0a\x09\x0a\x01k\x12\x04\x32\x00\x32\x00"),
    ];
    for (what, bytes) in cases {
        let value = Struct::decode(Bytes::copy_from_slice(bytes)).unwrap();
        assert!(value.to_json().is_err(), "{what}: {:?}", value.to_json());
    }
    assert!(Struct::decode(&b"\x08\x01"[..]).is_err(), "fields that are a number");
    // No value, an empty value, and a value of a later version.
    for bytes in
        [&b"\x0a\x03\x0a\x01k"[..], b"\x0a\x05\x0a\x01k\x12\x00", b"\x0a\x08\x0a\x01k\x12\x03\x7a\x01x"]
    {
        assert_eq!(back(&Struct::decode(bytes).unwrap()), r#"{"k":null}"#);
    }
}

#[test]
fn every_cut_and_every_bent_byte_is_an_error_or_a_value() {
    let whole = sent(r#"{"a":[1,"x",{"b":null}],"é":true,"n":-2.5}"#).unwrap().encode_to_vec();
    for end in 0..whole.len() {
        if let Ok(value) = Struct::decode(&whole[..end]) {
            let _ = value.to_json();
        }
        for bits in 1..=u8::MAX {
            let mut bent = whole.clone();
            bent[end] ^= bits;
            if let Ok(value) = Struct::decode(&bent[..])
                && let Ok(json) = value.to_json()
            {
                assert_eq!(Raw::parse(json.json.as_str().to_owned()).unwrap(), json.json);
                assert!(value.to_go_text().is_ok());
            }
        }
    }
}
