//! Reads and writes `text/event-stream`.
//!
//! Used by the HTTP links. The reader implements the
//! [standard](https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream) with an
//! additional size limit. The transports are [Streamable
//! HTTP](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http) and HTTP+SSE of
//! 2024-11-05. The data is not parsed, and nothing here reconnects.

use alloc::string::String;
use core::fmt::Write as _;
use core::mem;
use core::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::memchr2;

use super::HEAD_BYTES;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The maximum length of a line without data, in bytes. An event id is sent back to the server in a header, and no
/// server accepts longer ones.
pub const MAX_FIELD_BYTES: usize = 16 * 1024;

/// The minimum delay before a reconnect, whatever the server requests (adversarial case 122).
pub const MIN_RETRY: Duration = Duration::from_millis(100);

/// The maximum delay before a reconnect, whatever the server requests (adversarial case 122).
pub const MAX_RETRY: Duration = Duration::from_secs(60);

/// An event of the decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseEvent {
    /// An event with data, which may be empty: the priming event of 2025-11-25 has an id and empty data.
    Event(Event),
    /// A block with an id and no data. The standard dispatches no event for it.
    Id(Bytes),
    /// A comment: the peer is alive.
    Comment,
    /// The requested delay before a reconnect, in milliseconds, as sent; see [`clamp_retry`].
    Retry(u64),
    /// An event with data or a line above the limit. Reported once, as soon as the limit is exceeded. The rest is
    /// dropped up to the blank line, and the next event is read as usual.
    TooLong {
        /// The start of the data, at most [`HEAD_BYTES`]; see [`read_start`](super::oversized::read_start).
        head: Bytes,
        /// The id of the event, if it precedes the data. It counts as received: a resume before it would return the
        /// same event again.
        id: Option<Bytes>,
    },
    /// The stream ended within an event. The standard drops it; it is reported so that the loss can be logged.
    Unfinished(Event),
}

/// An event of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The value of `event`; `None` means `message`.
    pub name: Option<Bytes>,
    /// The lines of `data`, joined by line feeds.
    pub data: Bytes,
    /// The value of `id` of this event. An empty id prevents a resume from here.
    pub id: Option<Bytes>,
}

/// Splits an event stream into events.
///
/// ```
/// use mcpjoin_proto::codec::sse::{SseDecoder, SseEvent};
///
/// let mut stream = SseDecoder::new(1024);
/// stream.push("event: message\nid: 1\ndata: {}\n\n".into());
/// let Some(SseEvent::Event(event)) = stream.poll_event() else { panic!("no event") };
/// assert_eq!(event.name.as_deref(), Some(&b"message"[..]));
/// assert_eq!(event.id.as_deref(), Some(&b"1"[..]));
/// assert_eq!(event.data, "{}");
/// assert_eq!(stream.poll_event(), None);
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    /// Received bytes that were not parsed yet.
    input: Bytes,
    /// The start of a line from earlier input.
    partial: BytesMut,
    limit: usize,
    /// The last line ended with a carriage return, so a line feed that follows belongs to it.
    after_carriage_return: bool,
    /// The next line is the first and may start with a byte order mark.
    first_line: bool,
    dropping: Dropping,
    data: Data,
    name: Option<Bytes>,
    id: Option<Bytes>,
    /// The start of the first line without a field of the standard.
    unknown: Option<Bytes>,
    ended: bool,
}

#[derive(Debug, Default)]
enum Data {
    /// No `data` field yet.
    #[default]
    Absent,
    /// One field: a slice of the input.
    One(Bytes),
    /// Several fields, joined.
    Joined(BytesMut),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropping {
    No,
    /// Up to the end of the line: a comment or an unknown field.
    Line,
    /// Up to the next blank line. `in_line`: a part of the current line was dropped.
    Event {
        in_line: bool,
    },
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::One(data) => data.len(),
            Self::Joined(data) => data.len(),
        }
    }

    /// How many bytes one more line may have; `None` when not even an empty one fits.
    fn left(&self, limit: usize) -> Option<usize> {
        match self {
            Self::Absent => Some(limit),
            _ => limit.checked_sub(self.len())?.checked_sub(1),
        }
    }

    fn push(&mut self, line: Bytes) {
        *self = match mem::take(self) {
            Self::Absent => Self::One(line),
            Self::One(first) => {
                let mut joined = BytesMut::with_capacity(first.len() + 1 + line.len());
                joined.put(first);
                joined.put_u8(b'\n');
                joined.put(line);
                Self::Joined(joined)
            }
            Self::Joined(mut joined) => {
                joined.reserve(1 + line.len());
                joined.put_u8(b'\n');
                joined.put(line);
                Self::Joined(joined)
            }
        };
    }

    fn head(&self) -> Bytes {
        let data: &[u8] = match self {
            Self::Absent => &[],
            Self::One(data) => data,
            Self::Joined(data) => data,
        };
        Bytes::copy_from_slice(&data[..data.len().min(HEAD_BYTES)])
    }

    fn into_bytes(self) -> Option<Bytes> {
        match self {
            Self::Absent => None,
            Self::One(data) => Some(data),
            Self::Joined(data) => Some(data.freeze()),
        }
    }
}

