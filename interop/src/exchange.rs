//! Parses the HTTP/1.1 exchanges of a connection from the bytes that [`crate::relay`] has recorded.
//!
//! Used by [`crate::overheard`]. It parses the messages of well-behaved peers, and ignores everything else: to check
//! whether a peer follows the rules of HTTP, use `mcpjoin validate`.

use serde_json::Value;

use crate::relay::{Connection, Said};

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The time of its first byte, by the relay's clock.
    pub(crate) begun: u64,
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) path: String,
    headers: Headers,
    body: Vec<u8>,
    /// `None` when no response arrived.
    pub(crate) answer: Option<Answer>,
    /// Whether the client closed the connection before the response was complete, or before it began.
    pub(crate) left: bool,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Headers,
    body: Vec<u8>,
}

/// Header names are in lower case.
#[derive(Debug, Default)]
struct Headers(Vec<(String, String)>);

impl Headers {
    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Exchange {
    /// This header of the request; the name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.value(name)
    }

    /// The path without its query.
    pub(crate) fn place(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// The messages in the request: none, one, or a batch.
    pub(crate) fn asked(&self) -> Vec<Value> {
        messages(&self.body)
    }

    /// Every exchange of these connections, in the order in which they began.
    pub(crate) fn all(connections: &[Connection]) -> Vec<Self> {
        let mut all: Vec<Self> = connections.iter().flat_map(Self::of).collect();
        all.sort_by_key(|exchange| exchange.begun);
        all
    }

    /// The exchanges of one connection.
    fn of(connection: &Connection) -> Vec<Self> {
        let Connection { asked, answered } = connection;
        let mut requests = Text { said: asked, place: 0 };
        let mut answers = Text { said: answered, place: 0 };
        let mut exchanges = Vec::new();
        while let Some(begun) = requests.begin() {
            let Some((first, headers)) = requests.head() else { break };
            let mut words = first.split(' ').map(str::to_owned);
            let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let length = if headers.value("content-length").is_some() || chunked(&headers) {
                Length::of(&headers)
            } else {
                Length::Known(0)
            };
            let (body, _) = requests.body(&length);
            let client_left = asked.over.is_some_and(|over| answered.over.is_none_or(|other| over < other));
            let (answer, whole) = match answers.answer(&method) {
                Some((status, headers, body, whole)) => (Some(Answer { status, headers, body }), whole),
                None => (None, false),
            };
            exchanges.push(Self { begun, method, path, headers, body, answer, left: !whole && client_left });
        }
        exchanges
    }
}

impl Answer {
    /// This header of the response; the name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.value(name)
    }

    /// The messages in the response: one in the body, or several in events.
    pub(crate) fn messages(&self) -> Vec<Value> {
        if self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return self
                .events()
                .into_iter()
                .filter(|(name, _)| name == "message")
                .flat_map(|(_, data)| messages(data.as_bytes()))
                .collect();
        }
        messages(&self.body)
    }

    /// The name and the data of each complete event.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = String::from_utf8_lossy(&self.body).replace("\r\n", "\n");
        let Some((whole, _)) = text.rsplit_once("\n\n") else { return Vec::new() };
        let field = |event: &str, name: &str| {
            let lines: Vec<_> =
                event.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':')).collect();
            (!lines.is_empty()).then(|| {
                let values: Vec<_> =
                    lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
                values.join("\n")
            })
        };
        whole
            .split("\n\n")
            .filter_map(|event| {
                let name = field(event, "event").unwrap_or_else(|| "message".to_owned());
                field(event, "data").map(|data| (name, data))
            })
            .collect()
    }
}

fn messages(body: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(body) {
        Ok(Value::Array(batch)) => batch,
        Ok(message) => vec![message],
        Err(_) => Vec::new(),
    }
}

fn chunked(headers: &Headers) -> bool {
    headers.value("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
}

/// The length of a body.
enum Length {
    Known(usize),
    Chunks,
    UntilClosed,
}

impl Length {
    fn of(headers: &Headers) -> Self {
        if chunked(headers) {
            return Self::Chunks;
        }
        let length = headers.value("content-length").and_then(|length| length.parse().ok());
        length.map_or(Self::UntilClosed, Self::Known)
    }
}

/// One direction of a connection, read from its beginning.
struct Text<'a> {
    said: &'a Said,
    place: usize,
}

impl Text<'_> {
    fn rest(&self) -> &[u8] {
        &self.said.bytes[self.place..]
    }

    /// The time of the next byte, if there is one.
    fn begin(&self) -> Option<u64> {
        (!self.rest().is_empty()).then(|| self.said.when(self.place))
    }

    fn line(&mut self) -> Option<String> {
        let end = self.rest().windows(2).position(|pair| pair == b"\r\n")?;
        let line = String::from_utf8_lossy(&self.rest()[..end]).into_owned();
        self.place += end + 2;
        Some(line)
    }

    /// The first line, and the headers.
    fn head(&mut self) -> Option<(String, Headers)> {
        let first = self.line()?;
        let mut headers = Headers::default();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some((first, headers));
            }
            let (name, value) = line.split_once(':')?;
            headers.0.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Status, headers and body of the next response to a request with that method, and whether it was complete.
    fn answer(&mut self, method: &str) -> Option<(u16, Headers, Vec<u8>, bool)> {
        loop {
            let (first, headers) = self.head()?;
            let status = first.split(' ').nth(1)?.parse().ok()?;
            if (100..200).contains(&status) {
                continue;
            }
            let length = match status {
                204 | 304 => Length::Known(0),
                _ if method == "HEAD" => Length::Known(0),
                _ => Length::of(&headers),
            };
            let (body, whole) = self.body(&length);
            return Some((status, headers, body, whole));
        }
    }

    /// A body, and whether it was complete.
    fn body(&mut self, length: &Length) -> (Vec<u8>, bool) {
        match *length {
            Length::Known(length) => self.bytes(length),
            Length::UntilClosed => (self.bytes(usize::MAX).0, self.said.over.is_some()),
            Length::Chunks => {
                let mut body = Vec::new();
                while let Some(line) = self.line() {
                    let size = line.split(';').next().unwrap_or_default();
                    let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
                    let (chunk, whole) = self.bytes(size);
                    body.extend(chunk);
                    // A line end follows the chunk.
                    if !whole || self.line().is_none() {
                        break;
                    }
                    if size == 0 {
                        return (body, true);
                    }
                }
                (body, false)
            }
        }
    }

    fn bytes(&mut self, length: usize) -> (Vec<u8>, bool) {
        let there = length.min(self.rest().len());
        let bytes = self.rest()[..there].to_vec();
        self.place += there;
        (bytes, there == length)
    }
}
