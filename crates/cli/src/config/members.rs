//! What a definition says, member by member, as its file has it: what a user is shown before the definition is used, and
//! what the user's trust is bound to. Both come from one list, so nothing can be trusted without having been shown.
//!
//! Nothing is expanded here: a reference to a variable of ours stays a reference, so no value of our environment is shown
//! or stored. Made by `Configuration` for entries of files that nobody has named; kept by `trust`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::dotenv;
use super::entry::{Definition, Oauth, Way};
use super::influence::changes_what_runs;
use super::launch;
use super::tree::Text;
use super::variables::{Names, Piece, pieces};
use crate::secret;
use crate::target::exact;

/// The question about one definition has so many bytes at most, some fifty lines of a terminal: a longer one scrolls its own
/// beginning away. Real definitions have less than 1 KiB.
const SHOWN: usize = 4 << 10;
/// The most lines of that question: 4 KiB fill 50 lines of 80 columns. Short variables would fill 500 with the same bytes.
const LINES: usize = 50;
/// The names and words of one definition have so many bytes at most, those that the question leaves out included: a file
/// of variables may hold hundreds.
const LARGEST: usize = 16 << 10;
/// A definition has so many files stand for its texts at most: each is read. Real ones have one or two.
const FILES: usize = 16;

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
    /// Reads the files that the definition names; what cannot be read counts as such.
    pub(super) fn of(definition: &Definition, names: Names<'_>) -> Self {
        let mut members = Self(Vec::new());
        let mut texts: Vec<&Text> = Vec::new();
        match &definition.way {
            Way::Child(child) => {
                members.add("command", "", Keeping::All, [&child.command]);
                members.add("args", "", Keeping::Masked, &child.args);
                members.add("cwd", "", Keeping::All, &child.cwd);
                for (name, text) in &child.env {
                    let points = changes_what_runs(name);
                    let keeping = if points { Keeping::All } else { of_value(text, names) };
                    members.push("env", name, keeping, vec![text.text.clone()], points);
                }
                members.add("env_vars", "", Keeping::All, &child.passed);
                members.add("envFile", "", Keeping::All, &child.env_file);
                if child.env_file.is_some() {
                    members.variables(launch::variables(child, names).ok());
                }
                texts.extend(std::iter::once(&child.command).chain(&child.args).chain(&child.cwd));
                texts.extend(child.env.iter().map(|(_, text)| text).chain(&child.env_file));
            }
            Way::Http(remote) => {
                members.add("url", "", Keeping::Masked, [&remote.url]);
                if remote.sse {
                    members.push("type", "", Keeping::All, vec!["sse".into()], false);
                }
                for (name, text) in &remote.headers {
                    members.add("headers", name, of_value(text, names), [text]);
                }
                members.add("ca", "", Keeping::All, &remote.ca);
                texts.extend(std::iter::once(&remote.url).chain(&remote.ca));
                texts.extend(remote.headers.iter().map(|(_, text)| text));
                if let Some(oauth) = &remote.oauth {
                    members.login(oauth, names);
                    texts.extend(oauth.texts());
                }
            }
            Way::Listening(listening) => {
                members.add("url", "", Keeping::Masked, [&listening.url]);
                members.add("pin", "", Keeping::All, &listening.sides.pin);
                members.add("ca", "", Keeping::All, &listening.sides.ca);
                if let Some((certificate, key)) = &listening.sides.identity {
                    members.add("cert", "", Keeping::All, [certificate]);
                    members.add("key", "", Keeping::All, [key]);
                }
                texts.extend(listening.texts());
            }
        }
        let [allowed, denied] = &definition.patterns;
        members.add("allowed_tools", "", Keeping::All, allowed);
        members.add("disabled_tools", "", Keeping::All, denied);
        // What cannot be shown is not looked into any further.
        if members.size() <= LARGEST {
            for text in texts {
                members.beside(&text.text, names);
            }
        }
        members
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

    fn login(&mut self, oauth: &Oauth, names: Names<'_>) {
        self.add("oauth", "clientId", Keeping::All, &oauth.client_id);
        if let Some(secret) = &oauth.client_secret {
            self.add("oauth", "clientSecret", of_value(secret, names), [secret]);
        }
        self.add("oauth", "redirectUri", Keeping::All, &oauth.redirect);
        self.add("oauth", "scopes", Keeping::All, &oauth.scopes);
        // Its spelling says to which name of this machine the browser comes back.
        let spelling = if oauth.by_name { "callbackPort" } else { "callback_port" };
        let port = oauth.callback_port.map(|port| (spelling, port.to_string()));
        for (name, word) in port.into_iter().chain(oauth.off.then(|| ("", "false".to_owned()))) {
            self.push("oauth", name, Keeping::All, vec![word], false);
        }
    }

    /// Those of an `envFile`; `None` where it cannot be read.
    fn variables(&mut self, variables: Option<Vec<dotenv::Variable>>) {
        let Some(variables) = variables else {
            self.push("variable", "", Keeping::All, vec!["cannot be read".into()], false);
            return;
        };
        for dotenv::Variable { name, value, .. } in variables {
            let points = changes_what_runs(&name);
            self.push("variable", &name, Keeping::Elsewhere, vec![digest(&[value])], points);
        }
    }

    /// What a text stands for that is elsewhere in the same file, or in another one.
    fn beside(&mut self, text: &str, names: Names<'_>) {
        for piece in pieces(text, names.files) {
            match piece {
                Piece::Editor(name) => {
                    let Some(id) = name.strip_prefix("input:").filter(|id| !self.has("inputs", id)) else {
                        continue;
                    };
                    let input = names.inputs.iter().find(|input| input.id == id);
                    if let Some(default) = input.and_then(|input| input.default.clone()) {
                        self.push("inputs", id, Keeping::All, vec![default], false);
                    }
                }
                Piece::File(path) if !self.has("file", path) && self.files() <= FILES => {
                    match names.texts.of(&names.path(Path::new(path))) {
                        Ok(content) => {
                            self.push("file", path, Keeping::Elsewhere, vec![digest(&[content])], false);
                        }
                        Err(_) => {
                            self.push("file", path, Keeping::All, vec!["cannot be read".into()], false);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn add<'a>(
        &mut self,
        what: &'static str,
        name: &str,
        keeping: Keeping,
        texts: impl IntoIterator<Item = &'a Text>,
    ) {
        let words: Vec<String> = texts.into_iter().map(|text| text.text.clone()).collect();
        if !words.is_empty() {
            self.push(what, name, keeping, words, false);
        }
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
    /// long to be read by anybody.
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
        let is_short = lines.iter().map(String::len).sum::<usize>() <= SHOWN;
        let is_short = is_short && lines.len() <= LINES;
        (is_short && self.size() <= LARGEST && self.files() <= FILES).then_some(lines)
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

/// How a value in the place of a secret is kept: a reference is none.
fn of_value(text: &Text, names: Names<'_>) -> Keeping {
    let literal = pieces(&text.text, names.files).iter().any(|piece| matches!(piece, Piece::Literal(_)));
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
