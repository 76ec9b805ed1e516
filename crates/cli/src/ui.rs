//! The only module that prints. Results alone go to standard output, and messages about them to standard error.
//!
//! No text of a server reaches a terminal unescaped: every text that is printed here passes through `visible`. Only [`Ui::data`]
//! and [`Ui::bytes`], the results of a call, stay unchanged where standard output is no terminal.
//!
//! When the reader of our output closes it, the command ends without a message: [`Unwritten::Gone`] is no failure.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread;

use anstream::{AutoStream, ColorChoice};
use serde_json::Value;
use tokio::sync::{Notify, oneshot, watch};

use crate::args::{Output, When};
use crate::failure::Failure;
use crate::fold;
use crate::secret::AlwaysShown;
pub(crate) use crate::secret::Secrets;
use crate::visible;
pub(crate) use crate::visible::{BAD, FAINT, HEADING, NAME};

/// How often other tasks get their turn to end a question.
const MAX_TURNS: usize = 100;

/// The widest line of progress.
const MAX_PROGRESS_COLUMNS: usize = 72;

/// Prints, as the options for output say. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Ui {
    pub(crate) json: bool,
    quiet: bool,
    verbose: u8,
    /// Log messages of the server are shown.
    logs: bool,
    color: ColorChoice,
    /// Shared by all clones, so that a text that one of them hides is shown by none.
    hiding: Arc<RwLock<Hiding>>,
    /// The warnings that are not repeated.
    warned: Arc<Mutex<BTreeSet<String>>>,
    /// A line of progress is on the terminal.
    drawn: Arc<AtomicBool>,
    /// The line that the user is typing, if any.
    typing: Arc<Mutex<Option<Typing>>>,
    /// Ends the questions that are asked.
    unasked: Arc<Notify>,
    /// Whether an editor reads a line.
    editing: Arc<watch::Sender<bool>>,
    /// The questions that wait for the end of that line, or are being asked.
    asked: Arc<watch::Sender<usize>>,
}

/// A line that the user is typing: what is printed meanwhile goes above it.
pub(crate) enum Typing {
    /// The terminal itself edits it, below this prompt.
    Prompt(String),
    /// An editor draws it: the prompt with the line, and how many columns are behind the cursor.
    Editor(Box<dyn Fn() -> (String, usize) + Send>),
}

/// Ends the [`Typing`] when it is dropped.
pub(crate) struct Typed<'a>(&'a Ui);

impl Drop for Typed<'_> {
    fn drop(&mut self) {
        *self.0.typing() = None;
        self.0.editing.send_replace(false);
    }
}

/// A question, from when it arrives to its answer.
pub(crate) struct Asked<'a>(&'a Ui);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.asked.send_modify(|asked| *asked -= 1);
    }
}

/// The texts that are hidden, and those that are always shown.
#[derive(Default)]
struct Hiding {
    secrets: Vec<Secrets>,
    kept: AlwaysShown,
}

/// Why standard output could not be written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// The reader has closed it.
    Gone,
    /// Another error, such as a full disk.
    Failed(io::Error),
}

impl Ui {
    pub(crate) fn new(output: &Output) -> Self {
        Self {
            json: output.json,
            quiet: output.quiet,
            verbose: output.verbose,
            logs: output.verbose > 0,
            color: match output.color {
                When::Auto => automatic(),
                When::Always => ColorChoice::Always,
                When::Never => ColorChoice::Never,
            },
            hiding: Arc::default(),
            warned: Arc::default(),
            drawn: Arc::default(),
            typing: Arc::default(),
            unasked: Arc::default(),
            editing: Arc::default(),
            asked: Arc::default(),
        }
    }

    /// Without options: for help, and for arguments that could not be parsed.
    pub(crate) fn plain() -> Self {
        Self::new(&Output { json: false, quiet: false, verbose: 0, color: When::Auto })
    }

    /// Hides these texts on standard error from now on.
    pub(crate) fn hide(&self, secrets: Secrets) {
        self.hiding.write().unwrap_or_else(PoisonError::into_inner).secrets.push(secrets);
    }

