//! Fuzz target of the line decoder: the same events for every split of the bytes, and memory within the limit.

use crate::{Input, Plan, expand};
use bytes::BufMut;
use mcpjoin_proto::codec::lines::{LineDecoder, LineEvent, write_line};
use mcpjoin_proto::codec::{HEAD_BYTES, READ_BYTES, WHOLE_BUFFER_BYTES};

/// The way in which the bytes reach the decoder.
#[derive(Clone, Copy)]
enum Way {
    Room,
    Push,
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.pick(&[0, 1, 2, 7, 64, HEAD_BYTES - 1, HEAD_BYTES, 20_000, WHOLE_BUFFER_BYTES]);
    let plan = input.plan();
    let stream = expand(input.rest());
    let whole = events(&[&stream], limit, Way::Push);
    let pieces = plan.pieces(&stream);
    for way in [Way::Push, Way::Room] {
        assert_same(&whole, &events(&pieces, limit, way));
    }
    for event in &whole {
        match event {
            LineEvent::ByteOrderMark => {}
            LineEvent::Line(line) => {
                assert!(line.len() <= limit && !line.contains(&b'\n'));
                // Written again, each line decodes to the same line.
                let mut written = bytes::BytesMut::new();
                write_line(line, &mut written);
                assert_eq!(written.len(), line.len() + 1);
            }
            LineEvent::Last(line) => assert!(line.len() <= limit && !line.contains(&b'\n')),
            LineEvent::TooLong { head, length } => {
                assert!(*length > limit && head.len() == (*length).min(HEAD_BYTES));
            }
        }
    }
}

fn events(pieces: &[&[u8]], limit: usize, way: Way) -> Vec<LineEvent> {
    let mut decoder = LineDecoder::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        match way {
            Way::Push => {
                decoder.push(piece);
                events.extend(std::iter::from_fn(|| decoder.poll_event()));
            }
            Way::Room => {
                let mut rest = *piece;
                while !rest.is_empty() {
                    let mut room = decoder.room();
                    let size = room.remaining_mut().min(rest.len());
                    assert!(size > 0, "there is always room");
                    room.put_slice(&rest[..size]);
                    rest = &rest[size..];
                    events.extend(std::iter::from_fn(|| decoder.poll_event()));
                    let most = (limit + 2 * READ_BYTES).max(2 * WHOLE_BUFFER_BYTES);
                    assert!(decoder.capacity() <= most, "{} bytes are held", decoder.capacity());
                }
            }
        }
        if pieces.len() > 1 {
            // A buffer may double its capacity when it grows.
            let most = 2 * (limit + 2 + Plan::LARGEST).max(WHOLE_BUFFER_BYTES);
            assert!(decoder.capacity() <= most, "{} bytes are held", decoder.capacity());
        }
    }
    decoder.finish();
    events.extend(std::iter::from_fn(|| decoder.poll_event()));
    assert_eq!(decoder.poll_event(), None, "all is said");
    events
}

/// Compares events, except for the excerpt of a line that is too long: it depends on the bytes that had arrived.
fn assert_same(left: &[LineEvent], right: &[LineEvent]) {
    assert_eq!(left.len(), right.len(), "{left:?} and {right:?}");
    for pair in left.iter().zip(right) {
        match pair {
            (LineEvent::TooLong { head: left, .. }, LineEvent::TooLong { head: right, .. }) => {
                assert!(left.starts_with(right) || right.starts_with(left));
            }
            (left, right) => assert_eq!(left, right),
        }
    }
}
