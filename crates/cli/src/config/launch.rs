//! From what an entry says to what is started or reached: variables expanded, secrets known, the command or the address
//! as it may be shown.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::entry::{self, Child, Way};
use super::filter::ToolFilter;
use super::source::Problem;
use super::tree::Text;
use super::variables::Expansion;
use crate::secret;
use crate::target::{Http, shown};

/// Variables whose values everybody knows: where they were expanded, nothing is hidden.
const KNOWN: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];

/// How the server of an entry is come by.
pub(crate) struct Launch {
    pub(crate) to: To,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tools: ToolFilter,
    /// What must not be shown from now on.
    pub(crate) secrets: Vec<OsString>,
    /// The command or the address as it would be typed, with its variables as they are written.
    pub(crate) shown: String,
    /// Where the entry stands.
    pub(crate) place: Option<Place>,
    /// What is run or reached, from which place, in one line.
    pub(crate) say: String,
    /// Nobody chose the file: what it names is said before it is used.
    pub(crate) unasked: bool,
}

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// What an entry leads to, everything expanded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum To {
    Program(Program),
    Remote(Remote),
}

/// A program that is started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
}

/// A server that is reached over HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) address: Http,
    pub(crate) headers: Vec<(String, String)>,
}

/// `lookup`: a variable of our environment.
pub(super) fn launch(way: &Way, lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Launch, Problem> {
    match way {
        Way::Child(child) => of_child(child, Expansion::new(lookup)),
        Way::Http(remote) => of_remote(remote, Expansion::new(lookup)),
    }
}

fn of_child(child: &Child, mut expansion: Expansion<'_>) -> Result<Launch, Problem> {
    let Child { command, args, env, cwd } = child;
    let program = expansion.expand(command)?;
    if program.is_empty() {
        return Err(Problem::new(command.at, "command is empty"));
    }
    let written: Vec<OsString> = args.iter().map(|arg| OsString::from(&arg.text)).collect();
    let mut secrets = written_secrets(&written);
    let mut words = Vec::new();
    for arg in args {
        words.push(expansion.expand(arg)?);
    }
    let display: Vec<String> = std::iter::once(&command.text)
        .chain(args.iter().map(|arg| &arg.text))
        .map(|word| shown(word.as_ref()))
        .collect();
    let display = display.join(" ");
    let mut say = display.clone();
    if let Some(cwd) = cwd {
        say.push_str(&format!(", in {}", shown(cwd.text.as_ref())));
    }
    say.push_str(&set(env, "set"));
    let cwd = match cwd {
        Some(text) => Some(PathBuf::from(expansion.expand(text)?)),
        None => None,
    };
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    for (name, text) in env {
        let value = expansion.expand(text)?;
        secrets.push(value.clone());
        variables.push((name.into(), value));
    }
    Ok(Launch {
        to: To::Program(Program { program, args: words, env: variables, cwd }),
        timeout: None,
        tools: ToolFilter::default(),
        secrets: all_secrets(secrets, expansion),
        shown: display,
        place: None,
        say,
        unasked: false,
    })
}

fn of_remote(remote: &entry::Remote, mut expansion: Expansion<'_>) -> Result<Launch, Problem> {
    let entry::Remote { url, headers, sse } = remote;
    let mut secrets = written_secrets(&[OsString::from(&url.text)]);
    let display = shown(url.text.as_ref());
    let address = unicode(expansion.expand(url)?, url.at, "url")?;
    // What the variables of an address hold may be one as a whole.
    secrets.extend(secret::values(&[OsString::from(&address)]));
    let mut address = Http::parse(&address)
        .map_err(|problem| Problem::new(url.at, format!("url is none that can be used: {problem}")))?;
    address.sse |= sse;
    let mut values = Vec::new();
    for (name, text) in headers {
        let value = unicode(expansion.expand(text)?, text.at, "a header")?;
        secrets.extend(secret::of_header(&value));
        values.push((name.clone(), value));
    }
    Ok(Launch {
        to: To::Remote(Remote { address, headers: values }),
        timeout: None,
        tools: ToolFilter::default(),
        secrets: all_secrets(secrets, expansion),
        say: format!("{display}{}", set(headers, "sent")),
        shown: display,
        place: None,
        unasked: false,
    })
}

fn unicode(text: OsString, at: usize, what: &str) -> Result<String, Problem> {
    text.into_string().map_err(|_| Problem::new(at, format!("{what} holds a variable that is not Unicode")))
}

/// The names beside which values stand, for a person.
fn set(pairs: &[(String, Text)], done: &str) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let names: Vec<String> = pairs.iter().map(|(name, _)| shown(name.as_ref())).collect();
    format!(", with {} {done}", names.join(", "))
}

/// The secrets among words as they are written. What stands in the place of one is one, too, unless it is a variable:
/// of that the value is.
fn written_secrets(words: &[OsString]) -> Vec<OsString> {
    let mut secrets = secret::values(words);
    secrets.retain(|value| !is_variable(&value.to_string_lossy()));
    secrets
}

/// These, and the values of the variables that were used.
fn all_secrets(mut secrets: Vec<OsString>, expansion: Expansion<'_>) -> Vec<OsString> {
    let used = expansion.used.into_iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
    secrets.extend(used.map(|(_, value)| value));
    // What has several lines, a key for example, is shown by others line by line.
    let lines: Vec<OsString> = secrets.iter().filter_map(|secret| secret.to_str()).flat_map(lines).collect();
    secrets.extend(lines);
    secrets
}

/// The lines of a text that has more than one.
fn lines(text: &str) -> impl Iterator<Item = OsString> {
    let several = text.contains('\n');
    text.lines().filter(move |_| several).map(|line| line.trim().into())
}

/// One variable, without a default.
fn is_variable(text: &str) -> bool {
    text.starts_with("${") && text.find('}') == Some(text.len() - 1) && !text.contains(":-")
}
