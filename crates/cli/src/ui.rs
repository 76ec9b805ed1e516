//! The only place that prints. Results go to standard output and nothing else does; everything said about them goes
//! to standard error.
//!
//! What others wrote reaches no terminal as it is: every text that is printed here passes through `visible`, and only
//! [`Ui::data`] and [`Ui::bytes`], the results of a call, stay as they are where standard output is no terminal.
//!
//! A reader of our output that goes away ends the command quietly: that is [`Unwritten::Gone`], not a failure.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread;

use anstream::{AutoStream, ColorChoice};
use clap::builder::styling::{AnsiColor, Color, Style};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::args::{Output, When};
use crate::failure::Failure;
use crate::fold;
use crate::secret::Kept;
pub(crate) use crate::secret::Secrets;
use crate::visible;

/// The widest line of progress, in columns: what is longer is not read in passing.
const PROGRESS: usize = 72;

/// How the parts of a text are shown where colours are.
pub(crate) const HEADING: Style = Style::new().bold();
pub(crate) const NAME: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const BAD: Style = Style::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Red)));

/// What is printed, where, and how much of it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Ui {
    pub(crate) json: bool,
    quiet: bool,
    verbose: u8,
    color: ColorChoice,
    /// Shared by all clones, so that none of them shows what another one hides.
    hiding: Arc<RwLock<Hiding>>,
    /// There is a line to be taken away.
    drawn: Arc<AtomicBool>,
}

/// What is not shown, and what is in any case.
#[derive(Default)]
struct Hiding {
    secrets: Vec<Secrets>,
    kept: Kept,
}

/// Standard output took no more.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Whoever read it has gone: nothing is left to do.
    Gone,
    /// The disk is full, or the like.
    Failed(io::Error),
}

impl Ui {
    pub(crate) fn new(output: &Output) -> Self {
        Self {
            json: output.json,
            quiet: output.quiet,
            verbose: output.verbose,
            color: match output.color {
                When::Auto => automatic(),
                When::Always => ColorChoice::Always,
                When::Never => ColorChoice::Never,
            },
            hiding: Arc::default(),
            drawn: Arc::default(),
        }
    }

    /// For what has no options of its own: help, and words that could not be read.
    pub(crate) fn plain() -> Self {
        Self {
            json: false,
            quiet: false,
            verbose: 0,
            color: automatic(),
            hiding: Arc::default(),
            drawn: Arc::default(),
        }
    }

    /// From now on none of these texts is shown on standard error, beside those that are hidden already.
    pub(crate) fn hide(&self, secrets: Secrets) {
        self.hiding.write().unwrap_or_else(PoisonError::into_inner).secrets.push(secrets);
    }

    /// From now on this program or host is shown, also where a secret has the same text.
    pub(crate) fn keep(&self, text: &str) {
        self.hiding.write().unwrap_or_else(PoisonError::into_inner).kept.add(text);
    }