    /// Always shows this program or host from now on, also where a secret has the same text.
    pub(crate) fn keep(&self, text: &str) {
        self.hiding.write().unwrap_or_else(PoisonError::into_inner).kept.add(text);
    }

    fn hiding(&self) -> RwLockReadGuard<'_, Hiding> {
        self.hiding.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text with `***` for secrets, and for the beginning of a secret at the end of an excerpt.
    pub(crate) fn hidden<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Hiding { secrets, kept } = &*self.hiding();
        kept.hide_between(text, |piece| apply(secrets, piece, Secrets::hide))
    }

    /// [`hidden`](Self::hidden) for a text that was not truncated.
    pub(crate) fn hidden_whole<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Hiding { secrets, kept } = &*self.hiding();
        kept.hide_between(text, |piece| apply(secrets, piece, Secrets::hide_whole))
    }

    /// JSON, or a piece of it between tokens, with `***` for secrets in string values.
    pub(crate) fn hidden_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let Hiding { secrets, kept } = &*self.hiding();
        apply(secrets, json, |secrets, json| secrets.hide_in_json(json, kept))
    }

    /// Hides secrets in every string of a value. The strings may have been truncated.
    pub(crate) fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hidden(text).into_owned(),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.hide_in(member)),
            _ => {}
        }
    }

    /// Prints a result, with a line feed at its end. Styles are removed where there are no colours.
    pub(crate) fn result(&self, text: &str) -> Result<(), Unwritten> {
        finish(AutoStream::new(io::stdout(), self.color).lock(), &self.printable(text))
    }

    /// Escapes a text of ours that may quote unescaped text of others.
    fn printable<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.json { visible::document(text) } else { visible::styled(text) }
    }

    /// Prints a result in sentences, wrapped to the width of a terminal. JSON is not wrapped.
    pub(crate) fn page(&self, text: &str) -> Result<(), Unwritten> {
        self.page_except(text, |_| false)
    }

    /// [`page`](Self::page) without wrapping the lines that have to stay whole.
    pub(crate) fn page_except(&self, text: &str, stays: impl Fn(&str) -> bool) -> Result<(), Unwritten> {
        match self.width() {
            Some(width) if !self.json => self.result(&fold::fold_except(text, width, stays)),
            _ => self.result(text),
        }
    }

    /// Prints a part of a result, without a line feed. Styles are removed where there are no colours.
    pub(crate) fn piece(&self, text: &str) -> Result<(), Unwritten> {
        self.line_over();
        let mut out = AutoStream::new(io::stdout(), self.color).lock();
        out.write_all(self.printable(text).as_bytes()).and_then(|()| out.flush()).map_err(Unwritten::from)
    }

    /// Clears the terminal, so that the next result is at its top. Prints nothing where results go elsewhere.
    pub(crate) fn clear(&self) -> Result<(), Unwritten> {
        /// Goes to the first place, and erases what follows (ECMA-48, 8.3.21 and 8.3.39).
        const CLEAR: &[u8] = b"\x1b[H\x1b[2J";
        if !io::stdout().is_terminal() {
            return Ok(());
        }
        self.line_over();
        self.bytes(CLEAR)
    }

    /// Prints a result that is data: unchanged, but escaped on a terminal.
    pub(crate) fn data(&self, text: &str) -> Result<(), Unwritten> {
        if io::stdout().is_terminal() {
            return self.result(&visible::text(text));
        }
        finish(io::stdout().lock(), text)
    }

    /// Prints bytes unchanged, also on a terminal.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Unwritten> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Unwritten::from)
    }

    /// Asks the user, and returns the trimmed line that was typed. `None` unless standard input and standard error are a
    /// terminal. Input from before the question is discarded.
    pub(crate) fn ask(&self, question: &str) -> Option<String> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        #[cfg(unix)]
        rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush).ok()?;
        let mut err = io::stderr().lock();
        err.write_all(visible::line(question).as_bytes()).and_then(|()| err.flush()).ok()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        Some(answer.trim().to_owned())
    }

    fn typing(&self) -> MutexGuard<'_, Option<Typing>> {
        self.typing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the prompt of a line that is read until the returned value is dropped.
    #[must_use]
    pub(crate) fn prompt(&self, prompt: &str) -> Typed<'_> {
        self.line_over();
        let prompt = visible::line(&self.hidden_whole(prompt)).into_owned();
        let mut err = io::stderr().lock();
        let _ = err.write_all(prompt.as_bytes()).and_then(|()| err.flush());
        *self.typing() = Some(Typing::Prompt(prompt));
        Typed(self)
    }

    /// Ends the question that is being asked, and waits until its line is free.
    pub(crate) async fn stop_asking(&self) {
        self.unasked.notify_waiters();
        for _ in 0..MAX_TURNS {
            if self.typing().is_none() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the questions are ended. Cancel-safe.
    pub(crate) async fn asking_stopped(&self) {
        self.unasked.notified().await;
    }

    /// Announces a question, until the returned value is dropped. Where an editor reads a line, it says so with `note`, and waits
    /// for the end of the line.
    pub(crate) async fn asked(&self, note: impl FnOnce() -> String) -> Asked<'_> {
        self.asked.send_modify(|asked| *asked += 1);
        let asked = Asked(self);
        let mut editing = self.editing.subscribe();
        if *editing.borrow_and_update() {
            self.note(&note());
            // The sender is ours.
            let _ = editing.wait_for(|editing| !editing).await;
        }
        asked
    }

    /// Waits until no question is being asked. Cancel-safe.
    pub(crate) async fn answered(&self) {
        // The sender is ours.
        let _ = self.asked.subscribe().wait_for(|asked| *asked == 0).await;
    }

    /// Prints above the line of an editor, until the returned value is dropped. `line`: the prompt with the line, and how many
    /// columns are behind the cursor.
    #[must_use]
    pub(crate) fn edited(&self, line: impl Fn() -> (String, usize) + Send + 'static) -> Typed<'_> {
        *self.typing() = Some(Typing::Editor(Box::new(line)));
        self.editing.send_replace(true);
        Typed(self)
    }

    /// Whether results go to a terminal.
    pub(crate) fn shows_results(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Prints on a separate thread, so that signals are handled while the reader of our output is slow.
    pub(crate) async fn aside(
        &self,
        print: impl FnOnce(&Self) -> Result<(), Unwritten> + Send + 'static,
    ) -> Result<(), Unwritten> {
        let (done, outcome) = oneshot::channel();
        let ui = self.clone();
        thread::Builder::new()
            .name("output".into())
            .spawn(move || {
                // There is no receiver after a signal has ended the command.
                let _ = done.send(print(&ui));
            })
            .map_err(Unwritten::Failed)?;
        outcome.await.unwrap_or_else(|_| Err(Unwritten::Failed(io::Error::other("the output thread failed"))))
    }

    /// The width of the terminal for results, in columns; `None` where they do not go to one.
    pub(crate) fn width(&self) -> Option<usize> {
        fold::terminal_columns()
    }

    /// Prints a note on one line, unless `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.tell(&self.one_line(text));
        }
    }

    /// [`note`](Self::note) on several lines.
    pub(crate) fn note_lines(&self, text: &str) {
        if !self.quiet {
            self.tell(&visible::text(&self.hidden(text)));
        }
    }

    /// Prints something that the user needs in order to go on, also with `--quiet`. Its lines are not wrapped, so that they can be
    /// copied.
    pub(crate) fn say(&self, text: &str) {
        self.line_over();
        let mut out = AutoStream::new(io::stderr(), self.color).lock();
        let _ = out.write_all(format!("{}\n", visible::text(&self.hidden_whole(text))).as_bytes());
    }

    /// Prints a note that the result itself contains as JSON: nothing with `--json`.
    pub(crate) fn remark(&self, text: &str) {
        if !self.json {
            self.note(text);
        }
    }

    /// [`remark`](Self::remark) with styles of ours. Text of others in it has been escaped.
    pub(crate) fn styled_remark(&self, text: &str) {
        if !self.json && !self.quiet {
            self.tell(&self.hidden(text));
        }
    }

    /// Prints a detail on one line, with `-v`.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose > 0 {
            self.tell(&self.one_line(text));
        }
    }

    /// [`detail`](Self::detail) behind the name of its speaker.
    pub(crate) fn detail_of(&self, speaker: &str, text: &str) {
        if self.verbose > 0 {
            self.line_of(speaker, text);
        }
    }

    /// Prints a warning on one line, also with `--quiet`.
    pub(crate) fn warning(&self, text: &str) {
        self.tell(&format!("{BAD}warning:{BAD:#} {}", self.one_line(text)));
    }

    /// [`warning`](Self::warning), once for each text. Only for texts about what the user has named, of which there are few.
    pub(crate) fn warning_once(&self, text: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(text.to_owned()) {
            self.warning(text);
        }
    }

    /// Prints a warning on several lines without hiding secrets: a definition that the user is asked to trust must not change how
    /// it is shown.
    pub(crate) fn warning_as_written(&self, text: &str) {
        self.tell(&format!("{BAD}warning:{BAD:#} {}", visible::text(text)));
    }

    /// [`Ui::note`] of a text whose secrets were masked by position.
    pub(crate) fn note_masked(&self, text: &str) {
        if !self.quiet {
            self.tell(&visible::line(text));
        }
    }

    /// Prints a line of the server's log.
    pub(crate) fn server_line(&self, line: &str) {
        self.line_of("server", line);
    }

    /// Prints a line of a program that the user has started through us, with nothing added.
    pub(crate) fn program_line(&self, line: &str) {
        self.tell(&self.one_line(line));
    }

    /// Prints a line of what this server or program has written.
    pub(crate) fn line_of(&self, speaker: &str, text: &str) {
        self.tell(&format!("{FAINT}{speaker}:{FAINT:#} {}", self.one_line(text)));
    }

    /// Text of others without secrets and line breaks.
    fn one_line(&self, text: &str) -> String {
        // Secrets first, since an escaped one would not be recognized.
        visible::line(&self.hidden(text)).into_owned()
    }

    /// Whether a person reads what is printed beside results.
    pub(crate) fn is_watched(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// The same terminal with the options of one command of a shell.
    pub(crate) fn with(&self, output: &Output) -> Self {
        let (json, quiet, verbose) =
            (output.json || self.json, output.quiet || self.quiet, output.verbose.max(self.verbose));
        Self { json, quiet, verbose, ..self.clone() }
    }

    /// Whether a line of progress is shown.
    pub(crate) fn has_line(&self) -> bool {
        !(self.json || self.quiet || self.verbose > 0 || dumb()) && io::stderr().is_terminal()
    }

    /// Draws the line of progress, where [`Ui::has_line`]. It is truncated to the width of the terminal.
    pub(crate) fn line(&self, text: &str) {
        if self.typing().is_some() {
            return;
        }
        // A line that fills the last column would wrap on some terminals, and could not be removed.
        let columns = terminal_size::terminal_size_of(io::stderr())
            .map_or(MAX_PROGRESS_COLUMNS, |(width, _)| {
                usize::from(width.0).saturating_sub(1).min(MAX_PROGRESS_COLUMNS)
            });
        let text = visible::line(text);
        let text = visible::cut(&self.hidden(&text), columns).into_owned();
        self.drawn.store(true, Ordering::Relaxed);
        let _ = write!(io::stderr().lock(), "\r\u{1b}[K{text}");
    }

    /// Removes the line of progress.
    pub(crate) fn line_over(&self) {
        if self.drawn.swap(false, Ordering::Relaxed) {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }

    /// Whether log messages of the server are shown: with `-v`, and where they were asked for.
    pub(crate) const fn shows_logs(&self) -> bool {
        self.logs
    }

    /// The same with log messages of the server.
    #[must_use]
    pub(crate) fn with_logs(&self) -> Self {
        Self { logs: true, ..self.clone() }
    }

    pub(crate) const fn verbosity(&self) -> u8 {
        self.verbose
    }

    /// Prints a failure, also with `--quiet`.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            self.tell(&visible::document(&self.hidden(&failure.json().to_string())));
        } else {
            self.tell(&self.hidden(&failure.block(self.verbose > 0)));
        }
    }

    /// Prints the error of clap, or its help.
    pub(crate) fn clap(&self, error: &clap::Error) -> Result<(), Unwritten> {
        let text = error.render().ansi().to_string();
        if error.use_stderr() {
            self.tell(&self.hidden(&with_id(text.trim_end())));
            Ok(())
        } else {
            self.result(&text)
        }
    }

    fn tell(&self, text: &str) {
        self.line_over();
        let text = visible::styled(text);
        let text = match terminal_size::terminal_size_of(io::stderr()) {
            Some((width, _)) if !self.json => fold::fold(&text, usize::from(width.0)),
            _ => text,
        };
        let around = match &*self.typing() {
            None => None,
            Some(Typing::Prompt(prompt)) if dumb() => Some(("\n", prompt.clone())),
            Some(Typing::Prompt(prompt)) => Some(("\r\u{1b}[K", prompt.clone())),
            Some(Typing::Editor(line)) => {
                let (line, behind) = line();
                let back = if behind > 0 { format!("\u{1b}[{behind}D") } else { String::new() };
                Some(("\r\u{1b}[K", format!("{line}{back}")))
            }
        };
        // One write, so that lines of several threads do not mix. Standard error may be closed.
        let _ = match around {
            None => {
                AutoStream::new(io::stderr(), self.color).lock().write_all(format!("{text}\n").as_bytes())
            }
            Some((before, after)) => {
                // An editor may have changed what a line feed does.
                let text = self.colored(&text).replace('\n', "\r\n");
                io::stderr().lock().write_all(format!("{before}{text}\r\n{after}").as_bytes())
            }
        };
    }

    /// A text with its styles, or without them where standard error has no colours.
    fn colored<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let choice = match self.color {
            ColorChoice::Auto => AutoStream::choice(&io::stderr()),
            choice => choice,
        };
        match choice {
            ColorChoice::Never => anstream::adapter::strip_str(text).to_string().into(),
            _ => text.into(),
        }
    }
}

