//! References in the texts of an entry, as the programs that share its file spell them: `${VAR}`, `${VAR:-default}`,
//! `${env:VAR}`, `{env:VAR}`, `{file:PATH}` of opencode, and `${workspaceFolder}`, `${userHome}` and `${input:ID}` of VS Code
//! (<https://code.visualstudio.com/docs/reference/variables-reference>). `$${` stands for `${`.
//!
//! They are expanded only for the entry that is used. A missing value is an error: a reference is never passed on unexpanded. VS Code
//! asks its user for an input. Here the value comes from the variable `MCPJOIN_INPUT_` plus the id in capitals, or is the default.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::parsed_file::Input;
use super::source::{Problem, ProblemKind};
use super::tree::Text;
use crate::found;

/// The expanded size of all texts of an entry together.
const MAX_EXPANDED_BYTES: usize = 16 << 20;
/// The size of a file that a text refers to, or that holds variables.
const MAX_TEXT_FILE_BYTES: u64 = 64 << 10;
/// The prefix of the variables that hold the values of inputs.
pub(crate) const INPUT_PREFIX: &str = "MCPJOIN_INPUT_";
/// The width of an input's description in a message.
const MAX_DESCRIPTION_COLUMNS: usize = 100;
/// The names that an editor defines.
const PREDEFINED: [&str; 5] =
    ["workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"];

/// What the texts of an entry can refer to.
pub(super) struct Names<'a> {
    /// Returns the value of a variable of our environment.
    pub(super) lookup: fn(&str) -> Option<OsString>,
    /// The folder that the file configures.
    pub(super) workspace: PathBuf,
    pub(super) inputs: &'a [Input],
    /// Whether `{file:PATH}` refers to the text of a file, as in opencode.
    pub(super) files: bool,
    /// The files that were read for this entry.
    pub(super) texts: Texts,
}

/// The texts of the files that an entry refers to. Each file is read once, so that the text that is shown is the text that is used.
#[derive(Debug)]
pub(super) struct Texts {
    read: fn(&Path) -> Result<String, String>,
    known: RefCell<BTreeMap<PathBuf, Result<String, String>>>,
}

impl Default for Texts {
    fn default() -> Self {
        Self::read_by(text_of)
    }
}

impl Texts {
    pub(super) const fn read_by(read: fn(&Path) -> Result<String, String>) -> Self {
        Self { read, known: RefCell::new(BTreeMap::new()) }
    }

    /// The text of a small file. Fails with the reason.
    pub(super) fn of(&self, path: &Path) -> Result<String, String> {
        let mut known = self.known.borrow_mut();
        known.entry(path.to_owned()).or_insert_with(|| (self.read)(path)).clone()
    }
}

impl Names<'_> {
    /// The path of a file: relative to the folder that the file configures; `~/` is the home.
    pub(super) fn path(&self, written: &Path) -> PathBuf {
        let home = written
            .strip_prefix("~")
            .ok()
            .and_then(|rest| Some(PathBuf::from((self.lookup)("HOME")?).join(rest)));
        home.unwrap_or_else(|| self.workspace.join(written))
    }

    /// The value of a name that an editor defines.
    fn predefined(&self, name: &str) -> Option<OsString> {
        match name {
            "workspaceFolder" => Some(self.workspace.clone().into()),
            "workspaceFolderBasename" => self.workspace.file_name().map(OsString::from),
            "userHome" => (self.lookup)("HOME"),
            "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR_STR.into()),
            _ => None,
        }
    }
}

/// Expands the texts of one entry.
pub(super) struct Expansion<'a> {
    names: &'a Names<'a>,
    /// The bytes that are left of the limit.
    left: usize,
    /// The values that came from the environment, by the names of their variables.
    pub(super) used: Vec<(String, OsString)>,
}

impl<'a> Expansion<'a> {
    pub(super) const fn new(names: &'a Names<'a>) -> Self {
        Self { names, left: MAX_EXPANDED_BYTES, used: Vec::new() }
    }

    /// Expands the references in a text.
    ///
    /// # Errors
    /// When a value is missing, a reference is malformed, or the limit is exceeded.
    pub(super) fn expand(&mut self, text: &Text) -> Result<OsString, Problem> {
        let mut out = OsString::new();
        for piece in split(&text.text, self.names.files) {
            let (value, variable) = match piece {
                Piece::Literal(literal) => (literal.into(), None),
                Piece::Environment(name, default) => self.variable(name, default, text)?,
                Piece::Editor(name) => match (name.strip_prefix("input:"), self.names.predefined(name)) {
                    (Some(id), _) => self.input(id, text)?,
                    (None, Some(value)) => (value, None),
                    (None, None) => self.variable(name, None, text)?,
                },
                Piece::File(path) => (self.file(path, text)?, Some(format!("file:{path}"))),
                Piece::Broken(written) => return Err(broken(written, text)),
            };
            self.left = self.left.checked_sub(value.len()).ok_or_else(|| {
                Problem::new(text.at, "with its variables this entry exceeds the limit of 16 MiB")
            })?;
            out.push(&value);
            if let Some(name) = variable.filter(|name| !self.used.iter().any(|(known, _)| known == name)) {
                self.used.push((name, value));
            }
        }
        Ok(out)
    }