impl SseDecoder {
    /// A decoder for events with at most `limit` bytes of data.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            input: Bytes::new(),
            partial: BytesMut::new(),
            limit,
            after_carriage_return: false,
            first_line: true,
            dropping: Dropping::No,
            data: Data::Absent,
            name: None,
            id: None,
            unknown: None,
            ended: false,
        }
    }

    /// Appends a piece of the body. It is not copied if all events before it were polled, and an event within one piece
    /// is a slice of it.
    pub fn push(&mut self, piece: Bytes) {
        if self.input.is_empty() {
            self.input = piece;
        } else {
            let mut input = BytesMut::with_capacity(self.input.len() + piece.len());
            input.put_slice(&self.input);
            input.put(piece);
            self.input = input.freeze();
        }
    }

    /// Ends the body: the text behind the last blank line becomes [`SseEvent::Unfinished`]. Idempotent.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The memory of the decoder, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let data = match &self.data {
            Data::Absent => 0,
            Data::One(data) => data.len(),
            Data::Joined(data) => data.capacity(),
        };
        let fields = [&self.name, &self.id, &self.unknown];
        let fields: usize = fields.into_iter().flatten().map(Bytes::len).sum();
        self.input.len() + self.partial.capacity() + data + fields
    }

    /// The first line that has no field of the standard and is no comment, at most [`HEAD_BYTES`] of it, also before its end was
    /// received. The standard ignores such lines; a body that has nothing else is no event stream.
    #[must_use]
    pub fn unknown_line(&self) -> Option<&[u8]> {
        let unfinished = without_mark(&self.partial, self.first_line);
        let may_be_known = FIELDS.iter().any(|field| field.starts_with(unfinished));
        self.unknown
            .as_deref()
            .or_else(|| (!may_be_known && is_unknown(unfinished)).then(|| start(unfinished)))
    }

    /// The next event. `None` when more bytes are needed or, after [`SseDecoder::finish`], at the end.
    pub fn poll_event(&mut self) -> Option<SseEvent> {
        loop {
            if self.after_carriage_return && !self.input.is_empty() {
                self.after_carriage_return = false;
                if self.input[0] == b'\n' {
                    self.input.advance(1);
                }
            }
            let Some(end) = memchr2(b'\r', b'\n', &self.input) else {
                if let Some(event) = self.keep_partial_line() {
                    return Some(event);
                }
                return if self.ended { self.unfinished() } else { None };
            };
            // Checked for complete lines too, so that the result does not depend on how the bytes were split.
            if self.dropping == Dropping::No
                && let Some(too_long) = self.check_length(end)
            {
                return Some(too_long);
            }
            let dropping = self.dropping;
            let line = if self.partial.is_empty() {
                self.input.split_to(end)
            } else {
                self.partial.extend_from_slice(&self.input[..end]);
                self.input.advance(end);
                mem::take(&mut self.partial).freeze()
            };
            self.after_carriage_return = self.input[0] == b'\r';
            self.input.advance(1);
            let line = if mem::take(&mut self.first_line) { without_byte_order_mark(line) } else { line };
            match dropping {
                Dropping::No => {
                    if let Some(event) = self.line(line) {
                        return Some(event);
                    }
                }
                Dropping::Line => self.dropping = Dropping::No,
                Dropping::Event { in_line } => {
                    let blank = line.is_empty() && !in_line;
                    self.dropping = if blank { Dropping::No } else { Dropping::Event { in_line: false } };
                }
            }
        }
    }

    /// Stores input without a line ending.
    fn keep_partial_line(&mut self) -> Option<SseEvent> {
        if self.input.is_empty() {
            return None;
        }
        match self.dropping {
            Dropping::Line => {}
            Dropping::Event { .. } => self.dropping = Dropping::Event { in_line: true },
            Dropping::No => {
                if let Some(too_long) = self.check_length(self.input.len()) {
                    self.input = Bytes::new();
                    return Some(too_long);
                }
                self.partial.extend_from_slice(&self.input);
                // A comment is reported at its start and not stored.
                if without_mark(&self.partial, self.first_line).first() == Some(&b':') {
                    self.partial = BytesMut::new();
                    self.first_line = false;
                    self.dropping = Dropping::Line;
                    self.input = Bytes::new();
                    return Some(SseEvent::Comment);
                }
            }
        }
        self.input = Bytes::new();
        None
    }

    /// Checks the length of the stored line with the next `more` bytes of input.
    fn check_length(&mut self, more: usize) -> Option<SseEvent> {
        let length = self.partial.len() + more;
        // The start of a line shows its field: six bytes for `data: `, and three for a byte order mark.
        let mut start = [0; 9];
        let known = length.min(start.len());
        let kept = known.min(self.partial.len());
        start[..kept].copy_from_slice(&self.partial[..kept]);
        start[kept..known].copy_from_slice(&self.input[..known - kept]);
        let start = without_mark(&start[..known], self.first_line);
        let mark = known - start.len();
        let overhead = match start {
            [b':', ..] => return None,
            [b'd', b'a', b't', b'a', b':', b' ', ..] => 6,
            [b'd', b'a', b't', b'a', b':', ..] => 5,
            _ => return (length > MAX_FIELD_BYTES).then(|| self.too_long(0, 0)),
        };
        let fits = self.data.left(self.limit).is_some_and(|left| length - mark - overhead <= left);
        (!fits).then(|| self.too_long(mark + overhead, more))
    }

    /// Starts dropping the event. The reported start continues with the line that did not fit, from `from` on.
    fn too_long(&mut self, from: usize, more: usize) -> SseEvent {
        let mut head = BytesMut::from(&self.data.head()[..]);
        if more > 0 && head.len() < HEAD_BYTES {
            if !matches!(self.data, Data::Absent) {
                head.put_u8(b'\n');
            }
            let line = self.partial.iter().chain(&self.input[..more]).skip(from);
            head.extend(line.take(HEAD_BYTES - head.len()));
        }
        self.dropping = Dropping::Event { in_line: !self.partial.is_empty() || !self.input.is_empty() };
        self.partial = BytesMut::new();
        self.first_line = false;
        self.data = Data::Absent;
        self.name = None;
        SseEvent::TooLong { head: head.freeze(), id: self.id.take() }
    }

    /// Handles a complete line.
    fn line(&mut self, line: Bytes) -> Option<SseEvent> {
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match memchr::memchr(b':', &line) {
            Some(0) => return Some(SseEvent::Comment),
            Some(colon) => {
                let value = line.slice(colon + 1..);
                let spaced = value.first() == Some(&b' ');
                (&line[..colon], value.slice(usize::from(spaced)..))
            }
            None => (&line[..], Bytes::new()),
        };
        match field {
            b"data" => {
                if self.data.left(self.limit).is_none_or(|left| value.len() > left) {
                    // Only a field without a colon gets here; `check_length` handles the others.
                    let too_long = self.too_long(0, 0);
                    self.dropping = Dropping::Event { in_line: false };
                    return Some(too_long);
                }
                self.data.push(value);
            }
            b"event" => self.name = Some(copy_name(&value)),
            b"id" if !value.contains(&0) => self.id = Some(copy_name(&value)),
            b"retry" => return digits(&value).map(SseEvent::Retry),
            _ if self.unknown.is_none() && is_unknown(&line) => {
                self.unknown = Some(Bytes::copy_from_slice(start(&line)));
            }
            _ => {}
        }
        None
    }

    /// Handles the end of a block.
    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = self.name.take().filter(|name| !name.is_empty());
        let id = self.id.take();
        match mem::take(&mut self.data).into_bytes() {
            Some(data) => Some(SseEvent::Event(Event { name, data, id })),
            None => id.map(SseEvent::Id),
        }
    }

    /// Handles the end of the stream.
    fn unfinished(&mut self) -> Option<SseEvent> {
        if !self.partial.is_empty() {
            let line = mem::take(&mut self.partial).freeze();
            let line = if mem::take(&mut self.first_line) { without_byte_order_mark(line) } else { line };
            if !line.is_empty()
                && let Some(event) = self.line(line)
            {
                return Some(event);
            }
        }
        let name = self.name.take();
        let id = self.id.take();
        let data = mem::take(&mut self.data).into_bytes();
        if name.is_none() && id.is_none() && data.is_none() {
            return None;
        }
        Some(SseEvent::Unfinished(Event { name, data: data.unwrap_or_default(), id }))
    }
}

