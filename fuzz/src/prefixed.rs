//! Fuzz target of length-prefixed frames: the same frames for every split of the bytes, and no allocation for a length that
//! is only announced.

use crate::{Input, Plan, expand};
use bytes::{BufMut, Bytes, BytesMut};
use mcpjoin_proto::codec::prefixed::{FrameDecoder, FrameError, PREFIX_BYTES, write_frame};
use mcpjoin_proto::codec::{READ_BYTES, WHOLE_BUFFER_BYTES};

type Frames = (Vec<Bytes>, Option<FrameError>);

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.pick(&[0, 1, 7, 255, 4096, 70_000, WHOLE_BUFFER_BYTES]);
    let room = input.byte().is_multiple_of(2);
    let plan = input.plan();
    let stream = expand(input.rest());
    let whole = frames(&[&stream], limit, false);
    assert_eq!(whole, frames(&plan.pieces(&stream), limit, room));
    // The decoded frames, encoded again, are the input up to the error.
    let mut written = BytesMut::new();
    for frame in &whole.0 {
        write_frame(frame, limit, &mut written).expect("a frame that was read is short enough");
    }
    assert!(stream.starts_with(&written));
    assert_eq!(whole.1.is_none(), stream.len() == written.len());
}

fn frames(pieces: &[&[u8]], limit: usize, room: bool) -> Frames {
    let mut decoder = FrameDecoder::new(limit);
    let mut frames = Vec::new();
    let mut error = None;
    for piece in pieces {
        let mut rest = *piece;
        loop {
            if room {
                let mut room = decoder.room();
                let size = room.remaining_mut().min(rest.len());
                room.put_slice(&rest[..size]);
                rest = &rest[size..];
            } else {
                decoder.push(rest);
                rest = &[];
            }
            error = drain(&mut decoder, &mut frames);
            if rest.is_empty() || error.is_some() {
                break;
            }
        }
        if pieces.len() > 1 {
            let most = 2 * (limit + PREFIX_BYTES + READ_BYTES.max(Plan::LARGEST)).max(WHOLE_BUFFER_BYTES);
            assert!(decoder.capacity() <= most, "{} bytes are held", decoder.capacity());
        }
        if error.is_some() {
            break;
        }
    }
    decoder.finish();
    let last = drain(&mut decoder, &mut frames);
    assert!(error.is_none() || error == last, "the first error is the last word");
    (frames, last)
}

fn drain(decoder: &mut FrameDecoder, frames: &mut Vec<Bytes>) -> Option<FrameError> {
    loop {
        match decoder.poll_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return None,
            Err(error) => return Some(error),
        }
    }
}
