//! The body of a response: read whole, up to a limit, and decoded.
//!
//! Called by `exchange`, `session` and `resend`; the messages of an event stream are decoded here, too. A body is never
//! decompressed: no request of ours accepts a compressed one.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::Version;
use http::header::{self, HeaderValue};
use mcpjoin_proto::codec::oversized::{OversizedKind, OversizedMessage, read_start};
use mcpjoin_proto::decode::{Decoded, Shape, decode};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::session::{Inbound, Origin};
use mcpjoin_proto::{DecodeError, DecodeErrorKind, DecodeLimits, Message, RequestId, Response as Reply};

use super::event_stream::{EventStream, StreamItem};
use super::requester::{Requester, media_type};
use super::response_error::MAX_EXCERPT_BYTES;
use crate::http::{Response, root};

/// How much of a body that is too long is kept, to learn the id of its message.
const MAX_START_BYTES: usize = 4 * 1024;

/// Decodes one text. `pending`: the request that waits for it, which an error without an id belongs to.
pub(super) fn decode_message(
    text: &Bytes,
    limits: &DecodeLimits,
    origin: &Arc<Origin>,
    pending: Option<&RequestId>,
) -> Inbound {
    let origin = Arc::clone(origin);
    match decode(text, limits) {
        Ok(Decoded::Message(Message::Response(Reply { id: None, outcome }))) => {
            Inbound::Message { message: Message::Response(Reply { id: pending.cloned(), outcome }), origin }
        }
        Ok(Decoded::Message(message)) => Inbound::Message { message, origin },
        Ok(Decoded::Batch(parts)) => Inbound::Batch { parts, exchange: None, origin },
        Err(error) => Inbound::Malformed { error, excerpt: excerpt(text), origin },
    }
}

/// The message of which only the beginning was kept. `pending`: the request that it belongs to if the beginning has no id.
pub(super) fn too_long(
    head: &[u8],
    limit: usize,
    length: usize,
    origin: &Arc<Origin>,
    pending: Option<&RequestId>,
) -> Inbound {
    let (id, shape) = match read_start(head) {
        Some(OversizedMessage { id, kind: OversizedKind::Request }) => {
            let shape = if id.is_some() { Shape::Request } else { Shape::Unknown };
            (id, shape)
        }
        Some(OversizedMessage { id, .. }) => (id.or_else(|| pending.cloned()), Shape::Response),
        None => (pending.cloned(), Shape::Response),
    };
    let kind = DecodeErrorKind::TooLarge { limit, length };
    let error = DecodeError { kind, at: limit, id, shape, excerpt: Box::default() };
    Inbound::Malformed { error, excerpt: excerpt(head), origin: Arc::clone(origin) }
}

fn excerpt(text: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&text[..text.len().min(MAX_EXCERPT_BYTES)])
}

/// Whether a message ends a pending request: its response, also in a batch, or a malformed message with its id.
pub(super) fn answers(inbound: &Inbound, pending: &RequestId) -> bool {
    let answers =
        |message: &Message| matches!(message, Message::Response(reply) if reply.id.as_ref() == Some(pending));
    let breaks = |error: &DecodeError| error.shape != Shape::Request && error.id.as_ref() == Some(pending);
    match inbound {
        Inbound::Message { message, .. } => answers(message),
        Inbound::Batch { parts, .. } => parts.iter().any(|part| match part {
            Ok(message) => answers(message),
            Err(error) => breaks(error),
        }),
        Inbound::Malformed { error, .. } => breaks(error),
        _ => false,
    }
}

/// Reads a response until it has the response to a request of the transport itself. Other messages are dropped.
pub(super) async fn read_reply(
    requester: &Requester,
    mut response: Response,
    pending: &RequestId,
) -> Option<Inbound> {
    let limits = &requester.limits;
    if media_type(&response) != MediaType::EventStream {
        let Content::Text(text) = read_body(response, limits.message).await else { return None };
        let inbound = decode_message(&text, &limits.decode, &requester.origin, Some(pending));
        return answers(&inbound, pending).then_some(inbound);
    }
    let mut events = EventStream::new(limits.message, &requester.event_hash);
    loop {
        match events.next(&mut response, &limits.decode, &requester.origin, Some(pending)).await {
            StreamItem::Inbound(inbound, _) if answers(&inbound, pending) => return Some(inbound),
            StreamItem::Inbound(..) | StreamItem::Other(_) => {}
            StreamItem::Ended | StreamItem::Broken(_) => return None,
        }
    }
}

/// A body that was read.
pub(super) enum Content {
    Text(Bytes),
    /// Longer than the limit: its beginning, and how many bytes had arrived.
    TooLong {
        head: Bytes,
        length: usize,
    },
    /// It broke off, described for people.
    Broken(String),
    /// It is compressed, described for people.
    Compressed(String),
}

/// Reads a body up to a limit. A body of one chunk is not copied.
pub(super) async fn read_body(mut response: Response, limit: usize) -> Content {
    if let Some(coding) = compressed(&response) {
        return Content::Compressed(coding);
    }
    let mut first = Bytes::new();
    let mut text = BytesMut::new();
    loop {
        let chunk = match response.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(error) => return Content::Broken(format!("the response body was cut off: {}", root(&error))),
        };
        let length = first.len() + text.len() + chunk.len();
        if length > limit {
            let mut head = BytesMut::from(&first[..first.len().min(MAX_START_BYTES)]);
            for piece in [&text[..], &chunk[..]] {
                head.extend_from_slice(
                    &piece[..piece.len().min(MAX_START_BYTES - head.len().min(MAX_START_BYTES))],
                );
            }
            return Content::TooLong { head: head.freeze(), length };
        }
        if first.is_empty() && text.is_empty() {
            first = chunk;
            continue;
        }
        if text.is_empty() {
            let expected = response.content_length().and_then(|length| usize::try_from(length).ok());
            text.reserve(expected.unwrap_or(length).min(limit));
            text.extend_from_slice(&std::mem::take(&mut first));
        }
        text.extend_from_slice(&chunk);
    }
    Content::Text(if text.is_empty() { first } else { text.freeze() })
}

/// Whether the end of the connection ends the body, so that a body that was cut off looks like a whole one
/// ([RFC 9112, 6.3](https://www.rfc-editor.org/rfc/rfc9112#section-6.3)).
pub(super) fn ends_with_connection(response: &Response) -> bool {
    let headers = response.headers();
    matches!(response.version(), Version::HTTP_09 | Version::HTTP_10 | Version::HTTP_11)
        && !headers.contains_key(header::CONTENT_LENGTH)
        && !headers.contains_key(header::TRANSFER_ENCODING)
}

/// The problem for people, if the body is compressed although no request of ours accepts that.
pub(super) fn compressed(response: &Response) -> Option<String> {
    let coding = response.headers().get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes)?;
    let plain = coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
    let coding = &coding[..coding.len().min(40)];
    (!plain).then(|| {
        format!("the body is compressed ({}), although this was not requested", coding.escape_ascii())
    })
}
