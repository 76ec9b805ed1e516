//! What a definition says, member by member, as its file has it: what a user is shown before the definition is used, and
//! what the user's trust is bound to. Both come from one list, so nothing can be trusted without having been shown.
//!
//! Nothing is expanded here: a reference to a variable of ours stays a reference, so no value of our environment is shown
//! or stored. Made by `question` for entries of files that were not named; stored by `trust`. The members and their order go
//! into the digest: a change here asks every user again.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::dialect::{Key, Transport};
use super::dotenv;
use super::entry::{CallbackPort, Definition, Setting};
use super::influence::changes_what_runs;
use super::launch;
use super::tree::Text;
use super::variables::{Names, Piece, pieces};
use crate::secret;
use crate::target::exact;

/// The question about one definition: some fifty lines of a terminal. A longer one scrolls its own beginning away. Real
/// definitions have less than 1 KiB.
const MAX_QUESTION_BYTES: usize = 4 << 10;
/// 4 KiB fill 50 lines of 80 columns. Short variables would fill 500 with the same bytes.
const MAX_QUESTION_LINES: usize = 50;
/// The names and words of one definition, with those that the question leaves out: a file of variables may hold hundreds.
const MAX_DEFINITION_BYTES: usize = 16 << 10;
/// The files that stand for texts of one definition: each is read. Real definitions have one or two.
const MAX_TEXT_FILES: usize = 16;

/// One member of a definition, as it is kept once the definition is trusted: enough to tell whether it has changed, and to
/// show what it was. One copy of a secret is enough, so of what may be one the digest alone is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// As in `servers`: `command`, `args`, `env`, `headers` ...
    pub(crate) what: String,
    /// Of variables, headers, inputs and files: which one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// As the file has them, but for secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) words: Vec<String>,
    /// SHA-256 of the words as the file has them, in hexadecimal digits, where those above are not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
}

/// The members of one definition.
#[derive(Clone, Debug)]
pub(crate) struct Members(Vec<Said>);

/// A member as the file has it.
#[derive(Clone, Debug)]
struct Said {
    what: &'static str,
    name: String,
    words: Vec<String>,
    keeping: Keeping,
    /// It is a variable that changes what runs.
    points: bool,
}

/// What is kept of the words of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// All of them.
    All,
    /// All but the secrets among them.
    Masked,
    /// Their digest.
    Digest,
    /// What stands in another file: the words are its digest already.
    Elsewhere,
}

impl Members {
    /// Reads the files that the definition names. One that cannot be read becomes a member that says so.
    pub(super) fn of(definition: &Definition, names: &Names<'_>) -> Self {
        let mut members = Self(Vec::new());
        let end = definition.settings.partition_point(|setting| setting.key < Key::AllowedTools);
        let (server, tools) = definition.settings.split_at(end);
        members.settings(server, definition, names);
        if let Some(CallbackPort { port, by_name }) = definition.callback {
            // The spelling decides whether the redirect names `localhost` or 127.0.0.1.
            let spelling = if by_name { "callbackPort" } else { "callback_port" };
            members.word("oauth", spelling, &port.to_string());
        }
        if definition.oauth_off {
            members.word("oauth", "", "false");
        }
        members.settings(tools, definition, names);
        // A definition that is too long to be shown is not looked into any further.
        if members.size() <= MAX_DEFINITION_BYTES {
            let (last, first): (Vec<_>, Vec<_>) = (definition.settings.iter())
                .filter(|setting| setting.is_expanded())
                .partition(|setting| setting.key == Key::Headers || setting.key.is_oauth());
            first.into_iter().chain(last).for_each(|setting| members.beside(&setting.text.text, names));
        }
        members
    }