    /// The value of a variable, and its name unless the value is the default.
    fn variable(
        &self,
        name: &str,
        default: Option<&str>,
        text: &Text,
    ) -> Result<(OsString, Option<String>), Problem> {
        if default.is_some_and(|default| default.contains("${")) {
            return Err(broken("}", text));
        }
        match ((self.names.lookup)(name), default) {
            (Some(value), None) => Ok((value, Some(name.to_owned()))),
            // As in a shell: an empty variable counts as missing where there is a default.
            (Some(value), Some(_)) if !value.is_empty() => Ok((value, Some(name.to_owned()))),
            (_, Some(default)) => Ok((default.into(), None)),
            (None, None) => Err(Problem::new(text.at, format!("the variable {name} is not set"))
                .of(ProblemKind::Unset)
                .hint(format!("set {name}, or write ${{{name}:-default}}"))),
        }
    }

    /// The text of a file without the blank space around it.
    fn file(&self, path: &str, text: &Text) -> Result<OsString, Problem> {
        let path = self.names.path(Path::new(path));
        match self.names.texts.of(&path) {
            Ok(content) => Ok(content.trim().into()),
            Err(what) => {
                let name = crate::target::path_shown(&path);
                Err(Problem::new(text.at, format!("the file {name} cannot be used: {what}"))
                    .hint("correct {file:PATH}, or fix the file"))
            }
        }
    }

    /// The path in a text, expanded; `None` where there is no text.
    pub(super) fn path(&mut self, text: Option<&Text>) -> Result<Option<PathBuf>, Problem> {
        let Some(text) = text else { return Ok(None) };
        let written = self.expand(text)?;
        Ok(Some(self.names.path(Path::new(&written))))
    }

    /// The value of an input, and the name of its variable.
    fn input(&self, id: &str, text: &Text) -> Result<(OsString, Option<String>), Problem> {
        let Some(input) = self.names.inputs.iter().find(|input| input.id == id) else {
            return Err(Problem::new(text.at, "the file has no such input")
                .hint("add it to inputs, or correct its id"));
        };
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let variable = format!("{INPUT_PREFIX}{}", id.chars().map(letter).collect::<String>());
        let value = (self.names.lookup)(&variable).or_else(|| input.default.clone().map(OsString::from));
        let Some(value) = value else {
            let about = input.description.as_deref().map_or_else(String::new, |about| {
                let about = crate::visible::first_line(about);
                format!(" ({})", crate::visible::cut(&about, MAX_DESCRIPTION_COLUMNS))
            });
            let id = crate::config::called(id);
            let problem = format!("the input {id}{about} has no value: {variable} is not set");
            let problem = Problem::new(text.at, problem).hint(format!("set {variable}"));
            return Err(problem.of(ProblemKind::UnsetInput(variable)));
        };
        Ok((value, Some(variable)))
    }
}

/// The problem of a malformed reference.
fn broken(written: &str, text: &Text) -> Problem {
    let opening = OPENINGS[1..].iter().find(|opening| written.starts_with(**opening));
    let problem = match opening.filter(|_| !written.contains('}')) {
        Some(opening) => format!("a }} is missing after {opening}"),
        None => "this is not a variable: use ${NAME}, ${NAME:-default}, ${env:NAME} or {env:NAME}".into(),
    };
    Problem::new(text.at, problem).hint("write $${ for a literal ${")
}

/// Reads the text of a small file. Fails with the reason.
fn text_of(path: &Path) -> Result<String, String> {
    let content = found::read(path, MAX_TEXT_FILE_BYTES).map_err(|error| error.to_string())?;
    let content = content.ok_or("it is larger than the limit of 64 KiB")?;
    String::from_utf8(content).map_err(|_| "it is not UTF-8".into())
}

