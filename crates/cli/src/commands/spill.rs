//! Parts of a result that are too large to be shown: each goes to a file of its own, in a folder that nobody else may read.
//!
//! Called by `call`. The names of the files are ours: nothing that a server says decides where anything is written.

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mcpjoin::proto::Raw;

use super::contents;
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::target::shown;
use crate::ui::Ui;

/// What is larger than this, in bytes, is not shown on a terminal: thousands of pages that nobody reads.
const ON_A_TERMINAL: usize = 1 << 20;

/// Extensions by the type that a server gives; what is not here is `.bin`.
const EXTENSIONS: [(&str, &str); 12] = [
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("text/html", "html"),
    ("text/plain", "txt"),
];

/// Where large parts go.
pub(super) struct Spill<'a> {
    ui: &'a Ui,
    /// `None`: nothing is too large.
    limit: Option<usize>,
    /// Made for the first of them.
    folder: Option<PathBuf>,
    count: usize,
    /// The last piece that is not what it is said to be.
    broken: Option<Failure>,
}

impl<'a> Spill<'a> {
    /// `asked`: the limit that was asked for. Without it a terminal has one, and nothing else has.
    pub(super) fn new(ui: &'a Ui, asked: Option<usize>) -> Self {
        let limit = asked.or_else(|| ui.shows_results().then_some(ON_A_TERMINAL));
        Self { ui, limit, folder: None, count: 0, broken: None }
    }

    /// The contents of a result for a person, as [`contents::page`] has them, without those that are too large.
    pub(super) fn page(&mut self, pieces: &[Raw]) -> String {
        let mut out = String::new();
        for piece in pieces {
            match Object::of(piece).and_then(|piece| self.spilled(&piece)) {
                Some(line) => {
                    let _ = writeln!(out, "{line}");
                }
                None => out.push_str(&contents::page(std::slice::from_ref(piece))),
            }
        }
        out
    }

    /// A text that is the whole result, or the line that says where it is.
    pub(super) fn text(&mut self, text: String, extension: &str) -> String {
        if !self.is_over(text.len()) {
            return text;
        }
        match self.keep(text.as_bytes(), extension) {
            Some(path) => format!("[{} bytes, in {}]", text.len(), shown(path.as_os_str())),
            None => text,
        }
    }

    fn is_over(&self, length: usize) -> bool {
        self.limit.is_some_and(|limit| length > limit)
    }

    /// Writes a piece to a file, where it is too large, and says so in a line.
    fn spilled(&mut self, piece: &Object) -> Option<String> {
        let inner = piece.value("resource").and_then(Object::of);
        let facts = inner.as_ref().unwrap_or(piece);
        // In base64 it is longer than it is.
        let longest =
            ["text", "data", "blob"].iter().filter_map(|name| Some(facts.value(name)?.len())).max()?;
        if !self.is_over(longest) {
            return None;
        }
        let bytes = match contents::bytes(facts)? {
            Ok(bytes) if self.is_over(bytes.len()) => bytes,
            Ok(_) => return None,
            Err(error) => return self.undecoded(piece, facts, &error.to_string()),
        };
        let kind = facts.text("mimeType").unwrap_or_default().to_ascii_lowercase();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let known = EXTENSIONS.iter().find(|(known, _)| *known == kind).map(|(_, extension)| *extension);
        let extension = known.unwrap_or_else(|| if facts.value("text").is_some() { "txt" } else { "bin" });
        let path = self.keep(&bytes, extension)?;
        let line = contents::line(piece);
        Some(format!("{}, in {}]", line.strip_suffix(']').unwrap_or(&line), shown(path.as_os_str())))
    }

    /// The same for a piece that is said to be base64, and is none: its text goes to the file as it came.
    fn undecoded(&mut self, piece: &Object, facts: &Object, why: &str) -> Option<String> {
        let text = facts.text("blob").or_else(|| facts.text("data"))?;
        let kind = piece.text("type").unwrap_or_else(|| "content".into());
        let path = self.keep(text.as_bytes(), "base64.txt");
        let failure =
            Failure::bad_reply(format!("what stands for the {kind} is not base64: {why}"), Phase::Call);
        let kept = path.as_ref().map(|path| shown(path.as_os_str()));
        self.broken = Some(match &kept {
            Some(path) => {
                failure.hint(format!("what came is in {path}, as it is; tell the authors of the server"))
            }
            None => failure.hint("--json shows what came, as it is; tell the authors of the server"),
        });
        let line = contents::line(piece);
        let line = line.strip_suffix(']').unwrap_or(&line);
        Some(format!("{line}, not base64, as it came in {}]", kept?))
    }

    /// Why a piece is not what it is said to be, where one is not.
    pub(super) fn broken(self) -> Option<Failure> {
        self.broken
    }

    /// The file in which they are now; when they cannot be written, that is said, and they are shown.
    fn keep(&mut self, bytes: &[u8], extension: &str) -> Option<PathBuf> {
        match self.write(bytes, extension) {
            Ok(path) => {
                self.ui.note(&format!("{} bytes written to {}", bytes.len(), shown(path.as_os_str())));
                Some(path)
            }
            Err(error) => {
                let folder = std::env::temp_dir();
                self.ui.warning(&format!(
                    "what is too large to be shown cannot be written to {}: {error}; TMPDIR names another folder",
                    shown(folder.as_os_str())
                ));
                None
            }
        }
    }

    fn write(&mut self, bytes: &[u8], extension: &str) -> io::Result<PathBuf> {
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => self.folder.insert(new_folder(&std::env::temp_dir())?).clone(),
        };
        self.count += 1;
        let path = folder.join(format!("{}.{extension}", self.count));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        file.write_all(bytes)?;
        file.flush()?;
        Ok(path)
    }
}

/// A folder that was not there before, for us alone.
fn new_folder(parent: &Path) -> io::Result<PathBuf> {
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(|error| io::Error::other(error.to_string()))?;
    let path = parent.join(format!("mcpjoin-{:016x}", u64::from_ne_bytes(number)));
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&path)?;
    Ok(path)
}
