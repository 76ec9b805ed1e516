//! Finds the heads of requests in the bytes of an HTTP/1.1 connection.
//!
//! hyper decides how a connection is framed, and removes `Content-Length` from a request that has `Transfer-Encoding`
//! too. A proxy may have believed the other header, so such a request must be refused
//! (<https://www.rfc-editor.org/rfc/rfc9112#section-6.1>). [`Framing`] reads the same bytes as hyper does and names the
//! first request that must not be answered. It accepts every framing that hyper accepts, and where it loses track, no
//! later request is answered: a difference between the two costs a connection and hides no request.

use std::mem::MaybeUninit;

use super::head::{MAX_HEADER_BYTES, MAX_HEADERS};

/// The longest partial head that is kept, in bytes: as much as hyper buffers.
const MAX_HEAD_BYTES: usize = 2 * MAX_HEADER_BYTES;

/// The state of one connection.
pub(super) struct Framing {
    state: State,
    /// Complete heads.
    heads: u64,
}

enum State {
    /// The received part of a head.
    Head(Vec<u8>),
    /// Remaining bytes of a body of known length.
    Body(u64),
    /// The line with the size of a chunk.
    ChunkSize { size: Option<u64>, digits: bool },
    /// Remaining bytes of a chunk.
    Chunk(u64),
    /// The line end behind a chunk: how many bytes of it were received.
    ChunkEnd(usize),
    /// The lines behind the last chunk: whether the current one is empty so far.
    Trailers { empty: bool },
    /// The framing is ambiguous or broken from here on.
    Lost,
}

/// The end of a line, as it follows a chunk.
const LINE_END: &[u8] = b"\r\n";

impl Framing {
    pub(super) const fn new() -> Self {
        Self { state: State::Head(Vec::new()), heads: 0 }
    }

    /// The number of complete heads.
    pub(super) const fn heads(&self) -> u64 {
        self.heads
    }

    /// Whether a head is partly received.
    pub(super) fn is_in_head(&self) -> bool {
        matches!(&self.state, State::Head(partial) if !partial.is_empty())
    }

    /// How many requests may be served, once that is limited: the next one has an ambiguous length, or hyper would frame it in
    /// another way.
    pub(super) fn limit(&self) -> Option<u64> {
        matches!(self.state, State::Lost).then_some(self.heads)
    }

    /// Reads the next bytes of the connection.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = match &mut self.state {
                State::Head(partial) => {
                    let partial = std::mem::take(partial);
                    self.read_head(partial, bytes)
                }
                State::Body(left) => {
                    let used = skip(left, bytes);
                    if *left == 0 {
                        self.state = State::Head(Vec::new());
                    }
                    used
                }
                State::ChunkSize { .. } => {
                    self.read_chunk_size(bytes[0]);
                    1
                }
                State::Chunk(left) => {
                    let used = skip(left, bytes);
                    if *left == 0 {
                        self.state = State::ChunkEnd(0);
                    }
                    used
                }
                State::ChunkEnd(seen) => {
                    self.state = match *seen {
                        seen if LINE_END[seen] != bytes[0] => State::Lost,
                        0 => State::ChunkEnd(1),
                        _ => State::ChunkSize { size: None, digits: true },
                    };
                    1
                }
                State::Trailers { empty } => {
                    self.state = match bytes[0] {
                        b'\n' if *empty => State::Head(Vec::new()),
                        b'\n' => State::Trailers { empty: true },
                        b'\r' => State::Trailers { empty: *empty },
                        _ => State::Trailers { empty: false },
                    };
                    1
                }
                State::Lost => return,
            };
            bytes = &bytes[used..];
        }
    }

    /// Reads bytes of a head behind the received part. Returns how many.
    fn read_head(&mut self, mut partial: Vec<u8>, bytes: &[u8]) -> usize {
        let before = partial.len();
        if before == 0 {
            // Empty lines before a request are ignored.
            let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if blank > 0 {
                return blank;
            }
            if let Some(end) = end_of_head(bytes, 0) {
                self.finish_head(&bytes[..end]);
                return end;
            }
        }
        partial.extend_from_slice(bytes);
        // The empty line may have begun in the received part.
        if let Some(end) = end_of_head(&partial, before.saturating_sub(2)) {
            self.finish_head(&partial[..end]);
            return end - before;
        }
        self.state = match partial.len() > MAX_HEAD_BYTES {
            true => State::Lost,
            false => State::Head(partial),
        };
        bytes.len()
    }

    fn finish_head(&mut self, head: &[u8]) {
        match body_of(head).filter(|_| head.len() <= MAX_HEAD_BYTES) {
            Some(state) => {
                self.state = state;
                self.heads += 1;
            }
            None => self.state = State::Lost,
        }
    }

    fn read_chunk_size(&mut self, byte: u8) {
        let State::ChunkSize { size, digits } = &mut self.state else { return };
        let digit = char::from(byte).to_digit(16).filter(|_| *digits);
        match (digit, byte, *size) {
            (Some(digit), _, _) => {
                *size = size.unwrap_or(0).checked_mul(16).map(|size| size + u64::from(digit));
                if size.is_none() {
                    self.state = State::Lost;
                }
            }
            (None, _, None) => self.state = State::Lost,
            (None, b'\n', Some(0)) => self.state = State::Trailers { empty: true },
            (None, b'\n', Some(size)) => self.state = State::Chunk(size),
            // Spaces and extensions up to the end of the line.
            (None, ..) => *digits = false,
        }
    }
}

/// Skips remaining bytes. Returns how many.
fn skip(left: &mut u64, bytes: &[u8]) -> usize {
    let used = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left -= used as u64;
    used
}

