//! What the fuzz target `consent` examines: for each entry of a file that was found, what a user is asked about it, and what is
//! run or reached once it is allowed. Neither the machine's variables nor its files are read.
//!
//! Compiled for tests and with the feature `fuzzing` alone, so that the library has no other public item than `run`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::called;
use super::contents::Entry;
use super::entry::Definition;
use super::files::Configuration;
use super::launch::{Destination, Launch, launch};
use super::members::Members;
use super::places::Origin;
use super::question::{Untrusted, page};
use super::source::Source;
use super::trust::Trusted;
use super::variables::Texts;
use crate::{fold, visible};

/// Columns of the terminal for which [`Question::folded`] is.
const COLUMNS: usize = 80;
/// What a value of our environment begins with, and what the text of another file begins with.
pub const OURS: char = '\u{e000}';
/// As [`OURS`].
pub const ELSEWHERE: char = '\u{e001}';

/// One entry: the question about it and what it stands for.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is run or reached, and a line for each other member; `None` where that is too long to be asked.
    pub lines: Option<Vec<String>>,
    /// The whole question as it is printed.
    pub page: String,
    /// The same on a terminal.
    pub folded: String,
    /// What the user's trust is bound to, in hexadecimal digits.
    pub digest: String,
    /// What is used; `None` where the entry cannot be.
    pub used: Option<Used>,
    members: Members,
}

/// What an entry leads to.
#[derive(Clone, Debug)]
pub struct Used {
    /// What it is, which one, and its value: `program`, `argument`, `variable`, `directory`, `address`, `header`, `side`, `login`.
    pub parts: Vec<(&'static str, String, String)>,
    /// The command or the address as it is shown in everything but the question: secrets are masked in it.
    pub shown: String,
    /// What is said of the entry when it is used.
    pub said: String,
}

impl Question {
    /// What is different from another definition, that was trusted before.
    #[must_use]
    pub fn changes(&self, before: &Self) -> Vec<String> {
        self.members.changes(&before.members.kept())
    }
}

/// The questions about the first entries of a file; none where it cannot be read.
#[must_use]
pub fn questions(file: &[u8], most: usize) -> Vec<Question> {
    let Ok(source) = Source::decode(Path::new("found"), file.to_vec()) else { return Vec::new() };
    let Ok(configuration) = Configuration::of(source, Origin::Here) else { return Vec::new() };
    let entries = configuration.contents.entries.iter();
    entries.filter_map(|entry| configuration.asked(entry)).take(most).collect()
}

impl Configuration {
    fn asked(&self, entry: &Entry) -> Option<Question> {
        let definition = Definition::read(self.dialect, &entry.node).ok()?;
        let workspace = PathBuf::from("/work");
        let mut names = self.names(variable, workspace.clone());
        names.texts = Texts::read_by(text);
        let members = Members::of(&definition, &names);
        let trusted = Trusted::new("/work", "found", &entry.name, members.kept());
        let untrusted = Untrusted {
            folder: workspace,
            place: self.source.place(entry.at),
            name: called(&entry.name),
            lines: members.lines(),
            changes: None,
            definition: None,
            outdated: None,
        };
        let page = visible::text(&page(&[&untrusted])).into_owned();
        Some(Question {
            folded: fold::fold(&page, COLUMNS).into_owned(),
            page,
            lines: untrusted.lines,
            digest: trusted.digest,
            used: launch(&definition, &names).ok().map(|launch| Used::of(&launch)),
            members,
        })
    }
}

impl Used {
    fn of(launch: &Launch) -> Self {
        let mut parts = Vec::new();
        let mut add = |what, name: &str, value: &OsStr| {
            parts.push((what, name.to_owned(), value.to_string_lossy().into_owned()));
        };
        match &launch.destination {
            Destination::Program(program) => {
                add("program", "", &program.program);
                program.args.iter().for_each(|arg| add("argument", "", arg));
                for (name, value) in &program.env {
                    add("variable", &name.to_string_lossy(), value);
                }
                program.cwd.iter().for_each(|cwd| add("directory", "", cwd.as_ref()));
            }
            Destination::Remote(remote) => {
                add("address", "", remote.address.to_string().as_ref());
                remote.headers.iter().for_each(|(name, value)| add("header", name, value.as_ref()));
                remote.ca.iter().for_each(|ca| add("side", "ca", ca.as_ref()));
                add("login", "", format!("{:?}", remote.oauth).as_ref());
            }
            Destination::Socket(socket) => add("address", "", socket.to_string().as_ref()),
            Destination::Quic(secured) => {
                add("address", "", secured.address.to_string().as_ref());
                secured.pin.iter().for_each(|pin| add("side", "pin", pin.to_string().as_ref()));
                secured.ca.iter().for_each(|ca| add("side", "ca", ca.as_ref()));
                if let Some((certificate, key)) = &secured.identity {
                    add("side", "cert", certificate.as_ref());
                    add("side", "key", key.as_ref());
                }
            }
        }
        Self { parts, shown: launch.shown.clone(), said: launch.say.clone() }
    }
}

/// The variables of our environment: all but a few are set.
fn variable(name: &str) -> Option<OsString> {
    let is_set = !name.starts_with("MCPJOIN_INPUT_") && !name.starts_with("UN");
    is_set.then(|| format!("{OURS}{name}").into())
}

/// The files beside the configuration: each holds variables, and names what it is called.
fn text(path: &Path) -> Result<String, String> {
    let path = path.to_string_lossy();
    if path.contains("absent") {
        return Err("it is not there".into());
    }
    Ok(format!("LD_PRELOAD={ELSEWHERE}\nREGION={ELSEWHERE}{path}\n"))
}

#[cfg(test)]
mod tests {
    use super::questions;