/// The fields of the standard.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// Whether a line has no field of the standard and is no comment.
fn is_unknown(line: &[u8]) -> bool {
    let field = line.split(|byte| *byte == b':').next().unwrap_or_default();
    !field.is_empty() && !FIELDS.contains(&field)
}

fn start(line: &[u8]) -> &[u8] {
    &line[..line.len().min(HEAD_BYTES)]
}

/// The delay before a reconnect, limited to [`MIN_RETRY`] and [`MAX_RETRY`].
#[must_use]
pub fn clamp_retry(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).clamp(MIN_RETRY, MAX_RETRY)
}

/// The name or id of an event contains a line break or NUL, which an event stream cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {field} of an event cannot contain a line break or NUL")]
pub struct FieldError {
    /// The field: `event` or `id`.
    pub field: &'static str,
}

/// An event to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutgoingEvent<'a> {
    /// The value of `id`.
    pub id: Option<&'a str>,
    /// The value of `event`.
    pub name: Option<&'a str>,
    /// The delay before a reconnect.
    pub retry: Option<Duration>,
    /// The data. Empty data is written too, for a priming event. All kinds of line breaks, which JSON has only between
    /// its tokens, are received as line feeds.
    pub data: &'a [u8],
}

impl OutgoingEvent<'_> {
    /// Appends the event.
    ///
    /// # Errors
    /// When `id` or `name` contains a line break or NUL. Nothing is appended then.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), FieldError> {
        for (field, value) in [("id", self.id), ("event", self.name)] {
            if value.is_some_and(|value| value.contains(['\r', '\n', '\0'])) {
                return Err(FieldError { field });
            }
        }
        out.reserve(self.data.len() + 32);
        for (field, value) in [("id: ", self.id), ("event: ", self.name)] {
            if let Some(value) = value {
                out.put_slice(field.as_bytes());
                out.put_slice(value.as_bytes());
                out.put_u8(b'\n');
            }
        }
        if let Some(retry) = self.retry {
            write_retry(retry, out);
        }
        for_each_line(self.data, |line| {
            out.put_slice(b"data: ");
            out.put_slice(line);
            out.put_u8(b'\n');
        });
        out.put_u8(b'\n');
        Ok(())
    }
}

