//! The interface of the fuzz target `consent`: for each entry of a file that was found, the question to the user, and what is started
//! or reached after it. Neither the machine's variables nor its files are read.
//!
//! Public for the crate of the fuzz targets. Hidden from the documentation, because no other crate calls it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::called;
use super::entry::Definition;
use super::files::Configuration;
use super::launch::{Destination, Launch, launch};
use super::members::Members;
use super::parsed_file::Entry;
use super::places::Origin;
use super::question::{Untrusted, page};
use super::source::Source;
use super::trust::Trusted;
use super::variables::Texts;
use crate::{fold, visible};

/// The width of [`Question::folded`].
const COLUMNS: usize = 80;
/// The first character of each value of our environment.
pub const OURS: char = '\u{e000}';
/// The first character of each text from another file.
pub const ELSEWHERE: char = '\u{e001}';

/// The question about one entry, and what the entry starts or reaches.
#[derive(Clone, Debug)]
pub struct Question {
    /// The command or the address, and a line for each other member; `None` where that is too long to ask.
    pub lines: Option<Vec<String>>,
    /// The whole question as it is printed.
    pub page: String,
    /// The question on a terminal.
    pub folded: String,
    /// The digest that trust is bound to, in hexadecimal digits.
    pub digest: String,
    /// What the entry starts or reaches; `None` where it cannot be used.
    pub used: Option<Used>,
    members: Members,
}

/// What an entry starts or reaches.
#[derive(Clone, Debug)]
pub struct Used {
    /// Kind, name and value: `program`, `argument`, `variable`, `directory`, `address`, `header`, `side`, `login`.
    pub parts: Vec<(&'static str, String, String)>,
    /// The command or the address with masked secrets, as it is shown everywhere except in the question.
    pub shown: String,
    /// The note when the entry is used.
    pub said: String,
}

impl Question {
    /// The differences from another definition that was trusted before.
    #[must_use]
    pub fn changes(&self, before: &Self) -> Vec<String> {
        self.members.changes(&before.members.stored())
    }
}

/// The questions about the first entries of a file; none where it cannot be read.
#[must_use]
pub fn questions(file: &[u8], most: usize) -> Vec<Question> {
    let Ok(source) = Source::decode(Path::new("found"), file.to_vec()) else { return Vec::new() };
    let Ok(configuration) = Configuration::of(source, Origin::Here) else { return Vec::new() };
    let entries = configuration.parsed.entries.iter();
    entries.filter_map(|entry| configuration.asked(entry)).take(most).collect()
}

impl Configuration {
    fn asked(&self, entry: &Entry) -> Option<Question> {
        let definition = Definition::read(self.dialect, &entry.node).ok()?;
        let workspace = PathBuf::from("/work");
        let mut names = self.names(variable, workspace.clone());
        names.texts = Texts::read_by(text);
        let members = Members::of(&definition, &names);
        let trusted = Trusted::new("/work", "found", &entry.name, members.stored());
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
            Destination::Orchestrator(address) => add("address", "", address.0.as_ref()),
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

/// The variables of our environment: almost all names are set.
fn variable(name: &str) -> Option<OsString> {
    let is_set = !name.starts_with("MCPJOIN_INPUT_") && !name.starts_with("UN");
    is_set.then(|| format!("{OURS}{name}").into())
}

/// The files beside the configuration: each holds variables, one of which contains the name of the file.
fn text(path: &Path) -> Result<String, String> {
    let path = path.to_string_lossy();
    if path.contains("absent") {
        return Err("it does not exist".into());
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
