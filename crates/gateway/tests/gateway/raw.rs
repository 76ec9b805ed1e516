//! A peer by hand, of these tests and of the fuzz target `gateway`.

use mcpjoin::Link;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

/// A peer by hand: it says lines, and hears them.
pub(crate) struct Raw {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Raw {
    /// A peer and the link to it.
    pub(crate) fn pair() -> (Link, Self) {
        Self::pair_of(1 << 20)
    }

    /// The same with room for so many bytes each way.
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
    pub(crate) async fn hear(&mut self) -> Option<String> {
        self.lines.next_line().await.unwrap()
    }

    /// The next line, which there is.
    pub(crate) async fn line(&mut self) -> String {
        self.hear().await.expect("nothing more is said")
    }

    /// The next line, read; a number that only some can read is 1.
    pub(crate) async fn value(&mut self) -> Value {
        let line = self.line().await.replace("1e400", "1");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The next line is this one.
    #[track_caller]
    pub(crate) fn hears<'a>(&'a mut self, line: &'a str) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let heard = self.line().await;
            assert_eq!(heard, line, "at {caller}");
        }
    }

    /// It has said everything.
    pub(crate) async fn finish(&mut self) {
        self.writer.shutdown().await.unwrap();
    }
}
