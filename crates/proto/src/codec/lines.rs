//! Newline-delimited JSON: one message per line, as in the [stdio
//! transport](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio) and on every other byte
//! stream.
//!
//! Used by the links over pipes, sockets and QUIC streams. The content of lines is not parsed; blank lines are skipped.

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};
use memchr::{memchr, memchr2};

use super::{HEAD_BYTES, READ_BYTES, ReadBuffer};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An event of a stream of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineEvent {
    /// The stream started with a UTF-8 byte order mark, which was dropped.
    ByteOrderMark,
    /// A line that is not blank, without its line ending.
    Line(Bytes),
    /// A line longer than the limit. Reported once, as soon as the limit is exceeded. The rest of the line is dropped,
    /// and the next line is read as usual.
    TooLong {
        /// The start of the line, at most [`HEAD_BYTES`]; see [`read_start`](super::oversized::read_start).
        head: Bytes,
        /// The number of bytes received so far. The line may be longer.
        length: usize,
    },
    /// The text behind the last line feed at the end of the stream: a complete message without a line feed, or a
    /// truncated one.
    Last(Bytes),
}

/// Splits a byte stream into lines.
///
/// ```
/// use mcpjoin_proto::codec::lines::{LineDecoder, LineEvent};
///
/// let mut lines = LineDecoder::new(1024);
/// lines.push(b"{\"jsonrpc\":\"2.0\"}\r\n\n{\"json");
/// assert_eq!(lines.poll_event(), Some(LineEvent::Line("{\"jsonrpc\":\"2.0\"}".into())));
/// assert_eq!(lines.poll_event(), None);
/// assert_eq!(lines.unfinished(), b"{\"json");
/// lines.finish();
/// assert_eq!(lines.poll_event(), Some(LineEvent::Last("{\"json".into())));
/// assert_eq!(lines.poll_event(), None);
/// ```
#[derive(Debug)]
pub struct LineDecoder {
    buffer: ReadBuffer,
    /// The number of bytes that were searched for a line feed.
    searched: usize,
    limit: usize,
    state: State,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start, before a possible byte order mark.
    Start,
    /// In a line.
    Line,
    /// In an oversized line, which is dropped up to its line feed.
    Dropping,
}

impl LineDecoder {
    /// A decoder for lines of at most `limit` bytes without the line ending.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: ReadBuffer::default(), searched: 0, limit, state: State::Start, ended: false }
    }

    /// A buffer to read into: of a few KiB, and after reads that filled it usually of [`READ_BYTES`] or more. Call it
    /// once the stream is readable, so that an idle decoder keeps little memory, and after all events were polled.
    pub fn room(&mut self) -> Limit<&mut BytesMut> {
        self.buffer.room(self.limit.saturating_add(READ_BYTES))
    }

    /// Appends bytes. The decoder stores all of them until the events are polled.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.push(bytes);
    }

    /// Ends the stream: the text behind the last line feed becomes [`LineEvent::Last`]. Idempotent.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The text behind the last line feed so far, once all events were polled: a line that is not complete.
    #[must_use]
    pub fn unfinished(&self) -> &[u8] {
        &self.buffer.bytes
    }

    /// The memory of the decoder, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buffer.allocated.max(self.buffer.bytes.capacity())
    }

    /// The next event. `None` when more bytes are needed or, after [`LineDecoder::finish`], at the end.
    pub fn poll_event(&mut self) -> Option<LineEvent> {
        if self.state == State::Start {
            let held = &self.buffer.bytes[..];
            if held.starts_with(BYTE_ORDER_MARK) {
                self.buffer.skip(BYTE_ORDER_MARK.len());
                self.state = State::Line;
                return Some(LineEvent::ByteOrderMark);
            }
            if BYTE_ORDER_MARK.starts_with(held) && !self.ended {
                return None;
            }
            self.state = State::Line;
        }
        loop {
            if self.searched == 0 && self.state == State::Line {
                let empty = empty_lines(&self.buffer.bytes);
                self.buffer.skip(empty);
            }
            let Some(found) = memchr(b'\n', &self.buffer.bytes[self.searched..]) else {
                return self.without_line_feed();
            };
            let end = self.searched + found;
            self.searched = 0;
            if self.state == State::Dropping {
                self.state = State::Line;
                self.buffer.skip(end + 1);
                continue;
            }
            let content = without_carriage_return(&self.buffer.bytes[..end]);
            let length = content.len();
            if length > self.limit {
                let head = head(content);
                self.buffer.skip(end + 1);
                return Some(LineEvent::TooLong { head, length });
            }
            if is_blank(content) {
                self.buffer.skip(end + 1);
                continue;
            }
            let mut line = self.buffer.take(end + 1);
            line.truncate(length);
            return Some(LineEvent::Line(line));
        }
    }

    /// Handles the start of a line without a line feed.
    fn without_line_feed(&mut self) -> Option<LineEvent> {
        if self.state == State::Dropping {
            self.buffer.clear();
            self.searched = 0;
            return None;
        }
        let held = self.buffer.bytes.len();
        // A carriage return at the end may belong to the line ending, which does not count.
        let content = without_carriage_return(&self.buffer.bytes);
        let length = content.len();
        if length > self.limit {
            let head = head(content);
            self.state = State::Dropping;
            self.buffer.clear();
            self.searched = 0;
            return Some(LineEvent::TooLong { head, length });
        }
        if self.ended {
            self.searched = 0;
            let blank = is_blank(content);
            let mut last = self.buffer.take(held);
            last.truncate(length);
            return (!blank).then_some(LineEvent::Last(last));
        }
        self.searched = held;
        self.buffer.settle();
        None
    }
}

