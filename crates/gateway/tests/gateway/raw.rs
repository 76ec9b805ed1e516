//! A scripted peer for these tests and for the fuzz target `gateway`.

use mcpjoin::Link;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

/// A scripted peer that sends and receives lines.
pub(crate) struct Raw {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Raw {
    /// A peer and the link to it.
    pub(crate) fn pair() -> (Link, Self) {
        Self::pair_of(1 << 20)
    }

    /// A peer and the link to it, with this buffer size in bytes for each direction.
    pub(crate) fn pair_of(bytes: usize) -> (Link, Self) {
        let (near, far) = tokio::io::duplex(bytes);
        let (reader, writer) = tokio::io::split(near);
        let link = Link::stream(reader, writer, "raw");
        let (reader, writer) = tokio::io::split(far);
        (link, Self { lines: BufReader::new(reader).lines(), writer })
    }

    pub(crate) async fn say(&mut self, line: &str) {
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    /// The next line; `None` at the end.
    pub(crate) async fn receive(&mut self) -> Option<String> {
        self.lines.next_line().await.unwrap()
    }

    /// The next line. Panics at the end.
    pub(crate) async fn line(&mut self) -> String {
        self.receive().await.expect("nothing more is said")
    }

    /// The next line as JSON. The number 1e400, which not every parser reads, becomes 1.
    pub(crate) async fn value(&mut self) -> Value {
        let line = self.line().await.replace("1e400", "1");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Checks that the next line is this one.
    #[track_caller]
    pub(crate) fn expects<'a>(&'a mut self, line: &'a str) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let received = self.line().await;
            assert_eq!(received, line, "at {caller}");
        }
    }

    /// Closes the sending direction.
    pub(crate) async fn finish(&mut self) {
        self.writer.shutdown().await.unwrap();
    }
}
