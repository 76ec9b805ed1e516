//! The line editor of the shell, on a thread of its own, and the lines of a script in its place.
//!
//! Used by the parent. The crate `rustyline` draws on the terminal itself, so that standard output has results alone. What is printed
//! while a line is edited goes above it, and the line is drawn again (`Ui::edited`): the printer of `rustyline` itself loses keys
//! that come together before its version 19. The history is a file in the state folder, readable for the user alone.

use std::fs::File;
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc as channel};
use std::thread;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Editor, Helper};
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr as _;

use super::completion::Catalogue;
use crate::folders;
use crate::replacement::replace;
use crate::ui::Ui;

/// The bytes that are read of the history file.
const MAX_HISTORY_BYTES: u64 = 1024 * 1024;
/// The lines of the history.
const MAX_HISTORY_LINES: usize = 1000;
/// The longest line of a script.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// A line, or why there is none.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C: the line is discarded.
    Interrupted,
    /// Ctrl-D, or the end of the script.
    End,
    /// The lines cannot be read.
    Failed(String),
}

/// Reads lines on its thread, one for each request.
pub(super) struct Lines {
    wanted: channel::Sender<()>,
    lines: mpsc::Receiver<Line>,
    /// The line that is edited, and the place of the cursor in it; `None` for a script.
    edited: Option<Edited>,
    prompt: &'static str,
    /// The settings of the terminal, which the editor changes while it reads.
    terminal: Option<rustix::termios::Termios>,
}

type Edited = Arc<Mutex<(String, usize)>>;

impl Lines {
    /// An editor on the terminal. `prompt`: the text before each line.
    pub(super) fn edited(prompt: &'static str, catalogue: Arc<Catalogue>) -> Result<Self, String> {
        let problem = |error: ReadlineError| error.to_string();
        let config = Config::builder().max_history_size(MAX_HISTORY_LINES).map_err(problem)?;
        let config = config
            .history_ignore_dups(true)
            .map_err(problem)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .auto_add_history(true)
            .behavior(Behavior::PreferTerm)
            .build();
        let terminal = rustix::termios::tcgetattr(std::io::stdin()).ok();
        let mut editor: Editor<Completing, MemHistory> = Editor::with_config(config).map_err(problem)?;
        let edited = Edited::default();
        editor.set_helper(Some(Completing { catalogue, edited: edited.clone() }));
        let mut history = history().map(History::read);
        for line in history.iter().flat_map(|history| history.stored.lines()) {
            let _ = editor.add_history_entry(line);
        }
        let read = move || {
            let line = match editor.readline(prompt) {
                Ok(line) => Line::Text(line),
                Err(ReadlineError::Interrupted) => Line::Interrupted,
                Err(ReadlineError::Eof) => Line::End,
                Err(error) => Line::Failed(error.to_string()),
            };
            if let Some(history) = &mut history {
                history.store(editor.history().into_iter().map(String::as_str));
            }
            line
        };
        Ok(Self { edited: Some(edited), prompt, terminal, ..Self::on_thread(read)? })
    }

    /// The lines of standard input.
    pub(super) fn script() -> Result<Self, String> {
        Self::on_thread(|| {
            let mut line = String::new();
            match std::io::stdin().lock().take(MAX_LINE_BYTES).read_line(&mut line) {
                Ok(0) => Line::End,
                Ok(read) if read as u64 == MAX_LINE_BYTES && !line.ends_with('\n') => {
                    Line::Failed(format!("a line has more than {MAX_LINE_BYTES} bytes"))
                }
                Ok(_) => Line::Text(line),
                Err(error) => Line::Failed(error.to_string()),
            }
        })
    }