/// Appends a message as one line.
///
/// Line breaks between JSON tokens (an indented schema, a body received over HTTP) become spaces, because the transport
/// does not allow them. Every other byte is kept.
pub fn write_line(text: &[u8], out: &mut BytesMut) {
    out.reserve(text.len() + 1);
    let mut rest = text;
    while let Some(at) = memchr2(b'\n', b'\r', rest) {
        out.put_slice(&rest[..at]);
        out.put_u8(b' ');
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
    out.put_u8(b'\n');
}

fn without_carriage_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The bytes of the empty lines at the start. They are skipped in one step, so that a peer cannot cause much work
/// (adversarial case 14).
fn empty_lines(text: &[u8]) -> usize {
    let mut rest = text;
    while let [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] = rest {
        rest = after;
    }
    text.len() - rest.len()
}

/// Whether a line has only JSON white space. Such a line is ignored.
fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// A copy, so that the buffer can be freed.
fn head(line: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&line[..line.len().min(HEAD_BYTES)])
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::FIRST_READ_BYTES;
    use super::*;

    fn events(decoder: &mut LineDecoder) -> Vec<LineEvent> {
        core::iter::from_fn(|| decoder.poll_event()).collect()
    }

    /// Reads `count` bytes of an unfinished line, each time as many as there is room for.
    fn receive(decoder: &mut LineDecoder, mut count: usize) {
        while count > 0 {
            let mut room = decoder.room();
            let read = count.min(room.remaining_mut());
            room.put_bytes(b'x', read);
            count -= read;
            assert_eq!(decoder.poll_event(), None);
        }
    }

    #[test]
    fn lines_and_the_rest() {
        let mut decoder = LineDecoder::new(10);
        decoder.push(b"a\r\n \t\r\n\nb\rc\nd");
        assert_eq!(events(&mut decoder), [LineEvent::Line("a".into()), LineEvent::Line("b\rc".into())]);
        decoder.finish();
        assert_eq!(events(&mut decoder), [LineEvent::Last("d".into())]);
        assert_eq!(events(&mut decoder), []);
    }

    #[test]
    fn a_large_line_takes_its_buffer_with_it() {
        let mut decoder = LineDecoder::new(1 << 20);
        let mut text = vec![b'x'; WHOLE];
        text.extend_from_slice(b"\nrest");
        decoder.push(&text);
        let LineEvent::Line(line) = decoder.poll_event().expect("a line") else { panic!("no line") };
        assert_eq!(line.len(), WHOLE);
        assert!(decoder.capacity() < 64, "{}", decoder.capacity());
        decoder.push(b"\n");
        assert_eq!(decoder.poll_event(), Some(LineEvent::Line("rest".into())));
    }

    #[test]
    fn the_next_large_line_is_expected_to_be_as_long() {
        let mut decoder = LineDecoder::new(1 << 20);
        for round in 0..3 {
            receive(&mut decoder, 10 * READ_BYTES);
            let most = if round == 0 { 16 } else { 11 } * READ_BYTES;
            assert!(decoder.capacity() <= most, "{} in round {round}", decoder.capacity());
            decoder.push(b"\n");
            assert!(
                matches!(decoder.poll_event(), Some(LineEvent::Line(line)) if line.len() == 10 * READ_BYTES)
            );
            assert!(decoder.capacity() < 64, "{}", decoder.capacity());
        }
    }

    const WHOLE: usize = super::super::WHOLE_BUFFER_BYTES;

    #[test]
    fn room_is_reused_when_the_lines_are_gone() {
        let mut decoder = LineDecoder::new(1 << 20);
        decoder.room().put_slice(&[b'\n'; FIRST_READ_BYTES - 10]);
        let address = decoder.buffer.bytes.as_ptr();
        assert_eq!(events(&mut decoder), []);
        decoder.room().put_slice(b"a line\n");
        assert_eq!(events(&mut decoder), [LineEvent::Line("a line".into())]);
        assert_eq!(decoder.capacity(), FIRST_READ_BYTES);
        let _room = decoder.room();
        assert!(decoder.buffer.bytes.as_ptr() >= address);
        assert_eq!(decoder.capacity(), FIRST_READ_BYTES);
    }

    #[test]
    fn reads_grow_where_they_are_filled() {
        let mut decoder = LineDecoder::new(1 << 20);
        for _ in 0..1000 {
            decoder.room().put_slice(b"a small line\n");
            assert_eq!(events(&mut decoder), [LineEvent::Line("a small line".into())]);
        }
        assert_eq!(decoder.capacity(), FIRST_READ_BYTES);
        for _ in 0..8 {
            let mut room = decoder.room();
            let free = room.remaining_mut();
            room.put_bytes(b'\n', free);
            assert_eq!(events(&mut decoder), []);
        }
        assert!(decoder.room().remaining_mut() >= READ_BYTES / 4);
        assert_eq!(decoder.capacity(), READ_BYTES);
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        let mut out = BytesMut::new();
        write_line(b"{\n\"a\":\r\n1}", &mut out);
        assert_eq!(&out[..], b"{ \"a\":  1}\n");
    }
}
