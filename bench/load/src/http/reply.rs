//! One HTTP/1.1 response, parsed as it arrives.

use memchr::memmem;

/// The parsed part of a response.
#[derive(Default)]
pub(super) struct Reply {
    pub(super) buffer: Vec<u8>,
    /// The position in the buffer up to which it is parsed.
    at: usize,
    state: State,
    pub(super) status: u16,
    pub(super) session: Option<String>,
    /// Whether the server says that the connection stays open.
    pub(super) keeps: bool,
    pub(super) body: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Head,
    /// The number of bytes of the body that are missing.
    Length(usize),
    ChunkSize,
    Chunk(usize),
    /// The empty line after the last chunk.
    Trailer,
    Whole,
}

impl Reply {
    /// Prepares for the next response; the buffers are reused.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.body.clear();
        (self.at, self.state, self.status, self.keeps) = (0, State::Head, 0, false);
    }

    /// Parses the new bytes; true when the response is complete.
    pub(super) fn advance(&mut self) -> Result<bool, String> {
        loop {
            let rest = &self.buffer[self.at..];
            match self.state {
                State::Head => {
                    let Some(end) = memmem::find(rest, b"\r\n\r\n") else { return Ok(false) };
                    self.head(end)?;
                    self.at += end + 4;
                }
                State::Length(length) => {
                    if rest.len() < length {
                        return Ok(false);
                    }
                    self.body.extend_from_slice(&rest[..length]);
                    self.state = State::Whole;
                }
                State::ChunkSize => {
                    let Some(end) = memmem::find(rest, b"\r\n") else { return Ok(false) };
                    let line = String::from_utf8_lossy(&rest[..end]);
                    let digits = line.split(';').next().unwrap_or_default().trim();
                    let size = usize::from_str_radix(digits, 16).map_err(|_| format!("chunk {line:?}"))?;
                    self.state = if size == 0 { State::Trailer } else { State::Chunk(size) };
                    self.at += end + 2;
                }
                State::Chunk(size) => {
                    if rest.len() < size + 2 {
                        return Ok(false);
                    }
                    self.body.extend_from_slice(&rest[..size]);
                    self.at += size + 2;
                    self.state = State::ChunkSize;
                }
                State::Trailer => {
                    if rest.len() < 2 {
                        return Ok(false);
                    }
                    self.state = State::Whole;
                }
                State::Whole => return Ok(true),
            }
        }
    }

    fn head(&mut self, end: usize) -> Result<(), String> {
        let head = String::from_utf8_lossy(&self.buffer[self.at..self.at + end]);
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        self.status = status.ok_or_else(|| format!("no status: {head}"))?;
        self.state = State::Length(0);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                self.state = State::Length(value.parse().map_err(|_| format!("length {value}"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                self.state = State::ChunkSize;
            } else if name.eq_ignore_ascii_case("connection") {
                self.keeps = value.eq_ignore_ascii_case("keep-alive");
            } else if name.eq_ignore_ascii_case("mcp-session-id") {
                self.session = Some(value.to_owned());
            }
        }
        Ok(())
    }

    /// Takes the next whole event from the body: its bytes before the empty line.
    pub(super) fn take_event(&mut self) -> Option<Vec<u8>> {
        let end = memmem::find(&self.body, b"\n\n")?;
        let event = self.body.drain(..end + 2).take(end).collect();
        self.buffer.drain(..self.at);
        self.at = 0;
        Some(event)
    }

    /// The message in the body: the whole body, or the data of the last event that has data.
    pub(super) fn message(&self) -> &[u8] {
        if self.body.first() == Some(&b'{') {
            return &self.body;
        }
        let data = self.body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
        data.map(<[u8]>::trim_ascii).rfind(|data| !data.is_empty()).unwrap_or_default()
    }
}
