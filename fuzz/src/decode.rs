//! Fuzz target of messages: decoding never panics, a decoded message is encoded unchanged, and serde_json reads the same.

use std::collections::BTreeMap;

use crate::expand;
use bytes::{Bytes, BytesMut};
use mcpjoin_proto::codec::oversized::{OversizedKind, read_start};
use mcpjoin_proto::decode::{Decoded, Shape, decode};
use mcpjoin_proto::scan::ScanErrorKind;
use mcpjoin_proto::{DecodeError, DecodeErrorKind, DecodeLimits, Kind, Message, Payload, RequestId, encode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

pub(crate) fn run(data: &[u8]) {
    let text = Bytes::from(expand(data));
    let limits = DecodeLimits::default();
    let decoded = decode(&text, &limits);
    agrees_on_validity(&text, decoded.as_ref().err());
    beginnings(&text, &decoded, &limits);
    match decoded {
        Ok(Decoded::Message(message)) => {
            agrees_on_content(&text, &message);
            round_trip(message, &limits);
        }
        Ok(Decoded::Batch(parts)) => {
            assert!(!parts.is_empty() && parts.len() <= limits.batch);
            for part in parts {
                match part {
                    Ok(message) => round_trip(message, &limits),
                    Err(error) => presentable(&error, &text),
                }
            }
        }
        Err(error) => presentable(&error, &text),
    }
}

/// Checks that an error points into the text, and that its message contains only printable text.
fn presentable(error: &DecodeError, text: &[u8]) {
    assert!(error.at <= text.len());
    let shown = error.to_error_object();
    assert!(shown.message.len() < 1000);
    assert!(shown.message.chars().all(|character| !character.is_control()), "{:?}", shown.message);
}

/// Checks that serde_json accepts every text that we accept, and rejects every text that we reject as JSON, except for the
/// rules that are ours alone.
fn agrees_on_validity(text: &[u8], error: Option<&DecodeError>) {
    // serde_json does not check surrogate pairs and UTF-8 in ignored values.
    let valid = std::str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok();
    match error.map(|error| &error.kind) {
        Some(DecodeErrorKind::Json(ScanErrorKind::Depth(_) | ScanErrorKind::Surrogate)) => {}
        // The decoder did not read the rest of the batch.
        Some(DecodeErrorKind::BatchTooLong { .. }) => {}
        Some(DecodeErrorKind::Json(kind)) => assert!(!valid, "refused for {kind:?}"),
        _ => assert!(valid, "accepted, and serde_json says it is no JSON"),
    }
}

/// A message as serde_json reads it. Unknown members are ignored.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default, deserialize_with = "there")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    result: Option<&'a RawValue>,
}

/// Keeps a member with the value `null` as present.
fn there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn agrees_on_content(text: &[u8], message: &Message) {
    let theirs: Envelope<'_> = serde_json::from_slice(text).expect("a message is an object");
    let (id, method, payload, raw) = match message {
        Message::Request(request) => {
            (Some(&request.id), Some(request.method.as_str()), request.params.as_ref(), theirs.params)
        }
        Message::Notification(notification) => {
            (None, Some(notification.method.as_str()), notification.params.as_ref(), theirs.params)
        }
        Message::Response(response) => {
            (response.id.as_ref(), None, response.outcome.as_ref().ok(), theirs.result)
        }
    };
    assert_eq!(method, theirs.method.as_deref());
    same_id(id, theirs.id);
    assert_eq!(payload.map(|payload| payload.raw().as_str()), raw.map(RawValue::get));
    if let (Some(payload), Some(raw)) = (payload, raw) {
        same_members(payload, raw);
    }
}

/// Compares ids digit by digit; a string never equals a number.
fn same_id(ours: Option<&RequestId>, theirs: Option<&RawValue>) {
    match (ours, theirs.map(RawValue::get)) {
        (None, None | Some("null")) => {}
        (Some(id), Some(written)) => match id.as_str() {
            Some(id) => assert_eq!(serde_json::from_str::<String>(written).ok().as_deref(), Some(id)),
            None => assert_eq!(id.to_string(), written),
        },
        (ours, theirs) => panic!("{ours:?} and {theirs:?}"),
    }
}

