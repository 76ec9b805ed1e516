//! `bridge --audit FILE`: one JSON object per line for each request of a client.
//!
//! `{"time": "2026-07-28T09:30:00.123456Z", "principal": ..., "address": ..., "client": ..., "server": ..., "method": ...,
//! "tool": ..., "outcome": "ok", "ms": 12.5, "bytesIn": 40, "bytesOut": 1200}`. Secrets are replaced. The file is appended
//! to, and opened again at SIGHUP, so that programs that rotate logs can move it. A separate thread writes it, so that a
//! full or slow disk delays no call. Lines that do not fit into its buffer, or that cannot be written, are counted as
//! `{"time": ..., "leftOut": 3}`, in the metrics, and in a warning.
//!
//! Made by `relay`, which gives it the records. It never ends the bridge.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mcpjoin::proto::{Method, Raw};
use mcpjoin_gateway::{CallOutcome, CallRecord};
use prometheus_client::metrics::counter::Counter;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::connect::{Signals, stamp, without_secrets};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::shown;
use crate::ui::Ui;

/// The bytes of lines that are buffered for the disk. Further lines are left out.
const MAX_BUFFERED_BYTES: usize = 8 << 20;
/// Bytes of a name or a URI in a line. The client chooses them.
const MAX_TEXT_BYTES: usize = 1024;
/// Bytes of the arguments in a line. Longer ones are left out of it.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;
/// How long the end of the bridge waits for the disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The file of an audit. Cheap to clone.
#[derive(Clone)]
pub(super) struct Audit(Arc<Shared>);

struct Shared {
    ui: Ui,
    /// The arguments of calls are written, too.
    with_arguments: bool,
    state: Mutex<State>,
    changed: Condvar,
    /// Lines that are not in the file.
    left_out: Counter,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that were left out, and have not been counted in the file yet.
    left_out: u64,
    /// The file is to be opened again.
    reopen: bool,
    /// No more lines are added.
    closed: bool,
    /// Everything has been written.
    over: bool,
}

/// What the thread does next.
struct Work {
    lines: VecDeque<String>,
    left_out: u64,
    reopen: bool,
}

impl Audit {
    /// Opens the file, readable for its owner alone, and listens to SIGHUP from now on.
    pub(super) fn to(path: &Path, with_arguments: bool, ui: &Ui) -> Result<Self, Failure> {
        let unusable = |error: io::Error| {
            let problem = format!("the audit cannot be written to {}: {error}", shown(path.as_os_str()));
            Failure::new("E_USAGE", Exit::Usage, Phase::Usage, problem)
                .hint("--audit FILE, where FILE can be written")
        };
        let file = open(path).map_err(unusable)?;
        let place = path.to_owned();
        let audit = Self::writing(file, move || open(&place), with_arguments, ui).map_err(unusable)?;
        let hangups = signal(SignalKind::hangup()).map_err(unusable)?;
        Signals::spare_hangups();
        tokio::spawn(audit.clone().reopen_at(hangups));
        Ok(audit)
    }

