//! `--trace FILE`: every message of a connection as one JSON object on a line.
//!
//! `{"time": "2026-07-28T09:30:00.123456Z", "direction": "sent", "message": {...}}`. The direction is `sent`, `received` or
//! `stderr`. A line that is no message has `text` in place of `message`. Where `bridge` opens several connections to one server,
//! `connection` is their number. Secrets are replaced. A separate thread writes the file, so that a full or slow disk does not
//! delay the session. Lines that do not fit into its buffer are counted, as `{"time": ..., "leftOut": 3}`, and a warning is
//! printed. When writing fails, the trace ends with one warning.
//!
//! Made by `connect::plan`. It never changes a message.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::slice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use mcpjoin::proto::session::{Inbound, Outbound};
use mcpjoin::proto::{Kind, Message, Raw, encode};
use mcpjoin::transport::{Direction, Inspected};
use time::OffsetDateTime;

use crate::object;
use crate::secret;
use crate::ui::Ui;

/// The bytes that are buffered for the disk. Further lines are left out.
const MAX_BUFFERED_BYTES: usize = 8 << 20;
/// Text is written as soon as it is longer than this.
const CHUNK_BYTES: usize = 64 * 1024;
/// The direction of lines on standard error.
const STDERR: &str = "stderr";
/// How long the end of a command waits for the disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The file of a trace. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Trace {
    shared: Arc<Shared>,
    /// The number in each line, where there may be several connections.
    connection: Option<u64>,
}

struct Shared {
    ui: Ui,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Line>,
    bytes: usize,
    /// Lines that did not fit, and have not been counted in the file yet.
    left_out: u64,
    /// No more lines are added.
    closed: bool,
    /// Everything has been written, or nothing more can be.
    over: bool,
}

impl Trace {
    /// Opens the file, readable for its owner alone.
    pub(super) fn to(path: &Path, ui: &Ui) -> io::Result<Self> {
        let mut options = File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        if file.metadata()?.is_file() {
            match is_shared(&file) {
                true => ui.warning("another mcpjoin writes this trace: the lines of both are mixed"),
                false => file.set_len(0)?,
            }
        }
        Self::writing(file, ui)
    }

    fn writing(file: impl Write + Send + 'static, ui: &Ui) -> io::Result<Self> {
        let shared = Arc::new(Shared { ui: ui.clone(), state: Mutex::default(), changed: Condvar::new() });
        let writing = shared.clone();
        thread::Builder::new().name("trace".into()).spawn(move || writing.write(file))?;
        Ok(Self { shared, connection: None })
    }

    /// The same file, for one of several connections.
    pub(super) fn numbered(&self, connection: u64) -> Self {
        Self { shared: self.shared.clone(), connection: Some(connection) }
    }

