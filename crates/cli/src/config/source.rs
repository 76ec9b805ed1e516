//! The text of a configuration file, read up to a limit, and places in it by line and column.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::found;
use crate::target::path_shown;

/// The largest configuration file.
const MAX_FILE_BYTES: u64 = 10 << 20;

/// The text of a file.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
    /// The offset of each line.
    starts: Vec<usize>,
}

/// A fault at a place in a file. Its text quotes no value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The offset in bytes.
    pub(super) at: usize,
    pub(super) text: String,
    /// What the user can try.
    pub(super) hint: String,
    pub(super) kind: ProblemKind,
}

/// What a problem is, where more than its text matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProblemKind {
    Fault,
    /// The file is well-formed and has no entries, which is no fault where it also holds other settings.
    Empty,
    /// A variable of the environment is not set.
    Unset,
    /// An input has no value. The variable that gives it one.
    UnsetInput(String),
}

impl Problem {
    pub(super) fn new(at: usize, text: impl Into<String>) -> Self {
        Self { at, text: text.into(), hint: "correct it at this place".into(), kind: ProblemKind::Fault }
    }

    /// The problem of a file without entries.
    pub(super) fn empty(text: impl Into<String>) -> Self {
        Self::new(0, text).of(ProblemKind::Empty)
    }

    pub(super) fn of(self, kind: ProblemKind) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl Source {
    pub(super) fn new(path: &Path, text: String) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { path: path.to_owned(), text, starts }
    }

    /// Reads the file. `chosen`: the user named it, so it may be a pipe, which is read until its writer closes it.
    pub(super) fn read(path: &Path, chosen: bool) -> Result<Self, Failure> {
        let unusable = |what: &dyn fmt::Display| {
            failure(format!("{}: {what}", path_shown(path)), "name another file with --config FILE")
        };
        let bytes = if chosen { named(path) } else { found::read(path, MAX_FILE_BYTES) };
        let bytes = bytes.map_err(|error| unusable(&error))?;
        let bytes = bytes.ok_or_else(|| unusable(&"larger than the limit of 10 MiB"))?;
        Self::decode(path, bytes).map_err(|bad| bad.0.failure(&bad.1))
    }

    /// From bytes to text, without a byte order mark.
    pub(super) fn decode(path: &Path, mut bytes: Vec<u8>) -> Result<Self, Box<(Self, Problem)>> {
        if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
            bytes.drain(..3);
        }
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            let problem = Problem::new(0, "this is UTF-16: save it as UTF-8");
            return Err(Box::new((Self::new(path, String::new()), problem)));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(path, text)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
                Err(Box::new((Self::new(path, text), Problem::new(at, "this is not UTF-8 from here on"))))
            }
        }
    }

    /// Whether every user of this machine may write to the file. Always false on other systems than Unix.
    pub(super) fn writable_by_all(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::metadata(&self.path)
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o002 != 0)
        }
        #[cfg(not(unix))]
        false
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path as the user would type it.
    pub(super) fn name(&self) -> String {
        path_shown(&self.path)
    }

    /// `FILE:LINE:COLUMN`, counted from 1, columns in characters.
    pub(super) fn place(&self, at: usize) -> String {
        let line = self.line(at);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        let column = self.text.get(start..at).map_or(0, |before| before.chars().count()) + 1;
        format!("{}:{line}:{column}", self.name())
    }

    /// The line of a place.
    pub(super) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).max(1)
    }

    /// The problem with its place, on one line.
    pub(super) fn say(&self, problem: &Problem) -> String {
        format!("{}: {}", self.place(problem.at), problem.text)
    }

    pub(super) fn failure(&self, problem: &Problem) -> Failure {
        failure(self.say(problem), problem.hint.clone())
    }
}

/// The bytes of a file that the user named; `None` when there are too many.
fn named(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(io::Error::other("this is a directory"));
    }
    found::bounded(File::open(path)?, MAX_FILE_BYTES)
}

/// The failure of a configuration that cannot be used.
pub(super) fn failure(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    let mut failure = Failure::usage(message, hint);
    failure.id = "E_CONFIG";
    failure
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Source;
    use crate::found::Zeros;

    #[test]
    fn a_configuration_has_10_mib_at_most() {
        for chosen in [true, false] {
            let file = Zeros::new("configuration", 10_485_760);
            assert_eq!(Source::read(&file.0, chosen).unwrap().text().len(), 10_485_760);
            let file = Zeros::new("configuration", 10_485_761);
            let failure = Source::read(&file.0, chosen).unwrap_err();
            assert!(failure.message.ends_with("larger than the limit of 10 MiB"), "{}", failure.message);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Source, String> {
        Source::decode(Path::new("f"), bytes.to_vec()).map_err(|bad| bad.0.say(&bad.1))
    }

    #[test]
    fn i172_places_count_lines_and_characters_from_one() {
        let source = decode("\u{feff}a\r\nbé🙂c\n\nd".as_bytes()).unwrap();
        for (found, place) in
            [("a", "f:1:1"), ("b", "f:2:1"), ("🙂", "f:2:3"), ("c", "f:2:4"), ("d", "f:4:1")]
        {
            assert_eq!(source.place(source.text().find(found).unwrap()), place);
        }
        assert_eq!(source.place(source.text().len()), "f:4:2");
        assert_eq!(source.place(usize::MAX), "f:4:1");
        assert_eq!(decode(b"").unwrap().place(0), "f:1:1");
    }

    #[test]
    fn i172_text_that_is_not_utf_8_is_reported_with_its_place() {
        assert_eq!(decode(b"ab\nc\xffsecret").unwrap_err(), "f:2:2: this is not UTF-8 from here on");
        assert!(decode(b"\xff\xfe{\0").unwrap_err().contains("UTF-16"));
    }
}