    /// One member for each key and name.
    fn settings(&mut self, settings: &[Setting], definition: &Definition, names: &Names<'_>) {
        let is_same = |one: &Setting, next: &Setting| (one.key, &one.name) == (next.key, &next.name);
        for settings in settings.chunk_by(is_same) {
            let [Setting { key, name, text }, ..] = settings else { continue };
            let points = *key == Key::Env && changes_what_runs(name);
            let keeping = match key {
                Key::Args | Key::Url => Keeping::Masked,
                Key::Env | Key::Headers | Key::ClientSecret if !points => of_value(text, names),
                _ => Keeping::All,
            };
            let words = settings.iter().map(|setting| setting.text.text.clone()).collect();
            self.push(key.name(), name, keeping, words, points);
            match key {
                Key::EnvFile => self.variables(launch::variables(definition, names).ok()),
                Key::Url if definition.transport == Transport::Sse => self.word("type", "", "sse"),
                _ => {}
            }
        }
    }

    /// The bytes of all names and words together.
    fn size(&self) -> usize {
        let words = |said: &Said| match said.keeping {
            Keeping::Elsewhere => 0,
            _ => said.words.iter().map(String::len).sum(),
        };
        self.0.iter().map(|said| said.name.len() + words(said)).sum()
    }

    fn files(&self) -> usize {
        self.0.iter().filter(|said| said.what == "file").count()
    }

    /// Those of an `envFile`; `None` where it cannot be read.
    fn variables(&mut self, variables: Option<Vec<dotenv::Variable>>) {
        let Some(variables) = variables else { return self.word("variable", "", "cannot be read") };
        for dotenv::Variable { name, value, .. } in variables {
            let points = changes_what_runs(&name);
            self.push("variable", &name, Keeping::Elsewhere, vec![digest(&[value])], points);
        }
    }

    /// What a text stands for that is elsewhere in the same file, or in another one.
    fn beside(&mut self, text: &str, names: &Names<'_>) {
        for piece in pieces(text, names.files) {
            match piece {
                Piece::Editor(name) => {
                    let Some(id) = name.strip_prefix("input:").filter(|id| !self.has("inputs", id)) else {
                        continue;
                    };
                    let input = names.inputs.iter().find(|input| input.id == id);
                    if let Some(default) = input.and_then(|input| input.default.as_deref()) {
                        self.word("inputs", id, default);
                    }
                }
                Piece::File(path) if !self.has("file", path) && self.files() <= MAX_TEXT_FILES => {
                    match names.texts.of(&names.path(Path::new(path))) {
                        Ok(content) => {
                            self.push("file", path, Keeping::Elsewhere, vec![digest(&[content])], false);
                        }
                        Err(_) => self.word("file", path, "cannot be read"),
                    }
                }
                _ => {}
            }
        }
    }

    /// A member that is one word and no secret.
    fn word(&mut self, what: &'static str, name: &str, word: &str) {
        self.push(what, name, Keeping::All, vec![word.to_owned()], false);
    }

    fn push(&mut self, what: &'static str, name: &str, keeping: Keeping, words: Vec<String>, points: bool) {
        self.0.push(Said { what, name: name.to_owned(), words, keeping, points });
    }

    fn has(&self, what: &str, name: &str) -> bool {
        self.0.iter().any(|said| said.what == what && said.name == name)
    }

    /// What is kept of them.
    pub(super) fn kept(&self) -> Vec<Member> {
        self.0.iter().map(Said::kept).collect()
    }