    /// What the fuzz target has found: pairs of entries that had one question, one digest, or no difference.
    #[test]
    fn what_is_used_in_another_way_is_another_definition_and_has_another_question() {
        for (first, second, change) in [
            // An escape, and a text that looks like it.
            (
                r#""command": "x", "args": ["\u001b"]"#,
                r#""command": "x", "args": ["\\u{1b}"]"#,
                r"args is  '\u{5c}u{1b}'",
            ),
            (r#""command": "x\u200b""#, r#""command": "x\\u{200b}""#, r"command is  'x\u{5c}u{200b}'"),
            // Back to `localhost`, and back to 127.0.0.1.
            (
                r#""url": "https://h/", "oauth": {"callbackPort": 81}"#,
                r#""url": "https://h/", "oauth": {"callback_port": 81}"#,
                "oauth callback_port is new: 81",
            ),
        ] {
            let file = format!(r#"{{"mcpServers": {{"a": {{{first}}}, "b": {{{second}}}}}}}"#);
            let questions = questions(file.as_bytes(), 2);
            let [one, other] = &questions[..] else { panic!("{file}") };
            assert_ne!(one.lines, other.lines, "{file}");
            assert_ne!(one.digest, other.digest, "{file}");
            assert!(other.changes(one).iter().any(|line| line == change), "{:?}", other.changes(one));
        }
    }

    /// What has no name of its own would come and go unnoticed among the changes.
    #[test]
    fn a_header_that_is_given_twice_is_refused_wherever_it_is_given() {
        for (members, times) in [
            (r#"http_headers = {A = "x"}, env_http_headers = {B = "Y"}, bearer_token_env_var = "T""#, 1),
            (r#"http_headers = {A = "x"}, env_http_headers = {a = "Y"}"#, 0),
            (r#"http_headers = {authorization = "x"}, bearer_token_env_var = "T""#, 0),
        ] {
            let file = format!(r#"mcp_servers.a = {{url = "https://h/", {members}}}"#);
            assert_eq!(questions(file.as_bytes(), 2).len(), times, "{file}");
        }
    }
}