/// The end of the empty line that ends a head. It is searched for from `from` on.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', &bytes[from..]).find_map(|at| {
        let next = from + at + 1;
        match bytes[next..] {
            [b'\n', ..] => Some(next + 1),
            [b'\r', b'\n', ..] => Some(next + 2),
            _ => None,
        }
    })
}

/// The state after a head: its body, or the next head. `None` when its length is unknown or given twice.
fn body_of(head: &[u8]) -> Option<State> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(head, &mut headers).ok()?;
    if parsed != httparse::Status::Complete(head.len()) {
        return None;
    }
    let (mut length, mut chunked) = (None, None);
    for header in &*request.headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let plain = !header.value.is_empty() && header.value.iter().all(u8::is_ascii_digit);
            let value = std::str::from_utf8(header.value).ok().filter(|_| plain)?.parse::<u64>().ok()?;
            if length.is_some_and(|length| length != value) {
                return None;
            }
            length = Some(value);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            let last = header.value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        }
    }
    match (length, chunked) {
        (None | Some(0), None) => Some(State::Head(Vec::new())),
        (Some(length), None) => Some(State::Body(length)),
        (None, Some(true)) => Some(State::ChunkSize { size: None, digits: true }),
        (_, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /mcp HTTP/1.1\r\nhost: a\r\n";

    fn with(headers: &str, body: &str) -> String {
        format!("{HEAD}{headers}\r\n{body}")
    }

    /// The result of reading the text in pieces of this length.
    fn found(text: &str, piece: usize) -> (u64, Option<u64>, bool) {
        let mut framing = Framing::new();
        text.as_bytes().chunks(piece).for_each(|piece| framing.read(piece));
        (framing.heads(), framing.limit(), framing.is_in_head())
    }

    /// Valid requests with bodies that look like requests, or with unusual ends.
    fn sound() -> [String; 9] {
        let inner = with("content-length: 1\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n");
        let length = inner.len();
        [
            with("", ""),
            "GET / HTTP/1.0\n\n".into(),
            with("content-length: 0\r\n", ""),
            with("Content-Length: 5\r\ncontent-length: 5\r\n", "\r\n\r\nx"),
            with(&format!("content-length: {length}\r\n"), &inner),
            with("transfer-encoding: chunked\r\n", "0\r\n\r\n"),
            with(
                "Transfer-Encoding: gzip, Chunked\r\n",
                &format!("{length:X} ;x=\"0\r\r\n{inner}\r\n0000\r\n\r\n"),
            ),
            with("transfer-encoding: chunked\r\n", "2\r\n\r\n\r\n1 \r\n0\r\n0;a=b\r\nx: y\r\n\r\n"),
            with("x-content-length: 1\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n"),
        ]
    }

    #[test]
    fn every_head_is_found_however_the_bytes_come() {
        for one in sound() {
            for other in sound() {
                let text = format!("{one}\r\n{other}");
                for piece in 1..=text.len() {
                    assert_eq!(found(&text, piece), (2, None, false), "{piece}: {text:?}");
                }
            }
        }
    }

    #[test]
    fn a_head_is_in_progress_from_its_first_byte_to_its_last() {
        for (text, in_head) in [("", false), ("\r\n\r\n", false), ("P", true), (HEAD, true), ("G\r\n", true)]
        {
            assert!(!found(&with("", ""), 7).2);
            assert_eq!(found(&format!("{}{text}", with("", "")), 3).2, in_head, "{text:?}");
        }
        assert!(!found(&with("content-length: 2\r\n", "x"), 50).2);
    }

    #[test]
    fn the_first_request_of_ambiguous_length_is_named() {
        for bad in [
            with("content-length: 5\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n"),
            with("Transfer-Encoding: chunked\r\nx: y\r\nCONTENT-LENGTH: 0\r\n", "0\r\n\r\n"),
            with("transfer-encoding: identity\r\n", ""),
            with("transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n", "0\r\n\r\n"),
            with("content-length: 1\r\ncontent-length: 2\r\n", "x"),
            with("content-length: +1\r\n", "x"),
            with("content-length:\r\n", "x"),
            with("content-length: 18446744073709551616\r\n", ""),
            "no head\r\n\r\n".into(),
            format!("{HEAD}x: {}", "y".repeat(MAX_HEAD_BYTES)),
        ] {
            for (ahead, count) in [("", 0), (with("", "").as_str(), 1)] {
                for piece in [1, 2, 3, 5, 1 << 20] {
                    let text = format!("{ahead}{bad}{}", with("", ""));
                    assert_eq!(found(&text, piece), (count, Some(count), false), "{piece}: {bad:.200?}");
                }
            }
        }
    }

    #[test]
    fn nothing_behind_a_broken_chunk_is_answered() {
        for body in [
            "x\r\n",
            "\r\n",
            ";\r\n",
            "1\r\nxy\r\n",
            "1\r\nx\ry",
            "1\r\nxyz0\r\n\r\n",
            "10000000000000000\r\n",
            "-1\r\n",
        ] {
            let text = with("transfer-encoding: chunked\r\n", &format!("{body}{}", with("", "")));
            for piece in [1, 2, 1 << 20] {
                assert_eq!(found(&text, piece), (1, Some(1), false), "{body:?}");
            }
        }
    }

    #[test]
    fn a_head_of_the_longest_length_is_read_and_one_above_it_is_not() {
        let rest = "x: ".len() + "\r\n\r\n".len() + HEAD.len();
        for (length, heads) in [(MAX_HEAD_BYTES - rest, 1), (MAX_HEAD_BYTES + 1 - rest, 0)] {
            let text = with(&format!("x: {}\r\n", "y".repeat(length)), "");
            for piece in [1000, text.len() - 1, text.len()] {
                assert_eq!(found(&text, piece).0, heads, "{length} {piece}");
            }
        }
    }
}