/// Checks that the scanner's spans and the text give the same members, so that both name the same tool.
fn same_members(payload: &Payload, raw: &RawValue) {
    let again = Payload::from_raw(payload.raw().clone());
    if payload.raw().kind() != Kind::Object {
        assert!(payload.name().is_none() && again.name().is_none());
        return;
    }
    let theirs: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).expect("an object");
    for (key, ours, again) in [
        ("_meta", payload.meta(), again.meta()),
        ("name", payload.name(), again.name()),
        ("uri", payload.uri(), again.uri()),
        ("arguments", payload.arguments(), again.arguments()),
        ("resultType", payload.result_type(), again.result_type()),
    ] {
        let theirs = theirs.get(key).map(|raw| raw.get());
        assert_eq!(ours.as_ref().map(|raw| raw.as_str()), theirs, "{key}");
        assert_eq!(again.as_ref().map(|raw| raw.as_str()), theirs, "{key}, looked up");
    }
}

/// Checks that a message is the same after it was written on one line and read again, as a whole and in parts.
fn round_trip(message: Message, limits: &DecodeLimits) {
    let mut line = BytesMut::new();
    encode::message(&message, &mut line);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    let mut parts = BytesMut::new();
    if let Some(rest) = encode::frame(&message, &mut parts) {
        parts.extend_from_slice(&rest.payload);
        parts.extend_from_slice(rest.tail);
    }
    assert_eq!(parts, line);
    let line = line.freeze();
    let Ok(Decoded::Message(again)) = decode(&line, limits) else { panic!("not read again: {line:?}") };
    assert_eq!(on_one_line(again), on_one_line(message));
    let array = Bytes::from([b"[", &line[..], b"]"].concat());
    match decode(&array, limits) {
        Ok(Decoded::Batch(parts)) => assert_eq!(parts.len(), 1),
        // A batch adds one level of nesting.
        Err(error) => assert!(matches!(error.kind, DecodeErrorKind::Json(ScanErrorKind::Depth(_)))),
        Ok(Decoded::Message(_)) => panic!("an array is no message"),
    }
}

/// The payload without line breaks, as it is written.
fn on_one_line(message: Message) -> (Option<RequestId>, Option<String>, String) {
    let flat = |payload: Option<&Payload>| {
        payload.map_or(String::new(), |payload| payload.raw().as_str().replace(['\r', '\n'], " "))
    };
    match message {
        Message::Request(request) => {
            (Some(request.id), Some(request.method.as_str().to_owned()), flat(request.params.as_ref()))
        }
        Message::Notification(notification) => {
            (None, Some(notification.method.as_str().to_owned()), flat(notification.params.as_ref()))
        }
        Message::Response(response) => match response.outcome {
            Ok(result) => (response.id, None, flat(Some(&result))),
            Err(error) => {
                let data = error.data.as_ref().map(|data| data.as_str().replace(['\r', '\n'], " "));
                (response.id, None, format!("{} {:?} {data:?}", error.code, error.message))
            }
        },
    }
}

/// Checks that the result for a prefix of a message agrees with the result for the whole message.
fn beginnings(text: &Bytes, whole: &Result<Decoded, DecodeError>, limits: &DecodeLimits) {
    let Ok(Decoded::Message(message)) = whole else {
        let _ = read_start(text);
        return;
    };
    let (id, asks) = match message {
        Message::Request(request) => (Some(&request.id), true),
        Message::Notification(_) => (None, true),
        Message::Response(response) => (response.id.as_ref(), false),
    };
    let end = text.trim_ascii_end().len();
    // A few positions are enough: other inputs test other positions.
    for cut in [end / 4, end / 2, end - end / 4, end.saturating_sub(1)] {
        let head = text.slice(..cut);
        match decode(&head, limits) {
            Ok(_) => panic!("the beginning of an object is no message"),
            Err(error) => {
                assert!(error.id.is_none() || error.id.as_ref() == id, "{:?} of {id:?}", error.id);
                match error.shape {
                    // It looks like a notification until its id is read.
                    Shape::Request | Shape::Notification => assert!(asks),
                    Shape::Response => assert!(!asks),
                    Shape::Unknown => {}
                }
            }
        }
        let Some(oversized) = read_start(&head) else { continue };
        assert!(oversized.id.is_none() || oversized.id.as_ref() == id, "{:?} of {id:?}", oversized.id);
        match oversized.kind {
            OversizedKind::Request => assert!(asks),
            OversizedKind::Response => assert!(!asks),
            OversizedKind::Unknown => {}
        }
    }
}