/// Appends only the delay before a reconnect, for a server that closes a stream which the client resumes.
pub fn write_retry(retry: Duration, out: &mut BytesMut) {
    let mut line = String::new();
    // Writing to a `String` does not fail.
    let _ = writeln!(line, "retry: {}", retry.as_millis());
    out.put_slice(line.as_bytes());
}

/// Appends a comment, which keeps an idle stream alive.
pub fn write_comment(comment: &str, out: &mut BytesMut) {
    for_each_line(comment.as_bytes(), |line| {
        out.put_slice(b": ");
        out.put_slice(line);
        out.put_u8(b'\n');
    });
    out.put_u8(b'\n');
}

/// Calls `each` with each line of a text. An empty text has one line.
fn for_each_line(text: &[u8], mut each: impl FnMut(&[u8])) {
    let mut rest = text;
    while let Some(end) = memchr2(b'\r', b'\n', rest) {
        each(&rest[..end]);
        let both = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(both)..];
    }
    each(rest);
}

/// Copies a name or an id, which outlives the piece of the body. The names that MCP uses are static.
fn copy_name(value: &[u8]) -> Bytes {
    match value {
        b"message" => Bytes::from_static(b"message"),
        b"endpoint" => Bytes::from_static(b"endpoint"),
        other => Bytes::copy_from_slice(other),
    }
}

fn without_byte_order_mark(line: Bytes) -> Bytes {
    if line.starts_with(BYTE_ORDER_MARK) { line.slice(BYTE_ORDER_MARK.len()..) } else { line }
}

fn without_mark(line: &[u8], first_line: bool) -> &[u8] {
    if first_line { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line }
}

/// Reads ASCII digits, saturating at the maximum of `u64`.
fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |number, byte| {
        byte.is_ascii_digit().then(|| number.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
    })
}
