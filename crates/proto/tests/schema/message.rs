//! Decodes and encodes whole messages for the schema tests, with their params or results as typed values.
//!
//! Up to 2025-06-18 the schemas define a request as `method` and `params` only, and 2026-07-28 does so for requests of the
//! server to its client. The missing members of such an instance are added before decoding and removed after encoding.

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::{DecodeLimits, Message, Method, Payload, Raw, encode};
use serde_json::{Value, json};

/// Decodes a text as a type and encodes the value.
pub(crate) type RoundTrip = fn(&Raw) -> Result<Raw, String>;

/// The types of the payloads of a message; a payload without a type is not converted.
#[derive(Clone, Copy)]
pub(crate) struct Payloads {
    pub(crate) params: fn(&Method) -> Option<RoundTrip>,
    pub(crate) result: Option<RoundTrip>,
    pub(crate) error: Option<RoundTrip>,
}

/// Decodes and encodes a message, a batch, or the `method` and `params` of a message.
pub(crate) fn round_trip(instance: &Value, payloads: Payloads) -> Result<Value, String> {
    let mut whole = instance.clone();
    let mut added = Vec::new();
    if let Some(object) = whole.as_object_mut() {
        let method = object.get("method").and_then(Value::as_str);
        let is_request = method.is_some_and(|method| !method.starts_with("notifications/"));
        let lacks_id = is_request && !object.contains_key("id") && !object.contains_key("jsonrpc");
        if !object.contains_key("jsonrpc") {
            added.push(("jsonrpc", json!("2.0")));
        }
        if lacks_id {
            added.push(("id", json!(1)));
        }
        if object.contains_key("error") && !object.contains_key("id") {
            // JSON-RPC 2.0: "If there was an error in detecting the id in the Request object, it MUST be Null".
            // The schema permits no null here, and has no id in that case.
            added.push(("id", Value::Null));
        }
        object.extend(added.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    }
    let limits = DecodeLimits::default();
    let decoded = decode(&Bytes::from(whole.to_string()), &limits).map_err(|error| error.to_string())?;
    let mut out = BytesMut::new();
    match decoded {
        Decoded::Message(message) => encode::message(&retyped(message, payloads)?, &mut out),
        Decoded::Batch(parts) => {
            let mut messages = Vec::new();
            for part in parts {
                messages.push(retyped(part.map_err(|error| error.to_string())?, payloads)?);
            }
            encode::batch(&messages, &mut out);
        }
    }
    let mut after: Value = serde_json::from_slice(&out).map_err(|error| error.to_string())?;
    if let Some(object) = after.as_object_mut() {
        for (name, value) in added {
            if object.remove(name) != Some(value) {
                return Err(format!("{name} has changed"));
            }
        }
    }
    Ok(after)
}

fn retyped(message: Message, payloads: Payloads) -> Result<Message, String> {
    Ok(match message {
        Message::Request(mut request) => {
            request.params = params(request.params, (payloads.params)(&request.method))?;
            request.into()
        }
        Message::Notification(mut notification) => {
            notification.params = params(notification.params, (payloads.params)(&notification.method))?;
            notification.into()
        }
        Message::Response(mut response) => {
            match (&mut response.outcome, payloads.result, payloads.error) {
                (Ok(result), Some(round_trip), _) => *result = Payload::from_raw(round_trip(result.raw())?),
                (Err(error), _, Some(round_trip)) => {
                    error.data = error.data.as_ref().map(round_trip).transpose()?;
                }
                _ => {}
            }
            response.into()
        }
    })
}

fn params(params: Option<Payload>, round_trip: Option<RoundTrip>) -> Result<Option<Payload>, String> {
    match (params, round_trip) {
        (Some(params), Some(round_trip)) => Ok(Some(Payload::from_raw(round_trip(params.raw())?))),
        (params, _) => Ok(params),
    }
}