/// Applies each list of secrets to the text, which `hide` borrows where it contains none of them.
fn apply<'a>(
    secrets: &[Secrets],
    text: &'a str,
    hide: impl for<'t> Fn(&Secrets, &'t str) -> Cow<'t, str>,
) -> Cow<'a, str> {
    secrets.iter().fold(Cow::Borrowed(text), |text, secrets| match hide(secrets, &text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(hidden) => Cow::Owned(hidden),
    })
}

/// Adds to the message of clap the id that it has as JSON. Help that is shown as an error stays unchanged.
fn with_id(text: &str) -> Cow<'_, str> {
    let (first, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
    if !anstream::adapter::strip_str(first).to_string().starts_with("error:") {
        return Cow::Borrowed(text);
    }
    let (problem, colon) = first.strip_suffix(':').map_or((first, ""), |problem| (problem, ":"));
    format!("{problem} {FAINT}(E_USAGE){FAINT:#}{colon}{rest}").into()
}

/// The colours for this environment. A dumb terminal gets none: for `anstream`, the variable `CI` counts more than TERM.
fn automatic() -> ColorChoice {
    if dumb() { ColorChoice::Never } else { ColorChoice::Auto }
}

/// Whether the terminal shows plain text alone.
fn dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Writes a text, and a line feed where it does not end with one.
fn finish(mut out: impl Write, text: &str) -> Result<(), Unwritten> {
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') || text.is_empty() { Ok(()) } else { out.write_all(b"\n") });
    written.and_then(|()| out.flush()).map_err(Unwritten::from)
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::Failed(error),
        }
    }
}