/// The beginnings of references. The first one stands for `${` itself.
const OPENINGS: [&str; 4] = ["$${", DOLLAR, "{env:", FILE];
const DOLLAR: &str = "${";
const FILE: &str = "{file:";

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Literal(&'a str),
    /// A variable of the environment, and its default.
    Environment(&'a str, Option<&'a str>),
    /// An input, or a name that an editor defines.
    Editor(&'a str),
    /// The text of a file.
    File(&'a str),
    /// A malformed reference.
    Broken(&'a str),
}

/// The pieces of a text. `files`: as in [`Names`].
pub(super) fn pieces(text: &str, files: bool) -> Vec<Piece<'_>> {
    split(text, files).collect()
}

/// The pieces of a text as an iterator: a long text may have very many.
fn split(mut text: &str, files: bool) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        // A single pass: a long text may have very many references.
        let next = text.match_indices(['$', '{']).find_map(|(at, _)| {
            let opening = OPENINGS.into_iter().find(|opening| text[at..].starts_with(opening))?;
            (files || opening != FILE).then_some((at, opening))
        });
        let Some((at, opening)) = next else {
            return Some(Piece::Literal(std::mem::take(&mut text)));
        };
        if at > 0 {
            let (literal, rest) = text.split_at(at);
            text = rest;
            return Some(Piece::Literal(literal));
        }
        if opening == "$${" {
            let literal = &text[1..3];
            text = &text[3..];
            return Some(Piece::Literal(literal));
        }
        let Some((inner, after)) = text[opening.len()..].split_once('}') else {
            return Some(Piece::Broken(std::mem::take(&mut text)));
        };
        let whole = &text[..text.len() - after.len()];
        text = after;
        if opening == FILE {
            return Some(Piece::File(inner));
        }
        if opening == DOLLAR && (inner.starts_with("input:") || PREDEFINED.contains(&inner)) {
            return Some(Piece::Editor(inner));
        }
        let (name, default) = match inner.split_once(":-").filter(|_| opening == DOLLAR) {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").filter(|_| opening == DOLLAR).unwrap_or(name);
        Some(if is_name(name) { Piece::Environment(name, default) } else { Piece::Broken(whole) })
    })
}

pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use super::{Expansion, Input, Names, Text, Texts, text_of};
    use crate::found::Zeros;

    #[test]
    fn a_file_that_stands_for_a_text_has_64_kib_at_most() {
        assert_eq!(text_of(&Zeros::new("text", 65_536).0).unwrap().len(), 65_536);
        let why = text_of(&Zeros::new("text", 65_537).0).unwrap_err();
        assert_eq!(why, "it is larger than the limit of 64 KiB");
    }

    fn expand(text: &str) -> Result<OsString, String> {
        let lookup = |name: &str| match name {
            "A" | "MCPJOIN_INPUT_A" => Some("one".into()),
            "HOME" => Some("/home/me".into()),
            "EMPTY" => Some(OsString::new()),
            "BIG" => Some("x".repeat(1 << 20).into()),
            _ => None,
        };
        let inputs = [
            Input { id: "api-key".into(), description: Some("The key".into()), default: None },
            Input { id: "place".into(), description: None, default: Some("here".into()) },
            Input { id: "A".into(), description: None, default: None },
        ];
        let workspace = PathBuf::from("/work/project");
        let names = Names { lookup, workspace, inputs: &inputs, files: false, texts: Texts::default() };
        Expansion::new(&names).expand(&Text { at: 7, text: text.to_owned() }).map_err(|problem| problem.text)
    }

    #[test]
    fn every_spelling_of_a_variable_is_expanded() {
        for (text, expanded) in [
            ("", ""),
            ("plain $A {A} $ { }", "plain $A {A} $ { }"),
            ("${A}", "one"),
            ("<${A}|${env:A}|{env:A}>", "<one|one|one>"),
            ("${B:-two}${A:-two}${EMPTY:-two}${EMPTY}${B:-}", "twoonetwo"),
            ("${env:B:-two}", "two"),
            ("$${A} $${", "${A} ${"),
            ("$$${A}", "$${A}"),
            ("${B:-http://h:1/{x}", "http://h:1/{x"),
            ("é${A}é", "éoneé"),
            (
                "${workspaceFolder}${/}${workspaceFolderBasename}|${userHome}",
                "/work/project/project|/home/me",
            ),
            ("${input:A}${input:place}", "onehere"),
        ] {
            assert_eq!(expand(text), Ok(expanded.into()), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_never_passed_on_as_it_is_written() {
        for (text, told) in [
            ("${B}", "the variable B is not set"),
            ("{env:B}", "the variable B is not set"),
            ("${env:B}", "the variable B is not set"),
            ("${", "a } is missing after ${"),
            ("{env:A", "a } is missing after {env:"),
            ("${}", "this is not a variable"),
            ("${input:key}", "the file has no such input"),
            (
                "${input:api-key}",
                "the input api-key (The key) has no value: MCPJOIN_INPUT_API_KEY is not set",
            ),
            ("{input:A}${input}", "the variable input is not set"),
            ("${A%x}", "this is not a variable"),
            ("{env:A:-x}", "this is not a variable"),
            ("${B:-${A}}", "this is not a variable"),
        ] {
            assert!(expand(text).unwrap_err().starts_with(told), "{text}: {:?}", expand(text));
        }
    }

    #[test]
    fn what_expands_beyond_all_bounds_is_refused() {
        assert!(expand(&"${BIG}".repeat(17)).unwrap_err().contains("limit of 16 MiB"));
    }

    #[test]
    fn values_from_the_environment_are_remembered_once() {
        let lookup = |_: &str| Some(OsString::from("secret"));
        let texts = Texts::default();
        let names = Names { lookup, workspace: PathBuf::new(), inputs: &[], files: false, texts };
        let mut expansion = Expansion::new(&names);
        expansion.expand(&Text { at: 0, text: "${A}${A}{env:B}".into() }).unwrap();
        assert_eq!(expansion.used, [("A".into(), "secret".into()), ("B".into(), "secret".into())]);
    }
}