    /// A function that writes each message it is called with.
    pub(crate) fn inspect(&self) -> impl Fn(Direction, Inspected<'_>) + Send + Sync + 'static {
        let trace = self.clone();
        move |direction, crossed| {
            trace.crossed(if direction == Direction::In { "received" } else { "sent" }, crossed);
        }
    }

    /// Of a stream the line itself is written, over HTTP each message of a body.
    fn crossed(&self, direction: &'static str, crossed: Inspected<'_>) {
        let messages = match crossed {
            Inspected::Line(line) => return self.line(direction, line),
            Inspected::Inbound(Inbound::Message { message, .. }) => slice::from_ref(message),
            Inspected::Outbound(Outbound::Message { message, .. }) => slice::from_ref(message),
            Inspected::Outbound(Outbound::Batch { messages, .. }) => messages,
            Inspected::Inbound(Inbound::Batch { parts, .. }) => {
                return parts.iter().flatten().for_each(|message| self.message(direction, message));
            }
            Inspected::Inbound(Inbound::Malformed { excerpt, .. }) => return self.line(direction, excerpt),
            _ => return,
        };
        messages.iter().for_each(|message| self.message(direction, message));
    }

    fn message(&self, direction: &'static str, message: &Message) {
        let mut line = BytesMut::new();
        encode::message(message, &mut line);
        self.line(direction, line.trim_ascii_end());
    }

    /// A line that the server wrote to standard error.
    pub(super) fn stderr(&self, line: &[u8]) {
        self.line(STDERR, line);
    }

    fn line(&self, direction: &'static str, line: &[u8]) {
        let mut state = self.shared.lock();
        if state.over {
            return;
        }
        // A single line always fits, however long it is.
        if state.bytes > 0 && state.bytes + line.len() > MAX_BUFFERED_BYTES {
            state.left_out += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(Line {
            time: SystemTime::now(),
            connection: self.connection,
            direction,
            bytes: Bytes::copy_from_slice(line),
        });
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until everything is written, for [`CLOSE_TIMEOUT`] at most.
    pub(super) fn close(&self) {
        let end = Instant::now() + CLOSE_TIMEOUT;
        let mut state = self.shared.lock();
        state.closed = true;
        self.shared.changed.notify_all();
        while !state.over {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                self.shared.ui.warning("the end of the trace is missing: writing is too slow");
                return;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Whether another process writes the file. It is locked for this one until it is closed, where the system can.
fn is_shared(file: &File) -> bool {
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, flock};
        flock(file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn write(&self, mut file: impl Write) {
        while let Some((lines, left_out)) = self.next() {
            let mut out = String::new();
            let mut outcome = Ok(());
            for line in &lines {
                line.write(&mut out, &self.ui);
                // Whole lines in one write, so that those of another process are not within one.
                if out.len() > CHUNK_BYTES {
                    outcome = outcome.and_then(|()| file.write_all(out.as_bytes()));
                    out.clear();
                }
            }
            if left_out > 0 {
                let time = stamp(SystemTime::now());
                out.push_str(&format!("{{\"time\":\"{time}\",\"leftOut\":{left_out}}}\n"));
            }
            let outcome = outcome.and_then(|()| file.write_all(out.as_bytes())).and_then(|()| file.flush());
            if let Err(error) = outcome {
                self.ui.warning(&format!("the trace ends here: it cannot be written: {error}"));
                break;
            }
            if left_out > 0 {
                self.ui.warning(&format!("the trace lacks {left_out} lines: writing is too slow"));
            }
            self.lock().bytes -= lines.iter().map(|line| line.bytes.len()).sum::<usize>();
        }
        let mut state = self.lock();
        state.over = true;
        state.lines = VecDeque::new();
        drop(state);
        self.changed.notify_all();
    }

    /// The buffered lines, and how many lines after them did not fit; `None` at the end. Their bytes count until they are
    /// written.
    fn next(&self) -> Option<(VecDeque<Line>, u64)> {
        let mut state = self.lock();
        while state.lines.is_empty() && state.left_out == 0 {
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some((std::mem::take(&mut state.lines), std::mem::take(&mut state.left_out)))
    }
}

/// A line of the file, before it is encoded.
struct Line {
    time: SystemTime,
    connection: Option<u64>,
    direction: &'static str,
    bytes: Bytes,
}

impl Line {
    fn write(&self, out: &mut String, ui: &Ui) {
        let message = Raw::parse(self.bytes.clone()).ok().filter(|message| {
            self.direction != STDERR && matches!(message.kind(), Kind::Object | Kind::Array)
        });
        let message =
            message.as_ref().and_then(|message| without_secrets(message, |text| ui.hidden_whole(text)));
        let text = message.is_none().then(|| String::from_utf8_lossy(&self.bytes));
        let quoted = |text: &str| Some(Raw::string(text).to_string().into());
        let line = object::write_known::<_, Cow<'_, str>>([
            ("time", quoted(&stamp(self.time))),
            ("connection", self.connection.map(|number| number.to_string().into())),
            ("direction", quoted(self.direction)),
            ("message", message),
            ("text", text.and_then(|text| quoted(&ui.hidden(&text)))),
        ]);
        out.push_str(&line);
        out.push('\n');
    }
}

/// The message with `***` for each secret in its strings, numbers and literals; `None` where a secret contains the punctuation
/// of JSON, so that replacing it would make the message invalid.
pub(crate) fn without_secrets<'a>(
    message: &'a Raw,
    hide: impl for<'t> Fn(&'t str) -> Cow<'t, str>,
) -> Option<Cow<'a, str>> {
    let text = message.as_str();
    let mut out = Cow::Borrowed(text);
    let mut written = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += match byte {
            b'"' => secret::string_length(&text[at..]).unwrap_or(bytes.len() - at),
            b'{' | b'}' | b'[' | b']' | b':' | b',' | b' ' | b'\t' | b'\r' | b'\n' => 1,
            // A number, or true, false, null.
            _ => bytes[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
                .count()
                .max(1),
        };
        let token = text.get(start..at)?;
        // The value, however it is escaped.
        let meant: Cow<'_, str> = if *byte == b'"' && token.contains('\\') {
            Raw::parse(token.to_owned()).ok()?.to_string_value()?.into_owned().into()
        } else {
            token.trim_matches('"').into()
        };
        let hidden = hide(&meant);
        if hidden != *meant {
            let out = out.to_mut();
            if written == 0 {
                out.clear();
            }
            out.push_str(&text[written..start]);
            out.push_str(Raw::string(&hidden).as_str());
            written = at;
        }
    }
    if written > 0 {
        out.to_mut().push_str(&text[written..]);
    }
    (hide(&out) == *out).then_some(out)
}

/// The time in UTC, as [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339) writes it, to the microsecond.
pub(crate) fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    // A clock after the year 9999 is wrong, and a trace needs no better time then.
    let time = i128::try_from(since.as_nanos()).ok().map(OffsetDateTime::from_unix_timestamp_nanos);
    let time = time.and_then(Result::ok).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second, micros) = time.to_hms_micro();
    format!("{}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z", time.date())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, UNIX_EPOCH};

    use bytes::Bytes;
    use mcpjoin::proto::decode::{Decoded, decode};
    use mcpjoin::proto::session::{Inbound, Origin};
    use mcpjoin::proto::{DecodeLimits, Raw};
    use mcpjoin::transport::Inspected;

    use super::{Trace, stamp, without_secrets};
    use crate::ui::{Secrets, Ui};

    #[test]
    fn times_are_written_as_everybody_writes_them() {
        for (seconds, written) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (1_795_310_000, "2026-11-22T01:13:20"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            let time = UNIX_EPOCH + Duration::new(seconds, 1_234_000);
            assert_eq!(stamp(time), format!("{written}.001234Z"));
        }
    }

    #[test]
    fn i166_a_message_stays_one_without_its_secrets() {
        let ui = Ui::plain();
        ui.hide(Secrets::new(&["hunter2".into(), "12345678".into(), "é\"x".into(), "[1,2]".into()]));
        for (message, written) in [
            (r#"{"a": [1.50, "plain"]}"#, Some(r#"{"a": [1.50, "plain"]}"#)),
            (r#"{"a":"is hunter2!","b":"\n"}"#, Some(r#"{"a":"is ***!","b":"\n"}"#)),
            (r#"{"hunter2":{"x":"h\u0075nter2"}}"#, Some(r#"{"***":{"x":"***"}}"#)),
            (r#"{"a":[12345678,-12345678.5,true]}"#, Some(r#"{"a":["***","-***.5",true]}"#)),
            (r#"["\u00e9\"x","é\"x","\\"]"#, Some(r#"["***","***","\\"]"#)),
            // The beginning of a secret may be an ordinary word.
            (r#"{"name":"hunt","a":"hunter"}"#, Some(r#"{"name":"hunt","a":"hunter"}"#)),
            // Replaced, it would be no JSON.
            ("[[1,2]]", None),
        ] {
            let raw = Raw::parse(message).unwrap();
            let hidden = without_secrets(&raw, |text| ui.hidden_whole(text));
            assert_eq!(hidden.as_deref(), written, "{message}");
        }
    }

    #[test]
    fn each_message_of_a_received_array_has_a_line() {
        let path = std::env::temp_dir().join(format!("mcpjoin-array-{}", std::process::id()));
        let trace = Trace::to(&path, &Ui::plain()).unwrap();
        let array =
            Bytes::from_static(br#"[{"jsonrpc":"2.0","method":"a"},7,{"jsonrpc":"2.0","method":"b"}]"#);
        let Ok(Decoded::Batch(parts)) = decode(&array, &DecodeLimits::default()) else { panic!("no array") };
        let batch = Inbound::Batch { parts, exchange: None, origin: Arc::new(Origin::new("test")) };
        trace.crossed("received", Inspected::Inbound(&batch));
        trace.close();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("\"method\":\"a\"") && text.contains("\"method\":\"b\""), "{text}");
    }

    #[test]
    fn two_processes_that_write_one_trace_lose_no_line_of_each_other() {
        let path = std::env::temp_dir().join(format!("mcpjoin-traces-{}", std::process::id()));
        std::fs::write(&path, "the trace of yesterday").unwrap();
        let (one, long) = (Trace::to(&path, &Ui::plain()).unwrap(), "x".repeat(3 * super::CHUNK_BYTES));
        one.line("received", b"first");
        // The lock is that of the open file, so a second one is like that of another process.
        let other = Trace::to(&path, &Ui::plain()).unwrap();
        for trace in [&one, &other] {
            trace.line("received", long.as_bytes());
        }
        for trace in [one, other] {
            trace.close();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["text"].clone();
        let mut texts: Vec<_> = text.lines().map(read).collect();
        texts.sort_by_key(|text| text.as_str().map(str::len));
        assert_eq!(texts, ["first", &long, &long]);
    }

    /// Says that it is to write, and takes bytes when it is allowed to.
    struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>);

    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The receiver may have gone.
            let _ = self.0.send(());
            self.1.recv().map_err(|_| io::Error::other("full"))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_does_not_write_holds_nothing_up_and_takes_no_memory() {
        let (allow, allowed) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let trace = Trace::writing(Slow(begun, allowed), &Ui::plain()).unwrap();
        let line = vec![b'x'; 1 << 20];
        trace.line("received", &line);
        // From here on the writer has the first line, and its bytes still count.
        begins.recv().unwrap();
        for _ in 1..100 {
            trace.line("received", &line);
        }
        let state = trace.shared.lock();
        assert_eq!((state.bytes, state.left_out), (super::MAX_BUFFERED_BYTES, 92));
        drop(state);
        // From now on writing fails, and closing does not wait for it.
        drop(allow);
        trace.close();
        assert!(trace.shared.lock().over);
        trace.line("received", &line);
        assert!(trace.shared.lock().lines.is_empty());
    }
}