    fn on_thread(mut read: impl FnMut() -> Line + Send + 'static) -> Result<Self, String> {
        let (wanted, requests) = channel::channel();
        let (sender, lines) = mpsc::channel(1);
        let reading = move || {
            // The thread ends with the process, or with the shell.
            while requests.recv().is_ok() {
                if sender.blocking_send(read()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("lines".into()).spawn(reading).map_err(|error| error.to_string())?;
        Ok(Self { wanted, lines, edited: None, prompt: "", terminal: None })
    }

    /// The next line. When the future is dropped, the shell ends: the terminal is restored by [`restore`](Self::restore).
    pub(super) async fn next(&mut self, ui: &Ui) -> Line {
        let _edited = self.edited.clone().map(|edited| {
            edited.lock().unwrap_or_else(PoisonError::into_inner).0.clear();
            let prompt = self.prompt;
            ui.edited(move || {
                let (line, cursor) = &*edited.lock().unwrap_or_else(PoisonError::into_inner);
                let behind = line.get(*cursor..).unwrap_or_default().width();
                (format!("{prompt}{line}"), behind)
            })
        });
        if self.wanted.send(()).is_err() {
            return Line::End;
        }
        self.lines.recv().await.unwrap_or(Line::End)
    }

    /// Restores the terminal, which an editor that still reads has changed.
    pub(super) fn restore(&self) {
        if let Some(terminal) = &self.terminal {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, terminal);
        }
    }
}

/// The history file, and the lines that it has. Not `FileHistory` of `rustyline` 18, which needs Rust 1.89.
struct History {
    file: PathBuf,
    stored: String,
}

impl History {
    /// None are stored before the first session.
    fn read(file: PathBuf) -> Self {
        let mut bytes = Vec::new();
        let read = File::open(&file).and_then(|file| file.take(MAX_HISTORY_BYTES).read_to_end(&mut bytes));
        let text = read.map(|_| String::from_utf8_lossy(&bytes)).unwrap_or_default();
        // What earlier versions wrote begins with a line that names its form.
        let lines: Vec<&str> = text.lines().filter(|line| *line != "#V2").collect();
        let stored = lines.join("\n");
        Self { file, stored }
    }

    /// Writes the lines, unless they are stored already. The history of this session is lost where it cannot be written.
    fn store<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        let lines = lines.collect::<Vec<&str>>().join("\n");
        if lines != self.stored && replace(&self.file, lines.as_bytes(), |_| Ok(())).is_ok() {
            self.stored = lines;
        }
    }
}

/// The file of the history; `None` where there is no place for it. Our folder is made, and the state folder around it, but never
/// the user's home.
fn history() -> Option<PathBuf> {
    let state = folders::state()?;
    let folder = state.join("mcpjoin");
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    for path in [&state, &folder] {
        match builder.create(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
    }
    Some(folder.join("shell-history"))
}

/// Completes words with what is known of the server, and remembers the line that is edited.
struct Completing {
    catalogue: Arc<Catalogue>,
    edited: Edited,
}

impl Completer for Completing {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, words) = self.catalogue.candidates(line.get(..pos).unwrap_or(line));
        let pair = |word: String| Pair { display: word.trim_end().to_owned(), replacement: word };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completing {
    type Hint = String;

    /// Called each time the line is drawn. There is no hint.
    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<String> {
        *self.edited.lock().unwrap_or_else(PoisonError::into_inner) = (line.to_owned(), pos);
        None
    }
}

impl Highlighter for Completing {}

impl Validator for Completing {}

impl Helper for Completing {}

#[cfg(test)]
mod tests {
    use super::History;

    #[test]
    fn the_history_is_written_only_when_it_has_changed() {
        let folder = std::env::temp_dir().join(format!("mcpjoin-history-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("shell-history");
        std::fs::write(&file, "#V2\nfirst\n").unwrap();
        let mut history = History::read(file.clone());
        // A file that is gone shows whether it was written.
        std::fs::remove_file(&file).unwrap();
        history.store(["first"].into_iter());
        assert!(!file.exists(), "nothing has changed");
        for _ in 0..2 {
            history.store(["first", "second"].into_iter());
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "first\nsecond");
        std::fs::remove_file(&file).unwrap();
        history.store(["first", "second"].into_iter());
        assert!(!file.exists(), "nothing has changed");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
