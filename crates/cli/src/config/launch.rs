//! From what an entry says to what is started: variables expanded, secrets known, the command as it may be shown.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::entry::Child;
use super::filter::ToolFilter;
use super::source::Problem;
use super::variables::Expansion;
use crate::secret;
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
    let written: Vec<OsString> = args.iter().map(|arg| OsString::from(&arg.text)).collect();
    // What stands in the place of a secret is one, too, unless it is a variable: of that the value is.
    let mut secrets = secret::values(&written);
    secrets.retain(|value| !is_variable(&value.to_string_lossy()));
    let mut words = Vec::new();
    for arg in args {
        words.push(expansion.expand(arg)?);
    }
    let display: Vec<String> = std::iter::once(&command.text)
        .chain(args.iter().map(|arg| &arg.text))
        .map(|word| shown(word.as_ref()))
        .collect();
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

/// One variable, without a default.
fn is_variable(text: &str) -> bool {
    text.starts_with("${") && text.find('}') == Some(text.len() - 1) && !text.contains(":-")
}
