//! Fuzz target of event streams: the same events for every split of the bytes, memory within the limit, and a round trip
//! through the encoder.

use std::time::Duration;

use crate::{Input, Plan, expand};
use bytes::{Bytes, BytesMut};
use mcpjoin_proto::codec::HEAD_BYTES;
use mcpjoin_proto::codec::sse::{
    Event, MAX_FIELD_BYTES, MAX_RETRY, MIN_RETRY, OutgoingEvent, SseDecoder, SseEvent, clamp_retry,
    write_comment,
};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.pick(&[0, 1, 2, 7, 64, HEAD_BYTES - 1, HEAD_BYTES, 20_000, 100_000]);
    let plan = input.plan();
    let rest = input.rest();
    let stream = expand(rest);
    let whole = events(&[&stream], limit);
    assert_same(&whole, &events(&plan.pieces(&stream), limit));
    for event in &whole {
        match event {
            SseEvent::Event(event) | SseEvent::Unfinished(event) => {
                assert!(event.data.len() <= limit && !event.data.contains(&b'\r'));
                assert!(event.id.as_ref().is_none_or(|id| id.len() <= MAX_FIELD_BYTES && !id.contains(&0)));
            }
            SseEvent::TooLong { head, .. } => assert!(head.len() <= HEAD_BYTES),
            SseEvent::Retry(wanted) => {
                assert!((MIN_RETRY..=MAX_RETRY).contains(&clamp_retry(*wanted)));
            }
            SseEvent::Id(_) | SseEvent::Comment => {}
        }
    }
    round_trip(rest, &plan);
}

fn events(pieces: &[&[u8]], limit: usize) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        events.extend(std::iter::from_fn(|| decoder.poll_event()));
        if pieces.len() > 1 {
            // The data and the unfinished line, each in a buffer that may have doubled its capacity, and the two fields.
            let most = 4 * (limit + MAX_FIELD_BYTES + Plan::LARGEST);
            assert!(decoder.capacity() <= most, "{} bytes are held", decoder.capacity());
        }
    }
    decoder.finish();
    events.extend(std::iter::from_fn(|| decoder.poll_event()));
    assert_eq!(decoder.poll_event(), None, "all is said");
    events
}

/// Compares events, except for the excerpt of an event that is too long: it depends on the bytes that had arrived.
fn assert_same(left: &[SseEvent], right: &[SseEvent]) {
    assert_eq!(left.len(), right.len(), "{left:?} and {right:?}");
    for pair in left.iter().zip(right) {
        match pair {
            (SseEvent::TooLong { head: left, id: one }, SseEvent::TooLong { head: right, id: other }) => {
                assert!(left.starts_with(right) || right.starts_with(left), "{left:?} and {right:?}");
                assert_eq!(one, other);
            }
            (left, right) => assert_eq!(left, right),
        }
    }
}

/// Checks that an event with any text survives a round trip.
fn round_trip(bytes: &[u8], plan: &Plan) {
    let mut parts = bytes.splitn(3, |byte| *byte == 0xFF);
    let mut text = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (name, id) = (text(), text());
    let data = parts.next().unwrap_or(bytes);
    let retry = Some(Duration::from_millis(bytes.len() as u64));
    let mut out = BytesMut::new();
    let writing = OutgoingEvent { id, name, retry, data };
    if writing.write(&mut out).is_err() {
        let forbidden = ['\r', '\n', '\0'];
        assert!(
            id.is_some_and(|id| id.contains(forbidden)) || name.is_some_and(|name| name.contains(forbidden))
        );
        assert!(out.is_empty(), "nothing is written of what cannot be");
        return;
    }
    write_comment("still here", &mut out);
    let read = events(&plan.pieces(&out), usize::MAX / 8);
    let expected = Event {
        name: name.filter(|name| !name.is_empty()).map(|name| Bytes::copy_from_slice(name.as_bytes())),
        data: joined(data).into(),
        id: id.map(|id| Bytes::copy_from_slice(id.as_bytes())),
    };
    assert_eq!(read, [SseEvent::Retry(bytes.len() as u64), SseEvent::Event(expected), SseEvent::Comment]);
}

/// Replaces every line break with a line feed.
fn joined(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut bytes = data.iter().peekable();
    while let Some(&byte) = bytes.next() {
        if byte == b'\r' {
            bytes.next_if(|next| **next == b'\n');
            out.push(b'\n');
        } else {
            out.push(byte);
        }
    }
    out
}
