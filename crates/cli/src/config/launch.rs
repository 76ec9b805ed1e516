//! From what an entry says to what is started: variables expanded, secrets known, the command as it may be shown.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use super::argument::{masked, secret};
use super::entry::Child;
use super::filter::ToolFilter;
use super::source::Problem;
use super::tree::Text;
use super::variables::Expansion;
use crate::target::shown;

/// Variables whose values everybody knows: where they were expanded, nothing is hidden.
const KNOWN: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];

/// How an entry is started.
pub(crate) struct Launch {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tools: ToolFilter,
    /// What must not be shown from now on.
    pub(crate) secrets: Vec<OsString>,
    /// The command as it would be typed, with its variables as they are written.
    pub(crate) shown: String,
    /// What is run, from which place, in one line.
    pub(crate) say: String,
    /// Nobody chose the file: what it runs is said before it is run.
    pub(crate) unasked: bool,
}

/// `lookup`: a variable of our environment.
pub(super) fn launch(child: &Child, lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Launch, Problem> {
    let Child { command, args, env, cwd } = child;
    let mut expansion = Expansion::new(lookup);
    let program = expansion.expand(command)?;
    if program.is_empty() {
        return Err(Problem::new(command.at, "command is empty"));
    }
    let mut secrets = Vec::new();
    let mut words = Vec::new();
    let mut display = vec![shown(command.text.as_ref())];
    let mut before: Option<&Text> = None;
    for arg in args {
        let word = expansion.expand(arg)?;
        let name = before.map(|before| before.text.as_str());
        display.push(shown(masked(name, &arg.text).as_ref()));
        if let Some(at) = secret(name, &arg.text) {
            secrets.push(after(&word, &arg.text[..at]));
        }
        words.push(word);
        before = Some(arg);
    }
    let cwd_shown = cwd.as_ref().map(|cwd| shown(cwd.text.as_ref()));
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
    let used = expansion.used.into_iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
    secrets.extend(used.map(|(_, value)| value));
    // What has several lines, a key for example, is shown by others line by line.
    let lines: Vec<OsString> = secrets.iter().filter_map(|secret| secret.to_str()).flat_map(lines).collect();
    secrets.extend(lines);

    let display = display.join(" ");
    let mut say = display.clone();
    if let Some(cwd) = cwd_shown {
        say.push_str(&format!(", in {cwd}"));
    }
    if !env.is_empty() {
        let names: Vec<String> = env.iter().map(|(name, _)| shown(name.as_ref())).collect();
        say.push_str(&format!(", with {} set", names.join(", ")));
    }
    Ok(Launch {
        program,
        args: words,
        env: variables,
        cwd,
        timeout: None,
        tools: ToolFilter::default(),
        secrets,
        shown: display,
        say,
        unasked: false,
    })
}

/// The lines of a text that has more than one.
fn lines(text: &str) -> impl Iterator<Item = OsString> {
    let several = text.contains('\n');
    text.lines().filter(move |_| several).map(|line| line.trim().into())
}

/// What stands behind the beginning, or the whole where variables have changed the beginning.
fn after(word: &OsStr, beginning: &str) -> OsString {
    match word.to_str().and_then(|word| word.strip_prefix(beginning)) {
        Some(rest) => rest.into(),
        None => word.into(),
    }
}