    /// The definition for a person: what is run or reached, then a line for each other member. `None` when it is too
    /// long to be read.
    pub(super) fn lines(&self) -> Option<Vec<String>> {
        let (mut command, mut lines, mut named) = (Vec::new(), Vec::new(), Vec::new());
        for said in &self.0 {
            let Said { what, name, words, points, .. } = said;
            let (name, words) = (exact(name), exact_words(words));
            let pointer = if *points { " (changes what runs)" } else { "" };
            match *what {
                "command" | "args" | "url" => command.push(words),
                "env" => lines.push(format!("env {name}={words}{pointer}")),
                "headers" => lines.push(format!("header {name}: {words}")),
                "env_vars" => lines.push(format!("your own variables {words}")),
                "variable" if said.name.is_empty() => lines.push(format!("envFile {words}")),
                "variable" if *points => lines.push(format!("envFile sets {name}{pointer}")),
                "variable" => named.push(name),
                "inputs" => lines.push(format!("input {name} is {words} unless you set it")),
                "file" => lines.push(format!("the text of the file {name}")),
                what if said.name.is_empty() => lines.push(format!("{what} {words}")),
                what => lines.push(format!("{what} {name} {words}")),
            }
        }
        if !named.is_empty() {
            lines.push(format!("envFile sets {}", named.join(", ")));
        }
        lines.insert(0, command.join(" "));
        let is_short = lines.iter().map(String::len).sum::<usize>() <= MAX_QUESTION_BYTES;
        let is_short = is_short && lines.len() <= MAX_QUESTION_LINES;
        (is_short && self.size() <= MAX_DEFINITION_BYTES && self.files() <= MAX_TEXT_FILES).then_some(lines)
    }

    /// What is different from what was trusted before, a line for each member and state.
    pub(super) fn changes(&self, before: &[Member]) -> Vec<String> {
        let called = |what: &str, name: &str| {
            if name.is_empty() { exact(what) } else { format!("{} {}", exact(what), exact(name)) }
        };
        let mut lines = Vec::new();
        for said in &self.0 {
            let (called, words) = (called(said.what, &said.name), exact_words(&said.words));
            let old = before.iter().find(|old| old.what == said.what && old.name == said.name);
            match old {
                Some(old) if *old == said.kept() => {}
                Some(_) if said.keeping == Keeping::Elsewhere => {
                    lines.push(format!("{called} has another value"));
                }
                None if said.keeping == Keeping::Elsewhere => lines.push(format!("{called} is new")),
                None => lines.push(format!("{called} is new: {words}")),
                Some(old) if old.words.is_empty() => {
                    lines.push(format!("{called} had another value, is {words}"));
                }
                Some(old) => {
                    lines.push(format!("{called} was {}", exact_words(&old.words)));
                    lines.push(format!("{called} is  {words}"));
                }
            }
        }
        let gone = before.iter().filter(|old| !self.has(&old.what, &old.name));
        lines.extend(gone.map(|old| format!("{} is gone", called(&old.what, &old.name))));
        lines
    }
}

impl Said {
    fn kept(&self) -> Member {
        let (words, digest) = match self.keeping {
            Keeping::All => (self.words.clone(), None),
            Keeping::Masked => {
                let masked = secret::masked(self.words.iter().map(String::as_str));
                let differs = masked != self.words;
                (masked, differs.then(|| digest(&self.words)))
            }
            Keeping::Digest => (Vec::new(), Some(digest(&self.words))),
            Keeping::Elsewhere => (Vec::new(), self.words.first().cloned()),
        };
        Member { what: self.what.into(), name: self.name.clone(), words, digest }
    }
}

/// How a value is kept that may be a secret: a reference is none.
fn of_value(text: &Text, names: &Names<'_>) -> Keeping {
    let is_literal = |piece: &Piece<'_>| matches!(piece, Piece::Literal(_) | Piece::Broken(_));
    let literal = pieces(&text.text, names.files).iter().any(is_literal);
    if literal { Keeping::Digest } else { Keeping::All }
}

fn exact_words(words: &[String]) -> String {
    words.iter().map(|word| exact(word)).collect::<Vec<_>>().join(" ")
}

/// SHA-256 of words, in hexadecimal digits. Where one ends and the next begins counts.
fn digest(words: &[String]) -> String {
    digest_of(&serde_json::Value::from(words.to_vec()).to_string())
}

/// SHA-256 of a text, in hexadecimal digits.
pub(super) fn digest_of(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