    fn writing<W: Write + Send + 'static>(
        file: W,
        reopen: impl Fn() -> io::Result<W> + Send + 'static,
        with_arguments: bool,
        ui: &Ui,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            ui: ui.clone(),
            with_arguments,
            state: Mutex::default(),
            changed: Condvar::new(),
            left_out: Counter::default(),
        });
        let writing = shared.clone();
        thread::Builder::new().name("audit".into()).spawn(move || writing.write(file, reopen))?;
        Ok(Self(shared))
    }

    async fn reopen_at(self, mut hangups: Signal) {
        while hangups.recv().await.is_some() {
            self.0.lock().reopen = true;
            self.0.changed.notify_all();
        }
    }

    /// The number of lines that are not in the file.
    pub(super) fn left_out(&self) -> Counter {
        self.0.left_out.clone()
    }

    /// Adds the line of a request. Never waits for the disk.
    pub(super) fn record(&self, record: &CallRecord) {
        self.push(self.line(record));
    }

    fn push(&self, line: String) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > MAX_BUFFERED_BYTES {
            state.left_out += 1;
            self.0.left_out.inc();
        } else {
            state.bytes += line.len();
            state.lines.push_back(line);
        }
        drop(state);
        self.0.changed.notify_all();
    }

    fn line(&self, record: &CallRecord) -> String {
        let Shared { ui, with_arguments, .. } = &*self.0;
        let text = |text: &str| json!(ui.hidden(&bounded(text)));
        let mut line = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                line.insert(name.to_owned(), value);
            }
        };
        put("time", Some(json!(stamp(record.time))));
        put("principal", record.principal().map(text));
        put("address", record.address().map(text));
        put("client", record.client().map(|client| text(&client.name)));
        put("clientVersion", record.client().map(|client| text(&client.version)));
        put("server", Some(text(&record.target)));
        put("method", Some(text(record.method.as_str())));
        let kind = match record.method {
            Method::CallTool => "tool",
            Method::GetPrompt => "prompt",
            _ => "uri",
        };
        put(kind, record.subject().as_deref().map(text));
        put("outcome", Some(json!(record.outcome.word())));
        if let CallOutcome::Error { code } = record.outcome {
            put("code", Some(json!(code)));
        }
        // To the microsecond, as the time is.
        put("ms", Some(json!(record.duration.as_micros() as f64 / 1000.0)));
        put("bytesIn", Some(json!(record.bytes_in)));
        put("bytesOut", Some(json!(record.bytes_out)));
        let mut line = Value::Object(line).to_string();
        if *with_arguments && let Some(arguments) = record.arguments() {
            line.pop();
            line.push_str(",\"arguments\":");
            line.push_str(&self.arguments(&arguments));
            line.push('}');
        }
        line.push('\n');
        line
    }

    /// The arguments without secrets, on one line.
    fn arguments(&self, arguments: &Raw) -> String {
        let ui = &self.0.ui;
        let fits = arguments.len() <= MAX_ARGUMENT_BYTES;
        let hidden = fits.then(|| without_secrets(arguments, |text| ui.hidden_whole(text))).flatten();
        let left_out = || json!({ "leftOut": true, "bytes": arguments.len() }).to_string();
        // A line feed in JSON stands only between tokens.
        hidden.map_or_else(left_out, |text| text.replace(['\r', '\n'], " "))
    }

    /// Waits until everything is written, for [`CLOSE_TIMEOUT`] at most.
    pub(super) fn close(&self) {
        let end = Instant::now() + CLOSE_TIMEOUT;
        let mut state = self.0.lock();
        state.closed = true;
        self.0.changed.notify_all();
        while !state.over {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                self.0.ui.warning("the end of the audit is missing: it is written too slowly");
                return;
            }
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn write<W: Write>(&self, mut file: W, reopen: impl Fn() -> io::Result<W>) {
        // Lines that could not be written since the last one that could.
        let mut failed = 0;
        // The last line may be incomplete.
        let mut is_torn = false;
        while let Some(work) = self.next() {
            if work.reopen {
                match reopen() {
                    Ok(opened) => (file, is_torn) = (opened, false),
                    Err(error) => {
                        self.ui.warning(&format!(
                            "the audit stays in its old file: the new one cannot be opened: {error}"
                        ));
                    }
                }
            }
            let bytes: usize = work.lines.iter().map(String::len).sum();
            let (lines, mut text) = (work.lines.len() as u64, String::new());
            if is_torn {
                text.push('\n');
            }
            let left_out = failed + work.left_out;
            if left_out > 0 {
                let time = stamp(SystemTime::now());
                text.push_str(&format!("{{\"time\":\"{time}\",\"leftOut\":{left_out}}}\n"));
            }
            text.extend(work.lines);
            match file.write_all(text.as_bytes()).and_then(|()| file.flush()) {
                Ok(()) => {
                    if left_out > 0 {
                        self.ui.warning(&format!("the audit lacks {left_out} lines"));
                    }
                    (failed, is_torn) = (0, false);
                }
                Err(error) => {
                    if failed == 0 {
                        self.ui.warning(&format!(
                            "the audit cannot be written: {error}; its lines are counted until it can"
                        ));
                    }
                    self.left_out.inc_by(lines);
                    failed = left_out + lines;
                    is_torn = true;
                }
            }
            self.lock().bytes -= bytes;
        }
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// The next work; `None` at the end.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        while state.lines.is_empty() && state.left_out == 0 && !state.reopen {
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let State { lines, left_out, reopen, .. } = &mut *state;
        Some(Work {
            lines: std::mem::take(lines),
            left_out: std::mem::take(left_out),
            reopen: std::mem::take(reopen),
        })
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The beginning of a text.
fn bounded(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::{Duration, Instant};

    use mcpjoin::proto::Raw;

    use super::{Audit, CLOSE_TIMEOUT, MAX_ARGUMENT_BYTES, MAX_BUFFERED_BYTES, MAX_TEXT_BYTES, bounded};
    use crate::ui::Ui;

    /// A file that reports each write, then waits for the test to let it succeed or fail. It keeps the text.
    struct Slow {
        begins: mpsc::Sender<()>,
        told: mpsc::Receiver<bool>,
        text: Arc<Mutex<String>>,
    }

    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The receiver may have gone.
            let _ = self.begins.send(());
            if self.told.recv() != Ok(true) {
                return Err(io::Error::other("full"));
            }
            self.text.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_client_chooses_is_cut_in_a_line_of_the_audit() {
        assert_eq!(bounded(&"é".repeat(MAX_TEXT_BYTES)).len(), MAX_TEXT_BYTES);
        assert_eq!(bounded(&format!("a{}", "é".repeat(MAX_TEXT_BYTES))).len(), MAX_TEXT_BYTES - 1);
        let file = Vec::new();
        let audit = Audit::writing(file, || Ok(Vec::new()), true, &Ui::plain()).unwrap();
        let arguments = |bytes: usize| {
            let text = format!("{{\"a\":\n\"{}\"}}", "x".repeat(bytes - 9));
            audit.arguments(&Raw::parse(text).unwrap())
        };
        assert_eq!(arguments(MAX_ARGUMENT_BYTES).len(), MAX_ARGUMENT_BYTES);
        assert!(!arguments(MAX_ARGUMENT_BYTES).contains('\n'));
        assert_eq!(arguments(MAX_ARGUMENT_BYTES + 1), r#"{"leftOut":true,"bytes":65537}"#);
        audit.close();
    }

    #[test]
    fn a_disk_that_is_slow_or_full_holds_nothing_up_and_the_lines_that_are_missing_are_counted() {
        let (begins, begun) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let text = Arc::new(Mutex::new(String::new()));
        let file = Slow { begins, told, text: text.clone() };
        let audit = Audit::writing(file, || Err(io::Error::other("gone")), false, &Ui::plain()).unwrap();
        let line = || format!("{}\n", "x".repeat((1 << 20) - 1));
        audit.push(line());
        // From here on the thread has the first line, and its bytes still count.
        begun.recv().unwrap();
        for _ in 1..20 {
            audit.push(line());
        }
        assert_eq!((audit.0.lock().bytes, audit.left_out().get()), (MAX_BUFFERED_BYTES, 12));
        // The disk is full for the first line, and then it is not.
        tell.send(false).unwrap();
        tell.send(true).unwrap();
        audit.close();
        let text = text.lock().unwrap();
        let first = text.trim_start().lines().next().unwrap();
        assert!(first.ends_with(",\"leftOut\":13}"), "{first}");
        assert_eq!(
            (text.lines().filter(|line| line.starts_with('x')).count(), audit.left_out().get()),
            (7, 13)
        );
    }

    #[test]
    fn the_end_waits_two_seconds_for_a_disk_that_does_not_answer_and_no_longer() {
        let (begins, begun) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let text = Arc::new(Mutex::new(String::new()));
        let file = Slow { begins, told, text: text.clone() };
        let audit = Audit::writing(file, || Err(io::Error::other("gone")), false, &Ui::plain()).unwrap();
        audit.push("a line\n".to_owned());
        begun.recv().unwrap();
        let began = Instant::now();
        audit.close();
        let took = began.elapsed();
        assert!(took >= CLOSE_TIMEOUT && took < CLOSE_TIMEOUT + Duration::from_secs(30), "{took:?}");
        assert_eq!(*text.lock().unwrap(), "");
        // As soon as the disk answers, the end waits no more.
        tell.send(true).unwrap();
        audit.close();
        assert_eq!(*text.lock().unwrap(), "a line\n");
    }
}
