//! The contents of a result for a person: texts as they are, one line for each other content, and files for contents that
//! are too large to be shown.
//!
//! Used by `call`, `prompt` and `read`. Names of files never contain text of a server.

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mcpjoin::proto::Raw;

use super::unwritten;
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

/// Accepts base64 without padding, which many servers send.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Each content on its own lines: a text as it is, also that of an embedded resource, and one line for each other content.
pub(super) fn page(contents: &[Raw]) -> String {
    page_of(contents, |content| {
        let text = match content.text("type").as_deref() {
            Some("text") => content.text("text"),
            Some("resource") => {
                content.value("resource").and_then(Object::of).and_then(|inner| inner.text("text"))
            }
            _ => None,
        };
        text.unwrap_or_else(|| line(content))
    })
}

/// Each content on its own lines. `shown`: the text of one content.
pub(super) fn page_of(contents: &[Raw], shown: impl Fn(&Object) -> String) -> String {
    let mut out = String::new();
    for content in contents {
        match Object::of(content) {
            Some(content) => out.push_str(&shown(&content)),
            None => {
                let _ = write!(out, "[content that is {}]", Object::refused(content));
            }
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// A content that is not text, in one line.
pub(super) fn line(content: &Object) -> String {
    let kind = content.text("type").unwrap_or_else(|| "content without a type".into());
    let inner = content.value("resource").and_then(Object::of);
    described(&kind, inner.as_ref().unwrap_or(content))
}

/// The known facts of a resource, an image or an audio content, in one line.
pub(super) fn described(kind: &str, facts: &Object) -> String {
    let text = |name: &str| facts.text(name).map(|text| visible::line(&text).into_owned());
    let mut parts = vec![visible::line(kind).into_owned()];
    parts.extend(text("uri"));
    parts.extend(text("name"));
    parts.extend(text("mimeType"));
    if let Some(data) = facts.text("data").or_else(|| facts.text("blob")) {
        parts.push(format!("{} bytes", decoded_length(&data)));
    } else if let Some(text) = facts.text("text") {
        parts.push(format!("{} characters", text.chars().count()));
    } else if let Some(size) = facts.value("size") {
        parts.push(format!("{} bytes", visible::line(size.as_str())));
    }
    format!("[{}]", parts.join(", "))
}

/// The bytes of a content, or why its base64 is not valid; `None` if it has no data.
pub(super) fn bytes(facts: &Object) -> Option<Result<Vec<u8>, base64::DecodeError>> {
    if let Some(text) = facts.text("text") {
        return Some(Ok(text.into_bytes()));
    }
    let mut data = facts.text("blob").or_else(|| facts.text("data"))?;
    // Some encoders insert line breaks.
    data.retain(|character| !character.is_ascii_whitespace());
    Some(BASE64.decode(data))
}

/// The number of bytes that a base64 text encodes.
fn decoded_length(data: &str) -> usize {
    let digits =
        data.bytes().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'));
    digits.count() / 4 * 3
        + match data.trim_end_matches('=').len() % 4 {
            2 => 1,
            3 => 2,
            _ => 0,
        }
}

/// The default limit of a content on a terminal: thousands of pages.
const ON_A_TERMINAL: usize = 1 << 20;

/// Extensions of files by media type. All others are `.bin` or `.txt`.
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

/// Writes contents that are too large to be shown to files.
pub(super) struct Spill<'a> {
    ui: &'a Ui,
    /// In bytes; `None`: no limit.
    limit: Option<usize>,
    /// Created for the first file.
    folder: Option<PathBuf>,
    /// The user has named the folder: every content that is not text goes there.
    is_named: bool,
    count: usize,
    /// The last content that is not valid base64.
    broken: Option<Failure>,
}

impl<'a> Spill<'a> {
    /// `asked`: the limit that the user has given. Without it only a terminal has a limit. `folder`: the folder that the user has
    /// named, which is created where it is missing.
    pub(super) fn new(ui: &'a Ui, asked: Option<usize>, folder: Option<PathBuf>) -> Self {
        let limit = asked.or_else(|| ui.shows_results().then_some(ON_A_TERMINAL));
        Self { ui, limit, is_named: folder.is_some(), folder, count: 0, broken: None }
    }

    /// The contents of a result as [`page`] has them. Contents above the limit are written to files.
    pub(super) fn page(&mut self, pieces: &[Raw]) -> String {
        let mut out = String::new();
        for piece in pieces {
            match Object::of(piece).and_then(|piece| self.spilled(&piece)) {
                Some(line) => {
                    let _ = writeln!(out, "{line}");
                }
                None => out.push_str(&page(std::slice::from_ref(piece))),
            }
        }
        out
    }

    /// A text that is the whole result, or a line that names its file.
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

    /// Writes a content above the limit to a file. Returns the line that names the file.
    fn spilled(&mut self, piece: &Object) -> Option<String> {
        let inner = piece.value("resource").and_then(Object::of);
        let facts = inner.as_ref().unwrap_or(piece);
        // Base64 is longer than its data.
        let longest =
            ["text", "data", "blob"].iter().filter_map(|name| Some(facts.value(name)?.len())).max()?;
        let is_wanted = self.is_named && facts.value("text").is_none();
        if !is_wanted && !self.is_over(longest) {
            return None;
        }
        let bytes = match bytes(facts)? {
            Ok(bytes) if is_wanted || self.is_over(bytes.len()) => bytes,
            Ok(_) => return None,
            Err(error) => return self.undecoded(piece, facts, &error.to_string()),
        };
        let kind = facts.text("mimeType").unwrap_or_default().to_ascii_lowercase();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let known = EXTENSIONS.iter().find(|(known, _)| *known == kind).map(|(_, extension)| *extension);
        let extension = known.unwrap_or_else(|| if facts.value("text").is_some() { "txt" } else { "bin" });
        let path = self.keep(&bytes, extension)?;
        let line = line(piece);
        Some(format!("{}, in {}]", line.strip_suffix(']').unwrap_or(&line), shown(path.as_os_str())))
    }

    /// Writes a content with invalid base64 to a file, as it was received.
    fn undecoded(&mut self, piece: &Object, facts: &Object, why: &str) -> Option<String> {
        let text = facts.text("blob").or_else(|| facts.text("data"))?;
        let kind = piece.text("type").unwrap_or_else(|| "content".into());
        let path = self.keep(text.as_bytes(), "base64.txt");
        let failure = Failure::bad_reply(format!("the data of the {kind} is not base64: {why}"), Phase::Call);
        let kept = path.as_ref().map(|path| shown(path.as_os_str()));
        self.broken = Some(match &kept {
            Some(path) => {
                failure.hint(format!("the received text is in {path}; report it to the server's authors"))
            }
            None => failure.hint("--json shows the received text; report it to the server's authors"),
        });
        let line = line(piece);
        let line = line.strip_suffix(']').unwrap_or(&line);
        Some(format!("{line}, not base64, unchanged in {}]", kept?))
    }

    /// The failure of a content that is not valid, or that was not written.
    pub(super) fn broken(self) -> Option<Failure> {
        self.broken
    }

    /// Writes a file and notes its name. If that fails, returns `None`, and the content is shown: with a warning, or with a failure
    /// in the folder of `--output`.
    fn keep(&mut self, bytes: &[u8], extension: &str) -> Option<PathBuf> {
        match self.write(bytes, extension) {
            Ok(path) => {
                self.ui.note(&format!("{} bytes written to {}", bytes.len(), shown(path.as_os_str())));
                Some(path)
            }
            Err(error) => {
                match self.folder.as_ref().filter(|_| self.is_named) {
                    // The files were asked for.
                    Some(folder) => self.broken = Some(unwritten(&shown(folder.as_os_str()), &error)),
                    None => self.ui.warning(&format!(
                        "a part of the result cannot be written to {}: {error}; TMPDIR sets another folder",
                        shown(std::env::temp_dir().as_os_str())
                    )),
                }
                None
            }
        }
    }

    fn write(&mut self, bytes: &[u8], extension: &str) -> io::Result<PathBuf> {
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => self.folder.insert(new_folder(&std::env::temp_dir())?).clone(),
        };
        if self.is_named && self.count == 0 {
            std::fs::create_dir_all(&folder)?;
        }
        loop {
            self.count += 1;
            let path = folder.join(format!("{}.{extension}", self.count));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(bytes)?;
                    file.flush()?;
                    return Ok(path);
                }
                // A file of the user stays as it is.
                Err(error) if self.is_named && error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Creates a folder with a random name that only this user can read.
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

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{decoded_length, line};
    use crate::object::Object;

    #[test]
    fn what_is_not_text_is_described_in_one_line() {
        for (content, described) in [
            (r#"{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}"#, "[image, image/png, 5 bytes]"),
            (r#"{"type":"audio","data":"","mimeType":"audio/wav"}"#, "[audio, audio/wav, 0 bytes]"),
            (
                r#"{"type":"resource","resource":{"uri":"a://b","mimeType":"text/plain","text":"äb"}}"#,
                "[resource, a://b, text/plain, 2 characters]",
            ),
            (
                r#"{"type":"resource_link","uri":"a://b","name":"b","size":7}"#,
                "[resource_link, a://b, b, 7 bytes]",
            ),
            (r#"{"type":"hologram\u001b","x":1}"#, "[hologram\\u{1b}]"),
            (r#"{"text":7}"#, "[content without a type]"),
        ] {
            let raw = Raw::parse(content.as_bytes().to_vec()).unwrap();
            assert_eq!(line(&Object::of(&raw).unwrap()), described, "{content}");
        }
    }

    #[test]
    fn base64_is_counted_without_being_decoded() {
        for (data, length) in [("", 0), ("YQ==", 1), ("YQ", 1), ("YWI=", 2), ("YWJj", 3), ("YWJjZA==", 4)] {
            assert_eq!(decoded_length(data), length, "{data}");
        }
    }
}