    fn hiding(&self) -> RwLockReadGuard<'_, Hiding> {
        self.hiding.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text without what must not be shown.
    pub(crate) fn hidden<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Hiding { secrets, kept } = &*self.hiding();
        kept.apart(text, |piece| {
            secrets.iter().fold(Cow::Borrowed(piece), |piece, secrets| secrets.hide(&piece).into())
        })
    }

    /// The same for a text of which nothing was cut off.
    pub(crate) fn hidden_whole<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Hiding { secrets, kept } = &*self.hiding();
        kept.apart(text, |piece| {
            secrets.iter().fold(Cow::Borrowed(piece), |piece, secrets| match secrets.hide_whole(&piece) {
                Cow::Borrowed(_) => piece,
                Cow::Owned(hidden) => Cow::Owned(hidden),
            })
        })
    }

    /// JSON, or a piece of it between words: texts that are values without what must not be shown.
    pub(crate) fn hidden_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let Hiding { secrets, kept } = &*self.hiding();
        secrets.iter().fold(Cow::Borrowed(json), |json, secrets| match secrets.hide_in_json(&json, kept) {
            Cow::Borrowed(_) => json,
            Cow::Owned(hidden) => Cow::Owned(hidden),
        })
    }

    /// The same in every text of a value, some of which may have been cut off.
    pub(crate) fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hidden(text).into_owned(),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.hide_in(member)),
            _ => {}
        }
    }

    /// A result. Ends with a line feed. Styles in it are dropped where there are no colours.
    pub(crate) fn result(&self, text: &str) -> Result<(), Unwritten> {
        finish(AutoStream::new(io::stdout(), self.color).lock(), &self.printable(text))
    }

    /// A text of ours in which others' words may stand that nobody has made visible.
    fn printable<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.json { visible::document(text) } else { visible::styled(text) }
    }

    /// A result for a person, in whole sentences: on a terminal its lines are no wider than that. JSON stays as it is.
    pub(crate) fn page(&self, text: &str) -> Result<(), Unwritten> {
        match self.width() {
            Some(width) if !self.json => self.result(&fold::fold(text, width)),
            _ => self.result(text),
        }
    }

    /// A part of a result: nothing is added to it. Styles in it are dropped where there are no colours.
    pub(crate) fn piece(&self, text: &str) -> Result<(), Unwritten> {
        self.line_over();
        let mut out = AutoStream::new(io::stdout(), self.color).lock();
        out.write_all(self.printable(text).as_bytes()).and_then(|()| out.flush()).map_err(Unwritten::from)
    }

    /// A result that is data: every byte goes as it is, unless a terminal would obey some of them.
    pub(crate) fn data(&self, text: &str) -> Result<(), Unwritten> {
        if io::stdout().is_terminal() {
            return self.result(&visible::text(text));
        }
        finish(io::stdout().lock(), text)
    }

    /// Bytes, as they are, wherever standard output goes to.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Unwritten> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Unwritten::from)
    }

    /// Asks a person, and gives the answer without the blank space around it. `None` when nobody is there to answer:
    /// standard input and standard error have to be a terminal. What was typed before the question is dropped: it answers
    /// something else.
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

    /// Whether results go to a person's terminal, and not to a file or another program.
    pub(crate) fn shows_results(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Prints on a thread of its own: whoever reads our output may let us wait for as long as it likes, and signals are
    /// heard all the same.
    pub(crate) async fn aside(
        &self,
        print: impl FnOnce(&Self) -> Result<(), Unwritten> + Send + 'static,
    ) -> Result<(), Unwritten> {
        let (done, outcome) = oneshot::channel();
        let ui = self.clone();
        thread::Builder::new()
            .name("output".into())
            .spawn(move || {
                // Nobody waits for it when a signal has ended the command.
                let _ = done.send(print(&ui));
            })
            .map_err(Unwritten::Failed)?;
        outcome
            .await
            .unwrap_or_else(|_| Err(Unwritten::Failed(io::Error::other("the writing thread failed"))))
    }

    /// The width of the terminal that results go to, in columns; `None` when they do not go to one.
    pub(crate) fn width(&self) -> Option<usize> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        asked.or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
    }

    /// Something that is worth knowing about what is done, on one line.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.tell(&self.one_line(text));
        }
    }

    /// The same on several lines.
    pub(crate) fn note_lines(&self, text: &str) {
        if !self.quiet {
            self.tell(&visible::text(&self.hidden(text)));
        }
    }

    /// Something without which nothing goes on: however quiet it is to be. A line of it stays one, so that it can be copied.
    pub(crate) fn say(&self, text: &str) {
        self.line_over();
        let mut out = AutoStream::new(io::stderr(), self.color).lock();
        let _ = out.write_all(format!("{}\n", visible::text(&self.hidden_whole(text))).as_bytes());
    }

    /// Something about a result that the result says itself where it is shown as JSON.
    pub(crate) fn remark(&self, text: &str) {
        if !self.json {
            self.note(text);
        }
    }

    /// The same with styles of ours in it: what others wrote in it has been made visible.
    pub(crate) fn styled_remark(&self, text: &str) {
        if !self.json && !self.quiet {
            self.tell(&self.hidden(text));
        }
    }

    /// Something that `-v` asks for, on one line.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose > 0 {
            self.tell(&self.one_line(text));
        }
    }

    /// The same, behind who says it.
    pub(crate) fn detail_of(&self, speaker: &str, text: &str) {
        if self.verbose > 0 {
            self.line_of(speaker, text);
        }
    }

    /// Something that must not be overlooked, although it worked, on one line.
    pub(crate) fn warning(&self, text: &str) {
        self.tell(&format!("{BAD}warning:{BAD:#} {}", self.one_line(text)));
    }

    /// A warning on several lines, without masking: what a user is asked to trust does not decide how it is shown.
    pub(crate) fn warning_as_written(&self, text: &str) {
        self.tell(&format!("{BAD}warning:{BAD:#} {}", visible::text(text)));
    }

    /// [`Ui::note`] of a text whose secrets were masked by position.
    pub(crate) fn note_masked(&self, text: &str) {
        if !self.quiet {
            self.tell(&visible::line(text));
        }
    }

    /// A line of the server's standard error or log.
    pub(crate) fn server_line(&self, line: &str) {
        self.line_of("server", line);
    }

    /// A line of a program that the user has started through us, with nothing added to it.
    pub(crate) fn program_line(&self, line: &str) {
        self.tell(&self.one_line(line));
    }

    fn line_of(&self, speaker: &str, text: &str) {
        self.tell(&format!("{FAINT}{speaker}:{FAINT:#} {}", self.one_line(text)));
    }

    /// What others wrote, without secrets and without what would leave its line.
    fn one_line(&self, text: &str) -> String {
        // Secrets first: made visible, one would not be recognized.
        visible::line(&self.hidden(text)).into_owned()
    }

    /// Whether there is a line on a terminal that can be drawn again and again.
    pub(crate) fn has_line(&self) -> bool {
        !(self.json || self.quiet || self.verbose > 0 || dumb()) && io::stderr().is_terminal()
    }

    /// Draws the line where [`Ui::has_line`]: what does not fit on it is left out.
    pub(crate) fn line(&self, text: &str) {
        // A line that fills the last column would wrap on some terminals, and could not be taken away.
        let room = terminal_size::terminal_size_of(io::stderr())
            .map_or(PROGRESS, |(width, _)| usize::from(width.0).saturating_sub(1).min(PROGRESS));
        let text = visible::line(text);
        let text = visible::cut(&self.hidden(&text), room).into_owned();
        self.drawn.store(true, Ordering::Relaxed);
        let _ = write!(io::stderr().lock(), "\r\u{1b}[K{text}");
    }

    /// Takes the line away.
    pub(crate) fn line_over(&self) {
        if self.drawn.swap(false, Ordering::Relaxed) {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }

    pub(crate) const fn verbosity(&self) -> u8 {
        self.verbose
    }

    /// Why it did not work. Always shown.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            self.tell(&visible::document(&self.hidden(&failure.json().to_string())));
        } else {
            self.tell(&self.hidden(&failure.block()));
        }
    }

    /// Words that clap could not read, or the help that it was asked for.
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
        let mut out = AutoStream::new(io::stderr(), self.color).lock();
        // One write, so that lines of several threads do not mix. When nobody reads it, nobody misses it.
        let _ = out.write_all(format!("{text}\n").as_bytes());
    }
}

/// clap's words with the id that they have as JSON, too, at the end of what is wrong. Help that nobody asked for stays as
/// it is.
fn with_id(text: &str) -> Cow<'_, str> {
    let (first, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
    if !anstream::adapter::strip_str(first).to_string().starts_with("error:") {
        return Cow::Borrowed(text);
    }
    let (problem, colon) = first.strip_suffix(':').map_or((first, ""), |problem| (problem, ":"));
    format!("{problem} {FAINT}(E_USAGE){FAINT:#}{colon}{rest}").into()
}

/// What the surroundings say of colours. A terminal that can do nothing gets none, wherever it is: the library that asks
/// the rest of it believes a variable `CI` more than TERM.
fn automatic() -> ColorChoice {
    if dumb() { ColorChoice::Never } else { ColorChoice::Auto }
}

/// Whether the terminal can do nothing but show text.
fn dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Writes a text to its end, which is a line feed.
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
