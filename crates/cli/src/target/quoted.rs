//! A whole command line in one quoted word, split as a shell splits it. No shell runs it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::spelling::{Word, is_quoted_line};
use super::{Known, Target, command, exact, shown, words_shown};
use crate::failure::Failure;
use crate::secret;

/// Words that a shell obeys, and that mean nothing without one.
const OF_A_SHELL: [&str; 9] = ["|", "||", "&&", ";", "&", ">", ">>", "<", "2>&1"];

/// The command of a word that consists of several, split as a shell splits it; `None` where it is something else. `operands`: those
/// of the verb, for a line that is shown.
pub(super) fn command_line(
    verb: &str,
    operands: &str,
    word: &OsStr,
    known: &Known<'_>,
) -> Result<Option<Target>, Failure> {
    let Some(text) = word.to_str().filter(|_| is_quoted_line(word)) else { return Ok(None) };
    let is_entry = match Word::of(word) {
        Word::Demo(_) | Word::Url { .. } | Word::Address => true,
        Word::Entry { file, .. } => (known.file)(Path::new(&file)),
        _ => {
            let entry = text.split_once('/').map_or(text, |(name, _)| name);
            (known.program)(word) || (known.entry)(text)? || (known.entry)(entry)?
        }
    };
    if is_entry {
        return Ok(None);
    }
    let escaped = if cfg!(windows) { Cow::Owned(text.replace('\\', r"\\")) } else { Cow::Borrowed(text) };
    let Some(words) = shlex::split(&escaped) else {
        let problem = "a quote in the command line of the server is not closed";
        return Err(Failure::usage(problem, format!("mcpjoin {verb}{operands} -- COMMAND [ARG]...")));
    };
    let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let is_of_a_shell = |word: &str| OF_A_SHELL.contains(&word) || word.len() > 1 && word.ends_with(';');
    if words.iter().skip(1).any(|word| word.to_str().is_some_and(is_of_a_shell)) {
        let words: Vec<Cow<'_, str>> = words.iter().map(|word| word.to_string_lossy()).collect();
        let masked = secret::masked(words.iter().map(AsRef::as_ref));
        let word = |word: &String| if is_of_a_shell(word) { word.clone() } else { shown(word.as_ref()) };
        let line = masked.iter().map(word).collect::<Vec<_>>().join(" ");
        let problem = format!("{line} needs a shell, and mcpjoin runs none");
        return Err(Failure::usage(problem, format!("mcpjoin {verb}{operands} -- sh -c {}", exact(&line))));
    }
    if words.is_empty() {
        return Ok(None);
    }
    let program = words.remove(0);
    if let Some((name, _)) = program.to_string_lossy().split_once('=').filter(|(name, _)| !name.contains('/'))
    {
        let problem = format!("{} is a variable, which only a shell replaces", shown(name.as_ref()));
        let (name, command) = (shown(name.as_ref()), words_shown(&words));
        return Err(Failure::usage(
            problem,
            format!("mcpjoin {verb} -e {name}=VALUE{operands} -- {command}"),
        ));
    }
    Ok(Some(command(program, words)))
}
